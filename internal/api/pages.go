package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// pagination describes a page of a list on API v2. A list without it has one page.
type pagination struct {
	NextCursor  string
	HasNextPage bool
}

// maxEmptyPages limits consecutive pages without objects. A server may filter a page after
// cutting it.
const maxEmptyPages = 1000

// allPages reads a list page by page. If the server rejects a cursor, it starts again once.
func allPages[W any](ctx context.Context, d *deployment, c httpclient.Call, member string, rest any) ([]W, error) {
	all, err := walkPages[W](ctx, d, c, member, rest)
	if _, refused := errors.AsType[cursorRefused](err); !refused {
		return all, err
	}
	all, err = walkPages[W](ctx, d, c, member, rest)
	if _, refused := errors.AsType[cursorRefused](err); refused {
		err = fmt.Errorf("a later page of the list was refused twice, although the list was begun again: %w", err)
	}
	return all, err
}

func walkPages[W any](ctx context.Context, d *deployment, c httpclient.Call, member string, rest any) (all []W, err error) {
	var from *httpclient.Response
	c.Method, c.Succeeded = http.MethodGet, func(r *httpclient.Response) { from = r }
	seen, empty := map[string]bool{}, 0
	for {
		page := listOf[W]{member: member, rest: rest}
		if err := d.Do(ctx, c, &page); err != nil {
			if len(seen) > 0 && statusOf(err) == http.StatusUnprocessableEntity {
				err = cursorRefused{err}
			}
			return nil, err
		}
		page.place(from)
		all = append(all, page.objects...)
		if empty++; len(page.objects) > 0 {
			empty = 0
		}
		cursor := page.NextCursor
		switch {
		case !page.HasNextPage:
			return all, nil
		case cursor == "":
			return nil, from.Unreadable(errors.New("$.pagination.nextCursor is missing, although hasNextPage is true"))
		case seen[cursor]:
			return nil, from.Unreadable(errors.New("$.pagination.nextCursor is that of an earlier page, so the list has no end"))
		case empty > maxEmptyPages:
			return nil, from.Unreadable(fmt.Errorf("more than %d pages in a row are empty", maxEmptyPages))
		}
		seen[cursor] = true
		c.Query = maps.Clone(c.Query)
		if c.Query == nil {
			c.Query = url.Values{}
		}
		c.Query.Set("cursor", cursor)
	}
}

// cursorRefused is the error of a page whose cursor the server rejects.
type cursorRefused struct{ error }

func (e cursorRefused) Unwrap() error { return e.error }

// elements reads a list of objects. If an object moved to a later page during the read, it is
// returned once.
func (d *deployment) elements(ctx context.Context, c httpclient.Call, member string) ([]element, error) {
	c.List = true
	all, err := allPages[element](ctx, d, c, member, nil)
	if len(all) == 0 || all[0].from == all[len(all)-1].from {
		return all, err // one page
	}
	seen := make(map[string]bool, len(all))
	out := all[:0]
	for _, e := range all {
		if !seen[e.id] {
			out = append(out, e)
		}
		seen[e.id] = true
	}
	return out, err
}
