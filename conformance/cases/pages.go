package cases

import (
	"fmt"
	"net/url"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// pageCases judge lists with pages. The description has none, so a deployment without pages
// is skipped.
var pageCases = section(suite.Case{Level: suite.Should, Source: "API changes of November 2026, 1.1", Needs: suite.V2}, []suite.Case{
	{ID: "VER-77", Statement: "A page of a list has at most limit objects, and no object is on two pages. nextCursor leads to the next page and is null on the last one.",
		Allow: suite.Create, Requests: 30, Run: func(c *suite.C) {
			for range 3 {
				c.NewTemplate("v2")
			}
			firstPage(c, "/templates")
			seen, query := map[string]bool{}, "limit=2"
			for page := 1; query != "" && page <= 20; page++ { // an account may have thousands
				a := c.V2("GET", "/templates?"+query, nil).Is(200)
				c.Expect(len(a.Array("templates")) <= 2, "at most 2 templates with limit=2", "%d templates", len(a.Array("templates")))
				for i := range a.Array("templates") {
					id := a.Str(fmt.Sprintf("templates.%d.id", i))
					c.Expect(!seen[id], "each template once", "%s on two pages", id)
					seen[id] = true
				}
				query = pageAfter(c, a, "limit=2")
			}
			c.Expect(len(seen) >= 3, "the 3 templates of this case among all pages", "%d templates", len(seen))
		}},
	{ID: "VER-78", Statement: "A limit outside 1 to 1000, and a cursor that no page of the list returned, return 422.", Requests: 24, Run: func(c *suite.C) {
		for _, path := range []string{"/templates", "/serverless", "/pods"} {
			firstPage(c, path)
			for _, query := range []string{"limit=0", "limit=1001", "limit=x", "cursor=" + c.Nonce()} {
				c.V2("GET", path+"?"+query, nil).Is(422)
			}
		}
	}},
})

// firstPage reads a list, and skips the case if the list has no pages.
func firstPage(c *suite.C, path string) {
	if _, paged := c.V2("GET", path, nil).Is(200).Find("pagination"); !paged {
		c.Skip("the list %s has no pages", path)
	}
}

// pageAfter returns the query of the next page, or "" if there is none.
func pageAfter(c *suite.C, a *suite.Answer, parameters string) string {
	more, cursor := a.Bool("pagination.hasNextPage"), a.Value("pagination.nextCursor")
	text, isText := cursor.(string)
	c.Expect(more == (isText && text != "") && (more || cursor == nil), "a cursor exactly if there is a next page", "hasNextPage %t and nextCursor %v", more, cursor)
	if !more {
		return ""
	}
	return fmt.Sprintf("%s&cursor=%s", parameters, url.QueryEscape(text))
}
