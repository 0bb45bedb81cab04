package mgmt

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// rule is what a member of a request body must obey. It stands beside the
// member's name, in the tag "rule" of the wire type, as words:
//
//	must         it must stand; must=create: in the body of a create
//	only=create  the body of an update does not have it
//	min=N max=N  bounds of a number, or of the length of a string or list
//	zero         0 is accepted outside of the bounds
//	oneof=A,B    the values of a string
//	form=NAME    the form of a string, or of each one in a list; see forms
//	clears       the empty string is accepted in an update, whatever the form
//	power2       a power of two
//	unique       a list in which nothing stands twice
type rule struct {
	must, mustCreate, onlyCreate bool
	min, max                     *float64
	zero, power2, clears, unique bool
	oneOf                        []string
	form                         *form
}

// form is a regular expression and how to say it to people.
type form struct {
	regexp *regexp.Regexp
	words  string
}

var forms = map[string]*form{
	"port": {
		regexp.MustCompile(`^([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])/(http|tcp)$`),
		"<port>/<http|tcp> with a port from 1 to 65535",
	},
	"path": {regexp.MustCompile(`^/`), "an absolute path"},
	"cuda": {regexp.MustCompile(`^\d+\.\d+$`), "major.minor"},
	"id":   {regexp.MustCompile(`^\PC*[^\pC\s]\PC*$`), "an id"},
	"ecr":  {ecrARN, "the ARN of an ECR repository, such as arn:aws:ecr:us-east-2:123456789012:repository/team/image"},
	"type": {regexp.MustCompile(`^\s*[^-\s]`), "the id of a GPU type"},
}

// member is one member of a wire type.
type member struct {
	name  string
	index []int
	rule  rule
}

var memberCache sync.Map // of []member by reflect.Type

// members are those of a struct and of what it embeds.
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

// parseRule reads a tag. A tag that says something else is a mistake of this
// program, which its tests find.
func parseRule(tag string) (r rule) {
	number := func(text string) *float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(fmt.Sprintf("rule %q: %v", tag, err))
		}
		return &n
	}
	for word := range strings.FieldsSeq(tag) {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case word == "must":
			r.must = true
		case word == "must=create":
			r.mustCreate = true
		case word == "only=create":
			r.onlyCreate = true
		case word == "zero":
			r.zero = true
		case word == "power2":
			r.power2 = true
		case word == "clears":
			r.clears = true
		case word == "unique":
			r.unique = true
		case key == "min":
			r.min = number(value)
		case key == "max":
			r.max = number(value)
		case key == "oneof":
			r.oneOf = strings.Split(value, ",")
		case key == "form" && forms[value] != nil:
			r.form = forms[value]
		default:
			panic(fmt.Sprintf("invalid rule %q: unknown word %q", tag, word))
		}
	}
	return r
}
