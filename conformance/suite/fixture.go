package suite

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// DefaultImage is the image with our handler.
const DefaultImage = "builtin/conformance"

// Image returns the image of endpoints that the suite creates.
func (c *C) Image() string {
	return cmp.Or(c.env.Target.Image, DefaultImage)
}

// NoteObject records an object in the ledger. At the end of the case, it is deleted with DELETE
// {path}/{id} of the version, "v1" or "v2".
func (c *C) NoteObject(kind, version, path, id string) {
	m := env.Object{Kind: kind, ID: id, Method: http.MethodDelete, URL: c.env.Target.Base(version) + path + "/" + id}
	for _, paths := range managementPaths {
		byVersion := map[string]string{"v1": paths[0], "v2": paths[1]}
		if byVersion[version] != path {
			continue
		}
		for _, v := range []string{"v1", "v2"} {
			if byVersion[v] != "" && c.Serves(v) {
				m.Reads = append(m.Reads, c.env.Target.Base(v)+byVersion[v]+"/"+id+map[string]string{"/templates": includeBound}[byVersion[v]])
			}
		}
	}
	c.addToLedger(m)
}

// managementPaths are the paths of each kind of object in versions 1 and 2.
var managementPaths = [][2]string{
	{"/templates", "/templates"}, {"/networkvolumes", "/network-volumes"}, {"/containerregistryauth", "/registries"}, {"/endpoints", "/serverless"}, {"/pods", "/pods"},
	{"", "/clusters"}, {"", "/registries/delegations"}, {"", "/account/secrets"}, {"", "/global-volumes"},
}

// includeBound makes version 1 also show templates that endpoints use.
const includeBound = "?includeEndpointBoundTemplates=true"

func (c *C) addToLedger(m env.Object) env.Object {
	m.Case, m.At = c.Case.ID, c.env.Clock.Now()
	if slices.ContainsFunc(c.env.Ledger.Remaining(c.Case.ID), func(x env.Object) bool { return x.URL == m.URL && x.Name == m.Name }) {
		return m // the deferred run recorded it
	}
	m, err := c.env.Ledger.Add(m)
	if err != nil {
		c.stop(Outcome{Verdict: report.Error, Reason: err.Error()})
	}
	return m
}

// NoteJob records a job in the ledger if other cases use the endpoint. At the end of the case, the
// job is cancelled.
func (c *C) NoteJob(endpoint, id string) {
	c.env.CountJob()
	if endpoint == c.env.Target.Endpoint {
		c.addToLedger(env.Object{Kind: "job", ID: id, Method: http.MethodPost, URL: c.env.Target.Queue() + "/v2/" + endpoint + "/cancel/" + id})
	}
}

// Create creates an object with a POST and records it in the ledger, even if the request
// should have been refused. version is "v1" or "v2", and path is the path of the kind, such as
// /templates. If the answer is lost, the cleanup finds the object by its name.
func (c *C) Create(version, path string, body any, o ...Option) *Answer {
	url := c.env.Target.Base(version) + path
	members, _ := body.(M)
	name, _ := members["name"].(string)
	var pending env.Object
	if strings.HasPrefix(name, namePrefix) {
		pending = c.addToLedger(env.Object{Kind: path[1:], Name: name, Method: http.MethodGet, URL: url})
	}
	a := c.Do("POST", url, body, o...)
	if id, ok := a.Shown("id").(string); ok && id != "" && a.Code/100 == 2 {
		c.NoteObject(path[1:], version, path, id)
	}
	if a.Code < http.StatusInternalServerError {
		_ = c.env.Ledger.Remove(pending) // if it can't be written, the cleanup searches for the object
	}
	return a
}

// namePrefix begins the unique name of each object that the suite creates.
const namePrefix = "conf"

// NewEndpoint creates an endpoint of our handler with at most workersMax workers, as a
// fixture. more has additional members of the body.
func (c *C) NewEndpoint(workersMax int, more ...M) (id string) {
	if !c.env.Target.HasV2() {
		return c.newEndpointV1(workersMax)
	}
	body := M{
		"name": c.Name(), "type": "QUEUE", "image": c.Image(),
		"workers": M{"min": 0, "max": workersMax}, "scaling": M{"type": "REQUEST_COUNT", "requestCount": 1},
	}
	body = Merge(append([]M{body, c.EndpointBody("v2", nil)}, more...)...)
	c.Given("VER-25", func() { id = c.Create("v2", "/serverless", body).Success().Str("id") })
	return id
}

func (c *C) newEndpointV1(workersMax int) (id string) {
	c.Given("T-01", func() {
		t := c.Create("v1", "/templates", M{"name": c.Name(), "imageName": c.Image(), "isServerless": true})
		id = t.Success().Str("id")
	})
	body := M{"name": c.Name(), "templateId": id, "workersMin": 0, "workersMax": workersMax, "scalerType": "REQUEST_COUNT", "scalerValue": 1}
	body = Merge(body, c.EndpointBody("v1", nil))
	c.Given("P-01", func() { id = c.Create("v1", "/endpoints", body).Success().Str("id") })
	return id
}

// NewTemplate creates a template with version 1 or 2 as a fixture, and returns the answer.
func (c *C) NewTemplate(version string, more ...M) (a *Answer) {
	body, clause := M{"name": c.Name(), "imageName": c.Image()}, "T-01"
	if version == "v2" {
		body, clause = M{"name": c.Name(), "image": c.Image()}, "VER-27"
	}
	c.Given(clause, func() {
		a = c.Create(version, "/templates", Merge(append([]M{body}, more...)...)).Success()
		a.Str("id")
	})
	return a
}

// NewVolume creates a network volume as a fixture, and returns the answer.
func (c *C) NewVolume(version string, size int, more ...M) (a *Answer) {
	path, body := "/networkvolumes", M{"name": c.Name(), "size": size, "dataCenterId": c.DataCenter()}
	if version == "v2" {
		path, body = "/network-volumes", M{"name": c.Name(), "size": size, "dataCenter": c.DataCenter()}
	}
	c.Given("VER-28", func() {
		a = c.Create(version, path, Merge(append([]M{body}, more...)...)).Success()
		a.Str("id")
	})
	return a
}

// DataCenters returns the ids of the target's data centers. The target must have at least one.
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

// DataCenter returns the id of a data center.
func (c *C) DataCenter() string { return c.DataCenters()[0] }

// prepare creates the fixtures that the case needs.
func (c *C) prepare() {
	n := c.Case.Needs
	switch {
	case n.Has(OwnEndpoint):
		c.Endpoint = c.NewEndpoint(1)
	case n.Has(IdleEndpoint):
		c.Endpoint = c.NewEndpoint(0)
	case n.Has(WideEndpoint):
		c.Endpoint = c.NewEndpoint(5)
	case n.Has(AnyEndpoint):
		c.Endpoint = c.env.Target.Endpoint
		if c.Endpoint == "" || c.Local() {
			c.Endpoint = c.NewEndpoint(3)
		}
	}
	if n.Has(SecondEndpoint) {
		c.SecondEndpoint = c.NewEndpoint(1)
	}
}
