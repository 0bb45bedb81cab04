package cases

import (
	"mime"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Where things are, in each version.
var paths = []suite.Case{
	{ID: "VER-01", Needs: suite.V1, Run: func(c *suite.C) {
		c.V1("GET", "/containerregistryauth", nil).Is(200).Array("")
		nowhere(c)
	}},
	{ID: "VER-02", Needs: suite.V1, Run: func(c *suite.C) {
		a := c.V1("GET", "/containerregistryauth", nil)
		c.Observe("%d", a.Code)
		if !c.Local() && a.Code != 200 && !c.Now().Before(retirement) { // the operator's own deployment
			c.Skip("version 1 is retired, and answers %d", a.Code)
		}
		a.Is(200)
		c.Given("VER-01", func() { nowhere(c) })
	}},
	{ID: "VER-03", Needs: suite.Endpoint, Run: func(c *suite.C) { c.Get("/health").Is(200).Object("jobs") }},
	{ID: "VER-04", Needs: suite.V2, Serves: []string{"GET /v2/openapi.json"}, Run: func(c *suite.C) {
		a := openAPI(c)
		for _, path := range []string{"/pods", "/serverless", "/templates", "/network-volumes", "/registries", "/catalog/gpus"} {
			c.Expect(describes(a, path), "a description of /v2"+path, "an OpenAPI document without that path")
		}
	}},
	moved("VER-05", "pods", "pods", ""),
	moved("VER-06", "serverless", "endpoints", "endpoints"),
	moved("VER-07", "templates", "templates", ""),
	moved("VER-08", "network-volumes", "networkVolumes", "networkvolumes"),
	moved("VER-09", "registries", "registries", "containerregistryauth"),
	moved("VER-10", "clusters", "", ""),
	moved("VER-11", "billing/pods", "", ""),
	moved("VER-12", "billing/serverless", "", ""),
	moved("VER-13", "billing/network-volumes", "", "billing/networkvolumes"),
	{ID: "VER-14", Needs: suite.V2, Serves: []string{"GET /v2/billing/endpoints"}, Run: func(c *suite.C) {
		public, own := there(c, "/billing/endpoints"), there(c, "/billing/serverless")
		// How records are listed, nothing says; of none, two lists look alike.
		c.Expect(!strings.Contains(own.Shape(), "[{") || !suite.Same(public.JSON(), own.JSON()), "two resources", "the same records")
	}},
	{ID: "VER-15", Needs: suite.V2, Serves: []string{"GET /v2/openapi.json"}, Run: func(c *suite.C) {
		for path := range openAPI(c).Object("paths") {
			if _, rest, ok := strings.Cut(path, "{"); ok {
				name, _, _ := strings.Cut(rest, "}")
				c.Expect(name == "id", "{id}", "the path %s", path)
			}
		}
	}},
	{ID: "VER-50", Needs: suite.V2, Serves: []string{"GET /v2/clusters"}, Run: func(c *suite.C) { there(c, "/clusters") }},
	{ID: "VER-49", Needs: suite.V2, Serves: []string{"GET /v2/billing"}, Run: func(c *suite.C) { there(c, "/billing") }},
}

// retirement is that of version 1.
var retirement = time.Date(2026, time.November, 15, 0, 0, 0, 0, time.UTC)

// openAPI is the description of version 2.
func openAPI(c *suite.C) *suite.Answer {
	a := c.V2("GET", "/openapi.json", nil).Is(200)
	c.Expect(strings.HasPrefix(a.Str("openapi"), "3."), "OpenAPI 3", "openapi = %q", a.Str("openapi"))
	a.Object("paths")
	return a
}

func describes(a *suite.Answer, path string) bool {
	for p := range a.Object("paths") {
		if p == path || p == "/v2"+path {
			return true
		}
	}
	return false
}

// moved judges that a resource of version 2 is at its path, with its list under
// key where the description says so, and that the name of version 1, where it
// is another, is none of version 2.
func moved(clause, now, key, before string) suite.Case {
	return suite.Case{ID: clause, Needs: suite.V2, Serves: []string{"GET /v2/" + now}, Run: func(c *suite.C) {
		a := there(c, "/"+now)
		if key != "" {
			c.Given(listClause[key], func() { a.Array(key) })
		}
		if before != "" {
			old := c.V2("GET", "/"+before, nil)
			c.Expect(old.Code/100 != 2 || page(old), "nothing at /v2/"+before, "the status code %d", old.Code)
		}
	}}
}

// there expects an object at a path of version 2, and nothing beside it.
func there(c *suite.C, path string) *suite.Answer {
	a := answers(c, path)
	a.Object("")
	return a
}

// answers expects JSON at a path of version 2, of whatever shape, and nothing
// beside it.
func answers(c *suite.C, path string) *suite.Answer {
	a := c.V2("GET", path, nil).Is(200)
	a.JSON()
	beside := c.V2("GET", path+"-"+c.Nonce(), nil)
	c.Expect(beside.Code/100 != 2 || page(beside), "nothing at a path that does not exist", "the status code %d", beside.Code)
	return a
}

// unknown expects that version 2 knows a path, and nothing of the id in it: who
// answers a path that does not exist in the same words might know neither.
func unknown(c *suite.C, method, path, none string, body any) {
	id := c.Nonce()
	ask := func(path string) (*suite.Answer, string) {
		path = strings.ReplaceAll(path, "{id}", id)
		a := c.V2(method, path, body)
		said, _ := a.Find("detail")
		return a, strings.NewReplacer("/v2"+path, "", path, "", id, "").Replace(suite.Text(said))
	}
	a, said := ask(path)
	a.Is(404, 400, 422).Str("detail") // the id may have the wrong form
	if other, same := ask(none); other.Code == a.Code && same == said {
		c.Inconclusive("an unknown id and an unknown path are answered alike: 404 %s", said)
	}
}

// nowhere expects nothing at a path of version 1 that does not exist.
func nowhere(c *suite.C) {
	a := c.V1("GET", "/"+c.Nonce(), nil)
	c.Expect(a.Code/100 != 2 || page(a), "nothing at a path that does not exist", "the status code %d", a.Code)
}

// page tells whether an answer is a page for people, which may be anywhere
// beside the API.
func page(a *suite.Answer) bool {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return kind == "text/html"
}

// listClause is the clause about the list of a kind.
var listClause = map[string]string{"pods": "VER-30", "endpoints": "VER-31", "templates": "VER-32", "networkVolumes": "VER-33", "registries": "VER-34"}

// The lists and what version 2 adds.
var lists = []suite.Case{
	list("VER-30", "pods", "pods"),
	list("VER-31", "serverless", "endpoints"),
	list("VER-32", "templates", "templates"),
	list("VER-33", "network-volumes", "networkVolumes"),
	list("VER-34", "registries", "registries"),
	{ID: "VER-35", Needs: suite.V1, Requests: 5, Run: func(c *suite.C) {
		c.V1("GET", "/containerregistryauth", nil).Is(200).Array("")
		c.Given("VER-01", func() { nowhere(c) })
		for _, path := range []string{"/templates", "/networkvolumes", "/endpoints"} {
			// Whether these lists exist, the description leaves open.
			if a := c.V1("GET", path, nil); a.Code == 200 {
				a.Array("")
			}
		}
	}},
	{ID: "VER-36", Needs: suite.V2, Run: func(c *suite.C) { firstOf(c, "gpus") }},
	{ID: "VER-37", Needs: suite.V2, Run: one("gpus", "VER-36")},
	{ID: "VER-38", Needs: suite.V2, Run: func(c *suite.C) { firstOf(c, "cpus") }},
	{ID: "VER-39", Needs: suite.V2, Run: one("cpus", "VER-38")},
	{ID: "VER-40", Needs: suite.V2, Run: func(c *suite.C) { firstOf(c, "datacenters") }},
	{ID: "VER-41", Needs: suite.V2, Run: one("datacenters", "VER-40")},
	{ID: "VER-42", Needs: suite.V2, Serves: []string{"GET /v2/pods/{id}/logs"}, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		unknown(c, "GET", "/pods/{id}/logs", "/pods/{id}/nothing", nil)
	}},
	{ID: "VER-43", Needs: suite.V2 | suite.Own, Serves: []string{"GET /v2/serverless/{id}/workers"}, Run: func(c *suite.C) {
		answers(c, "/serverless/"+c.E+"/workers") // how they are listed, nothing says
	}},
	{ID: "VER-44", Needs: suite.V2 | suite.Own, Serves: []string{"GET /v2/serverless/{id}/workers/{workerId}/logs"}, Run: func(c *suite.C) {
		c.Given("VER-19", func() { c.V2("GET", "/serverless/"+c.E, nil).Is(200) })
		unknown(c, "GET", "/serverless/"+c.E+"/workers/{id}/logs", "/serverless/"+c.E+"/workers/{id}/nothing", nil)
	}},
	{ID: "VER-45", Needs: suite.V2 | suite.Own, Serves: []string{"GET /v2/serverless/{id}/releases"}, Run: func(c *suite.C) {
		answers(c, "/serverless/"+c.E+"/releases")
	}},
	{ID: "VER-46", Needs: suite.V2, Serves: []string{"GET /v2/registries/delegations"}, Run: func(c *suite.C) {
		there(c, "/registries/delegations")
	}},
	{ID: "VER-47", Needs: suite.V2, Serves: []string{"POST /v2/registries/delegations"}, Run: func(c *suite.C) {
		c.Given("VER-46", func() { c.V2("GET", "/registries/delegations", nil).Is(200) })
		c.V2("POST", "/registries/delegations", suite.M{}).Is(400, 422).Str("detail")
	}},
	{ID: "VER-48", Needs: suite.V2, Serves: []string{"DELETE /v2/registries/delegations/{id}"}, Run: func(c *suite.C) {
		c.Given("VER-46", func() { c.V2("GET", "/registries/delegations", nil).Is(200) })
		unknown(c, "DELETE", "/registries/delegations/{id}", "/registries/nothings/{id}", nil)
	}},
	{ID: "VER-54", Needs: suite.V1 | suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		template := c.NewTemplate("v1", suite.M{"isServerless": true}).Str("id")
		for _, types := range [][]any{unpooled(c), c.GPUs(1)} {
			made := c.Create("v1", "/endpoints", c.Endpoint("v1", suite.M{"name": c.Name(), "templateId": template, "gpuTypeIds": types, "workersMin": 0, "workersMax": 0}))
			if made.Code/100 != 2 {
				continue // which types an endpoint may have, the description leaves open
			}
			path := "/serverless/" + made.Str("id")
			shown := c.V2("GET", path, nil)
			pools, ok := shown.Find("gpu.pools")
			if shown.Code/100 != 2 || !ok {
				continue // whether one version shows what the other made, it leaves open, too
			}
			gpu := suite.M{"pools": pools}
			if excluded, ok := shown.Find("gpu.excludedTypes"); ok {
				gpu["excludedTypes"] = excluded
			}
			c.V2("PATCH", path, suite.M{"gpu": gpu}).Success()
		}
	}},
	{ID: "VER-52", Needs: suite.V1 | suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		id := c.NewTemplate("v2").Str("id")
		c.Observe("template of v2 by v1: %d", c.V1("GET", "/templates/"+id, nil).Code)
		id = c.NewTemplate("v1").Str("id")
		c.Observe("template of v1 by v2: %d", c.V2("GET", "/templates/"+id, nil).Code)
	}},
}

