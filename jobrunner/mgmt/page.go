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

// paginationV2 leads to the next page of a list.
type paginationV2 struct {
	NextCursor  *string `json:"nextCursor"` // null: this is the last page
	HasNextPage bool    `json:"hasNextPage"`
}

// maxPage is the most objects of a page, and how many it has by default.
const maxPage = 1000

// pageQuery is the page that a call asks for.
type pageQuery struct {
	store.Page
	list string // the operation with its parameters: a cursor is valid for one list
}

func readPageQuery(c *call) (pageQuery, error) {
	q := newQuery(c)
	p := q.page(c, "", maxPage)
	return p, q.err()
}

// page reads the parameters of a page of so many objects at most, which is also the
// default. The other parameters of the list are in its name.
func (q *query) page(c *call, parameters string, most int64) pageQuery {
	p := pageQuery{store.Page{Before: math.MaxInt64}, c.http.URL.Path + "?" + parameters}
	limit := &openapi.Schema{Type: "integer", Format: "int64", Minimum: new(1.0), Maximum: new(float64(most))}
	p.Limit = int(q.integerOf("limit", most, fmt.Sprintf("an integer from 1 to %d", most), limit, func(n int64) bool { return n >= 1 && n <= most }))
	q.declare(openapi.Parameter{
		Name: "cursor", In: "query", Description: "pagination.nextCursor of the page before. It is valid for the same list alone.",
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

// pagination leads to the page after next, the position of the last record of this one;
// 0 if this is the last page.
func (p pageQuery) pagination(next int64) paginationV2 {
	if next == 0 {
		return paginationV2{}
	}
	return paginationV2{new(p.encodeCursor(next)), true}
}

// encodeCursor makes a cursor of a position, with a checksum that binds it to the list.
func (p pageQuery) encodeCursor(position int64) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(position)) //nolint:gosec // positions are above 0
	sum := sha256.Sum256(append([]byte(p.list), text...))
	return base64.RawURLEncoding.EncodeToString(append(text, sum[:8]...))
}

func (p pageQuery) decodeCursor(cursor string) (position int64, valid bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(text) != 16 {
		return 0, false
	}
	position = int64(binary.BigEndian.Uint64(text)) //nolint:gosec // encodeCursor decides
	return position, position > 0 && p.encodeCursor(position) == cursor
}
