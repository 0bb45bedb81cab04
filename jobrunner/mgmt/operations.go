package mgmt

import (
	"context"
	"reflect"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// handler serves an operation and returns the body of the answer. Its description is used for the
// OpenAPI documents.
type handler struct {
	serve func(c *call) (body any, err error)
	description
}

// plainHandler serves an operation that reads neither parameters nor a body.
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

// alike converts a record that is shown alike in every call.
func alike[R, W any](convert func(R) W) func(*call, R) W {
	return func(_ *call, r R) W { return convert(r) }
}

// writeHandler is bodyHandler for records that are shown alike in every call.
func writeHandler[B, R, W any](u contract.Use, write func(*call, B) (R, error), convert func(R) W) handler {
	return bodyHandler(u, write, alike(convert))
}

// listHandler shows all records of a kind.
func listHandler[R, W any, P store.Record[R]](convert func(R) W) handler {
	return plainHandler(func(c *call) ([]W, error) {
		all, err := store.List[R, P](c.ctx(), c.store)
		return convertAll(all, convert), err
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

// recordPage reads a page of the records of a kind.
func recordPage[R, W any, P store.Record[R]](show func(*call, R) W) func(*call, pageQuery) ([]W, int64, error) {
	return func(c *call, p pageQuery) ([]W, int64, error) {
		part, next, err := store.ReadPage[R, P](c.ctx(), c.store, p.Page)
		return convertAll(part, func(r R) W { return show(c, r) }), next, err
	}
}

// readHandler shows the record that the path names.
func readHandler[R, W any, P store.Record[R]](show func(*call, R) W) handler {
	return plainHandler(func(c *call) (W, error) {
		r, err := store.Get[R, P](c.ctx(), c.store, c.id)
		return show(c, r), err
	})
}

// deleteHandler removes the record that the path names.
func deleteHandler(remove func(*store.Store, context.Context, string) error) handler {
	return handler{serve: func(c *call) (any, error) { return nil, remove(c.store, c.ctx(), c.id) }}
}
