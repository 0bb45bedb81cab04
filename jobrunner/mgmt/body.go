package mgmt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
)

const (
	maxBody   = 1 << 20 // bytes
	maxFaults = 50      // told of one body
	maxValues = 50_000  // of one body, each of which costs memory

	// treeFactor is how much larger than its text a tree of values is.
	treeFactor = 10
)

// phase says what a body is for.
type phase int

const (
	creating phase = iota
	updating
)

// reference is a string that null clears, as the empty string does.
type reference struct {
	Set   bool // it stood in the body
	Value string
}

// checker is a wire type with rules between its members.
type checker interface {
	check(p phase) []string // the faults, without a path
}

// decode reads the body of a request into a wire type and checks it against
// the type's rules. Members that the body lacks stay nil. All faults are told
// at once, each with its path in the body.
func decode[T any](c *call, p phase) (T, error) {
	var body T
	text, hold, err := c.bodies.ReadBody(c.http, http.MaxBytesReader(c.writer, c.http.Body, maxBody), treeFactor, false)
	defer hold.Release()
	if err != nil {
		return body, httpanswer.BodyRefused(c.ctx(), err)
	}
	if n := rawjson.Count(text, maxValues); n >= maxValues {
		return body, httpanswer.Refuse(http.StatusRequestEntityTooLarge, "the body has more than %d values", maxValues)
	}
	tree, err := parse(bytes.NewReader(text))
	if err != nil {
		return body, err
	}
	d := decoder{phase: p}
	d.object("$", tree, reflect.ValueOf(&body).Elem())
	if len(d.faults) > 0 {
		return body, invalid(d.faults[:min(len(d.faults), maxFaults)]...)
	}
	return body, nil
}

// parse reads exactly one JSON value.
func parse(r io.Reader) (tree any, err error) {
	d := json.NewDecoder(r)
	d.UseNumber()
	err = d.Decode(&tree)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = more
			if more == nil {
				err = errors.New("more follows the JSON value")
			}
		}
	}
	switch {
	case err == nil:
		return tree, nil
	case errors.Is(err, io.EOF):
		return nil, httpanswer.Refuse(http.StatusBadRequest, "the request has no body: a JSON object is expected")
	}
	return nil, httpanswer.Refuse(http.StatusBadRequest, "the body is not valid JSON: %v", err)
}

// decoder fills a value from a JSON tree and collects what is wrong.
type decoder struct {
	phase  phase
	faults []string
}

func (d *decoder) fault(path, format string, args ...any) {
	if len(d.faults) <= maxFaults {
		d.faults = append(d.faults, path+": "+fmt.Sprintf(format, args...))
	}
}

func (d *decoder) object(path string, in any, out reflect.Value) {
	tree, ok := in.(map[string]any)
	if !ok {
		d.mismatch(path, in, "object")
		return
	}
	known := map[string]bool{}
	for _, m := range members(out.Type()) {
		value, stands := tree[m.name]
		switch {
		case m.rule.onlyCreate && d.phase == updating:
		case stands:
			known[m.name] = true
			d.value(path+"."+m.name, value, out.FieldByIndex(m.index), m.rule)
		case m.rule.must, m.rule.mustCreate && d.phase == creating:
			d.fault(path, "missing property '%s'", m.name)
		}
	}
	var unknown []string
	for name := range tree {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		d.fault(path, "additional properties '%s' not allowed", short(name))
	}
	if c, ok := out.Addr().Interface().(checker); ok {
		for _, fault := range c.check(d.phase) {
			d.fault(path, "%s", fault)
		}
	}
}

func (d *decoder) value(path string, in any, out reflect.Value, r rule) {
	if ref, ok := out.Addr().Interface().(*reference); ok {
		ref.Set = true
		if in != nil && in != "" {
			d.string(path, in, reflect.ValueOf(&ref.Value).Elem(), r)
		}
		return
	}
	switch out.Kind() {
	case reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		d.value(path, in, out.Elem(), r)
	case reflect.Struct:
		d.object(path, in, out)
	case reflect.Slice:
		d.list(path, in, out, r)
	case reflect.Map:
		d.dictionary(path, in, out)
	case reflect.String:
		d.string(path, in, out, r)
	case reflect.Bool:
		if b, ok := in.(bool); ok {
			out.SetBool(b)
		} else {
			d.mismatch(path, in, "boolean")
		}
	case reflect.Int64:
		d.integer(path, in, out, r)
	case reflect.Float64:
		d.number(path, in, out, r)
	default:
		panic("a wire type has " + out.Type().String() + ", which no body has")
	}
}

