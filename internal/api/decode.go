package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

func decodeAs[W, T any](neutral func(W) T) func(json.RawMessage) (T, error) {
	return func(raw json.RawMessage) (object T, err error) {
		var wire W
		if err := httpclient.Decode(raw, &wire); err != nil {
			return object, err
		}
		return neutral(wire), nil
	}
}

// decodePlain decodes an object whose neutral type is its wire type.
func decodePlain[T any](raw json.RawMessage) (object T, err error) {
	err = httpclient.Decode(raw, &object)
	return object, err
}

// listAnswer decodes a list: API v1's bare array, or a member of API v2's object. A missing or null
// list is an error, because an empty list would mean that every object is gone.
type listAnswer[W any] struct {
	member  string // "" for a bare array
	rest    any    // receives the other members of the answer; may be nil
	objects []W
	pagination
}

func (l *listAnswer[W]) UnmarshalJSON(data []byte) error {
	list, path := json.RawMessage(data), ""
	if l.member != "" {
		var answer map[string]json.RawMessage
		if err := httpclient.Decode(data, &answer); err != nil {
			return err
		}
		var ok bool
		if list, ok = answer[l.member]; !ok {
			return fmt.Errorf("it has no member %q", l.member)
		}
		path = "." + l.member
		if raw, ok := answer["pagination"]; ok {
			if err := httpclient.Decode(raw, &l.pagination); err != nil {
				return httpclient.PrefixPath(".pagination", err)
			}
		}
	}
	if string(list) == "null" {
		return &httpclient.ShapeError{Path: path, Text: "is null, not an array"}
	}
	if err := httpclient.Decode(list, &l.objects); err != nil {
		return httpclient.PrefixPath(path, inElement[W](list, err))
	}
	if l.rest == nil {
		return nil
	}
	return httpclient.Decode(data, l.rest)
}

// recordSource records which answer the elements came from.
func (l *listAnswer[W]) recordSource(response *httpclient.Response) {
	elements, ok := any(l.objects).([]element)
	if !ok {
		return
	}
	response.Body = nil // the elements contain its parts
	path := ""
	if l.member != "" {
		path = "." + l.member
	}
	for i := range elements {
		elements[i].response, elements[i].path, elements[i].index = response, path, i
	}
}

// inElement adds the index of the failing element to an error.
func inElement[W any](list json.RawMessage, err error) error {
	var elements []json.RawMessage
	if json.Unmarshal(list, &elements) != nil {
		return err
	}
	for i, raw := range elements {
		if err := httpclient.Decode(raw, new(W)); err != nil {
			return httpclient.PrefixPath(indexPath(i), err)
		}
	}
	return err
}

func indexPath(i int) string { return "[" + strconv.Itoa(i) + "]" }

// element is an undecoded object, either alone or from a list.
type element struct {
	id, name   string
	terminated bool // a pod that is deleted
	raw        json.RawMessage

	response *httpclient.Response // of a list; nil for an element that was read by id
	path     string               // of the list within the response
	index    int
}

func (e *element) UnmarshalJSON(data []byte) error {
	var head struct {
		ID                          string
		Name, Status, DesiredStatus httpclient.FreeText
	}
	if err := httpclient.Decode(data, &head); err != nil {
		return err
	}
	if head.ID == "" {
		return &httpclient.ShapeError{Text: "has no id"}
	}
	e.id, e.name, e.raw = head.ID, string(head.Name), slices.Clone(data)
	e.terminated = head.Status == PodTerminated || head.DesiredStatus == PodTerminated
	return nil
}

// decodeElement decodes an element of a list. Its error names the list's request.
func decodeElement[T any](e element, decode func(json.RawMessage) (T, error)) (T, error) {
	object, err := decode(e.raw)
	if err != nil && e.response != nil {
		err = e.response.UnreadableError(httpclient.PrefixPath(e.path+indexPath(e.index), err))
	}
	return object, err
}

