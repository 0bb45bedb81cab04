package mgmt

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// query reads the query parameters of a call, and collects their faults.
type query struct {
	*call
	values  url.Values
	faults  []string // invalid values: 422
	refusal string   // another error, such as a conflict between parameters: 400
}

func newQuery(c *call) *query {
	values, err := url.ParseQuery(c.http.URL.RawQuery)
	q := &query{call: c, values: values}
	if err != nil {
		q.faults = append(q.faults, "the query is malformed: "+err.Error())
	}
	return q
}

func (q *query) has(name string) bool { return q.values.Get(name) != "" }

func (q *query) addFault(name, value, want string) {
	q.faults = append(q.faults, fmt.Sprintf("%s: got '%s', want %s", name, truncate(value), want))
}

// form is the syntax of a query parameter.
type form struct {
	want   string // human-readable
	schema *openapi.Schema
	valid  func(string) bool
}

var anyText = form{"", &openapi.Schema{Type: "string"}, func(string) bool { return true }}

func oneOf(allowed ...string) form {
	return form{
		"one of " + strings.Join(allowed, ", "), &openapi.Schema{Type: "string", Enum: anyList(allowed)},
		func(s string) bool { return slices.Contains(allowed, s) },
	}
}

func matching(pattern *regexp.Regexp, want string) form {
	return form{want, &openapi.Schema{Type: "string", Pattern: pattern.String()}, pattern.MatchString}
}

// value reads one value, or "" if it is absent.
func (q *query) value(name string, f form) string {
	q.declare(openapi.Parameter{Name: name, In: "query", Description: f.want, Schema: f.schema})
	value := q.values.Get(name)
	if value != "" && !f.valid(value) {
		q.addFault(name, value, f.want)
		return ""
	}
	return value
}

// list reads a list of values, separated by commas or in repeated parameters.
func (q *query) list(name string, f form) (out []string) {
	q.declare(openapi.Parameter{
		Name: name, In: "query", Description: "Each is " + f.want + ".", Style: "form", Explode: new(false),
		Schema: &openapi.Schema{Type: "array", Items: f.schema},
	})
	if !q.has(name) {
		return nil
	}
	for value := range strings.SplitSeq(strings.Join(q.values[name], ","), ",") {
		if f.valid(value) {
			out = append(out, value)
		} else {
			q.addFault(name, value, f.want)
		}
	}
	return out
}

// integers returns the form of the integers that valid accepts. schema has their bounds, and gets their type.
func integers(want string, schema *openapi.Schema, valid func(int64) bool) form {
	schema.Type, schema.Format = "integer", "int64"
	return form{want, schema, func(s string) bool {
		n, err := strconv.ParseInt(s, 10, 64)
		return err == nil && valid(n)
	}}
}

var positive = integers("an integer of at least 1", &openapi.Schema{Minimum: new(1.0)}, func(n int64) bool { return n >= 1 })

// integer reads an integer in a form that integers returned.
func (q *query) integer(name string, defaultValue int64, f form) int64 {
	n, err := strconv.ParseInt(q.value(name, f), 10, 64)
	if err != nil {
		return defaultValue
	}
	return n
}

// boolean reads true or false, or nil if it is absent. Version 1 also accepts other spellings, such as 1.
func (q *query) boolean(name string) *bool {
	valid := func(s string) bool {
		_, err := strconv.ParseBool(s)
		return err == nil && (q.version == 1 || s == "true" || s == "false")
	}
	value, err := strconv.ParseBool(q.value(name, form{"true or false", &openapi.Schema{Type: "boolean"}, valid}))
	if err != nil {
		return nil
	}
	return &value
}

// parseTime parses a time in RFC 3339, which allows t and z in lower case.
func parseTime(text string) (time.Time, error) {
	return time.Parse(time.RFC3339, strings.ToUpper(text))
}

// flag reads true or false. An absent flag is false.
func (q *query) flag(name string) bool {
	value := q.boolean(name)
	return value != nil && *value
}

// refuseIf rejects the call if the condition holds. It keeps the first error.
func (q *query) refuseIf(condition bool, format string, args ...any) {
	if condition && q.refusal == "" {
		q.refusal = fmt.Sprintf(format, args...)
	}
}

// readAvailability reads include=AVAILABILITY, which requires product. product and the filters in turn
// require include=AVAILABILITY.
func (q *query) readAvailability(allowedProducts []string, filters ...string) (requested bool, products []string) {
	requested = q.value("include", oneOf("AVAILABILITY")) != ""
	products = q.list("product", oneOf(allowedProducts...))
	q.refuseIf(requested && !q.has("product"), "include=AVAILABILITY requires product: stock differs by product")
	for _, name := range append([]string{"product"}, filters...) {
		q.refuseIf(!requested && q.has(name), "%s requires include=AVAILABILITY", name)
	}
	return requested, products
}

func (q *query) err() error {
	switch {
	case len(q.faults) > 0:
		return validationError(q.faults...)
	case q.refusal != "":
		return httpanswer.Refuse(http.StatusBadRequest, "%s", q.refusal)
	}
	return nil
}

type paginationV2 struct {
	NextCursor  *string `json:"nextCursor"` // null on the last page
	HasNextPage bool    `json:"hasNextPage"`
}

// maxPage is the maximum and default number of objects of a page.
const maxPage = 1000

type pageQuery struct {
	store.Page
	list string // operation and parameters; a cursor is valid only for the same list
}

func readPageQuery(q *query) pageQuery { return q.page("", maxPage) }

// page reads the parameters of a page. maxLimit is both the maximum and the default number of objects.
// parameters are the list's other parameters: a cursor is valid only for the same ones.
func (q *query) page(parameters string, maxLimit int64) pageQuery {
	p := pageQuery{store.Page{Before: math.MaxInt64}, q.http.URL.Path + "?" + parameters}
	limit := integers(fmt.Sprintf("an integer from 1 to %d", maxLimit), &openapi.Schema{Minimum: new(1.0), Maximum: new(float64(maxLimit))},
		func(n int64) bool { return n >= 1 && n <= maxLimit })
	p.Limit = int(q.integer("limit", maxLimit, limit))
	q.declare(openapi.Parameter{
		Name: "cursor", In: "query", Description: "pagination.nextCursor of the previous page. It is valid only for the same list.",
		Schema: &openapi.Schema{Type: "string", MinLength: new(int64(1))},
	})
	if q.values.Has("cursor") {
		cursor := q.values.Get("cursor")
		var valid bool
		if p.Before, valid = p.decodeCursor(cursor); !valid {
			q.addFault("cursor", cursor, "nextCursor of a page of this list")
		}
	}
	return p
}

// pagination returns the next page's cursor. position belongs to this page's last item; it is 0 on the last page.
func (p pageQuery) pagination(position int64) paginationV2 {
	if position == 0 {
		return paginationV2{}
	}
	return paginationV2{new(p.encodeCursor(position)), true}
}

// encodeCursor encodes a position, with a checksum that binds it to the list.
func (p pageQuery) encodeCursor(position int64) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(position)) //nolint:gosec // positions are positive
	sum := sha256.Sum256(append([]byte(p.list), text...))
	return base64.RawURLEncoding.EncodeToString(append(text, sum[:8]...))
}

func (p pageQuery) decodeCursor(cursor string) (position int64, valid bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(text) != 16 {
		return 0, false
	}
	position = int64(binary.BigEndian.Uint64(text)) //nolint:gosec // as encoded by encodeCursor
	return position, position > 0 && p.encodeCursor(position) == cursor
}
