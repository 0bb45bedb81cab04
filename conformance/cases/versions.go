package cases

import (
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// versionCases judge the section "Versioning": the paths and lists of each version.
var versionCases = section(suite.Case{Level: suite.Must, Needs: suite.V2}, []suite.Case{
	{ID: "VER-01", Source: "Versioning, 1", Statement: "Version 1 of the management API is below /v1.", Needs: suite.V1, Run: func(c *suite.C) {
		c.V1("GET", "/containerregistryauth", nil).Is(200).Array("")
		expectNothingAtUnknownPath(c)
	}},
	{ID: "VER-02", Source: "Versioning, 1", Statement: "Version 1 works until its retirement on 15 November 2026. After that, a remote deployment may reject requests.",
		Needs: suite.V1, Run: func(c *suite.C) {
			c.Observe("%d", expectV1Works(c, c.V1("GET", "/containerregistryauth", nil)).Code)
			c.Given("VER-01", func() { expectNothingAtUnknownPath(c) })
		}},
	{ID: "VER-02-write", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		template := expectV1Works(c, c.Create("v1", "/templates", suite.M{"name": c.Name(), "imageName": c.Image(), "isServerless": true})).Str("id")
		expectV1Works(c, c.Create("v1", "/endpoints", c.EndpointBody("v1", suite.M{"name": c.Name(), "templateId": template, "workersMin": 0, "workersMax": 0})))
		if volume := c.Create("v1", "/networkvolumes", suite.M{"name": c.Name(), "size": 10, "dataCenterId": c.DataCenter()}); volume.Code/100 == 2 {
			expectV1Works(c, updateVolume(c, volume, suite.M{"size": 11}))
		}
	}},
	{ID: "VER-03", Source: "Versioning, 2", Statement: "The job API has the prefix /v2.",
		Needs: suite.AnyEndpoint, Run: func(c *suite.C) { c.Get("/health").Is(200).Object("jobs") }},
	{ID: "VER-04", Source: "Versioning, 3", Statement: "Version 2 has its OpenAPI description at /v2/openapi.json.", Run: func(c *suite.C) {
		paths := readOpenAPI(c).Object("paths")
		for _, op := range operationsOf(v2API) {
			c.Expect(op.takesID() || paths[op.path] != nil || paths["/v2"+op.path] != nil, "a description of /v2"+op.path, "an OpenAPI document without that path")
		}
	}},
	pathCase("VER-05", "Pods", "pods", "pods", ""),
	pathCase("VER-06", "Serverless", "serverless", "endpoints", "endpoints"),
	pathCase("VER-07", "Templates", "templates", "templates", ""),
	pathCase("VER-08", "Network volumes", "network-volumes", "networkVolumes", "networkvolumes"),
	pathCase("VER-09", "Registries", "registries", "registries", "containerregistryauth"),
	pathCase("VER-10", "Instant clusters", "clusters", "", ""),
	pathCase("VER-11", "Pod billing", "billing/pods", "", ""),
	pathCase("VER-12", "Serverless billing", "billing/serverless", "", ""), // VER-14 judges billing/endpoints
	pathCase("VER-13", "Network volume billing", "billing/network-volumes", "", "billing/networkvolumes"),
	{ID: "VER-14", Source: "Versioning, 4", Statement: "/v2/billing/endpoints and /v2/billing/serverless are different resources.",
		Requests: 4, Run: func(c *suite.C) {
			endpoints, serverless := expectObjectAt(c, "/billing/endpoints"), expectObjectAt(c, "/billing/serverless")
			// The description doesn't say how records are listed, and two empty lists look alike.
			c.Expect(!strings.Contains(serverless.Shape(), "[{") || !suite.Same(endpoints.JSON(), serverless.JSON()), "two resources", "the same records")
		}},
	{ID: "VER-15", Source: "Versioning, 5", Statement: "The first parameter in each path of version 2 is named {id}.", Run: func(c *suite.C) {
		for path := range readOpenAPI(c).Object("paths") {
			if before, rest, ok := strings.Cut(path, "{"); ok && before != "/v2/" && before != "/" { // an endpoint of the job API may be first
				name, _, _ := strings.Cut(rest, "}")
				c.Expect(name == "id", "{id}", "the path %s", path)
			}
		}
	}},
	listCase("VER-30", "pods", "pods"),
	listCase("VER-31", "serverless", "endpoints"),
	listCase("VER-32", "templates", "templates"),
	listCase("VER-33", "network-volumes", "networkVolumes"),
	listCase("VER-34", "registries", "registries"),
	{ID: "VER-35", Source: "Versioning, 8", Statement: "The lists of version 1 are bare arrays.", Needs: suite.V1, Requests: 6, Run: func(c *suite.C) {
		c.V1("GET", "/containerregistryauth", nil).Is(200).Array("")
		c.Given("VER-01", func() { expectNothingAtUnknownPath(c) })
		for _, path := range []string{"/templates", "/networkvolumes", "/endpoints", "/pods"} {
			// The description leaves open whether these lists exist.
			if a := c.V1("GET", path, nil); a.Code == 200 {
				a.Array("")
			}
		}
	}},
	{ID: "VER-50", Level: suite.Must, Source: "Versioning, 3, Instant clusters", Statement: "GET /v2/clusters exists.",
		Needs: suite.V2, Run: func(c *suite.C) { expectObjectAt(c, "/clusters") }},
	{ID: "VER-52", Level: suite.Unspec, Source: "Versioning, 3", Statement: "Which status one version returns for a template that the other created.",
		Needs: suite.V1 | suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
			for _, versions := range [][2]string{{"v2", "v1"}, {"v1", "v2"}} {
				path, code := "/templates/"+suite.PathSegment(c.NewTemplate(versions[0]).Str("id")), 0
				eventually(c, func() bool { code = c.Manage(versions[1], "GET", path, nil).Code; return code/100 == 2 })
				c.Observe("template of %s by %s: %d", versions[0], versions[1], code)
			}
		}},
	{ID: "VER-53", Level: suite.Should, Source: "Versioning, 3", Statement: "A path of version 2 rejects unknown methods, and such a request changes nothing.",
		Needs: suite.V2 | suite.LocalOnly, Allow: suite.Create, Requests: 140, WaitTime: 5 * time.Second, Run: judgeOtherMethods(v2API)},
})

