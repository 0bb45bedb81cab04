// Package yamlfile reads the jobrunner's configuration files strictly: an unknown key is an error that
// suggests the nearest known one. Errors begin with the file's name and, if it is known, the line.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
)

const maxSize = 1 << 20 // bytes

// Decode decodes text, which may begin with a byte order mark, into the value that target points to.
func Decode(name string, text []byte, target any) error {
	if len(text) > maxSize {
		return fmt.Errorf("%s: the file has %d bytes, more than a configuration needs (%d)", name, len(text), maxSize)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	var content, second ast.Node
	err := yaml.Unmarshal(text, &content)                                                         // rejects a key that a mapping has twice
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict(), yaml.AllowDuplicateMapKey()) // a key may override a merged one
	if err == nil {
		err = decoder.Decode(target)
	}
	if err == nil && decoder.Decode(&second) == nil && second != nil {
		return ErrorAt(name, LineOf(second), "expected one document, got a second one after ---")
	}
	if e, ok := errors.AsType[yaml.Error](err); ok {
		text := e.GetMessage()
		if kind, ok := strings.CutSuffix(text, " was used where sequence is expected"); ok {
			text = "expected a list such as [first, second], got " + kind
		}
		if strings.HasSuffix(text, "of type bool") { // cannot unmarshal … into Go struct field …
			text = "expected true or false"
		}
		return ErrorAt(name, e.GetToken().Position.Line, "%s%s", text, hint(e, reflect.TypeOf(target)))
	}
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the file is empty
		return fmt.Errorf("%s: %w", name, err)
	}
	return checkItems(name, content)
}

// checkItems rejects a null item of a list, because the decoder doesn't pass null to UnmarshalYAML.
func checkItems(name string, content ast.Node) error {
	if content == nil {
		return nil
	}
	for _, list := range ast.Filter(ast.SequenceType, content) {
		for _, item := range list.(*ast.SequenceNode).Values {
			if item.Type() == ast.NullType {
				return ErrorAt(name, LineOf(item), "invalid item of a list: expected a value, got nothing; write '' for an empty text")
			}
		}
	}
	return nil
}

func ErrorAt(name string, line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", name, line, fmt.Sprintf(format, args...))
}

// hint suggests the known key that was probably meant.
func hint(e yaml.Error, t reflect.Type) string {
	unknown, ok := errors.AsType[*yaml.UnknownFieldError](e)
	if !ok {
		return ""
	}
	known := map[string]bool{}
	collectKeys(t, known, map[reflect.Type]bool{})
	delete(known, unknown.Token.Value) // the key may be known in another part of the file
	return near.Suggest(unknown.Token.Value, slices.Collect(maps.Keys(known)))
}

func collectKeys(t reflect.Type, keys map[string]bool, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collectKeys(t.Elem(), keys, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); name != "" {
				keys[name] = true
			}
			collectKeys(t.Field(i).Type, keys, seen)
		}
	}
}

// Text is a scalar as written, with its line: 1.10 is a version, not the number 1.1.
type Text struct {
	Value string
	Line  int
}

func (t *Text) UnmarshalYAML(node ast.Node) error {
	scalar, ok := node.(ast.ScalarNode)
	if _, null := node.(*ast.NullNode); !ok || null {
		return &yaml.SyntaxError{Token: node.GetToken(), Message: "expected a single value; put it in quotes if it has special characters"}
	}
	t.Line = node.GetToken().Position.Line
	switch scalar := scalar.(type) {
	case *ast.StringNode:
		t.Value = scalar.Value
	case *ast.LiteralNode:
		t.Value = scalar.Value.Value
	default:
		t.Value = node.GetToken().Value
	}
	if strings.Contains(t.Value, "\x00") { // neither a path, an argument nor a variable can have one
		return &yaml.SyntaxError{Token: node.GetToken(), Message: "invalid text: it has a NUL character"}
	}
	return nil
}

// Missing reports whether the file has null or nothing there.
func (t Text) Missing() bool { return t.Line == 0 }

// Number is a whole number, with its line. Into an integer, the decoder would truncate 1.5 to 1.
type Number struct {
	Value int64
	Line  int
}

func (n *Number) UnmarshalYAML(node ast.Node) error {
	text := node.GetToken().Value
	whole, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return &yaml.SyntaxError{Token: node.GetToken(), Message: fmt.Sprintf("expected a whole number, got %q", text)}
	}
	n.Value, n.Line = whole, node.GetToken().Position.Line
	return nil
}

type Entry[T any] struct {
	Value T
	Line  int
}

func (e *Entry[T]) UnmarshalYAML(decode func(any) error) error {
	var node ast.Node
	_ = decode(&node) // never fails
	e.Line = LineOf(node)
	return decode(&e.Value)
}

// LineOf returns a node's line. A mapping's token is a brace before its first key, or the colon after it, maybe on another line.
func LineOf(node ast.Node) int {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken().Position.Line
	}
	return node.GetToken().Position.Line
}
