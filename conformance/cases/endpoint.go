package cases

import (
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// endpointCases judge the section "Serverless endpoint".
var endpointCases = section(suite.Case{Level: suite.Must, Needs: suite.V1, Allow: suite.Create}, []suite.Case{
	{ID: "P-01", Source: "Endpoints A, POST /endpoints", Statement: "POST /endpoints accepts name, templateId, gpuTypeIds, workersMin, workersMax and idleTimeout.", Run: func(c *suite.C) { endpointV1(c) }},
	{ID: "P-02", Source: "What the service does, 5", Statement: "The job API of a new endpoint is under its id.", Run: func(c *suite.C) {
		var id string
		c.Given("P-01", func() { id = endpointV1(c) })
		c.Given("ERR-02", func() { c.Job("GET", suite.SimilarID(id), "/health", nil).Is(404) })
		c.Job("GET", id, "/health", nil).Is(200).Object("jobs")
	}},
	{ID: "P-03", Level: suite.Unspec, Source: "Serverless endpoint", Statement: "Whether gpuTypeIds are in the order of priority.", Run: func(c *suite.C) {
		t := c.NewTemplate("v1", suite.M{"isServerless": true})
		want := c.GPUs(2)
		a := c.Create("v1", "/endpoints", c.EndpointBody("v1", suite.M{"name": c.Name(), "templateId": t.Str("id"), "gpuTypeIds": want, "workersMax": 0}))
		c.Observe("%d, the order is kept: %v", a.Code, suite.Same(a.Shown("gpuTypeIds"), want))
	}},
	{ID: "P-04", Level: suite.Unspec, Source: "Serverless endpoint", Statement: "scalerType, the unit of idleTimeout, bounds, defaults, and the members of the response.", Run: func(c *suite.C) {
		t := c.NewTemplate("v1", suite.M{"isServerless": true})
		a := c.Create("v1", "/endpoints", c.EndpointBody("v1", suite.M{"name": c.Name(), "templateId": t.Str("id"), "workersMax": 0}))
		for _, name := range []string{"scalerType", "scalerValue", "idleTimeout", "workersMin", "executionTimeoutMs"} {
			c.Observe("%s: %s", name, suite.JSONText(a.Shown(name)))
		}
		c.Observe("idleTimeout 3601: %d", c.Create("v1", "/endpoints", c.EndpointBody("v1", suite.M{"name": c.Name(), "templateId": t.Str("id"), "idleTimeout": 3601})).Code)
	}},
})

func endpointV1(c *suite.C) (id string) {
	t := c.NewTemplate("v1", suite.M{"isServerless": true})
	a := c.Create("v1", "/endpoints", c.EndpointBody("v1", suite.M{
		"name": c.Name(), "templateId": t.Str("id"), "gpuTypeIds": c.GPUs(1), "workersMin": 0, "workersMax": 1, "idleTimeout": 5, "scalerType": "QUEUE_DELAY",
	}))
	return a.Success().Str("id")
}
