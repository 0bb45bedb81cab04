package cases

import (
	"cmp"
	"maps"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// v2Cases judge the section "Versioning": bodies and answers of version 2.
var v2Cases = section(suite.Case{Level: suite.Must, Needs: suite.V2}, []suite.Case{
	{ID: "VER-16", Source: "Versioning, 6", Statement: "POST /v2/pods/{id}/action accepts start, stop, restart and terminate.",
		Requests: 8, Run: func(c *suite.C) {
			// An unknown path also returns 404, but with another detail.
			c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
			codes := []int{404, 400, 422} // the id may be malformed
			for _, action := range []string{"start", "stop", "restart", "terminate"} {
				a := c.V2("POST", "/pods/"+c.Nonce()+"/action", suite.M{"action": action}).Is(codes...)
				a.Str("detail")
				codes = []int{a.Code} // all actions get the same
			}
			expectUnknownID(c, "POST", "/pods/{id}/action", "/pods/{id}/nothing", suite.M{"action": "start"})
		}},
	{ID: "VER-17", Source: "Versioning, 6", Statement: "POST /v2/pods/{id}/action rejects every other action, including reset.",
		Requests: 7, Run: func(c *suite.C) {
			c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
			for _, body := range []suite.M{{"action": "reset"}, {"action": "dance"}, {}} {
				c.V2("POST", "/pods/"+c.Nonce()+"/action", body).Refused().Str("detail")
			}
			c.Given("VER-16", func() {
				expectUnknownID(c, "POST", "/pods/{id}/action", "/pods/{id}/nothing", suite.M{"action": "start"})
			})
		}},
	{ID: "VER-18", Source: "Versioning, 6", Statement: "DELETE /v2/pods/{id} exists.", Requests: 4, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		expectUnknownID(c, "DELETE", "/pods/{id}", "/nothings/{id}", nil)
	}},
	{ID: "VER-19", Source: "Versioning, 6", Statement: "PATCH updates in place: omitted members keep their values.",
		Allow: suite.Create, Requests: 16, Run: judgeUnsentMembers("endpoint", "name")},
	{ID: "VER-20", Level: suite.Should, Source: "Versioning, 6", Statement: "Version 2 has no POST …/update.", Allow: suite.Create, Run: func(c *suite.C) {
		for path, id := range map[string]string{"/network-volumes": c.NewVolume("v2", 10).Str("id"), "/templates": c.NewTemplate("v2").Str("id"), "/serverless": c.NewEndpoint(0)} {
			path, name := path+"/"+suite.PathSegment(id), c.Name()
			c.V2("POST", path+"/update", suite.M{"name": name}).Refused()
			readBack(c, path).NotContains(name)
		}
	}},
	{ID: "VER-21", Source: "Versioning, 7", Statement: "A pod needs name and image.", Allow: suite.Create, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		gpu := suite.M{"id": c.GPUs(1)[0], "count": 1}
		for _, body := range []suite.M{{"image": c.Image()}, {"image": c.Image(), "name": ""}, {"name": c.Name()}, {"name": c.Name(), "image": ""}} {
			c.Create("v2", "/pods", suite.Merge(body, suite.M{"gpu": gpu})).Refused().Str("detail")
		}
	}},
	{ID: "VER-22", Source: "Versioning, 7", Statement: "A pod has exactly one of gpu and cpu.", Allow: suite.Create, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		c.Create("v2", "/pods", suite.M{"name": c.Name(), "image": c.Image()}).Refused().Str("detail")
		c.Create("v2", "/pods", suite.M{"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": c.GPUs(1)[0], "count": 1}, "cpu": suite.M{"id": podFlavor(c), "vcpuCount": 2}}).Refused().Str("detail")
	}},
	{ID: "VER-23", Source: "Versioning, 7", Statement: "A pod has gpu {id, count} and mounts, and its cloud is SECURE by default.",
		Needs: suite.V2 | suite.LocalOnly, Allow: suite.Create | suite.Spend, Run: func(c *suite.C) {
			gpu := c.GPUs(1)[0]
			created := c.Create("v2", "/pods", suite.M{
				"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": gpu, "count": 1}, "mounts": suite.M{"persistent": suite.M{"size": 20, "path": "/workspace"}},
			}).Success().EqualIfShown("cloud", "SECURE").EqualIfShown("gpu.id", gpu).EqualIfShown("gpu.count", 1)
			expectShownAs(c, "pod", "v2", map[string]suite.M{created.Str("id"): {
				"cloud": "SECURE", "gpu.id": gpu, "gpu.count": 1, "mounts.persistent.size": 20, "mounts.persistent.path": "/workspace",
			}})
		}},
	{ID: "VER-24", Source: "Versioning, 7", Statement: "An endpoint can be created from templateId.", Allow: suite.Create, Run: func(c *suite.C) {
		t := c.Create("v2", "/templates", suite.M{"name": c.Name(), "image": c.Image(), "serverless": true})
		if t.Code/100 != 2 { // the description doesn't say what version 2 calls isServerless
			t = c.NewTemplate("v2")
		}
		name := c.Name()
		createFrom := func(template string) *suite.Answer {
			return c.Create("v2", "/serverless", c.EndpointBody("v2", suite.M{
				"name": name, "templateId": template, "type": "QUEUE", "workers": suite.M{"min": 0, "max": 0}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 1},
			}))
		}
		created := createFrom(t.Str("id")).Success().EqualIfShown("image", c.Image()).Str("id")
		readBack(c, "/serverless/"+suite.PathSegment(created)).EqualIfShown("image", c.Image()).EqualIfShown("name", name)
		createFrom(suite.SimilarID(t.Str("id"))).Refused() // shows that templateId isn't ignored
	}},
	{ID: "VER-25", Source: "Versioning, 7", Statement: "An endpoint can be created from name, image and gpu.", Allow: suite.Create, Run: func(c *suite.C) {
		body := c.EndpointBody("v2", suite.M{"name": c.Name(), "image": c.Image(), "gpu": c.GPU()})
		if c.Target.Live { // RunPod requires more members
			body["type"], body["scaling"] = "QUEUE", suite.M{"type": "QUEUE_DELAY", "queueDelay": 4}
		}
		withoutImage := maps.Clone(body)
		delete(withoutImage, "image")
		c.Create("v2", "/serverless", withoutImage).Refused() // shows that the image isn't ignored
		created := c.Create("v2", "/serverless", body).Success().EqualIfShown("image", c.Image()).EqualIfShown("name", body["name"])
		readBack(c, "/serverless/"+suite.PathSegment(created.Str("id"))).EqualIfShown("image", c.Image()).EqualIfShown("name", body["name"])
	}},
	{ID: "VER-26", Source: "Versioning, 7", Statement: "workers and scaling are objects, not the flat members of version 1.", Allow: suite.Create, Run: func(c *suite.C) {
		body := c.EndpointBody("v2", suite.M{"name": c.Name(), "type": "QUEUE", "image": c.Image(), "workers": suite.M{"min": 0, "max": 2}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 3}})
		a := c.Create("v2", "/serverless", body).Success()
		a.Str("id")
		for _, name := range []string{"workers", "scaling"} {
			if a.ValueOrNil(name) != nil {
				a.Object(name)
			}
		}
		a.EqualIfShown("workers.min", 0).EqualIfShown("workers.max", 2).EqualIfShown("scaling.type", "REQUEST_COUNT")
		expectAbsentMembers(c, "endpoint", a, "workersMin", "workersMax", "scalerType")
		flat := c.Create("v2", "/serverless", c.EndpointBody("v2", suite.M{"name": c.Name(), "type": "QUEUE", "image": c.Image(), "workersMax": 2, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 3}}))
		if max, ok := flat.Find("workers.max"); ok {
			c.Observe("a flat workersMax is ignored: workers.max %s", suite.JSONText(max))
		} else {
			c.Observe("a flat workersMax: %d", flat.Code)
		}
	}},
	{ID: "VER-27", Source: "Versioning, 7", Statement: "Templates have image, disk, public and registry in place of the names of version 1.",
		Allow: suite.Create, Run: func(c *suite.C) {
			name := c.Name()
			a := c.Create("v2", "/templates", suite.M{"name": name, "image": c.Image(), "disk": 9, "public": false}).Success()
			for _, answer := range []*suite.Answer{a, readBack(c, "/templates/"+suite.PathSegment(a.Str("id")))} {
				answer.Equal("name", name).Equal("image", c.Image()).EqualIfShown("disk", 9).EqualIfShown("public", false)
			}
			expectAbsentMembers(c, "template", a, "imageName", "containerDiskInGb", "isPublic", "containerRegistryAuthId")
		}},
	{ID: "VER-28", Source: "Versioning, 7", Statement: "A network volume has a dataCenter. Its type, if it has one, is STANDARD or HIGH_PERFORMANCE.",
		Allow: suite.Create, Run: func(c *suite.C) {
			dataCenters := c.DataCenters()
			dataCenter := dataCenters[0]
			stored := map[string]suite.M{} // by id
			for _, extra := range []suite.M{{}, {"type": "STANDARD"}, {"type": "HIGH_PERFORMANCE"}} {
				var a *suite.Answer
				for _, dataCenter = range dataCenters[:min(5, len(dataCenters))] { // a data center may lack a type
					body := suite.M{"name": c.Name(), "size": 10, "dataCenter": dataCenter}
					if a = c.Create("v2", "/network-volumes", suite.Merge(body, extra)); a.Code/100 == 2 {
						break
					}
				}
				stored[a.Success().Equal("dataCenter", dataCenter).EqualIfShown("type", cmp.Or(extra["type"], a.ValueOrNil("type"))).Str("id")] = suite.M{"dataCenter": dataCenter}
			}
			expectShownAs(c, "networkVolume", "v2", stored)
			c.Create("v2", "/network-volumes", suite.M{"name": c.Name(), "size": 10, "dataCenter": dataCenter, "type": "FLOPPY"}).Refused()
		}},
	{ID: "VER-29", Source: "States and transitions, Network volume size rule", Statement: "In version 2, too, a network volume can only grow.",
		Allow: suite.Create, Run: func(c *suite.C) {
			path := "/network-volumes/" + suite.PathSegment(c.NewVolume("v2", 12).Str("id"))
			c.V2("PATCH", path, suite.M{"size": 13}).Success().EqualIfShown("size", 13)
			awaitMember(c, path, "size", 13)
			c.V2("PATCH", path, suite.M{"size": 11}).Refused()
			c.Should(func() { c.V2("PATCH", path, suite.M{"size": 13}).Refused() })
			c.V2("GET", path, nil).Is(200).Equal("size", 13)
		}},
	catalogCase("VER-36", "gpus"),
	catalogItemCase("VER-37", "gpus", "VER-36"),
	catalogCase("VER-38", "cpus"),
	catalogItemCase("VER-39", "cpus", "VER-38"),
	catalogCase("VER-40", "datacenters"),
	catalogItemCase("VER-41", "datacenters", "VER-40"),
	existsCase("VER-42", "GET /v2/pods/{id}/logs", suite.V2, 4, func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		expectUnknownID(c, "GET", "/pods/{id}/logs", "/pods/{id}/nothing", nil)
	}),
	existsCase("VER-43", "GET /v2/serverless/{id}/workers", suite.V2|suite.OwnEndpoint, 0, func(c *suite.C) {
		expectJSONAt(c, "/serverless/"+suite.PathSegment(c.Endpoint)+"/workers") // the description leaves the form of the list open
	}),
	existsCase("VER-44", "GET /v2/serverless/{id}/workers/{workerId}/logs", suite.V2|suite.OwnEndpoint, 5, func(c *suite.C) {
		path := "/serverless/" + suite.PathSegment(c.Endpoint)
		c.Given("VER-19", func() { readBack(c, path) })
		expectUnknownID(c, "GET", path+"/workers/{id}/logs", path+"/workers/{id}/nothing", nil)
	}),
	existsCase("VER-45", "GET /v2/serverless/{id}/releases", suite.V2|suite.OwnEndpoint, 0, func(c *suite.C) {
		expectJSONAt(c, "/serverless/"+suite.PathSegment(c.Endpoint)+"/releases")
	}),
	existsCase("VER-46", "GET /v2/registries/delegations", suite.V2, 0, func(c *suite.C) { expectObjectAt(c, "/registries/delegations") }),
	existsCase("VER-47", "POST /v2/registries/delegations", suite.V2, 0, func(c *suite.C) {
		c.Given("VER-46", func() { c.V2("GET", "/registries/delegations", nil).Is(200) })
		c.V2("POST", "/registries/delegations", suite.M{}).Is(400, 422).Str("detail")
	}),
	existsCase("VER-48", "DELETE /v2/registries/delegations/{id}", suite.V2, 4, func(c *suite.C) {
		c.Given("VER-46", func() { c.V2("GET", "/registries/delegations", nil).Is(200) })
		expectUnknownID(c, "DELETE", "/registries/delegations/{id}", "/registries/nothings/{id}", nil)
	}),
	existsCase("VER-49", "GET /v2/billing", suite.V2, 0, func(c *suite.C) { expectObjectAt(c, "/billing") }),
	{ID: "VER-83", Level: suite.Should, Source: "Versioning, 6 and 7; v2 document", Statement: "A create returns 201, a read and an update return 200, with the type application/json; a deletion returns 204 without a body.",
		Allow: suite.Create, Requests: 27, Run: func(c *suite.C) {
			auth := c.Create("v2", "/registries", suite.M{"name": c.Name(), "username": "user", "password": c.Secret("PASSWORD")}).Success()
			var endpoint *suite.Answer
			c.Given("VER-25", func() { endpoint = c.Create("v2", "/serverless", endpointBodyV2(c, nil, c.Name())).Success() })
			judgeCodes(c, "/registries", auth, nil) // a registry auth has no update
			for path, created := range map[string]*suite.Answer{"/templates": c.NewTemplate("v2"), "/network-volumes": c.NewVolume("v2", 10), "/serverless": endpoint} {
				judgeCodes(c, path, created, suite.M{"name": c.Name()})
			}
		}},
	{ID: "VER-83-secret", Supplementary: true, Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		judgeCodes(c, secretPath, newSecret(c, nil), suite.M{"value": "v"})
	}},
	{ID: "VER-83-compute", Needs: podNeeds, Allow: suite.Create | suite.Spend, Requests: 18, Run: func(c *suite.C) {
		judgeCodes(c, "/pods", c.Create("v2", "/pods", podBody(c, nil)), suite.M{"name": c.Name()})
		judgeCodes(c, "/clusters", c.Create("v2", "/clusters", clusterBody(c, 2)), suite.M{"name": c.Name()})
	}},
	{ID: "VER-54", Level: suite.Should, Source: "Versioning, 7", Statement: "If version 1 created an endpoint, PATCH accepts the gpu object that version 2 returns for it, even if its GPUs are in no pool.",
		Needs: suite.V1 | suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
			template := c.NewTemplate("v1", suite.M{"isServerless": true}).Str("id")
			for _, types := range [][]any{typeWithoutPool(c), c.GPUs(1)} {
				created := c.Create("v1", "/endpoints", c.EndpointBody("v1", suite.M{"name": c.Name(), "templateId": template, "gpuTypeIds": types, "workersMin": 0, "workersMax": 0}))
				if created.Code/100 != 2 {
					continue // the description leaves the types of endpoints open
				}
				path := "/serverless/" + suite.PathSegment(created.Str("id"))
				shown := c.V2("GET", path, nil)
				pools, ok := shown.Find("gpu.pools")
				if shown.Code/100 != 2 || !ok {
					continue // the description leaves open whether version 2 shows objects of version 1
				}
				gpu := suite.M{"pools": pools}
				if excluded, ok := shown.Find("gpu.excludedTypes"); ok {
					gpu["excludedTypes"] = excluded
				}
				c.V2("PATCH", path, suite.M{"gpu": gpu}).Success()
			}
		}},
})

