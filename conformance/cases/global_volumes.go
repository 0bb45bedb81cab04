package cases

import (
	"fmt"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

const (
	globalVolumeSource = "API changes of November 2026, 2.3"
	globalVolumePath   = "/global-volumes"
)

var globalVolumeOperations = []string{
	"GET /v2/global-volumes", "POST /v2/global-volumes", "GET /v2/global-volumes/{id}", "PATCH /v2/global-volumes/{id}", "DELETE /v2/global-volumes/{id}",
}

// globalVolumeCases observe global volumes. They don't judge, since the paths and statuses
// are inferred from the operator's pages.
var globalVolumeCases = section(suite.Case{Level: suite.Unspec, Source: globalVolumeSource, Needs: suite.V2, Allow: suite.Create, Operations: globalVolumeOperations}, []suite.Case{
	{ID: "GLO-01", Statement: "What the create, read, list and deletion of a global volume return.", Run: func(c *suite.C) {
		a, other := newGlobalVolume(c, c.Name()), newGlobalVolume(c, c.Name())
		at := globalVolumePath + "/" + suite.PathSegment(a.Str("id"))
		c.Observe("created: %d with %s", a.Code, a.Shape())
		c.Observe("read: %d, listed: %s", c.V2("GET", at, nil).Code, c.V2("GET", globalVolumePath, nil).Shape())
		c.Observe("deleted: %d, and again: %d, then read: %d", c.V2("DELETE", at, nil).Code, c.V2("DELETE", at, nil).Code, c.V2("GET", at, nil).Code)
		c.Should(func() {
			expectRFC3339(c, a.Is(201), "createdAt")
			c.V2("GET", at, nil).Is(404)
			c.V2("GET", globalVolumePath+"/"+suite.PathSegment(other.Str("id")), nil).Is(200).Equal("name", other.Str("name"))
		})
	}},
	{ID: "GLO-02", Statement: "Whether a global volume's name has 1 to 191 characters, at least one of them not white space, is trimmed, needn't be unique and can be updated, and whether an empty update is rejected.", Run: func(c *suite.C) {
		name := c.Name()
		a := newGlobalVolume(c, " "+name+" ")
		at := globalVolumePath + "/" + suite.PathSegment(a.Str("id"))
		duplicate := c.Create("v2", globalVolumePath, suite.M{"name": name})
		renamed := c.V2("PATCH", at, suite.M{"name": name + "x"})
		c.Observe("trimmed: %t, the same name again: %d, renamed: %d, an empty update: %d", a.Value("name") == name, duplicate.Code, renamed.Code, c.V2("PATCH", at, suite.M{}).Code)
		c.Should(func() {
			a.Equal("name", name)
			duplicate.Is(201)
			renamed.Is(200).Equal("name", name+"x")
			c.V2("PATCH", at, suite.M{}).Is(400, 422)
			for _, wrong := range []any{"", " \t", strings.Repeat("a", 192), nil} {
				c.Create("v2", globalVolumePath, suite.M{"name": wrong}).Is(400, 422)
			}
		})
	}},
	{ID: "GLO-03", Statement: "Whether the list of global volumes is paged.", Requests: 40, Run: func(c *suite.C) {
		for range 3 {
			newGlobalVolume(c, c.Name())
		}
		seen, query := map[string]bool{}, "limit=2"
		for page := 1; query != "" && page <= 20; page++ {
			a := c.V2("GET", globalVolumePath+"?"+query, nil).Is(200)
			if _, paged := a.Find("pagination"); !paged {
				c.Observe("one page without pagination")
				return
			}
			for i := range a.Array("globalVolumes") {
				seen[a.Str(fmt.Sprintf("globalVolumes.%d.id", i))] = true
			}
			query = pageAfter(c, a, "limit=2")
		}
		c.Observe("pages with at least 3 volumes: %t", len(seen) >= 3)
		c.Should(func() {
			c.Expect(len(seen) >= 3, "the 3 volumes of this case among all pages", "%d volumes", len(seen))
		})
	}},
})

// buildCases observe the builds of an endpoint's image.
var buildCases = []suite.Case{{
	ID: "BLD-01", Level: suite.Should, Source: "API changes of November 2026, 2.2",
	Statement: "GET /v2/serverless/{id}/builds returns an object with builds and pagination. A limit outside 1 to 100 returns 422, and an unknown build 404.",
	Needs:     suite.V2 | suite.AnyEndpoint, Operations: []string{"GET /v2/serverless/{id}/builds"}, Requests: 8, Run: func(c *suite.C) {
		path := "/serverless/" + c.Endpoint + "/builds"
		a := c.V2("GET", path, nil)
		if a.Code == 404 || a.Code == 501 {
			c.Skip("the deployment has no builds: %d", a.Code)
		}
		a.Is(200).Array("builds")
		pageAfter(c, a, "limit=1")
		for _, limit := range []string{"0", "101", "x"} {
			c.V2("GET", path+"?limit="+limit, nil).Is(422)
		}
		c.V2("GET", path+"/"+c.Nonce(), nil).Is(404)
	},
}}

// newGlobalVolume creates a global volume. It skips the case if that fails.
func newGlobalVolume(c *suite.C, name string) *suite.Answer {
	a := c.Create("v2", globalVolumePath, suite.M{"name": name})
	if a.Code/100 != 2 {
		c.Skip("no global volume can be created: %d", a.Code)
	}
	a.Str("id")
	return a
}
