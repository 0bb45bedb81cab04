// Package httproute finds the operation of an API for a request.
//
// Patterns have the syntax of http.ServeMux. The package does not use ServeMux,
// because three of its properties break answers of the APIs:
//   - It redirects a path with // or .. in it. OpenAI clients whose base URL ends
//     with a slash ask for …/openai/v1//models, and an id may be "..".
//   - It serves HEAD wherever it serves GET, which the job API does not.
//   - It writes its own 404 and 405, in a form that no API uses.
//
// A workaround would need more code than the table here, which finds an operation
// without allocating.
package httproute

import (
	"net/http"
	"slices"
	"strings"
)

// Table holds the operations of an API by method and path.
type Table[T any] struct {
	// HeadAsGet makes HEAD find the operation of GET.
	HeadAsGet bool

	root node[T]
}

type node[T any] struct {
	segments  map[string]*node[T]
	value     *node[T] // for any non-empty segment: {name}
	remainder *node[T] // for any non-empty remainder: {name...}
	methods   []route[T]
	allow     []string // sorted
}

type route[T any] struct {
	method    string
	pattern   string
	operation T
}

type Match[T any] struct {
	Operation T
	Pattern   string    // label for metrics; "" if no operation was found
	Values    [3]string // values of the pattern's names, in order
	Allow     []string  // methods that the path allows; empty for an unknown path
}

// Add adds an operation. A segment {name} matches any segment that isn't empty, and {name...} any rest
// of the path that isn't empty.
func (t *Table[T]) Add(method, path string, operation T) {
	n := &t.root
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		n = n.child(segment)
	}
	n.methods = append(n.methods, route[T]{method, method + " " + path, operation})
	n.allow = append(n.allow, method)
	if t.HeadAsGet && method == http.MethodGet {
		n.allow = append(n.allow, http.MethodHead)
	}
	slices.Sort(n.allow)
}

func (n *node[T]) child(segment string) *node[T] {
	var target **node[T]
	switch {
	case strings.HasSuffix(segment, "...}"):
		target = &n.remainder
	case strings.HasPrefix(segment, "{"):
		target = &n.value
	default:
		if n.segments == nil {
			n.segments = map[string]*node[T]{}
		}
		if n.segments[segment] == nil {
			n.segments[segment] = new(node[T])
		}
		return n.segments[segment]
	}
	if *target == nil {
		*target = new(node[T])
	}
	return *target
}

// Find looks up an operation. Values are parts of the path as given: Find decodes nothing.
func (t *Table[T]) Find(method, path string) (m Match[T]) {
	n, values := &t.root, 0
	for path, hasMore := strings.CutPrefix(path, "/"); hasMore; {
		var segment string
		remaining := path
		segment, path, hasMore = strings.Cut(path, "/")
		switch next := n.segments[segment]; {
		case next != nil:
			n = next
		case n.value != nil && segment != "":
			n, m.Values[values] = n.value, segment
			values++
		case n.remainder != nil && remaining != "":
			n, m.Values[values], hasMore = n.remainder, remaining, false
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
			m.Operation, m.Pattern = r.operation, r.pattern
		}
	}
	return m
}