// expectAbsentMembers expects that no answer of version 2 about a created object has members of version 1.
func expectAbsentMembers(c *suite.C, kind string, created *suite.Answer, names ...string) {
	s := &objects{c: c, kind: kindOf(kind, "v2")}
	id := created.Str("id")
	updated := s.request("PATCH", s.url(id), suite.M{"name": c.Name()})
	for _, shown := range []any{created.JSON(), updated.ValueOrNil(""), s.read(id), s.list()[id]} {
		for _, name := range names {
			value, _ := suite.Find(shown, name)
			c.Expect(value == nil, name+" absent or null", "the value %s of %s", suite.JSONText(value), name)
		}
	}
}

// judgeCodes judges the codes and types of the answers about a created object. update is nil if the kind has none.
func judgeCodes(c *suite.C, path string, created *suite.Answer, update suite.M) {
	created.Is(201).ContentType("application/json")
	c.V2("GET", path, nil).Exactly(200).ContentType("application/json")
	path += "/" + suite.PathSegment(created.Str("id"))
	readBack(c, path).Exactly(200).ContentType("application/json")
	if update != nil {
		c.V2("PATCH", path, update).Exactly(200).ContentType("application/json")
	}
	deleted := c.V2("DELETE", path, nil).Is(204)
	deleted.Expect(len(deleted.Body) == 0, "no body")
}

