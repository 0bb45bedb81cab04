package mgmt

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// paginationV2 describes how to get the next page of a list.
type paginationV2 struct {
	NextCursor  *string `json:"nextCursor"` // null on the last page
	HasNextPage bool    `json:"hasNextPage"`
}

// maxPage is the maximum and default number of objects of a page.
const maxPage = 1000

// pageQuery is the page that a call requests.
type pageQuery struct {
	store.Page
	list string // operation and parameters; a cursor is valid only for the same list
}

func readPageQuery(q *query) pageQuery { return q.page("", maxPage) }

// page reads the parameters of a page. most is both the maximum and the default number of objects.
// parameters are the list's other parameters, for the name of the list.
func (q *query) page(parameters string, most int64) pageQuery {
	p := pageQuery{store.Page{Before: math.MaxInt64}, q.http.URL.Path + "?" + parameters}
	limit := &openapi.Schema{Type: "integer", Format: "int64", Minimum: new(1.0), Maximum: new(float64(most))}
	p.Limit = int(q.integerOf("limit", most, fmt.Sprintf("an integer from 1 to %d", most), limit, func(n int64) bool { return n >= 1 && n <= most }))
	q.declare(openapi.Parameter{
		Name: "cursor", In: "query", Description: "pagination.nextCursor of the previous page. It is valid only for the same list.",
		Schema: &openapi.Schema{Type: "string", MinLength: new(int64(1))},
	})
	if q.values.Has("cursor") {
		cursor := q.values.Get("cursor")
		var valid bool
		if p.Before, valid = p.decodeCursor(cursor); !valid {
			q.addFault("cursor", cursor, "nextCursor of a page of this list")
		}
	}
	return p
}

// pagination describes the next page. next is the position of this page's last record, or 0 if this is
// the last page.
func (p pageQuery) pagination(next int64) paginationV2 {
	if next == 0 {
		return paginationV2{}
	}
	return paginationV2{new(p.encodeCursor(next)), true}
}

// encodeCursor encodes a position, with a checksum that binds it to the list.
func (p pageQuery) encodeCursor(position int64) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(position)) //nolint:gosec // positions are positive
	sum := sha256.Sum256(append([]byte(p.list), text...))
	return base64.RawURLEncoding.EncodeToString(append(text, sum[:8]...))
}

func (p pageQuery) decodeCursor(cursor string) (position int64, valid bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(text) != 16 {
		return 0, false
	}
	position = int64(binary.BigEndian.Uint64(text)) //nolint:gosec // as encoded by encodeCursor
	return position, position > 0 && p.encodeCursor(position) == cursor
}
