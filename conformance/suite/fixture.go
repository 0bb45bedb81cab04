package suite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// Image returns the image with our handler, for endpoints that the suite creates.
func (c *C) Image() string { return cmp.Or(c.Target.Image, "builtin/conformance") }

// recordObject records an object in the ledger. At the end of the case, it is deleted with DELETE
// {path}/{id} of the version, "v1" or "v2".
func (c *C) recordObject(kind, version, path, id string) {
	o := env.Object{Kind: kind, ID: id, Method: http.MethodDelete, URL: c.Target.Base(version) + path + "/" + PathSegment(id)}
	for _, paths := range managementPaths {
		for i, v := range []string{"v1", "v2"} {
			if paths[version[1]-'1'] == path && paths[i] != "" && c.Serves(v) {
				o.Reads = append(o.Reads, c.Target.Base(v)+paths[i]+"/"+PathSegment(id)+map[string]string{"/templates": includeBound}[paths[i]])
			}
		}
	}
	c.addToLedger(o)
}

// managementPaths are the paths of each kind of object in versions 1 and 2.
var managementPaths = [][2]string{
	{"/templates", "/templates"}, {"/networkvolumes", "/network-volumes"}, {"/containerregistryauth", "/registries"}, {"/endpoints", "/serverless"}, {"/pods", "/pods"},
	{"", "/clusters"}, {"", "/registries/delegations"}, {"", "/account/secrets"}, {"", "/global-volumes"},
}

// includeBound makes version 1 also show templates that endpoints use.
const includeBound = "?includeEndpointBoundTemplates=true"

func (c *C) addToLedger(o env.Object) env.Object {
	o.Case, o.At = c.Case.ID, c.env.Clock.Now()
	for _, x := range c.env.Ledger.Remaining(c.Case.ID) {
		if x.URL == o.URL && x.Name == o.Name {
			return x // recorded before the case was deferred
		}
	}
	o, err := c.env.Ledger.Add(o)
	if err != nil {
		c.stop(Outcome{Verdict: report.Error, Reason: err.Error()})
	}
	return o
}

func (c *C) jobObject(id string) env.Object {
	return env.Object{Kind: "job", ID: id, Method: http.MethodPost, URL: c.jobURL(c.Target.Endpoint, "/cancel/"+PathSegment(id)), Case: c.Case.ID, At: c.env.Clock.Now()}
}

// interruptGrace is how long, in real time, requests in flight may take after an interrupt, so that the suite
// learns what they created.
const interruptGrace = 10 * time.Second

// recordStarted records the jobs that a case submitted with Start before it ended early.
func (c *C) recordStarted() {
	for _, p := range c.started {
		if c.Endpoint != c.Target.Endpoint || !p.AnsweredWithin(interruptGrace) || p.exchange.Request.Method != http.MethodPost {
			continue
		}
		body, _ := p.exchange.JSON()
		if id, ok := Find(body, "id"); ok && p.exchange.Status/100 == 2 {
			_, _ = c.env.Ledger.Add(c.jobObject(fmt.Sprint(id))) // if the file can't be written, the ledger in memory suffices
		}
	}
}

// Create creates an object with a POST and records it in the ledger, even if the request
// should have been refused. version is "v1" or "v2", and path is the path of the kind, such as
// /templates. If the answer is lost, the cleanup finds the object by its name.
func (c *C) Create(version, path string, body any, o ...Option) *Answer {
	url := c.Target.Base(version) + path
	r := c.request("POST", url, body, o)
	var members struct{ Name string }
	_ = json.Unmarshal(r.Body, &members) // a body that isn't an object has no name
	var pending env.Object
	if strings.HasPrefix(members.Name, namePrefix) {
		pending = c.addToLedger(env.Object{Kind: path[1:], Name: members.Name, Method: http.MethodGet, URL: url})
	}
	a := c.send(r)
	id, _ := a.ValueOrNil("id").(string)
	if a.Code/100 == 2 && id != "" {
		c.recordObject(path[1:], version, path, id)
	}
	if a.Code/100 == 4 || a.Code == http.StatusNotImplemented || a.Code/100 == 2 && id != "" {
		_ = c.env.Ledger.Remove(pending) // if the ledger can't be written, the cleanup searches for the object
	}
	if pending.Refused = a.Code/100 == 4; pending.Refused && pending.Name != "" {
		c.refused = append(c.refused, pending)
	}
	return a
}

// namePrefix begins the unique name of each object that the suite creates.
const namePrefix = "conf"

// NewEndpoint creates an endpoint of our handler with at most workersMax workers, as a
// fixture. members are added to the body of version 2; if only version 1 is judged, they aren't sent.
func (c *C) NewEndpoint(workersMax int, members ...M) (id string) {
	if !c.Target.HasV2() {
		template := c.NewTemplate("v1", M{"isServerless": true}).Str("id")
		body := M{"name": c.Name(), "templateId": template, "workersMin": 0, "workersMax": workersMax, "scalerType": "REQUEST_COUNT", "scalerValue": 1}
		return c.newObject("P-01", "v1", "/endpoints", body, c.EndpointBody("v1", nil)).Str("id")
	}
	body := M{
		"name": c.Name(), "type": "QUEUE", "image": c.Image(),
		"workers": M{"min": 0, "max": workersMax}, "scaling": M{"type": "REQUEST_COUNT", "requestCount": 1},
	}
	return c.newObject("VER-25", "v2", "/serverless", append([]M{body, c.EndpointBody("v2", nil)}, members...)...).Str("id")
}