// readBack reads an object right after its creation.
func readBack(c *suite.C, path string) *suite.Answer {
	awaitReadable(c, path)
	return c.V2("GET", path, nil).Is(200)
}

func awaitReadable(c *suite.C, path string) {
	eventually(c, func() bool { return c.V2("GET", path, nil).Code/100 == 2 })
}

// awaitMember waits until version 2 shows a member with a value.
func awaitMember(c *suite.C, path, member string, want any) {
	var a *suite.Answer
	eventually(c, func() bool {
		a = c.V2("GET", path, nil)
		return suite.Same(a.ValueOrNil(member), want)
	})
	a.Is(200).Equal(member, want)
}

// typeWithoutPool returns the first GPU type of the catalog that is in no pool, or else the first type.
func typeWithoutPool(c *suite.C) []any {
	for _, gpu := range c.V2("GET", "/catalog/gpus", nil).Objects() {
		if pool, shown := gpu["pool"]; shown && pool == nil && gpu["id"] != nil {
			return []any{gpu["id"]}
		}
	}
	return c.GPUs(1)
}

// catalogCase returns a case that judges a list of version 2's catalog.
func catalogCase(id, kind string) suite.Case {
	return existsCase(id, "GET /v2/catalog/"+kind, suite.V2, 0, func(c *suite.C) { c.CatalogIDs(kind) })
}

