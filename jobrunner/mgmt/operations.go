package mgmt

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// handler serves an operation. What it returns is the body of the answer.
type handler func(s *server, c *call) (body any, err error)

// lists shows all records of a kind, in version 2 as a member of an object.
func lists[R, W any](read func(*store.Store, context.Context) ([]R, error), show func(R) W, member string) handler {
	return func(s *server, c *call) (any, error) {
		all, err := read(s.store, c.ctx())
		if member == "" {
			return each(all, show), err
		}
		return map[string][]W{member: each(all, show)}, err
	}
}

// reads shows the record that the path names.
func reads[R, W any](read func(*store.Store, context.Context, string) (R, error), show func(R) W) handler {
	return func(s *server, c *call) (any, error) {
		r, err := read(s.store, c.ctx(), c.id)
		return show(r), err
	}
}

// writes reads a body, has a record made or changed by it, and shows that.
func writes[B, R, W any](p phase, write func(s *server, c *call, body B) (R, error), show func(R) W) handler {
	return func(s *server, c *call) (any, error) {
		body, err := decode[B](c, p)
		if err != nil {
			return nil, err
		}
		r, err := write(s, c, body)
		return show(r), err
	}
}

// deletes removes the record that the path names.
func deletes(remove func(*store.Store, context.Context, string) error) handler {
	return func(s *server, c *call) (any, error) { return nil, remove(s.store, c.ctx(), c.id) }
}
