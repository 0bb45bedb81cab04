package mgmt

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// handler serves an operation and returns the answer's body, which the OpenAPI documents describe.
type handler struct {
	serve func(c *call) (body any, err error)
	description
}

// plainHandler serves an operation that reads neither a query nor a body.
func plainHandler[W any](serve func(*call) (W, error)) handler {
	return handler{func(c *call) (any, error) { return serve(c) }, description{answer: reflect.TypeFor[W]()}}
}

// queryHandler serves an operation with the parameters that read reads and declares.
func queryHandler[Q, W any](read func(*query) Q, serve func(*call, Q) (W, error)) handler {
	h := plainHandler(func(c *call) (answer W, err error) {
		q := newQuery(c)
		parameters := read(q)
		if err := q.err(); err != nil {
			return answer, err
		}
		return serve(c, parameters)
	})
	h.readQuery = func(q *query) { read(q) }
	return h
}

// bodyHandler reads a body, creates or changes a record and shows it.
func bodyHandler[B, R, W any](u contract.Use, write func(*call, B) (R, error), show func(*call, R) W) handler {
	h := plainHandler(func(c *call) (answer W, err error) {
		body, err := decode[B](c, u)
		if err != nil {
			return answer, err
		}
		r, err := write(c, body)
		if err != nil {
			return answer, err
		}
		return show(c, r), nil
	})
	h.body, h.use = reflect.TypeFor[B](), u
	return h
}

// ignoreCall adapts a conversion that needs only the record.
func ignoreCall[R, W any](convert func(R) W) func(*call, R) W {
	return func(_ *call, r R) W { return convert(r) }
}

// listHandler shows all records of a kind.
func listHandler[R, W any, P store.Record[R]](convert func(R) W) handler {
	return plainHandler(func(c *call) ([]W, error) {
		records, err := store.List[R, P](c.ctx(), c.Store)
		return convertAll(records, convert), err
	})
}

// memberHandler shows the list of another handler as the only member of an object.
func memberHandler(name string, list handler) handler {
	serve := list.serve
	list.member = name
	list.serve = func(c *call) (any, error) {
		items, err := serve(c)
		return map[string]any{name: items}, err
	}
	return list
}

// pageHandler shows a page of a list as a member of an object, and how to get the next page. list also
// returns the position of the page's last item, or 0 if this is the last page.
func pageHandler[Q interface{ pagination(int64) paginationV2 }, W any](name string, read func(*query) Q, list func(*call, Q) ([]W, int64, error)) handler {
	h := queryHandler(read, func(c *call, q Q) (map[string]any, error) {
		items, next, err := list(c, q)
		return map[string]any{name: items, "pagination": q.pagination(next)}, err
	})
	h.answer, h.member, h.paged = reflect.TypeFor[[]W](), name, true
	return h
}

// readRecords returns a function that reads a page of the records of a kind.
func readRecords[R, W any, P store.Record[R]](show func(*call, R) W) func(*call, pageQuery) ([]W, int64, error) {
	return func(c *call, p pageQuery) ([]W, int64, error) {
		records, next, err := store.ReadPage[R, P](c.ctx(), c.Store, p.Page)
		return convertAll(records, func(r R) W { return show(c, r) }), next, err
	}
}

func readHandler[R, W any, P store.Record[R]](show func(*call, R) W) handler {
	return plainHandler(func(c *call) (W, error) {
		r, err := store.Get[R, P](c.ctx(), c.Store, c.id)
		return show(c, r), err
	})
}

// deleteHandler removes the record that the path names.
func deleteHandler[R any, P store.Record[R]]() handler {
	return handler{serve: func(c *call) (any, error) { return nil, store.Delete[R, P](c.ctx(), c.Store, c.id) }}
}

// description describes the request and the answer of a handler.
type description struct {
	body     reflect.Type // nil if the request has none
	use      contract.Use // what the body is for: a create or an update
	answer   reflect.Type // nil if the answer has no body
	resource string       // the contract's resource whose rows describe the answer; "" if the type answer describes it
	member   string       // name of the member that wraps the answer; "" if it isn't wrapped
	paged    bool         // the answer also has the member pagination
	media    string       // content type of an answer that is a file or a stream; "" for JSON of the type answer
	empty    bool         // the answer may also be 204
	conflict bool         // may be rejected with 409
	public   bool         // needs no API key
	maxBody  int64        // limit in bytes, checked before authentication; 0 for none
	// readQuery reads the parameters; nil if there are none.
	readQuery func(*query)
}

// withMedia describes a handler whose answer is a file or a stream.
func withMedia(media string, h handler) handler { h.media = media; return h }

// fromContract describes a handler whose answer, or each element of it, has the rows of a resource.
func fromContract(resource string, h handler) handler { h.resource = resource; return h }

// withEmptyAnswer describes a handler whose answer is a W, or noContent for 204.
func withEmptyAnswer[W any](h handler) handler {
	h.empty, h.answer = true, reflect.TypeFor[W]()
	return h
}

// withConflict describes a handler that may answer 409.
func withConflict(h handler) handler { h.conflict = true; return h }

// withMaxBody rejects larger bodies before authentication.
func withMaxBody(bytes int64, h handler) handler { h.maxBody = bytes; return h }

// withoutKey declares that a handler needs no API key.
func withoutKey(h handler) handler { h.public = true; return h }

// declare records a parameter while description.parameters runs readQuery.
func (c *call) declare(p openapi.Parameter) {
	if c.declared != nil {
		*c.declared = append(*c.declared, p)
	}
}

// parameters returns the parameters of a path, followed by the parameters that readQuery declares.
func (d description) parameters(version int, path string) (out []openapi.Parameter) {
	for segment := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			out = append(out, openapi.Parameter{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true, Schema: &openapi.Schema{Type: "string"}})
		}
	}
	if d.readQuery != nil {
		s := &server{Config: Config{Clock: new(clock.Clock)}}
		d.readQuery(newQuery(&call{server: s, http: &http.Request{URL: new(url.URL)}, version: version, declared: &out}))
	}
	return out
}