func readOpenAPI(c *suite.C) *suite.Answer {
	a := c.V2("GET", "/openapi.json", nil).Is(200)
	c.Expect(strings.HasPrefix(a.Str("openapi"), "3."), "OpenAPI 3", "openapi = %q", a.Str("openapi"))
	a.Object("paths")
	return a
}

// pathCase returns a case that judges the path of a resource in version 2. key is the member with the list,
// pathV1 the path of version 1, at which version 2 must have nothing. Either may be empty.
func pathCase(id, resource, path, key, pathV1 string) suite.Case {
	c := suite.Case{
		ID: id, Level: suite.Must, Source: "Versioning, 3, " + resource, Needs: suite.V2,
		Statement: resource + ": GET /v2/" + path + " answers", Run: func(c *suite.C) {
			a := expectObjectAt(c, "/"+path)
			if key != "" {
				c.Given(listClause[key], func() { a.Array(key) })
			}
			if pathV1 != "" {
				expectNothing(c.V2("GET", "/"+pathV1, nil), "/v2/"+pathV1)
			}
		},
	}
	if pathV1 != "" {
		c.Statement += ", and /v2/" + pathV1 + " doesn't"
	}
	c.Statement += "."
	return c
}

// expectObjectAt expects an object at a path of version 2, but not at an unknown path.
func expectObjectAt(c *suite.C, path string) *suite.Answer {
	a := expectJSONAt(c, path)
	a.Object("")
	return a
}

// expectJSONAt expects JSON at a path of version 2, but not at an unknown path.
func expectJSONAt(c *suite.C, path string) *suite.Answer {
	a := c.V2("GET", path, nil).Is(200)
	a.JSON()
	expectNothing(c.V2("GET", path+"-"+c.Nonce(), nil), "a path that does not exist")
	return a
}

// expectV1Works expects a 2xx, and skips the case if version 1 may be retired: the target may be RunPod's own deployment.
func expectV1Works(c *suite.C, a *suite.Answer) *suite.Answer {
	c.SkipIf(!c.Target.Local && a.Code/100 != 2 && !c.Now().Before(suite.RetirementOfV1), "version 1 is retired and returned %d", a.Code)
	return a.Success()
}

// expectNothingAtUnknownPath expects that version 1 doesn't serve an unknown path.
func expectNothingAtUnknownPath(c *suite.C) {
	expectNothing(c.V1("GET", "/"+c.Nonce(), nil), "a path that does not exist")
}

// expectNothing expects no answer of the API at a path. A deployment may also serve web pages.
func expectNothing(a *suite.Answer, path string) {
	mediaType, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	a.Expect(a.Code/100 != 2 || mediaType == "text/html", "nothing at "+path)
}

var listClause = map[string]string{"pods": "VER-30", "endpoints": "VER-31", "templates": "VER-32", "networkVolumes": "VER-33", "registries": "VER-34"}

