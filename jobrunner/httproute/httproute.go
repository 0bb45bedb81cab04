// Package httproute finds which operation of an API a request asks for.
//
// Patterns read as those of http.ServeMux, which this is not, because three of
// its habits break answers that the APIs give:
//   - It redirects a path with // or .. in it. OpenAI clients whose base URL ends
//     with a slash ask for …/openai/v1//models, and an id may be "..".
//   - It serves HEAD wherever it serves GET, which the job API does not.
//   - It writes its own 404 and 405, in a form that no API uses.
//
// To mend these around a ServeMux takes more code than the table here, which
// finds an operation without allocating.
package httproute

import (
	"net/http"
	"slices"
	"strings"
)

// Table has the operations of an API by method and path.
type Table[T any] struct {
	// HeadAsGet has HEAD find what GET finds.
	HeadAsGet bool

	root node[T]
}

// node is a place in the tree of paths.
type node[T any] struct {
	segments map[string]*node[T]
	value    *node[T] // any segment but the empty one: {name}
	rest     *node[T] // all that follows, if it is something: {name...}
	methods  []route[T]
	allow    []string // sorted
}

type route[T any] struct {
	method  string
	pattern string
	does    T
}

// Match is what was found for a request.
type Match[T any] struct {
	Does    T
	Pattern string    // for those who count requests; "": nothing was found
	Values  [3]string // of the pattern's names, in their order
	Allow   []string  // the methods that the path takes; none: there is no such path
}

// Add adds an operation. A segment of the path in braces stands for any, and
// with dots behind its name for all that follow.
func (t *Table[T]) Add(method, path string, does T) {
	n := &t.root
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		n = n.child(segment)
	}
	n.methods = append(n.methods, route[T]{method, method + " " + path, does})
	n.allow = append(n.allow, method)
	if t.HeadAsGet && method == http.MethodGet {
		n.allow = append(n.allow, http.MethodHead)
	}
	slices.Sort(n.allow)
}

func (n *node[T]) child(segment string) *node[T] {
	var to **node[T]
	switch {
	case strings.HasSuffix(segment, "...}"):
		to = &n.rest
	case strings.HasPrefix(segment, "{"):
		to = &n.value
	default:
		if n.segments == nil {
			n.segments = map[string]*node[T]{}
		}
		if n.segments[segment] == nil {
			n.segments[segment] = new(node[T])
		}
		return n.segments[segment]
	}
	if *to == nil {
		*to = new(node[T])
	}
	return *to
}

// Find looks an operation up. Values are parts of the path as it is given.
func (t *Table[T]) Find(method, path string) (m Match[T]) {
	n, values := &t.root, 0
	for path, more := strings.CutPrefix(path, "/"); more; {
		var segment string
		whole := path
		segment, path, more = strings.Cut(path, "/")
		switch next := n.segments[segment]; {
		case next != nil:
			n = next
		case n.value != nil && segment != "":
			n, m.Values[values] = n.value, segment
			values++
		case n.rest != nil && whole != "":
			n, m.Values[values], more = n.rest, whole, false
		default:
			return Match[T]{}
		}
	}
	m.Allow = n.allow
	if t.HeadAsGet && method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range n.methods {
		if r := &n.methods[i]; r.method == method {
			m.Does, m.Pattern = r.does, r.pattern
		}
	}
	return m
}
