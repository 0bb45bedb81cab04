package suite

import (
	"maps"
	"net/http"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// DefaultImage is the one whose workers run our handler.
const DefaultImage = "builtin/conformance"

// Image is the one of endpoints that the suite makes.
func (c *C) Image() string {
	if i := c.env.Target.Image; i != "" {
		return i
	}
	return DefaultImage
}

// Made notes what the case made, to take it down at its end: by DELETE of path
// below /v1 or /v2.
func (c *C) Made(kind, version, path, id string) {
	base := c.env.Target.V2()
	if version == "v1" {
		base = c.env.Target.V1()
	}
	c.note(env.Made{Kind: kind, ID: id, Method: http.MethodDelete, URL: base + "/" + version + path + "/" + id})
}

func (c *C) note(m env.Made) {
	m.Case, m.At = c.Case.ID, c.env.Clock.Now()
	if slices.ContainsFunc(c.env.Ledger.Left(c.Case.ID), func(x env.Made) bool { return x.URL == m.URL }) {
		return // by the run that put the case off
	}
	if _, err := c.env.Ledger.Add(m); err != nil {
		c.stop(Outcome{Verdict: report.Error, Reason: err.Error()})
	}
}

// Own notes a job, to cancel it at the end of the case where the endpoint is not
// the case's own.
func (c *C) Own(endpoint, id string) {
	c.env.CountJob()
	if endpoint == c.env.Target.Endpoint {
		c.note(env.Made{Kind: "job", ID: id, Method: http.MethodPost, URL: c.env.Target.Queue() + "/v2/" + endpoint + "/cancel/" + id})
	}
}

// Create asks for a new thing with a POST, and notes what came of it, also where
// the request should have been refused. version is "v1" or "v2", path that of
// the kind: /templates.
func (c *C) Create(version, path string, body any, o ...Option) *Answer {
	var a *Answer
	if version == "v1" {
		a = c.V1("POST", path, body, o...)
	} else {
		a = c.V2("POST", path, body, o...)
	}
	if id, ok := a.Find("id"); ok && a.Code/100 == 2 {
		if text, ok := id.(string); ok && text != "" {
			c.Made(path[1:], version, path, text)
		}
	}
	return a
}

// NewEndpoint makes an endpoint of our handler with so many workers at most, as
// a fixture. more has further members of the body.
func (c *C) NewEndpoint(workersMax int, more ...M) (id string) {
	if !c.env.Target.HasV2() {
		return c.newEndpointV1(workersMax)
	}
	body := M{
		"name": c.Name(), "type": "QUEUE", "image": c.Image(),
		"workers": M{"min": 0, "max": workersMax}, "scaling": M{"type": "REQUEST_COUNT", "requestCount": 1},
	}
	maps.Copy(body, c.Endpoint("v2", nil))
	for _, m := range more {
		for name, value := range m {
			body[name] = value
		}
	}
	c.Given("VER-25", func() { id = c.Create("v2", "/serverless", body).Success().Str("id") })
	return id
}

func (c *C) newEndpointV1(workersMax int) (id string) {
	c.Given("T-01", func() {
		t := c.Create("v1", "/templates", M{"name": c.Name(), "imageName": c.Image(), "isServerless": true})
		id = t.Success().Str("id")
	})
	body := M{"name": c.Name(), "templateId": id, "workersMin": 0, "workersMax": workersMax, "scalerType": "REQUEST_COUNT", "scalerValue": 1}
	maps.Copy(body, c.Endpoint("v1", nil))
	c.Given("P-01", func() { id = c.Create("v1", "/endpoints", body).Success().Str("id") })
	return id
}

// NewTemplate makes a template by version 1 or 2, as a fixture, and returns its
// answer.
func (c *C) NewTemplate(version string, more ...M) (a *Answer) {
	body, clause := M{"name": c.Name(), "imageName": c.Image()}, "T-01"
	if version == "v2" {
		body, clause = M{"name": c.Name(), "image": c.Image()}, "VER-27"
	}
	for _, m := range more {
		for name, value := range m {
			body[name] = value
		}
	}
	c.Given(clause, func() {
		a = c.Create(version, "/templates", body).Success()
		a.Str("id")
	})
	return a
}

// NewVolume makes a network volume, as a fixture.
func (c *C) NewVolume(version string, size int, more ...M) (a *Answer) {
	path, body := "/networkvolumes", M{"name": c.Name(), "size": size, "dataCenterId": c.DataCenter()}
	if version == "v2" {
		path, body = "/network-volumes", M{"name": c.Name(), "size": size, "dataCenter": c.DataCenter()}
	}
	for _, m := range more {
		for name, value := range m {
			body[name] = value
		}
	}
	c.Given("VER-28", func() {
		a = c.Create(version, path, body).Success()
		a.Str("id")
	})
	return a
}

// DataCenters are the target's: one at least.
func (c *C) DataCenters() (ids []string) {
	if !c.env.Target.HasV2() {
		return []string{"EU-RO-1"}
	}
	c.Given("VER-40", func() {
		a := c.V2("GET", "/catalog/datacenters", nil).Is(200)
		ids = a.IDs()
		c.Expect(len(ids) > 0, "a list of data centers with ids", "the body %s", a.Body)
	})
	return ids
}

// DataCenter is one of them.
func (c *C) DataCenter() string {
	return c.DataCenters()[0]
}

// prepare makes the fixtures that the case asks for.
func (c *C) prepare() {
	n := c.Case.Needs
	switch {
	case n.Has(Own):
		c.E = c.NewEndpoint(1)
	case n.Has(Idle):
		c.E = c.NewEndpoint(0)
	case n.Has(Wide):
		c.E = c.NewEndpoint(5)
	case n.Has(Endpoint):
		c.E = c.env.Target.Endpoint
		if c.E == "" || c.Local() {
			c.E = c.NewEndpoint(3)
		}
	}
	if n.Has(Second) {
		c.E2 = c.NewEndpoint(1)
	}
}