// listCase returns a case that judges the member of an answer in which version 2 lists a resource.
func listCase(id, path, key string) suite.Case {
	return suite.Case{
		ID: id, Level: suite.Must, Source: "Versioning, 8", Statement: "GET /v2/" + path + " returns an object with the array " + key + ".",
		Needs: suite.V2, Run: func(c *suite.C) { c.V2("GET", "/"+path, nil).Is(200).Array(key) },
	}
}

// v1Cases judge the section "Endpoints A": version 1 as a whole.
var v1Cases = section(suite.Case{Needs: suite.V1}, []suite.Case{
	{ID: "M-01", Level: suite.Unspec, Source: "Endpoints A", Statement: "Which other operations of version 1 exist.", Requests: 8, Run: func(c *suite.C) {
		for _, path := range []string{"/pods", "/endpoints", "/templates", "/networkvolumes", "/containerregistryauth", "/billing/pods", "/billing/endpoints", "/billing/networkvolumes"} {
			c.Observe("GET %s: %d", path, c.V1("GET", path, nil).Code)
		}
	}},
	{ID: "M-02", Level: suite.Unspec, Source: "Errors", Statement: "The response to an unknown path of version 1.", Run: func(c *suite.C) {
		a := c.V1("GET", "/"+c.Nonce(), nil)
		c.Observe("%d with %s", a.Code, a.Shape())
	}},
	{ID: "M-03", Level: suite.Should, Source: "Endpoints A", Statement: "A path of version 1 rejects unknown methods, and such a request changes nothing.",
		Needs: suite.V1 | suite.LocalOnly, Allow: suite.Create, Requests: 120, WaitTime: 5 * time.Second, Run: judgeOtherMethods(v1API)},
})

// pageCases judge lists with pages. The description has none, so the cases are skipped at a deployment without pages.
var pageCases = section(suite.Case{Level: suite.Should, Source: "API changes of November 2026, 1.1", Needs: suite.V2}, []suite.Case{
	{ID: "VER-77", Statement: "A page of a list has at most limit objects, and each object is on one page. nextCursor leads to the next page and is null on the last one. Endpoints and releases are listed newest first.",
		Allow: suite.Create, Requests: 30, Run: func(c *suite.C) {
			var created []string
			for range 3 {
				created = append(created, c.NewTemplate("v2").Str("id"))
			}
			requirePages(c, "/templates")
			ids, distinct, query := []string{}, []string{}, ""
			// If the cursor is an offset, other cases may move templates to another page, so the walk is repeated.
			complete := poll(c, 4*time.Second, time.Second, func() bool {
				ids, query = nil, "limit=2"
				for page := 1; query != "" && page <= localOrRemote(c, 500, 20); page++ { // an account may have thousands of templates
					a := c.V2("GET", "/templates?"+query, nil).Is(200)
					c.Expect(len(a.Array("templates")) <= 2, "at most 2 templates with limit=2", "%d templates", len(a.Array("templates")))
					ids, query = append(ids, a.IDs("templates")...), nextPageQuery(c, a, "limit=2")
				}
				distinct = slices.Compact(slices.Sorted(slices.Values(ids)))
				return len(ids) == len(distinct) && (query != "" || !slices.ContainsFunc(created, func(id string) bool { return !slices.Contains(ids, id) }))
			})
			c.Expect(complete, "each template once, and the 3 of this case", "%d templates on the pages, %d of them different", len(ids), len(distinct))
		}},
	{ID: "VER-77-order", Supplementary: true, Allow: suite.Create, Requests: 12, WaitTime: 2 * time.Second, Run: judgeOrder("/serverless", "endpoints", 1, func(c *suite.C) string { return c.NewEndpoint(1) })},
	// A page of pods may be empty, since the pods of clusters are left out after the page is cut.
	{ID: "VER-77-pods", Supplementary: true, Needs: podNeeds, Allow: suite.Create | suite.Spend, Requests: 16, WaitTime: 2 * time.Second, Run: judgeOrder("/pods", "pods", 0, func(c *suite.C) string { return newPod(c, nil) })},
	{ID: "VER-77-releases", Supplementary: true, Allow: suite.Create, WaitTime: 2 * time.Second, Run: func(c *suite.C) {
		path := "/serverless/" + suite.PathSegment(c.NewEndpoint(0))
		c.Sleep(2 * time.Second)
		c.V2("PATCH", path, suite.M{"env": suite.M{"A": c.Nonce()}}).Success()
		for _, query := range []string{"", "?limit=1"} {
			var times []time.Time
			eventually(c, func() bool {
				times = nil
				for page := range c.Pages("v2", path+"/releases"+query) {
					list, shown := page.ValueOrNil("releases").([]any)
					c.SkipIf(!shown, "the response has no releases: %d", page.Code) // VER-45 judges the operation
					_, paged := page.Find("pagination")
					page.Expect(query == "" || !paged || len(list) <= 1, "at most one release with limit=1")
					for i := range list {
						times = append(times, expectRFC3339(c, page, fmt.Sprintf("releases.%d.createdAt", i)))
					}
				}
				return len(times) >= 2
			})
			c.Expect(len(times) >= 2, "a release of the create and one of the update", "%d releases", len(times))
			newest, oldest := times[0], times[len(times)-1]
			c.Expect(newest.After(oldest), "the newest release first", "the first release at %s, the last one at %s", newest, oldest)
		}
	}},
	{ID: "VER-78", Statement: "A limit outside 1 to 1000, and a cursor that no page of the list returned, return 422.", Needs: suite.V2 | suite.AnyEndpoint, Requests: 21, Run: func(c *suite.C) {
		pagedLists, queries := 0, []string{"limit=1001", "cursor=" + c.Nonce(), "limit=0", "limit=x"}
		for _, path := range []string{"/templates", "/serverless", "/pods", "/serverless/" + suite.PathSegment(c.Endpoint) + "/releases", globalVolumePath} {
			if _, paged := c.V2("GET", path, nil).Find("pagination"); !paged {
				continue
			}
			if pagedLists++; pagedLists > 3 {
				queries = queries[:2]
			}
			for _, query := range queries {
				c.V2("GET", path+"?"+query, nil).Is(422)
			}
		}
		c.SkipIf(pagedLists == 0, "no list has pages")
	}},
	{ID: "VER-78-more", Supplementary: true, Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		c.NewEndpoint(0)
		c.NewEndpoint(0)
		requirePages(c, "/serverless")
		requirePages(c, "/templates")
		c.V2("GET", "/templates?limit=1000", nil).Is(200)
		queries := []string{"cursor=", "limit=-1"}
		foreign := nextPageQuery(c, c.V2("GET", "/serverless?limit=1", nil).Is(200), "limit=1")
		if foreign != "" { // the list may be late
			queries = append(queries, foreign)
		}
		for _, query := range queries {
			c.V2("GET", "/templates?"+query, nil).Is(422)
		}
	}},
})

