package cases

import (
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

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
	{ID: "VER-19", Needs: suite.V2 | suite.Own, Run: func(c *suite.C) {
		path, name := "/serverless/"+c.E, c.Name()
		before := c.V2("GET", path, nil).Is(200)
		c.V2("PATCH", path, suite.M{"name": name}).Success().Equal("name", name)
		after := c.V2("GET", path, nil).Is(200).Equal("name", name)
		for _, field := range []string{"workers", "scaling", "type", "image"} {
			after.Equal(field, before.Value(field))
		}
	}},
	{ID: "VER-20", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		id := c.NewVolume("v2", 10).Str("id")
		c.V2("POST", "/network-volumes/"+id+"/update", suite.M{"size": 11}).Is(404, 405)
		c.V2("GET", "/network-volumes/"+id, nil).Is(200).Equal("size", 10)
	}},
	{ID: "VER-21", Needs: suite.V2, Allow: suite.Create, Serves: []string{"POST /v2/pods"}, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		gpu := suite.M{"id": "NVIDIA L40S", "count": 1}
		c.Create("v2", "/pods", suite.M{"image": c.Image(), "gpu": gpu}).Refused().Str("detail")
		c.Create("v2", "/pods", suite.M{"name": c.Name(), "gpu": gpu}).Refused().Str("detail")
	}},
	{ID: "VER-22", Needs: suite.V2, Allow: suite.Create, Serves: []string{"POST /v2/pods"}, Run: func(c *suite.C) {
		c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
		c.Create("v2", "/pods", suite.M{"name": c.Name(), "image": c.Image()}).Refused().Str("detail")
		c.Create("v2", "/pods", suite.M{"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": "NVIDIA L40S"}, "cpu": suite.M{"id": "cpu3c"}}).Refused().Str("detail")
	}},
	{ID: "VER-23", Needs: suite.V2 | suite.LocalOnly, Allow: suite.Create | suite.Spend, Serves: []string{"POST /v2/pods"}, Run: func(c *suite.C) {
		c.Create("v2", "/pods", suite.M{
			"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": "NVIDIA L40S", "count": 1}, "mounts": suite.M{"persistent": suite.M{"size": 20, "path": "/workspace"}},
		}).Success().Equal("cloud", "SECURE").Equal("gpu.count", 1)
	}},
	{ID: "VER-24", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		t := c.NewTemplate("v2", suite.M{"serverless": true, "image": c.Image()})
		c.Create("v2", "/serverless", suite.M{
			"name": c.Name(), "templateId": t.Str("id"), "type": "QUEUE", "workers": suite.M{"min": 0, "max": 0}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 1},
		}).Success().Equal("image", c.Image())
	}},
	{ID: "VER-25", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		body := suite.M{"name": c.Name(), "image": c.Image(), "gpu": suite.M{"pools": []any{"ADA_24"}, "count": 1}}
		if c.Live() { // the live service asks for these, too
			body["type"], body["scaling"] = "QUEUE", suite.M{"type": "QUEUE_DELAY", "queueDelay": 4}
		}
		made := c.Create("v2", "/serverless", body).Success().Equal("image", c.Image()).Equal("name", body["name"])
		c.V2("GET", "/serverless/"+made.Str("id"), nil).Is(200).Equal("image", c.Image())
	}},
	{ID: "VER-26", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		body := suite.M{"name": c.Name(), "type": "QUEUE", "image": c.Image(), "workers": suite.M{"min": 0, "max": 2}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 3}}
		a := c.Create("v2", "/serverless", body).Success().Equal("workers.min", 0).Equal("workers.max", 2).Equal("scaling.type", "REQUEST_COUNT")
		a.Object("scaling")
		a.Str("id")
		flat := c.Create("v2", "/serverless", suite.M{"name": c.Name(), "type": "QUEUE", "image": c.Image(), "workersMax": 2, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 3}})
		if max, there := flat.Find("workers.max"); there {
			c.Observe("a flat workersMax is ignored: workers.max %s", suite.Text(max))
		} else {
			c.Observe("a flat workersMax: %d", flat.Code)
		}
	}},
	{ID: "VER-27", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		name := c.Name()
		a := c.Create("v2", "/templates", suite.M{"name": name, "image": c.Image(), "disk": 9, "public": false}).Success()
		for _, answer := range []*suite.Answer{a, c.V2("GET", "/templates/"+a.Str("id"), nil).Is(200)} {
			answer.Equal("name", name).Equal("image", c.Image()).Equal("disk", 9).Equal("public", false)
			for _, old := range []string{"imageName", "containerDiskInGb", "isPublic", "containerRegistryAuthId"} {
				answer.Absent(old)
			}
		}
	}},
	{ID: "VER-28", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		where := c.DataCenter()
		for _, more := range []suite.M{{}, {"type": "STANDARD"}, {"type": "HIGH_PERFORMANCE"}} {
			body := suite.M{"name": c.Name(), "size": 10, "dataCenter": where}
			for name, value := range more {
				body[name] = value
			}
			c.Create("v2", "/network-volumes", body).Success().Equal("dataCenter", where)
		}
		c.Create("v2", "/network-volumes", suite.M{"name": c.Name(), "size": 10, "dataCenter": where, "type": "FLOPPY"}).Refused()
	}},
	{ID: "VER-29", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		path := "/network-volumes/" + c.NewVolume("v2", 12).Str("id")
		c.V2("PATCH", path, suite.M{"size": 13}).Success().Equal("size", 13)
		c.V2("PATCH", path, suite.M{"size": 11}).Refused()
		c.Should(func() { c.V2("PATCH", path, suite.M{"size": 13}).Refused() })
		c.V2("GET", path, nil).Is(200).Equal("size", 13)
	}},
}
