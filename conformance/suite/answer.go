package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Answer is an answer of the target. Methods that expect something end the case if the
// answer doesn't meet the expectation. Members are named by their path: jobs.inQueue,
// 0.output.
type Answer struct {
	Code   int
	Header http.Header
	Body   []byte
	// Sent and Received are the target's times before and after the request.
	Sent, Received time.Time

	c        *C
	exchange *wire.Exchange
	json     any
	parseErr error     // why the body is not JSON
	deadline time.Time // see IfBefore
}

func (a *Answer) fail(accepted ...string) {
	a.failWith(a.c.describeAnswer(a.exchange), accepted...)
}

// failWith fails the case, unless the answer arrived after its deadline.
func (a *Answer) failWith(actual string, accepted ...string) {
	if !a.deadline.IsZero() {
		a.c.ExpectBefore(a, a.deadline)
	}
	a.c.failWith(a.exchange, actual, accepted...)
}

// Expect fails the case with the answer as the actual behaviour, unless ok.
func (a *Answer) Expect(ok bool, accepted string) *Answer {
	if !ok {
		a.fail(accepted)
	}
	return a
}

// IfBefore sets a deadline: if this answer came at t or later and fails an expectation, the case is inconclusive.
func (a *Answer) IfBefore(t time.Time) *Answer {
	a.deadline = t
	return a
}

// Is expects one of the status codes. 200 stands for every 2xx, because the description rarely
// names the exact code. If it does, use Exactly.
func (a *Answer) Is(codes ...int) *Answer {
	if slices.Contains(codes, http.StatusOK) && a.Code/100 == 2 {
		return a
	}
	return a.Exactly(codes...)
}

// Exactly expects one of the status codes. 200 stands only for itself.
func (a *Answer) Exactly(codes ...int) *Answer {
	if !slices.Contains(codes, a.Code) {
		var accepted []string
		for _, code := range codes {
			accepted = append(accepted, fmt.Sprintf("%d %s", code, http.StatusText(code)))
		}
		a.fail(accepted...)
	}
	return a
}

func (a *Answer) Success() *Answer { return a.Expect(a.Code/100 == 2, "2xx") }

// IsRefusal reports whether the request was refused for its content: any 4xx except 401 and
// 403, which are about the key, and 429, which is about the rate.
func (a *Answer) IsRefusal() bool {
	return a.Code/100 == 4 && a.Code != http.StatusUnauthorized && a.Code != http.StatusForbidden && a.Code != http.StatusTooManyRequests
}

func (a *Answer) Refused() *Answer {
	return a.Expect(a.IsRefusal(), "a refusal: 4xx, and not 401, 403 or 429")
}

// BadRequest expects 400, or 422 in the dialect of the public SDKs.
func (a *Answer) BadRequest() *Answer {
	if a.c.Target.Live {
		return a.Is(400, 422)
	}
	return a.Is(400)
}

// JSON expects a JSON body and returns its value, with numbers as json.Number.
func (a *Answer) JSON() any {
	a.Expect(a.parseErr == nil, "a JSON body")
	return a.json
}

// Find returns the member at a path, and whether it exists; "" is the whole body.
func (a *Answer) Find(path string) (any, bool) {
	if a.parseErr != nil {
		return nil, false
	}
	return Find(a.json, path)
}