// unpooled are GPU types that no pool of the catalog has, the first of them.
func unpooled(c *suite.C) []any {
	a := c.V2("GET", "/catalog/gpus", nil)
	members, _ := a.JSON().(suite.M)
	for _, member := range members {
		list, _ := member.([]any)
		for _, one := range list {
			item, _ := one.(suite.M)
			if pool, shown := item["pool"]; shown && pool == nil && item["id"] != nil {
				return []any{item["id"]}
			}
		}
	}
	return c.GPUs(1)
}

func list(clause, path, key string) suite.Case {
	return suite.Case{ID: clause, Needs: suite.V2, Serves: []string{"GET /v2/" + path}, Run: func(c *suite.C) {
		c.V2("GET", "/"+path, nil).Is(200).Array(key)
	}}
}

// firstOf is the id of the first thing in a list of the catalog.
func firstOf(c *suite.C, kind string) (id string) {
	a := c.V2("GET", "/catalog/"+kind, nil).Is(200)
	ids := a.IDs()
	c.Expect(len(ids) > 0, "a list of things with ids", "the body %.200s", a.Body)
	return ids[0]
}

func one(kind, listed string) func(c *suite.C) {
	return func(c *suite.C) {
		var id string
		c.Given(listed, func() { id = firstOf(c, kind) })
		c.V2("GET", "/catalog/"+kind+"/"+suite.Segment(id), nil).Is(200).EqualIfShown("id", id).JSON()
		c.Should(func() { c.V2("GET", "/catalog/"+kind+"/"+c.Nonce(), nil).Refused() })
	}
}