func (c *C) newObject(clause, version, path string, bodies ...M) (a *Answer) {
	c.Given(clause, func() {
		a = c.Create(version, path, Merge(bodies...)).Success()
		a.Str("id")
	})
	return a
}

// NewTemplate creates a template with version 1 or 2 as a fixture, and returns the answer.
func (c *C) NewTemplate(version string, members ...M) *Answer {
	if version == "v2" {
		return c.newObject("VER-27", version, "/templates", append([]M{{"name": c.Name(), "image": c.Image()}}, members...)...)
	}
	return c.newObject("T-01", version, "/templates", append([]M{{"name": c.Name(), "imageName": c.Image()}}, members...)...)
}

func (c *C) NewVolume(version string, size int, members ...M) *Answer {
	path, dataCenter := "/networkvolumes", "dataCenterId"
	if version == "v2" {
		path, dataCenter = "/network-volumes", "dataCenter"
	}
	return c.newObject("VER-28", version, path, append([]M{{"name": c.Name(), "size": size, dataCenter: c.DataCenter()}}, members...)...)
}

// DataCenters returns the ids of the target's data centers. The target must have at least one. Version 1
// doesn't list them, so a common id stands for them. Those without network volumes come last.
func (c *C) DataCenters() (ids []string) {
	if !c.Target.HasV2() {
		return []string{"EU-RO-1"}
	}
	var a *Answer
	c.Given("VER-40", func() { a = c.catalogList("datacenters") })
	ids = a.IDs("datacenters")
	for _, center := range a.Objects() {
		if types, shown := center["networkVolumeTypes"].([]any); shown && len(types) == 0 {
			ids = append(slices.DeleteFunc(ids, func(id string) bool { return id == idOf(center) }), idOf(center))
		}
	}
	c.SkipIf(len(ids) == 0, "the deployment has no data centers")
	return ids
}

func (c *C) DataCenter() string { return c.DataCenters()[0] }

// prepare creates the fixtures that the case needs.
func (c *C) prepare() {
	n := c.Case.Needs
	switch {
	case n.Has(OwnEndpoint):
		c.Endpoint = c.NewEndpoint(1)
	case n.Has(IdleEndpoint):
		c.Endpoint = c.NewEndpoint(0)
	case n.Has(FiveWorkerEndpoint):
		c.Endpoint = c.NewEndpoint(5)
	case n.Has(AnyEndpoint):
		c.Endpoint = c.Target.Endpoint
		if c.Endpoint == "" || c.Target.Local {
			c.Endpoint = c.NewEndpoint(3)
		}
	}
	if n.Has(SecondEndpoint) {
		c.SecondEndpoint = c.NewEndpoint(1)
	}
}