func catalogItemCase(id, kind, clauseOfList string) suite.Case {
	return existsCase(id, "GET /v2/catalog/"+kind+"/{id}", suite.V2, 0, func(c *suite.C) {
		var ids []string
		c.Given(clauseOfList, func() { ids = c.CatalogIDs(kind) })
		c.SkipIf(len(ids) == 0, "the list is empty")
		one := ids[c.Random().IntN(len(ids))]
		c.V2("GET", "/catalog/"+kind+"/"+suite.PathSegment(one), nil).Is(200).EqualIfShown("id", one).JSON()
		c.Should(func() { c.V2("GET", "/catalog/"+kind+"/"+c.Nonce(), nil).Refused() })
	})
}

// existsCase returns a case that judges whether version 2 has an operation.
func existsCase(id, operation string, needs suite.Needs, requests int, run func(c *suite.C)) suite.Case {
	return suite.Case{
		ID: id, Level: suite.Must, Source: "Versioning, 10", Statement: operation + " exists.",
		Needs: needs, Requests: requests, Run: run,
	}
}

// existenceCases judge whether an operation exists by its effect on an object of the case. They
// are for deployments that answer an unknown id and an unknown path alike.
var existenceCases = []suite.Case{
	{ID: "VER-16-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create | suite.Spend, Requests: 130, Run: func(c *suite.C) {
		id := newPod(c, nil)
		await := func(status string) { c.Given("VER-57", func() { awaitPod(c, id, status) }) }
		await("RUNNING")
		c.V2("POST", "/pods/"+suite.PathSegment(id)+"/nothing", suite.M{"action": "stop"}).Refused()
		for _, step := range [][2]string{{"restart", "RUNNING"}, {"stop", "EXITED"}, {"start", "RUNNING"}} {
			actOnPod(c, id, step[0]).Success()
			await(step[1])
		}
		actOnPod(c, id, "terminate").Success()
		c.Given("VER-60", func() { expectNotFound(c, "/pods/"+suite.PathSegment(id)) })
	}},
	{ID: "VER-17-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create | suite.Spend, Requests: 80, Run: func(c *suite.C) {
		id := newRunningPod(c)
		for _, body := range []suite.M{{"action": "reset"}, {"action": "dance"}, {"action": "STOP"}, {}} {
			c.V2("POST", "/pods/"+suite.PathSegment(id)+"/action", body).Refused()
			readPod(c, id).Equal("status", "RUNNING")
		}
		c.Given("VER-16", func() { actOnPod(c, id, "stop").Success() }) // shows that the body was refused, not the path
		c.Given("VER-57", func() { awaitPod(c, id, "EXITED") })
	}},
	{ID: "VER-18-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create | suite.Spend, Run: func(c *suite.C) {
		id := newPod(c, nil)
		c.V2("DELETE", "/nothings/"+suite.PathSegment(id), nil).Refused()
		c.V2("DELETE", "/pods/"+suite.PathSegment(id), nil).Success()
		c.Given("VER-60", func() { expectNotFound(c, "/pods/"+suite.PathSegment(id)) })
	}},
	{ID: "VER-42-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create | suite.Spend, Requests: 60, Run: func(c *suite.C) {
		id := newRunningPod(c)
		expectLogs(c, "/pods/"+suite.PathSegment(id))
	}},
	{ID: "VER-44-effect", Supplementary: true, Decides: true, Needs: suite.V2 | suite.OwnEndpoint, Allow: suite.Queue, Requests: 30, Jobs: 1, Seconds: 10,
		Run: func(c *suite.C) {
			c.Blocker(10 * time.Second)
			path := "/serverless/" + suite.PathSegment(c.Endpoint) + "/workers"
			var ids []string
			c.Given("VER-43", func() {
				eventually(c, func() bool { ids = c.V2("GET", path, nil).Is(200).IDs("workers"); return len(ids) > 0 })
			})
			c.SkipIf(len(ids) == 0, "the list shows no worker of the endpoint")
			expectLogs(c, path+"/"+suite.PathSegment(ids[0]))
		}},
	{ID: "VER-48-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		id := newDelegation(c)
		c.V2("DELETE", "/registries/nothings/"+suite.PathSegment(id), nil).Refused()
		c.V2("DELETE", delegationPath+"/"+suite.PathSegment(id), nil).Success()
		c.Given("VER-55", func() {
			c.Expect(eventually(c, func() bool { return !c.IsListed("v2", delegationPath, id) }), "a list without the delegation", "a list with the delegation %s", id)
		})
	}},
}

