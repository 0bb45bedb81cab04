package mgmt

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// query reads query parameters and collects their faults.
type query struct {
	*call
	values  url.Values
	faults  []string // invalid values: 422
	refusal string   // another error, such as a conflict between parameters: 400
}

func newQuery(c *call) *query { return &query{call: c, values: c.http.URL.Query()} }

func (q *query) has(name string) bool { return q.values.Get(name) != "" }

func (q *query) addFault(name, value, want string) {
	q.faults = append(q.faults, fmt.Sprintf("%s: got '%s', want %s", name, truncate(value), want))
}

// enumList reads a comma-separated list of allowed values.
func (q *query) enumList(name string, allowed ...string) []string {
	return q.valueList(name, "one of "+strings.Join(allowed, ", "), &openapi.Schema{Type: "string", Enum: anyList(allowed)},
		func(s string) bool { return slices.Contains(allowed, s) })
}

// enumValue reads one allowed value, or "" if it is absent.
func (q *query) enumValue(name string, allowed ...string) string {
	return q.value(name, "one of "+strings.Join(allowed, ", "), &openapi.Schema{Type: "string", Enum: anyList(allowed)},
		func(s string) bool { return slices.Contains(allowed, s) })
}

// text reads a value of any form, or "" if it is absent.
func (q *query) text(name string) string {
	return q.value(name, "", &openapi.Schema{Type: "string"}, func(string) bool { return true })
}

// patternValue reads one value that matches a pattern, or "" if it is absent.
func (q *query) patternValue(name string, pattern *regexp.Regexp, description string) string {
	return q.value(name, description, &openapi.Schema{Type: "string", Pattern: pattern.String()}, pattern.MatchString)
}

// value reads one value that a function accepts, or "" if it is absent.
func (q *query) value(name, want string, schema *openapi.Schema, valid func(string) bool) string {
	q.declare(openapi.Parameter{Name: name, In: "query", Description: want, Schema: schema})
	value := q.values.Get(name)
	if value != "" && !valid(value) {
		q.addFault(name, value, want)
		return ""
	}
	return value
}

// patternList reads a comma-separated list of values that match a pattern.
func (q *query) patternList(name string, pattern *regexp.Regexp, description string) []string {
	return q.valueList(name, description, &openapi.Schema{Type: "string", Pattern: pattern.String()}, pattern.MatchString)
}

func (q *query) valueList(name, want string, item *openapi.Schema, valid func(string) bool) (out []string) {
	q.declare(openapi.Parameter{
		Name: name, In: "query", Description: "Each is " + want + ".", Style: "form", Explode: new(false),
		Schema: &openapi.Schema{Type: "array", Items: item},
	})
	if !q.has(name) {
		return nil
	}
	for value := range strings.SplitSeq(q.values.Get(name), ",") {
		if valid(value) {
			out = append(out, value)
		} else {
			q.addFault(name, value, want)
		}
	}
	return out
}

// integer reads an integer. Its schema is derived from the small numbers that valid accepts.
func (q *query) integer(name string, defaultValue int64, want string, valid func(int64) bool) int64 {
	return q.integerOf(name, defaultValue, want, integerSchema(valid), valid)
}

func (q *query) integerOf(name string, defaultValue int64, want string, schema *openapi.Schema, valid func(int64) bool) int64 {
	q.declare(openapi.Parameter{Name: name, In: "query", Description: want, Schema: schema})
	if !q.has(name) {
		return defaultValue
	}
	n, err := strconv.ParseInt(q.values.Get(name), 10, 64)
	if err != nil || !valid(n) {
		q.addFault(name, q.values.Get(name), want)
	}
	return n
}

// boolean reads true or false, or nil if it is absent.
func (q *query) boolean(name string) *bool {
	q.declare(openapi.Parameter{Name: name, In: "query", Schema: &openapi.Schema{Type: "boolean"}})
	switch q.values.Get(name) {
	case "":
		return nil
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	q.addFault(name, q.values.Get(name), "true or false")
	return nil
}

// refuseIf rejects the call if the condition holds. It keeps the first error.
func (q *query) refuseIf(condition bool, format string, args ...any) {
	if condition && q.refusal == "" {
		q.refusal = fmt.Sprintf(format, args...)
	}
}

// readAvailability reads include=AVAILABILITY, which requires product. product and the filters in turn
// require it.
func (q *query) readAvailability(known []string, filters ...string) (requested bool, products []string) {
	requested = q.enumValue("include", "AVAILABILITY") != ""
	products = q.enumList("product", known...)
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
