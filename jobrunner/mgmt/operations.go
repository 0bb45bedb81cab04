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

// writeHandler is bodyHandler for records that are shown alike in every call.
func writeHandler[B, R, W any](u contract.Use, write func(*call, B) (R, error), convert func(R) W) handler {
	return bodyHandler(u, write, func(_ *call, r R) W { return convert(r) })
}

// listHandler shows all records of a kind, in version 2 as a member of an object.
func listHandler[R, W any, P store.Record[R]](convert func(R) W, member string) handler {
	return handler{func(c *call) (any, error) {
		all, err := store.List[R, P](c.ctx(), c.store)
		if member == "" {
			return convertAll(all, convert), err
		}
		return map[string][]W{member: convertAll(all, convert)}, err
	}, description{answer: reflect.TypeFor[[]W](), member: member}}
}

// readHandler shows the record that the path names.
func readHandler[R, W any, P store.Record[R]](convert func(R) W) handler {
	return plainHandler(func(c *call) (W, error) {
		r, err := store.Get[R, P](c.ctx(), c.store, c.id)
		return convert(r), err
	})
}

// deleteHandler removes the record that the path names.
func deleteHandler(remove func(*store.Store, context.Context, string) error) handler {
	return handler{serve: func(c *call) (any, error) { return nil, remove(c.store, c.ctx(), c.id) }}
}