func expectNotFound(c *suite.C, path string) {
	var a *suite.Answer
	eventually(c, func() bool { a = c.V2("GET", path, nil); return a.Code == 404 })
	a.Exactly(404)
}

// expectLogs expects that {path}/logs is served and {path}/nothing isn't. A stream without an
// answer yet counts as served, since an unknown path is answered at once.
func expectLogs(c *suite.C, path string) {
	c.V2("GET", path+"/nothing", nil, suite.SkipBody()).Refused()
	var a *suite.Answer
	if !eventually(c, func() bool {
		a = c.V2("GET", path+"/logs", nil, suite.SkipBody())
		return a.Code == 0 || a.Code/100 == 2
	}) {
		a.Success()
	}
}

// expectUnknownID expects that version 2 has the path, but no object with the id. If the answer about an
// unknown path has the same detail, or if the detail varies, only a case with Decides can judge this.
func expectUnknownID(c *suite.C, method, path, unknownPath string, body any) {
	send := func(path string) (a *suite.Answer, detail string) {
		path = strings.ReplaceAll(path, "{id}", c.Nonce())
		a = c.V2(method, path, body)
		detail = suite.JSONText(a.ValueOrNil("detail"))
		for segment := range strings.SplitSeq(path, "/") {
			detail = strings.ReplaceAll(detail, segment, "")
		}
		return a, detail
	}
	a, detail := send(path)
	a.Is(404, 400, 422).Str("detail") // the id may be malformed
	unknown, unknownDetail := send(unknownPath)
	_, repeatedDetail := send(unknownPath)
	if unknown.Code == a.Code && (detail == unknownDetail || repeatedDetail != unknownDetail) {
		c.Inconclusive("an unknown id can't be distinguished from an unknown path: both return %d, the id with the detail %s; only an object of the suite shows that the path exists: --allow create,queue,spend", a.Code, detail)
	}
}
