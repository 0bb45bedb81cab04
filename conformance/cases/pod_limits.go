package cases

import (
	"encoding/json"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// maxPodBody is the maximum size in bytes of a request that creates a pod.
const maxPodBody = 102_400

// podChangeCases judge what the API changed in November 2026 about pods and clusters.
var podChangeCases = section(suite.Case{Level: suite.Should, Needs: podNeeds, Allow: suite.Create | suite.Spend, Operations: podOperations}, []suite.Case{
	{ID: "VER-79", Source: "API changes of November 2026, 1.3", Statement: "The gpu of a pod contains vcpuCount and memory, numbers of at least 1. A create accepts minRamPerGpu and minVcpuCountPerGpu, integers of at least 1; vcpuCount and memory in a create return 422.",
		Requests: 40, Run: func(c *suite.C) {
			body := func(member string, value any) suite.M {
				return suite.M{"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": c.GPUs(1)[0], "count": 1, "minVcpuCountPerGpu": 1, member: value}}
			}
			shown := readPod(c, c.Create("v2", "/pods", body("minRamPerGpu", 1)).Success().Str("id"))
			for _, member := range []string{"gpu.vcpuCount", "gpu.memory"} {
				value, _ := shown.Find(member)
				number, _ := value.(json.Number)
				n, err := number.Float64()
				c.Expect(err == nil && n >= 1, "a number of at least 1 in "+member, "the value %s", suite.JSONText(value))
			}
			for member, values := range map[string][]any{"minRamPerGpu": {0, 1.5, "1"}, "minVcpuCountPerGpu": {0, -1}, "vcpuCount": {2}, "memory": {8}} {
				for _, value := range values {
					c.Create("v2", "/pods", body(member, value)).Is(422)
				}
			}
		}},
	{ID: "VER-80", Source: "API changes of November 2026, 1.5", Statement: "POST /v2/pods with more than 102,400 bytes returns 413 and a problem document, before authentication.",
		Requests: 6, Run: func(c *suite.C) {
			sized := func(bytes int) string {
				body := suite.JSONText(podBody(c, suite.M{"env": suite.M{"A": ""}}))
				return strings.Replace(body, `{"A":""}`, `{"A":"`+strings.Repeat("x", bytes-len(body))+`"}`, 1)
			}
			c.Create("v2", "/pods", nil, suite.Raw(sized(maxPodBody))).Success()
			larger := sized(maxPodBody + 1)
			c.Create("v2", "/pods", nil, suite.Raw(larger)).Is(413)
			c.Create("v2", "/pods", nil, suite.Raw(larger), suite.WithoutKey()).Is(413)
		}},
	{ID: "VER-81", Source: "API changes of November 2026, 1.5", Statement: "The settings that a pod gets from its template count towards the limit of 102,400 bytes.",
		Requests: 8, Run: func(c *suite.C) {
			env := func(name string) suite.M { return suite.M{name: strings.Repeat("x", 60_000)} }
			t := c.Create("v2", "/templates", suite.M{"name": c.Name(), "image": c.Image(), "serverless": false, "env": env("A")}).Success()
			for name, want := range map[string]int{"A": 201, "B": 413} { // the body's A replaces the template's
				body := podBody(c, suite.M{"templateId": t.Str("id"), "env": env(name)})
				delete(body, "image")
				c.Create("v2", "/pods", body).Is(want)
			}
		}},
	{ID: "VER-82", Source: "API changes of November 2026, 1.4", Statement: "A cluster created with templateId has the settings and the registry auth of that pod template; its member template is the template's id. templateId together with image, args, entrypoint, cmd, disk, env, ports or mounts returns 400.",
		Operations: clusterMembers, Requests: 28, Run: func(c *suite.C) {
			registry, _ := newRegistryAuth(c)
			t := c.Create("v2", "/templates", suite.M{"name": c.Name(), "image": c.Image(), "serverless": false, "env": suite.M{"A": "1"}, "disk": 7, "registry": registry}).Success()
			body := func(member string, value any) suite.M {
				out := clusterBody(c, 2)
				delete(out, "image")
				out["templateId"] = t.Str("id")
				if member != "" {
					out[member] = value
				}
				return out
			}
			id := newClusterOf(c, body("", nil))
			c.V2("GET", "/clusters/"+id, nil).Is(200).Equal("template", t.Str("id"))
			readPod(c, podOfCluster(c, id)).Equal("image", c.Image()).Equal("env.A", "1").Equal("disk", 7).Equal("registry", registry)
			for member, value := range map[string]any{"image": c.Image(), "args": "a", "entrypoint": words("a"), "cmd": words("a"), "disk": 9, "env": suite.M{"B": "1"}, "ports": []any{"80/http"}, "mounts": suite.M{"persistent": suite.M{"size": 10, "path": "/p"}}} {
				c.Create("v2", "/clusters", body(member, value)).Is(400)
			}
			empty := body("", nil)
			empty["templateId"] = ""
			c.Create("v2", "/clusters", empty).Is(422)
		}},
})
