package httpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// ShapeError reports a JSON value of a type that the API doesn't document.
type ShapeError struct {
	Path string // of the value, without the leading "$": ".networkVolumes[3].size"
	Text string // "is a string, not a whole number"
}

func (e *ShapeError) Error() string { return "$" + e.Path + " " + e.Text }

// Decode is json.Unmarshal, and also accepts whole numbers that are written as 10.0 or 1e1. For a
// value of a wrong type it returns a *ShapeError.
func Decode(data []byte, out any) error {
	err := json.Unmarshal(data, out)
	typeError, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "json: invalid number literal"): // the member is a json.Number
		return &ShapeError{"", "has a string where a number is expected"}
	case !ok:
		return err
	case expectedType(typeError.Type) == wholeNumber:
		if integers := stringOrNumber.ReplaceAllFunc(data, asInteger); !bytes.Equal(integers, data) {
			return Decode(integers, out)
		}
	}
	path, _ := pathAt(json.NewDecoder(bytes.NewReader(data)), typeError.Offset, "")
	return &ShapeError{path, shapeText(typeError)}
}

var stringOrNumber = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\d[\d.]*(?:[eE][+-]?\d+)?`)

// asInteger writes a number without fraction and exponent, if it is whole and a float holds it exactly.
func asInteger(literal []byte) []byte {
	number, err := strconv.ParseFloat(string(literal), 64) // fails for a string
	if err != nil || number != math.Trunc(number) || math.Abs(number) > 1<<53 {
		return literal
	}
	return strconv.AppendInt(nil, int64(number), 10)
}

// PrefixPath prefixes the path of a *ShapeError with the path of the decoded part.
func PrefixPath(path string, err error) error {
	if shape, ok := errors.AsType[*ShapeError](err); ok {
		return &ShapeError{path + shape.Path, shape.Text}
	}
	return err
}

// pathAt returns the path of the value that ends at an offset, or of the object or array that
// begins there. path is the path of the decoder's next value.
func pathAt(d *json.Decoder, offset int64, path string) (valuePath string, found bool) {
	token, err := d.Token()
	if err != nil || d.InputOffset() >= offset {
		return path, true
	}
	if token != json.Delim('{') && token != json.Delim('[') {
		return path, false
	}
	for i := 0; d.More(); i++ {
		step := fmt.Sprintf("[%d]", i)
		if token == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return path, true
			}
			step = member(name)
		}
		if valuePath, found := pathAt(d, offset, path+step); found {
			return valuePath, true
		}
	}
	_, err = d.Token()
	return path, err != nil
}

var plainMember = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func member(name any) string {
	if text, ok := name.(string); ok && plainMember.MatchString(text) {
		return "." + text
	}
	return fmt.Sprintf("[%q]", name)
}

var jsonTypes = map[string]string{
	"string": "a string", "number": "a number", "bool": "a boolean", "object": "an object", "array": "an array",
}

const wholeNumber = "a whole number"

func shapeText(typeError *json.UnmarshalTypeError) string {
	literal, isLiteral := strings.CutPrefix(typeError.Value, "number ")
	want := expectedType(typeError.Type)
	switch {
	case !isLiteral:
		return fmt.Sprintf("is %s, not %s", jsonTypes[typeError.Value], want)
	case want == wholeNumber && strings.ContainsAny(literal, ".eE"):
		return fmt.Sprintf("is %s, not %s", literal, want)
	}
	return fmt.Sprintf("is %s, which is out of range", literal)
}

func expectedType(t reflect.Type) string {
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[json.Number](), kind == reflect.Float64, kind == reflect.Float32:
		return "a number"
	case kind >= reflect.Int && kind <= reflect.Uint64:
		return wholeNumber
	case kind == reflect.String:
		return "a string"
	case kind == reflect.Bool:
		return "a boolean"
	case kind == reflect.Slice, kind == reflect.Array:
		return "an array"
	}
	return "an object"
}
