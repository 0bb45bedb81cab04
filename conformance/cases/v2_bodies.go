package cases

import (
	"maps"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// readBack reads what was made a moment ago.
func readBack(c *suite.C, path string) *suite.Answer {
	eventually(c, func() bool { return c.V2("GET", path, nil).Code/100 == 2 })
	return c.V2("GET", path, nil).Is(200)
}

// firstOr is the first of some, or what is known where there are none.
func firstOr(some []string, known string) string {
	if len(some) == 0 {
		return known
	}
	return some[0]
}

// How things are made and changed by version 2.
var bodiesOfV2 = []suite.Case{
	{ID: "VER-17", Needs: suite.V2, Requests: 6, Serves: []string{"POST /v2/pods/{id}/action"}, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		for _, body := range []suite.M{{"action": "reset"}, {"action": "dance"}, {}} {
			c.V2("POST", "/pods/"+c.Nonce()+"/action", body).Refused().Str("detail")
		}
		c.Given("VER-16", func() { unknown(c, "POST", "/pods/{id}/action", "/pods/{id}/nothing", suite.M{"action": "start"}) })
	}},
	{ID: "VER-18", Needs: suite.V2, Serves: []string{"DELETE /v2/pods/{id}"}, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		unknown(c, "DELETE", "/pods/{id}", "/nothings/{id}", nil)
	}},
	{ID: "VER-19", Needs: suite.V2 | suite.Own, Requests: 12, Run: func(c *suite.C) {
		path, name := "/serverless/"+c.E, c.Name()
		before := c.V2("GET", path, nil).Is(200)
		c.V2("PATCH", path, suite.M{"name": name}).Success().EqualIfShown("name", name)
		eventually(c, func() bool {
			now, _ := c.V2("GET", path, nil).Is(200).Find("name")
			return now == name
		})
		after := c.V2("GET", path, nil).Is(200).Equal("name", name)
		for _, field := range []string{"workers", "scaling", "type", "image"} {
			if value, there := before.Find(field); there {
				after.Equal(field, value)
			}
		}
	}},
	{ID: "VER-20", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		id := c.NewVolume("v2", 10).Str("id")
		c.V2("POST", "/network-volumes/"+id+"/update", suite.M{"size": 11}).Refused()
		c.V2("GET", "/network-volumes/"+id, nil).Is(200).Equal("size", 10)
	}},
	{ID: "VER-21", Needs: suite.V2, Allow: suite.Create, Serves: []string{"POST /v2/pods"}, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		gpu := suite.M{"id": c.GPUs(1)[0], "count": 1}
		c.Create("v2", "/pods", suite.M{"image": c.Image(), "gpu": gpu}).Refused().Str("detail")
		c.Create("v2", "/pods", suite.M{"name": c.Name(), "gpu": gpu}).Refused().Str("detail")
	}},
	{ID: "VER-22", Needs: suite.V2, Allow: suite.Create, Serves: []string{"POST /v2/pods"}, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		c.Create("v2", "/pods", suite.M{"name": c.Name(), "image": c.Image()}).Refused().Str("detail")
		c.Create("v2", "/pods", suite.M{"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": c.GPUs(1)[0], "count": 1}, "cpu": suite.M{"id": firstOr(c.Catalog("cpus"), "cpu3c")}}).Refused().Str("detail")
	}},
	{ID: "VER-23", Needs: suite.V2 | suite.LocalOnly, Allow: suite.Create | suite.Spend, Serves: []string{"POST /v2/pods"}, Run: func(c *suite.C) {
		made := c.Create("v2", "/pods", suite.M{
			"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": c.GPUs(1)[0], "count": 1}, "mounts": suite.M{"persistent": suite.M{"size": 20, "path": "/workspace"}},
		}).Success()
		if _, there := made.Find("cloud"); !there {
			made = readBack(c, "/pods/"+made.Str("id"))
		}
		made.Equal("cloud", "SECURE").EqualIfShown("gpu.count", 1)
	}},
	{ID: "VER-24", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		t := c.Create("v2", "/templates", suite.M{"name": c.Name(), "image": c.Image(), "serverless": true})
		if t.Code/100 != 2 { // what isServerless is called by version 2, nothing says
			t = c.NewTemplate("v2")
		}
		from := func(template string) *suite.Answer {
			return c.Create("v2", "/serverless", c.Endpoint("v2", suite.M{
				"name": c.Name(), "templateId": template, "type": "QUEUE", "workers": suite.M{"min": 0, "max": 0}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 1},
			}))
		}
		from(t.Str("id")).Success().EqualIfShown("image", c.Image()).Str("id")
		from(suite.Resembling(t.Str("id"))).Refused() // it is the template that made it
	}},
	{ID: "VER-25", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		body := c.Endpoint("v2", suite.M{"name": c.Name(), "image": c.Image(), "gpu": c.GPU()})
		if c.Live() { // the live service asks for these, too
			body["type"], body["scaling"] = "QUEUE", suite.M{"type": "QUEUE_DELAY", "queueDelay": 4}
		}
		bare := maps.Clone(body)
		delete(bare, "image")
		c.Create("v2", "/serverless", bare).Refused() // it is the image that makes it
		made := c.Create("v2", "/serverless", body).Success().EqualIfShown("image", c.Image()).EqualIfShown("name", body["name"])
		readBack(c, "/serverless/"+made.Str("id")).EqualIfShown("image", c.Image())
	}},
	{ID: "VER-26", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		body := c.Endpoint("v2", suite.M{"name": c.Name(), "type": "QUEUE", "image": c.Image(), "workers": suite.M{"min": 0, "max": 2}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 3}})
		a := c.Create("v2", "/serverless", body).Success()
		a.Str("id")
		for _, name := range []string{"workers", "scaling"} {
			if value, there := a.Find(name); there && value != nil {
				a.Object(name)
			}
		}
		a.EqualIfShown("workers.min", 0).EqualIfShown("workers.max", 2).EqualIfShown("scaling.type", "REQUEST_COUNT")
		for _, old := range []string{"workersMin", "workersMax", "scalerType"} {
			a.Absent(old)
		}
		flat := c.Create("v2", "/serverless", c.Endpoint("v2", suite.M{"name": c.Name(), "type": "QUEUE", "image": c.Image(), "workersMax": 2, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 3}}))
		if max, there := flat.Find("workers.max"); there {
			c.Observe("a flat workersMax is ignored: workers.max %s", suite.Text(max))
		} else {
			c.Observe("a flat workersMax: %d", flat.Code)
		}
	}},
	{ID: "VER-27", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		name := c.Name()
		a := c.Create("v2", "/templates", suite.M{"name": name, "image": c.Image(), "disk": 9, "public": false}).Success()
		for _, answer := range []*suite.Answer{a, readBack(c, "/templates/"+a.Str("id"))} {
			answer.Equal("name", name).Equal("image", c.Image()).EqualIfShown("disk", 9).EqualIfShown("public", false)
			for _, old := range []string{"imageName", "containerDiskInGb", "isPublic", "containerRegistryAuthId"} {
				answer.Absent(old)
			}
		}
	}},
	{ID: "VER-28", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		places := c.DataCenters()
		where := places[0]
		for _, more := range []suite.M{{}, {"type": "STANDARD"}, {"type": "HIGH_PERFORMANCE"}} {
			var a *suite.Answer
			for _, where = range places[:min(5, len(places))] { // not every one has every type
				body := suite.M{"name": c.Name(), "size": 10, "dataCenter": where}
				for name, value := range more {
					body[name] = value
				}
				if a = c.Create("v2", "/network-volumes", body); a.Code/100 == 2 {
					break
				}
			}
			a.Success().Equal("dataCenter", where)
		}
		c.Create("v2", "/network-volumes", suite.M{"name": c.Name(), "size": 10, "dataCenter": where, "type": "FLOPPY"}).Refused()
	}},
	{ID: "VER-29", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		path := "/network-volumes/" + c.NewVolume("v2", 12).Str("id")
		c.V2("PATCH", path, suite.M{"size": 13}).Success().EqualIfShown("size", 13)
		grown := func() bool { return c.V2("GET", path, nil).Is(200).Int("size") == 13 }
		c.Expect(eventually(c, grown), "a size of 13 from then on", "another")
		c.V2("PATCH", path, suite.M{"size": 11}).Refused()
		c.Should(func() { c.V2("PATCH", path, suite.M{"size": 13}).Refused() })
		c.V2("GET", path, nil).Is(200).Equal("size", 13)
	}},
}