// judgeOrder judges that a list has the newer of two objects first. With limit=1, a page has minimum to 1 objects, and the next page another one.
func judgeOrder(path, key string, minimum int, create func(*suite.C) (id string)) func(*suite.C) {
	return func(c *suite.C) {
		first := create(c)
		c.Sleep(2 * time.Second)
		second := create(c)
		requirePages(c, path)
		var newer, older int
		eventually(c, func() bool {
			var ids []string
			for page := range c.Pages("v2", path) {
				ids = append(ids, page.Is(200).IDs(key)...)
			}
			newer, older = slices.Index(ids, second), slices.Index(ids, first)
			return newer >= 0
		})
		advances := poll(c, 4*time.Second, time.Second, func() bool {
			page := c.V2("GET", path+"?limit=1", nil).Is(200)
			next := nextPageQuery(c, page, "limit=1")
			ids := page.IDs(key)
			page.Expect(len(ids) >= minimum && len(ids) <= 1 && next != "", "one of at least 2 "+key+" with limit=1, and a next page")
			nextIDs := c.V2("GET", path+"?"+next, nil).Is(200).IDs(key)
			return len(nextIDs) >= minimum && len(nextIDs) <= 1 && (len(ids) == 0 || !slices.Equal(ids, nextIDs))
		})
		c.Expect(advances, "another object on the next page", "the same object, or more than one")
		c.Expect(newer >= 0 && (newer < older || older < 0), key+" with the newest first", "the newer one at index %d, the older one at %d", newer, older)
	}
}

// requirePages reads a list, and skips the case if the list has no pages.
func requirePages(c *suite.C, path string) {
	_, paged := c.V2("GET", path, nil).Is(200).Find("pagination")
	c.SkipIf(!paged, "the list %s has no pages", path)
}

func nextPageQuery(c *suite.C, a *suite.Answer, parameters string) string {
	hasNext, cursor := a.Bool("pagination.hasNextPage"), a.Value("pagination.nextCursor")
	text, isText := cursor.(string)
	c.Expect(hasNext == (isText && text != "") && (hasNext || cursor == nil), "a cursor exactly if there is a next page", "hasNextPage %t and nextCursor %v", hasNext, cursor)
	if !hasNext {
		return ""
	}
	return fmt.Sprintf("%s&cursor=%s", parameters, url.QueryEscape(text))
}
