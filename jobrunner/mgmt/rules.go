package mgmt

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// rule is what a member of a request body must obey. The tag "rule" of the
// member's field in the wire type lists its options:
//
//	required      the member is required; required=create: only in a create
//	create-only   the body of an update must not have the member
//	update-only   the body of a create must not have the member
//	null          null is accepted, and is as if the member were absent
//	min=N max=N   bounds of a number, or of the length of a string or list
//	zero          0 is accepted outside of the bounds
//	oneof=A,B     the values of a string
//	pattern=NAME  the pattern of a string, or of each string in a list; see patterns
//	clearable     an update accepts the empty string, whatever the pattern
//	power2        a power of two
//	unique        the items of a list differ
type rule struct {
	required, requiredOnCreate               bool
	createOnly, updateOnly, nullable         bool
	min, max                                 *float64
	allowZero, powerOfTwo, clearable, unique bool
	oneOf                                    []string
	pattern                                  *pattern
}

// pattern is a regular expression and its description in error messages.
type pattern struct {
	regexp      *regexp.Regexp
	description string
}

var patterns = map[string]*pattern{
	"port": {
		regexp.MustCompile(`^([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])/(http|tcp)$`),
		"<port>/<http|tcp> with a port from 1 to 65535",
	},
	"path": {regexp.MustCompile(`^/`), "an absolute path"},
	"cuda": {regexp.MustCompile(`^\d+\.\d+$`), "major.minor"},
	"id":   {regexp.MustCompile(`^\P{C}*[^\p{C} ]\P{C}*$`), "an id"},
	"ecr":  {ecrARN, "the ARN of an ECR repository, such as arn:aws:ecr:us-east-2:123456789012:repository/team/image"},
	"ssh":  {regexp.MustCompile(`^(ssh|ecdsa|sk)-[^\s]+ [^\s]+([ \t][^\n\r]*)?$`), "a line <type> <base64-key> [comment], as in ~/.ssh/id_ed25519.pub"},
	"type": {regexp.MustCompile(`^\s*[^-\s]`), "the id of a GPU type"},
}

// member is one member of a wire type.
type member struct {
	name  string
	index []int
	rule  rule
}

var memberCache sync.Map // of []member by reflect.Type

// members lists the members of a struct and of the structs that it embeds.
func members(t reflect.Type) []member {
	if known, ok := memberCache.Load(t); ok {
		return known.([]member)
	}
	var out []member
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" {
			out = append(out, member{name, f.Index, parseRule(f.Tag.Get("rule"))})
		}
	}
	memberCache.Store(t, out)
	return out
}

// parseRule reads a tag. An invalid tag is a bug, which the tests find.
func parseRule(tag string) (r rule) {
	number := func(text string) *float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(fmt.Sprintf("rule %q: %v", tag, err))
		}
		return &n
	}
	for option := range strings.FieldsSeq(tag) {
		key, value, _ := strings.Cut(option, "=")
		switch {
		case option == "required":
			r.required = true
		case option == "required=create":
			r.requiredOnCreate = true
		case option == "create-only":
			r.createOnly = true
		case option == "update-only":
			r.updateOnly = true
		case option == "null":
			r.nullable = true
		case option == "zero":
			r.allowZero = true
		case option == "power2":
			r.powerOfTwo = true
		case option == "clearable":
			r.clearable = true
		case option == "unique":
			r.unique = true
		case key == "min":
			r.min = number(value)
		case key == "max":
			r.max = number(value)
		case key == "oneof":
			r.oneOf = strings.Split(value, ",")
		case key == "pattern" && patterns[value] != nil:
			r.pattern = patterns[value]
		default:
			panic(fmt.Sprintf("invalid rule %q: unknown option %q", tag, option))
		}
	}
	return r
}