func decodeElements[T any](elements []element, decode func(json.RawMessage) (T, error)) (out []T, err error) {
	out = make([]T, len(elements))
	for i, e := range elements {
		if out[i], err = decodeElement(e, decode); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// objectAnswer decodes the answer about one object. It rejects answers without an id or about
// another object.
type objectAnswer[T any] struct {
	kind   string
	want   string // id in the request; "" for a new object
	decode func(json.RawMessage) (T, error)
	object T
	element
}

func (a *objectAnswer[T]) UnmarshalJSON(data []byte) (err error) {
	if err := a.element.UnmarshalJSON(data); err != nil {
		return err
	}
	switch {
	case a.want == "" && !ValidID(a.id):
		return fmt.Errorf("its id can't be used: %s", quoteID(a.id))
	case a.want != "" && a.id != a.want:
		return otherObject(a.kind, a.id, a.want)
	}
	a.object, err = a.decode(data)
	return err
}

func otherObject(kind, got, want string) error {
	return fmt.Errorf("it is about the %s %s, not %s", kind, quoteID(got), want)
}

// quoteID quotes a text that may be an invalid or very long id.
func quoteID(id string) string {
	const longest = 64
	if len(id) > longest {
		return fmt.Sprintf("%.*q and %d more characters", longest, id, len(id)-longest)
	}
	return strconv.Quote(id)
}

// pagination describes a page of a list on API v2. A list without it has one page.
type pagination struct {
	NextCursor  string
	HasNextPage bool
}

// maxEmptyPages limits consecutive pages without objects. A server may filter a page after
// cutting it.
const maxEmptyPages = 1000

// allPages reads a list page by page. If the server rejects a cursor, it restarts the list once.
func allPages[W any](ctx context.Context, d *deployment, c httpclient.Call, member string, rest any) ([]W, error) {
	all, err := walkPages[W](ctx, d, c, member, rest)
	if _, rejected := errors.AsType[cursorRejected](err); !rejected {
		return all, err
	}
	all, err = walkPages[W](ctx, d, c, member, rest)
	if _, rejected := errors.AsType[cursorRejected](err); rejected {
		err = fmt.Errorf("a later page of the list was rejected twice, although the list was restarted: %w", err)
	}
	return all, err
}

func walkPages[W any](ctx context.Context, d *deployment, c httpclient.Call, member string, rest any) (all []W, err error) {
	c.Method = http.MethodGet
	seen, emptyPages := map[string]bool{}, 0
	for {
		page := listAnswer[W]{member: member, rest: rest}
		response, err := d.Do(ctx, c, &page)
		if err != nil {
			if len(seen) > 0 && statusOf(err) == http.StatusUnprocessableEntity {
				err = cursorRejected{err}
			}
			return nil, err
		}
		page.recordSource(response)
		all = append(all, page.objects...)
		if emptyPages++; len(page.objects) > 0 {
			emptyPages = 0
		}
		cursor := page.NextCursor
		switch {
		case !page.HasNextPage:
			return all, nil
		case cursor == "":
			return nil, response.UnreadableError(errors.New("$.pagination.nextCursor is missing, although hasNextPage is true"))
		case seen[cursor]:
			return nil, response.UnreadableError(errors.New("$.pagination.nextCursor repeats the cursor of an earlier page, so the list would never end"))
		case emptyPages > maxEmptyPages:
			return nil, response.UnreadableError(fmt.Errorf("more than %d pages in a row are empty", maxEmptyPages))
		}
		seen[cursor] = true
		c.Query = maps.Clone(c.Query)
		if c.Query == nil {
			c.Query = url.Values{}
		}
		c.Query.Set("cursor", cursor)
	}
}

// cursorRejected is the error of a page whose cursor the server rejects.
type cursorRejected struct{ error }

func (e cursorRejected) Unwrap() error { return e.error }

// elements reads a list of objects. If an object moved to a later page during the read, it is
// returned once.
func (d *deployment) elements(ctx context.Context, c httpclient.Call, member string) ([]element, error) {
	c.List = true
	all, err := allPages[element](ctx, d, c, member, nil)
	if len(all) == 0 || all[0].response == all[len(all)-1].response {
		return all, err // one page
	}
	seen := make(map[string]bool, len(all))
	return slices.DeleteFunc(all, func(e element) bool {
		repeated := seen[e.id]
		seen[e.id] = true
		return repeated
	}), err
}