func (d *decoder) list(path string, in any, out reflect.Value, r rule) {
	items, ok := in.([]any)
	if !ok {
		d.mismatch(path, in, "array")
		return
	}
	if r.min != nil && float64(len(items)) < *r.min {
		d.fault(path, "got %d items, want at least %v", len(items), *r.min)
	}
	out.Set(reflect.MakeSlice(out.Type(), len(items), len(items)))
	for i, item := range items {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, out.Index(i), rule{oneOf: r.oneOf, form: r.form})
	}
	if r.unique {
		d.unique(path, items)
	}
}

func (d *decoder) unique(path string, items []any) {
	seen := make(map[string]int, len(items))
	for i, item := range items {
		text, err := json.Marshal(item)
		if err != nil {
			continue // no JSON value, and told of already
		}
		if j, again := seen[string(text)]; again {
			d.fault(path, "items at %d and %d are equal", j, i)
			return
		}
		seen[string(text)] = i
	}
}

// dictionary is a map of environment variables: strings under names that a
// process can have.
func (d *decoder) dictionary(path string, in any, out reflect.Value) {
	tree, ok := in.(map[string]any)
	if !ok {
		d.mismatch(path, in, "object")
		return
	}
	env := make(map[string]string, len(tree))
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		value, isString := tree[name].(string)
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			d.fault(path, "'%s' can't be the name of an environment variable", short(name))
		case !isString:
			d.mismatch(path+"."+short(name), tree[name], "string")
		case strings.Contains(value, "\x00"):
			d.fault(path+"."+short(name), "an environment variable can't hold a NUL character")
		}
		env[name] = value
	}
	out.Set(reflect.ValueOf(env))
}

func (d *decoder) string(path string, in any, out reflect.Value, r rule) {
	s, ok := in.(string)
	if !ok {
		d.mismatch(path, in, "string")
		return
	}
	out.SetString(s)
	length := float64(utf8.RuneCountInString(s))
	switch {
	case s == "" && r.clears && d.phase == updating:
	case r.min != nil && length < *r.min:
		d.fault(path, "got %v characters, want at least %v", length, *r.min)
	case r.max != nil && length > *r.max:
		d.fault(path, "got %v characters, want at most %v", length, *r.max)
	case r.oneOf != nil && !slices.Contains(r.oneOf, s):
		d.fault(path, "got '%s', want one of '%s'", short(s), strings.Join(r.oneOf, "', '"))
	case r.form != nil && !r.form.regexp.MatchString(s):
		d.fault(path, "got '%s', want %s", short(s), r.form.words)
	}
}

func (d *decoder) integer(path string, in any, out reflect.Value, r rule) {
	literal, ok := in.(json.Number)
	if !ok {
		d.mismatch(path, in, "integer")
		return
	}
	n, err := strconv.ParseInt(literal.String(), 10, 64)
	if err != nil { // 10.0 and 1e1 are integers too
		f, err := literal.Float64()
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			d.fault(path, "got %s, want integer", short(literal.String()))
			return
		}
		n = int64(f)
	}
	out.SetInt(n)
	d.bounds(path, literal, float64(n), r)
	if r.power2 && n > 0 && n&(n-1) != 0 {
		d.fault(path, "got %d, want a power of two", n)
	}
}

func (d *decoder) number(path string, in any, out reflect.Value, r rule) {
	literal, ok := in.(json.Number)
	if !ok {
		d.mismatch(path, in, "number")
		return
	}
	f, err := literal.Float64()
	if err != nil {
		d.fault(path, "got %s, want a smaller number", short(literal.String()))
		return
	}
	out.SetFloat(f)
	d.bounds(path, literal, f, r)
}

func (d *decoder) bounds(path string, literal json.Number, n float64, r rule) {
	also := ""
	if r.zero {
		if n == 0 {
			return
		}
		also = " or 0"
	}
	if r.min != nil && n < *r.min {
		d.fault(path, "got %s, want at least %s%s", short(literal.String()), plain(*r.min), also)
	}
	if r.max != nil && n > *r.max {
		d.fault(path, "got %s, want at most %s%s", short(literal.String()), plain(*r.max), also)
	}
}

// mismatch tells the kind of what stands there, and never its value, which may
// be a secret.
func (d *decoder) mismatch(path string, in any, want string) {
	got := "null"
	switch in.(type) {
	case string:
		got = "string"
	case bool:
		got = "boolean"
	case json.Number:
		got = "number"
	case []any:
		got = "array"
	case map[string]any:
		got = "object"
	}
	d.fault(path, "got %s, want %s", got, want)
}

// short keeps what is repeated to a caller small.
func short(s string) string {
	const most = 80
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + "…"
}

// plain writes a number without an exponent.
func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