func Find(v any, path string) (any, bool) {
	if path == "" {
		return v, true
	}
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			member, ok := x[name]
			if !ok {
				return nil, false
			}
			v = member
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// ValueOrNil returns the member at a path, or nil if it doesn't exist.
func (a *Answer) ValueOrNil(path string) any {
	v, _ := a.Find(path)
	return v
}

func (a *Answer) Value(path string) any {
	v, ok := a.Find(path)
	a.Expect(ok, "a member "+path)
	return v
}

// Str, Bool, Array and Object expect a member of that type.
func (a *Answer) Str(path string) string  { return memberOf[string](a, path, "a string") }
func (a *Answer) Bool(path string) bool   { return memberOf[bool](a, path, "a boolean") }
func (a *Answer) Array(path string) []any { return memberOf[[]any](a, path, "an array") }
func (a *Answer) Object(path string) M    { return memberOf[M](a, path, "an object") }

// List expects an array of objects.
func (a *Answer) List(path string) (list []M) {
	for _, element := range a.Array(path) {
		o, ok := element.(M)
		a.Expect(ok, describePath(path)+": an array of objects")
		list = append(list, o)
	}
	return list
}

// memberOf expects a member of a type.
func memberOf[T any](a *Answer, path, name string) T {
	v, ok := a.Value(path).(T)
	a.Expect(ok, describePath(path)+": "+name)
	return v
}

// Int expects a number without a fraction, such as 1000, 1e3 or 5.0: JSON has only one kind of number.
func (a *Answer) Int(path string) int64 {
	n, ok := new(big.Rat).SetString(memberOf[json.Number](a, path, "an integer").String())
	a.Expect(ok && n.IsInt() && n.Num().IsInt64(), path+": an integer")
	return n.Num().Int64()
}

func (a *Answer) Number(path string) float64 {
	f, err := memberOf[json.Number](a, path, "a number").Float64()
	a.Expect(err == nil, path+": a number")
	return f
}

func describePath(path string) string {
	if path == "" {
		return "the body"
	}
	return path
}

// Equal expects a member to have a value, compared as JSON. A failure shows a long value's first difference.
func (a *Answer) Equal(path string, want any) *Answer {
	v, ok := a.Find(path)
	d, text := Difference(want, v), JSONText(want)
	switch {
	case ok && d == "":
	case ok && len(text) > maxExcerpt:
		a.failWith(d, describePath(path)+" = "+excerpt(text, 0))
	default:
		a.fail(describePath(path) + " = " + excerpt(text, 0))
	}
	return a
}

// EqualIfShown is Equal for a member that may be missing or null.
func (a *Answer) EqualIfShown(path string, want any) *Answer {
	if a.ValueOrNil(path) == nil {
		return a
	}
	return a.Equal(path, want)
}

// Absent expects a member to be missing or null.
func (a *Answer) Absent(path string) *Answer {
	return a.Expect(a.ValueOrNil(path) == nil, path+" absent or null")
}

// NotContains expects that neither the body nor the header contains a text.
func (a *Answer) NotContains(text string) *Answer {
	return a.Expect(!a.Contains(text), "an answer without "+a.c.env.Secrets.Redact(text))
}

// Contains reports whether the body or the header contains a text. A text with fewer than six bytes must be a
// whole string of the body, because times and other values may contain it by chance.
func (a *Answer) Contains(text string) bool {
	if len(text) < 6 {
		return hasString(a.json, text)
	}
	isIn := func(value any) bool { return strings.Contains(fmt.Sprint(value), text) }
	hasEscapes := bytes.IndexByte(a.Body, '\\') >= 0
	return bytes.Contains(a.Body, []byte(text)) || isIn(a.Header) || hasEscapes && isIn(a.json)
}

// hasString reports whether a JSON value has a string, also as the name of a member.
func hasString(v any, text string) bool {
	switch x := v.(type) {
	case map[string]any:
		_, named := x[text]
		return named || slices.ContainsFunc(slices.Collect(maps.Values(x)), func(member any) bool { return hasString(member, text) })
	case []any:
		return slices.ContainsFunc(x, func(element any) bool { return hasString(element, text) })
	}
	return v == text
}

func JSONText(v any) string {
	text, _ := json.Marshal(v) // cases only use values that JSON has
	return string(text)
}

// Shape describes the structure of the answer's JSON: the members of objects, sorted by
// name, with their types. It shows no values except a status.
func (a *Answer) Shape() string {
	if a.parseErr != nil {
		if len(a.Body) == 0 {
			return "no body"
		}
		return "no JSON"
	}
	return shape(a.json)
}

func shape(v any) string {
	switch x := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(x))
		for i, name := range names {
			names[i] = name + " " + shape(x[name])
			if name == "status" {
				names[i] = "status " + JSONText(x[name])
			}
		}
		return "{" + strings.Join(names, ", ") + "}"
	case []any:
		if len(x) == 0 {
			return "[]"
		}
		return "[" + shape(x[0]) + "]"
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	}
	return "null"
}

// Chunks returns the chunks of a /stream answer, in either dialect.
func (a *Answer) Chunks() []M {
	if a.c.Target.Live {
		return a.List("stream")
	}
	return a.List("")
}

// FromProxy reports whether a proxy in front of the deployment sent the response.
func (a *Answer) FromProxy() bool { return FromProxy(a.Code, a.parseErr == nil) }

// FromProxy reports whether a proxy sent a response without asking the deployment: only proxies send
// 502 and 504, or 413, 431 and 503 without JSON.
func FromProxy(code int, isJSON bool) bool {
	return code == 502 || code == 504 || !isJSON && (code == 413 || code == 431 || code == 503)
}

// HideSecret redacts a text that is derived from a secret.
func (c *C) HideSecret(name, text string) string {
	c.env.Secrets.Add(name, text)
	return text
}

func (a *Answer) ContentType(want string) *Answer {
	mediaType, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || mediaType != want {
		a.fail("Content-Type: expected " + want + ", got " + strconv.Quote(a.Header.Get("Content-Type")))
	}
	return a
}
