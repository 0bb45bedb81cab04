package suite

import (
	"encoding/json"
	"iter"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
)

// IDs returns the ids in a list of the catalog. The description doesn't define its shape, so IDs
// accepts a list or an object of lists. Their elements are ids or objects with ids.
func (a *Answer) IDs() []string { return idsIn(a.JSON()) }

func idsIn(v any) (ids []string) {
	switch x := v.(type) {
	case []any:
		for _, element := range x {
			switch item := element.(type) {
			case string:
				ids = append(ids, item)
			case M:
				if id := idOf(item); id != "" {
					ids = append(ids, id)
				}
			}
		}
	case M:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			if ids = idsIn(x[name]); len(ids) > 0 {
				return ids
			}
		}
		for _, name := range slices.Sorted(maps.Keys(x)) { // objects keyed by id
			if _, ok := x[name].(M); ok {
				ids = append(ids, name)
			}
		}
	}
	return ids
}

// idOf returns the id of an object: its member id, or else a member whose name ends with
// id, or else its key, code or name.
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

// Catalog returns the ids of a list in the target's catalog (gpus, cpus or datacenters), or
// nil if the target doesn't show it.
func (c *C) Catalog(kind string) []string {
	if !c.env.Target.HasV2() {
		return nil
	}
	a := c.V2("GET", "/catalog/"+kind, nil)
	if a.Code/100 != 2 || a.parseErr != nil {
		return nil
	}
	return a.IDs()
}

// GPUs returns n GPU types of the target, starting with the types of EndpointBody.
func (c *C) GPUs(n int) []any {
	ids := c.Catalog("gpus")
	if given := c.env.Target.EndpointBody["gpuTypeIds"]; given != nil {
		var first []string
		if json.Unmarshal(given, &first) == nil {
			ids = append(first, slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(first, id) })...)
		}
	}
	if len(ids) == 0 {
		ids = []string{"NVIDIA L40S", "NVIDIA GeForce RTX 4090"}
	}
	var list []any
	for _, id := range ids[:min(n, len(ids))] {
		list = append(list, id)
	}
	return list
}

// GPU returns the member gpu for an endpoint of version 2: the gpu of EndpointBody, or else the
// first pool of the catalog.
func (c *C) GPU() (gpu any) {
	if given := c.env.Target.EndpointBody["gpu"]; given != nil {
		return given
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
		query := ""
		for range env.MaxPages {
			a := c.Manage(version, "GET", path+query, nil)
			if query = env.NextPage(a.Header, a.json); !yield(a) || query == "" {
				return
			}
		}
	}
}

// Objects returns the objects of a list: of an array, or of the arrays in an object.
func (a *Answer) Objects() []M { return env.ObjectsIn(a.json) }

// PathSegment escapes an id for use as a segment of a path.
func PathSegment(id string) string { return url.PathEscape(id) }

// SimilarID returns an unused id in the form of an existing id. An id in another form might
// be refused for its form.
func SimilarID(id string) string {
	longest := slices.MaxFunc(append(alphanumericRuns.FindAllStringIndex(id, -1), []int{0, 0}), func(a, b []int) int { return (a[1] - a[0]) - (b[1] - b[0]) })
	similar := []byte(id)
	for i := max(longest[0], longest[1]-8); i < longest[1]; i++ {
		for _, alphabet := range []string{"0123456789", "abcdef", "ghijklmnopqrstuvwxyz", "ABCDEF", "GHIJKLMNOPQRSTUVWXYZ"} { // hexadecimal digits stay hexadecimal
			if at := strings.IndexByte(alphabet, id[i]); at >= 0 {
				similar[i] = alphabet[(at+3)%len(alphabet)]
			}
		}
	}
	return string(similar)
}

var alphanumericRuns = regexp.MustCompile(`[0-9A-Za-z]+`)

// v1EndpointMembers are the members of an endpoint that have other names in version 2.
var v1EndpointMembers = []string{
	"allowedCudaVersions", "computeType", "cpuFlavorIds", "dataCenterIds", "executionTimeoutMs", "flashboot", "gpuCount", "gpuTypeIds", "idleTimeout",
	"networkVolumeId", "scalerType", "scalerValue", "vcpuCount", "workersMax", "workersMin",
}

// requestsCPUs tells whether a body requests an endpoint with CPUs.
func requestsCPUs(body M) bool {
	return body["cpu"] != nil || body["computeType"] == "CPU" || body["cpuFlavorIds"] != nil
}

// EndpointBody returns a body that creates an endpoint: the members of --endpoint-body,
// overridden by members. Version 1 gets no nested members, version 2 no members of version
// 1, and an endpoint with CPUs no GPUs.
func (c *C) EndpointBody(version string, members M) M {
	body := M{}
	for name, value := range c.env.Target.EndpointBody {
		nested, flat := strings.HasPrefix(strings.TrimSpace(string(value)), "{"), slices.Contains(v1EndpointMembers, name)
		if version == "v1" && nested || version == "v2" && flat || strings.HasPrefix(name, "gpu") && requestsCPUs(members) {
			continue
		}
		body[name] = value
	}
	return Merge(body, members)
}
