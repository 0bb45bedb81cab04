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

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const (
	maxBody   = 1 << 20 // bytes
	maxFaults = 50      // reported for one body
	maxValues = 50_000  // in one body, because each costs memory

	// treeFactor is the size of a parsed body as a multiple of its text.
	treeFactor = 10

	maxClusterPods = 16 << 20 // bytes of the settings of all pods of a new cluster
)

// clearableText is a string that both null and the empty string clear.
type clearableText struct {
	Set   bool // the body has it
	Value string
}

// largeBody is a wire type whose bodies may be larger than maxBody.
type largeBody interface{ maxBody() int64 }

// decode reads the body of a request into a wire type and checks it against
// the type's rules. Absent members stay nil. The error lists up to
// maxFaults faults, each with its path in the body.
func decode[T any](c *call, u contract.Use) (T, error) {
	var body T
	limit, factor := int64(maxBody), int64(treeFactor)
	if large, ok := any(&body).(largeBody); ok {
		limit, factor = large.maxBody(), 4 // up to four copies of the large value exist at once: in the body, decoded, and in its encrypted forms
	}
	text, reservation, err := c.Bodies.ReadBody(c.http, http.MaxBytesReader(c.writer, c.http.Body, limit), limit, factor, false)
	defer reservation.Release()
	if err != nil {
		return body, httpanswer.BodyRefused(c.ctx(), err)
	}
	if !rawjson.IsUnicode(text) {
		return body, httpanswer.Refuse(http.StatusBadRequest, "the body is not valid JSON: its text is not UTF-8, or has half of a surrogate pair: send it uncompressed, in UTF-8")
	}
	if rawjson.Count(text, maxValues+1) > maxValues {
		return body, httpanswer.Refuse(http.StatusRequestEntityTooLarge, "the body has more than %d values", maxValues)
	}
	tree, err := parse(bytes.NewReader(text))
	if err != nil {
		return body, err
	}
	c.body, _ = tree.(map[string]any)
	var d decoder
	d.decodeObject("$", tree, reflect.ValueOf(&body).Elem(), bodyPathOf(reflect.TypeFor[T](), u))
	if len(d.faults) > 0 {
		return body, validationError(d.faults...)
	}
	return body, nil
}

// parse reads exactly one JSON value.
func parse(r io.Reader) (tree any, err error) {
	d := json.NewDecoder(r)
	d.UseNumber()
	err = d.Decode(&tree)
	if err == nil {
		if _, trailing := d.Token(); !errors.Is(trailing, io.EOF) {
			err = trailing
			if trailing == nil {
				err = errors.New("unexpected data after the JSON value")
			}
		}
	}
	switch {
	case err == nil:
		return tree, nil
	case errors.Is(err, io.EOF):
		return nil, httpanswer.Refuse(http.StatusBadRequest, "the request has no body: expected a JSON object")
	}
	return nil, httpanswer.Refuse(http.StatusBadRequest, "the body is not valid JSON: %v", err)
}

// decoder fills a value from a JSON tree and collects the faults.
type decoder struct {
	partial bool // missing members aren't faults
	faults  []string
}

func (d *decoder) addFault(path, format string, args ...any) {
	if len(d.faults) < maxFaults {
		d.faults = append(d.faults, path+": "+fmt.Sprintf(format, args...))
	}
}