// IDs returns the ids in a list. The description doesn't define the list's shape, so IDs accepts an array, or an object
// whose member `name`, or else any other member, is an array. The elements are ids or objects with ids.
func (a *Answer) IDs(name string) (ids []string) {
	body := a.JSON()
	members, _ := body.(M)
	for member, list := range members {
		if strings.EqualFold(member, name) {
			body = list
		}
	}
	for _, item := range env.ItemsIn(body) {
		id, _ := item.(string)
		if object, ok := item.(M); ok {
			id = idOf(object)
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// idOf returns the value of an object's member "id", or else of a member whose name ends with "id", or
// of "key", "code" or "name".
func idOf(object M) string {
	id, _ := object["id"].(string)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if text, ok := object[name].(string); ok && id == "" && strings.HasSuffix(strings.ToLower(name), "id") {
			id = text
		}
	}
	for _, name := range []string{"key", "code", "name"} {
		if text, ok := object[name].(string); ok && id == "" {
			id = text
		}
	}
	return id
}

// Catalog returns the ids of a list in the target's catalog (gpus, cpus or datacenters), or nil.
func (c *C) Catalog(kind string) []string {
	if !c.Target.HasV2() {
		return nil
	}
	a := c.V2("GET", "/catalog/"+kind, nil)
	if a.Code/100 != 2 || a.parseErr != nil {
		return nil
	}
	return a.IDs(kind)
}

// CatalogIDs expects a list in the catalog of version 2, and returns its ids.
func (c *C) CatalogIDs(kind string) []string { return c.catalogList(kind).IDs(kind) }

func (c *C) catalogList(kind string) *Answer {
	a := c.V2("GET", "/catalog/"+kind, nil).Is(200)
	items := env.ItemsIn(a.json)
	return a.Expect(len(a.IDs(kind)) > 0 || items != nil && len(items) == 0, "a list of items with ids")
}

// GPUs returns at most n GPU types: first from --endpoint-body, then from the catalog, or else common ones.
func (c *C) GPUs(n int) []any {
	var userTypes []string
	_ = json.Unmarshal(c.Target.EndpointBody["gpuTypeIds"], &userTypes) // the body may have none
	ids := slices.Concat(userTypes, slices.DeleteFunc(c.Catalog("gpus"), func(id string) bool { return slices.Contains(userTypes, id) }))
	if len(ids) == 0 {
		ids = []string{"NVIDIA L40S", "NVIDIA GeForce RTX 4090"}
	}
	var list []any
	for _, id := range ids[:min(n, len(ids))] {
		list = append(list, id)
	}
	return list
}

// GPU returns the member gpu of --endpoint-body for version 2, or else the catalog's first pool.
func (c *C) GPU() (gpu any) {
	if userGPU := c.Target.EndpointBody["gpu"]; userGPU != nil {
		return userGPU
	}
	pool := "ADA_24"
	for _, item := range c.V2("GET", "/catalog/gpus", nil).Objects() {
		if text, ok := item["pool"].(string); ok && text != "" {
			pool = text
			break
		}
	}
	return M{"pools": []any{pool}, "count": 1}
}

// Pages requests the pages of a list of a version, "v1" or "v2".
func (c *C) Pages(version, path string) iter.Seq[*Answer] {
	return func(yield func(*Answer) bool) {
		for range env.MaxPages {
			a := c.Manage(version, "GET", path, nil)
			if path = env.NextPage(path, a.Header, a.json); !yield(a) || path == "" {
				return
			}
		}
	}
}

// PageWith returns the first page of a list that contains a text, or nil.
func (c *C) PageWith(version, path, text string) *Answer {
	for page := range c.Pages(version, path) {
		if page.Is(http.StatusOK).Contains(text) {
			return page
		}
	}
	return nil
}

func (c *C) IsListed(version, path, text string) bool { return c.PageWith(version, path, text) != nil }

// Objects returns the objects of a list: of an array, or of the arrays in an object.
func (a *Answer) Objects() []M { return env.ObjectsIn(a.json) }

func PathSegment(id string) string { return url.PathEscape(id) }

// SimilarID returns an unused id in the form of an existing one. Another form might be refused.
func SimilarID(id string) string {
	longest := slices.MaxFunc(append(alphanumericRuns.FindAllStringIndex(id, -1), []int{0, 0}), func(a, b []int) int { return (a[1] - a[0]) - (b[1] - b[0]) })
	similar := []byte(id)
	for i := max(longest[0], longest[1]-8); i < longest[1]; i++ {
		for _, alphabet := range []string{"0123456789", "abcdef", "ghijklmnopqrstuvwxyz", "ABCDEF", "GHIJKLMNOPQRSTUVWXYZ"} { // hexadecimal digits stay hexadecimal
			if position := strings.IndexByte(alphabet, id[i]); position >= 0 {
				similar[i] = alphabet[(position+3)%len(alphabet)]
			}
		}
	}
	if digits := longest[1] - longest[0]; digits < 9 && strings.Trim(id, "0123456789") == "" { // a short number may be another object's id
		similar = append(similar, "999999999"[digits:]...)
	}
	return string(similar)
}

var alphanumericRuns = regexp.MustCompile(`[0-9A-Za-z]+`)

// endpointMembers lists the members of an endpoint's body that only one version has. In version 2, flashboot isn't a boolean.
var endpointMembers = map[string][]string{
	"v1": {
		"allowedCudaVersions", "computeType", "cpuFlavorIds", "executionTimeoutMs", "flashboot", "gpuCount", "gpuTypeIds", "idleTimeout", "minCudaVersion",
		"networkVolumeId", "networkVolumeIds", "scalerType", "scalerValue", "vcpuCount", "workersMax", "workersMin",
	},
	"v2": {"args", "cmd", "cpu", "disk", "entrypoint", "env", "gpu", "image", "networkVolumes", "ports", "registry", "scaling", "timeout", "type", "workers"},
}

// EndpointBody returns a body that creates an endpoint: the members of --endpoint-body,
// overridden by members, but without the other version's members. If members select GPUs, members of
// --endpoint-body that select CPUs are left out, and vice versa.
func (c *C) EndpointBody(version string, members M) M {
	body, other := M{}, map[string]string{"v1": "v2", "v2": "v1"}[version]
	hasCPUs := members["cpu"] != nil || members["computeType"] == "CPU" || members["cpuFlavorIds"] != nil
	hasGPUs := members["gpu"] != nil || members["gpuTypeIds"] != nil
	for name, value := range c.Target.EndpointBody {
		isCPU := strings.HasPrefix(name, "cpu") || name == "vcpuCount"
		excluded := hasCPUs && strings.HasPrefix(name, "gpu") || hasGPUs && isCPU || (hasCPUs || hasGPUs) && name == "computeType"
		if !excluded && !slices.Contains(endpointMembers[other], name) {
			body[name] = value
		}
	}
	return Merge(body, members)
}
