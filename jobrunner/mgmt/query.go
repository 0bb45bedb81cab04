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
)

// query reads the parameters of a catalog call and collects what is wrong with
// them.
type query struct {
	values  url.Values
	faults  []string // of a parameter's form: 422
	refusal string   // of parameters that don't go together: 400
}

func newQuery(c *call) *query { return &query{values: c.http.URL.Query()} }

func (q *query) has(name string) bool { return q.values.Get(name) != "" }

func (q *query) fault(name, value, want string) {
	q.faults = append(q.faults, fmt.Sprintf("%s: got '%s', want %s", name, short(value), want))
}

// oneOf reads a list whose elements are given, separated by commas.
func (q *query) oneOf(name string, known ...string) []string {
	return q.list(name, "one of "+strings.Join(known, ", "), func(s string) bool { return slices.Contains(known, s) })
}

// choice reads one of some values; "" where it is absent.
func (q *query) choice(name string, known ...string) string {
	return q.one(name, "one of "+strings.Join(known, ", "), func(s string) bool { return slices.Contains(known, s) })
}

// one reads a value, not a list of them; "" where it is absent.
func (q *query) one(name, want string, ok func(string) bool) string {
	value := q.values.Get(name)
	if value != "" && !ok(value) {
		q.fault(name, value, want)
		return ""
	}
	return value
}

// matching reads a list whose elements have a form.
func (q *query) matching(name string, form *regexp.Regexp, words string) []string {
	return q.list(name, words, form.MatchString)
}

func (q *query) list(name, want string, ok func(string) bool) (out []string) {
	if !q.has(name) {
		return nil
	}
	for value := range strings.SplitSeq(q.values.Get(name), ",") {
		if ok(value) {
			out = append(out, value)
		} else {
			q.fault(name, value, want)
		}
	}
	return out
}

// number reads an integer.
func (q *query) number(name string, otherwise int64, want string, ok func(int64) bool) int64 {
	if !q.has(name) {
		return otherwise
	}
	n, err := strconv.ParseInt(q.values.Get(name), 10, 64)
	if err != nil || !ok(n) {
		q.fault(name, q.values.Get(name), want)
	}
	return n
}

// flag reads a boolean; nil where it is absent.
func (q *query) flag(name string) *bool {
	switch q.values.Get(name) {
	case "":
		return nil
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	q.fault(name, q.values.Get(name), "true or false")
	return nil
}

// refuse keeps the first breach of a rule.
func (q *query) refuse(breach bool, format string, args ...any) {
	if breach && q.refusal == "" {
		q.refusal = fmt.Sprintf(format, args...)
	}
}

// withAvailability reads include=AVAILABILITY, which needs product, and
// without which neither product nor the parameters that narrow it mean
// anything.
func (q *query) withAvailability(products []string, narrowing ...string) bool {
	included := q.choice("include", "AVAILABILITY") != ""
	q.oneOf("product", products...)
	q.refuse(included && !q.has("product"), "include=AVAILABILITY needs product: stock differs by product")
	for _, name := range append([]string{"product"}, narrowing...) {
		q.refuse(!included && q.has(name), "%s means nothing without include=AVAILABILITY", name)
	}
	return included
}

func (q *query) err() error {
	switch {
	case len(q.faults) > 0:
		return invalid(q.faults...)
	case q.refusal != "":
		return httpanswer.Refuse(http.StatusBadRequest, "%s", q.refusal)
	}
	return nil
}