func (d *decoder) decodeObject(path string, in any, out reflect.Value, at bodyPath) {
	tree, ok := in.(map[string]any)
	if !ok {
		d.addTypeFault(path, in, "object")
		return
	}
	known := map[string]bool{}
	for _, m := range members(out.Type(), at) {
		if m.row == nil {
			continue
		}
		value, present := tree[m.name]
		known[m.name] = true
		field := out.FieldByIndex(m.index)
		switch {
		case present && value == nil && m.row.Nullable && field.Type() != reflect.TypeFor[clearableText]():
		case present:
			d.decodeValue(path+"."+m.name, value, field, m, at)
		case m.row.RequiredIn(at.Use) && !d.partial:
			d.addFault(path, "missing property '%s'", m.name)
		}
		if !d.partial {
			d.checkSiblings(path, m, tree, at.Use)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if !known[name] {
			d.addFault(path, "additional properties '%s' not allowed", truncate(name))
		}
	}
	if !d.partial && rejectsEmptyUpdate(out.Type(), at.Use) {
		d.checkChange(path, out, at)
	}
}

// checkSiblings checks the rules between a member and the other members of its object.
func (d *decoder) checkSiblings(path string, m member, tree map[string]any, use contract.Use) {
	missing, r := tree[m.name] == nil, m.row
	other := tree[r.RequiredUnless]
	typ, _ := tree["type"].(string)
	switch {
	case missing && r.RequiredUnless != "" && use == contract.Create && (other == nil || other == ""), missing && r.RequiredForType != "" && r.RequiredForType == typ:
		d.addFault(path, "missing property '%s'", m.name)
	case !missing && r.RequiredForType != "" && typ != "" && r.RequiredForType != typ:
		d.addFault(path, "additional properties '%s' not allowed", m.name)
	case !missing && r.RequiresInUpdate != "" && use == contract.Update && tree[r.RequiresInUpdate] == nil:
		d.addFault(path, "missing property '%s', which '%s' belongs to", r.RequiresInUpdate, m.name)
	}
}

func (d *decoder) decodeValue(path string, in any, out reflect.Value, m member, at bodyPath) {
	if ref, ok := out.Addr().Interface().(*clearableText); ok {
		ref.Set = true
		if in != nil && in != "" {
			d.decodeString(path, in, reflect.ValueOf(&ref.Value).Elem(), m.row, at.Use)
		}
		return
	}
	switch out.Kind() {
	case reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		d.decodeValue(path, in, out.Elem(), m, at)
	case reflect.Struct:
		d.decodeObject(path, in, out, at.in(m.name))
	case reflect.Slice:
		d.decodeList(path, in, out, m, at)
	case reflect.Map:
		d.decodeEnv(path, in, out)
	case reflect.String:
		d.decodeString(path, in, out, m.row, at.Use)
	case reflect.Bool:
		if b, ok := in.(bool); ok {
			out.SetBool(b)
		} else {
			d.addTypeFault(path, in, "boolean")
		}
	case reflect.Int64:
		d.decodeInteger(path, in, out, m.row)
	case reflect.Float64:
		d.decodeNumber(path, in, out, m.row)
	default:
		panic("unsupported type in a wire type: " + out.Type().String())
	}
}

func (d *decoder) decodeList(path string, in any, out reflect.Value, m member, at bodyPath) {
	items, ok := in.([]any)
	if !ok {
		d.addTypeFault(path, in, "array")
		return
	}
	if r := m.row; r.Min != nil && float64(len(items)) < *r.Min {
		d.addFault(path, "got %d items, want at least %v", len(items), *r.Min)
	} else if r.Max != nil && float64(len(items)) > *r.Max {
		d.addFault(path, "got %d items, want at most %v", len(items), *r.Max)
	}
	out.Set(reflect.MakeSlice(out.Type(), len(items), len(items)))
	element := member{name: m.name + "[]", row: m.row.Element()}
	faultsBefore := len(d.faults)
	for i, item := range items {
		d.decodeValue(fmt.Sprintf("%s[%d]", path, i), item, out.Index(i), element, at)
	}
	if m.row.Unique && len(d.faults) == faultsBefore {
		d.checkUnique(path, out)
	}
}

// checkUnique compares decoded items, because the same number can have several literals, such as 2 and 2.0.
func (d *decoder) checkUnique(path string, items reflect.Value) {
	seen := map[any]int{}
	for i := range items.Len() {
		item := items.Index(i).Interface()
		if j, isDuplicate := seen[item]; isDuplicate {
			d.addFault(path, "items at %d and %d are equal", j, i)
			return
		}
		seen[item] = i
	}
}

// decodeEnv reads a map of environment variables. Their names and values must be valid in a process.
func (d *decoder) decodeEnv(path string, in any, out reflect.Value) {
	tree, ok := in.(map[string]any)
	if !ok {
		d.addTypeFault(path, in, "object")
		return
	}
	env := make(map[string]string, len(tree))
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		value, isString := tree[name].(string)
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			d.addFault(path, "invalid name of an environment variable '%s': want a non-empty name without = and NUL", truncate(name))
		case !isString:
			d.addTypeFault(path+"."+truncate(name), tree[name], "string")
		case strings.Contains(value, "\x00"):
			d.addFault(path+"."+truncate(name), "invalid value of an environment variable: want no NUL character")
		}
		env[name] = value
	}
	out.Set(reflect.ValueOf(env))
}

func (d *decoder) decodeString(path string, in any, out reflect.Value, r *contract.Field, u contract.Use) {
	s, ok := in.(string)
	if !ok {
		d.addTypeFault(path, in, "string")
		return
	}
	out.SetString(s)
	length, unit := float64(utf8.RuneCountInString(s)), "characters"
	if r.Unit == "bytes" {
		length, unit = float64(len(s)), "bytes"
	}
	switch {
	case s == "" && r.Clear == `""` && u == contract.Update:
	case r.Min != nil && length < *r.Min:
		d.addFault(path, "got %s %s, want at least %s", formatNumber(length), unit, formatNumber(*r.Min))
	case r.Max != nil && length > *r.Max:
		d.addFault(path, "got %s %s, want at most %s", formatNumber(length), unit, formatNumber(*r.Max))
	case r.Closed() && !slices.Contains(r.Enum, s):
		d.addFault(path, "got '%s', want one of '%s'", truncate(s), strings.Join(r.Enum, "', '"))
	case r.Form != nil && !pattern(*r.Form).MatchString(s):
		d.addFault(path, "got '%s', want %s", truncate(s), r.Form.Words)
	case r.Not != nil && pattern(*r.Not).MatchString(s):
		d.addFault(path, "got '%s', but %s", truncate(s), r.Not.Words)
	}
}

