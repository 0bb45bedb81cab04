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
	serve func(s *server, c *call) (body any, err error)
	description
}

// listHandler shows all records of a kind, in version 2 as a member of an object.
func listHandler[R, W any](read func(*store.Store, context.Context) ([]R, error), convert func(R) W, member string) handler {
	return handler{func(s *server, c *call) (any, error) {
		all, err := read(s.store, c.ctx())
		if member == "" {
			return convertAll(all, convert), err
		}
		return map[string][]W{member: convertAll(all, convert)}, err
	}, description{answer: reflect.TypeFor[[]W](), member: member}}
}

// readHandler shows the record that the path names.
func readHandler[R, W any](read func(*store.Store, context.Context, string) (R, error), convert func(R) W) handler {
	return handler{func(s *server, c *call) (any, error) {
		r, err := read(s.store, c.ctx(), c.id)
		return convert(r), err
	}, description{answer: reflect.TypeFor[W]()}}
}

// writeHandler reads a body, creates or changes a record and shows it.
func writeHandler[B, R, W any](u contract.Use, write func(s *server, c *call, body B) (R, error), convert func(R) W) handler {
	return withBody[B](u, handler{func(s *server, c *call) (any, error) {
		body, err := decode[B](c, u)
		if err != nil {
			return nil, err
		}
		r, err := write(s, c, body)
		return convert(r), err
	}, description{answer: reflect.TypeFor[W]()}})
}

// deleteHandler removes the record that the path names.
func deleteHandler(remove func(*store.Store, context.Context, string) error) handler {
	return handler{serve: func(s *server, c *call) (any, error) { return nil, remove(s.store, c.ctx(), c.id) }}
}