func (d *decoder) decodeInteger(path string, in any, out reflect.Value, r *contract.Field) {
	literal, ok := in.(json.Number)
	if !ok {
		d.addTypeFault(path, in, "integer")
		return
	}
	f, err := literal.Float64() // 10.0 and 1e1 are integers too
	switch {
	case err == nil && f != math.Trunc(f):
		d.addFault(path, "got %s, want integer", truncate(literal.String()))
		return
	case err != nil || math.Abs(f) >= 1<<53: // a float64 may have lost the last digits
		d.addFault(path, "got %s, want an integer closer to 0", truncate(literal.String()))
		return
	}
	n := int64(f)
	out.SetInt(n)
	d.checkBounds(path, literal, f, r)
	if r.PowerOfTwo && n > 0 && n&(n-1) != 0 {
		d.addFault(path, "got %d, want a power of two", n)
	}
}

func (d *decoder) decodeNumber(path string, in any, out reflect.Value, r *contract.Field) {
	literal, ok := in.(json.Number)
	if !ok {
		d.addTypeFault(path, in, "number")
		return
	}
	f, err := literal.Float64()
	if err != nil {
		d.addFault(path, "got %s, want a number closer to 0", truncate(literal.String()))
		return
	}
	out.SetFloat(f)
	d.checkBounds(path, literal, f, r)
}

func (d *decoder) checkBounds(path string, literal json.Number, n float64, r *contract.Field) {
	orZero := ""
	if r.OrZero {
		if n == 0 {
			return
		}
		orZero = " or 0"
	}
	if r.Min != nil && n < *r.Min {
		d.addFault(path, "got %s, want at least %s%s", truncate(literal.String()), formatNumber(*r.Min), orZero)
	}
	if r.Max != nil && n > *r.Max {
		d.addFault(path, "got %s, want at most %s%s", truncate(literal.String()), formatNumber(*r.Max), orZero)
	}
}

// addTypeFault reports the type of a value, never the value: it may be a secret.
func (d *decoder) addTypeFault(path string, in any, want string) {
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
	d.addFault(path, "got %s, want %s", got, want)
}

// truncate shortens a caller's text before an error repeats it.
func truncate(s string) string {
	const maxRunes = 80
	runes := []rune(s)
	if len(runes) <= maxRunes {
		return s
	}
	return string(runes[:maxRunes]) + "…"
}

// formatNumber writes a number without an exponent.
func formatNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// checkBodySize rejects a body that is too large for its operation. It reads a body of unknown length.
func checkBodySize(c *call, limit int64) error {
	if limit == 0 || 0 <= c.http.ContentLength && c.http.ContentLength <= limit {
		return nil
	}
	text, reservation, err := c.Bodies.ReadBody(c.http, http.MaxBytesReader(c.writer, c.http.Body, limit), limit, 1, false)
	defer reservation.Release()
	if err != nil {
		return httpanswer.BodyRefused(c.ctx(), err)
	}
	c.http.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// checkMerged rejects a pod whose request is too large together with its template's settings.
func checkMerged(body map[string]any, t store.Template) error {
	if size := len(mergedRequest(body, t)); size > contract.MaxPodBody {
		return httpanswer.Refuse(http.StatusRequestEntityTooLarge, "the request has %d bytes with the settings of template %q: at most %d are allowed", size, t.ID, contract.MaxPodBody)
	}
	return nil
}

// mergedRequest returns the body of a pod's create with the settings of its template.
func mergedRequest(body map[string]any, t store.Template) []byte {
	var settings map[string]any
	_ = json.Unmarshal(toJSON(newTemplateV2(t)), &settings) // never fails: a template is an object
	request := contract.Body{API: contract.V2, Resource: "pod", Use: contract.Create}
	merged := maps.Clone(body)
	delete(merged, "templateId")
	_, setsEntrypoint := body["entrypoint"]
	_, setsCmd := body["cmd"]
	for name, value := range settings {
		switch _, inBody := body[name]; {
		case inBody || value == nil || request.At(name) == nil, name == "entrypoint", name == "cmd": // the template's args already contain its entrypoint and cmd
		case name == "args" && (setsEntrypoint || setsCmd), name == "mounts" && body["cpu"] != nil:
		default:
			merged[name] = value
		}
	}
	if bodyEnv, ok := body["env"].(map[string]any); ok {
		env := maps.Clone(settings["env"].(map[string]any))
		maps.Copy(env, bodyEnv)
		merged["env"] = env
	}
	return toJSON(merged)
}

func toJSON(value any) []byte { return bytes.TrimSpace(httpanswer.Encode(value)) }
