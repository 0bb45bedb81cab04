package cases

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

const podNeeds = suite.V2 | suite.LocalOnly // a pod costs money

// podCases judge actions on pods, and rules of creates and updates. The description has the
// operations and the members; the OpenAPI document of version 2 has the rest.
var podCases = section(suite.Case{Level: suite.Must, Needs: podNeeds, Allow: suite.Create | suite.Spend}, []suite.Case{
	{ID: "VER-57", Source: "Versioning, 6; v2 document, podAction", Statement: "The action stop changes a running pod to EXITED, and start makes it run again.",
		Requests: 90, Run: judgePodActions([2]string{"stop", "EXITED"}, [2]string{"start", "RUNNING"})},
	{ID: "VER-58", Source: "Versioning, 6; v2 document, podAction", Statement: "An action that the pod's state doesn't allow returns 409 and changes nothing. The member actions lists the allowed ones.",
		Requests: 80, Run: func(c *suite.C) {
			id := newRunningPod(c)
			expectPodActions(c, id, "restart", "stop", "terminate")
			actOnPod(c, id, "start").Exactly(409)
			readPod(c, id).Equal("status", "RUNNING")
			c.Given("VER-57", func() {
				actOnPod(c, id, "stop").Success()
				awaitPod(c, id, "EXITED")
			})
			expectPodActions(c, id, "start", "terminate")
			for _, action := range []string{"stop", "restart"} {
				actOnPod(c, id, action).Exactly(409)
				readPod(c, id).Equal("status", "EXITED")
			}
		}},
	{ID: "VER-59", Source: "Versioning, 6; v2 document, podAction", Statement: "After the action restart, the pod runs again.",
		Requests: 60, Run: judgePodActions([2]string{"restart", "RUNNING"})},
	{ID: "VER-60", Source: "Versioning, 6; v2 document, podAction", Statement: "The action terminate deletes only that pod, like DELETE.",
		Requests: 40, Run: func(c *suite.C) {
			for _, deletePod := range []func(id string) *suite.Answer{
				func(id string) *suite.Answer { return actOnPod(c, id, "terminate") },
				func(id string) *suite.Answer { return c.V2("DELETE", "/pods/"+suite.PathSegment(id), nil) },
			} {
				id, other := newPod(c, nil), newPod(c, nil)
				deletePod(id).Success()
				expectNotFound(c, "/pods/"+suite.PathSegment(id))
				expectNotListed(c, "v2", "/pods", id)
				c.Expect(eventually(c, func() bool { return c.IsListed("v2", "/pods", other) }), "the other pod in the list", "a list without %s", other)
			}
		}},
	{ID: "VER-61", Source: "Versioning, 6", Statement: "PATCH updates a pod in place: omitted members keep their values.",
		Requests: 120, Run: judgeUnsentMembers("pod")},
	{ID: "VER-62", Source: "Versioning, 7; v2 document, CreatePodRequest", Statement: "A pod created with templateId gets the template's settings. Members of the body override them; env is merged key by key. A serverless template and an unknown one are rejected.",
		Requests: 30, Run: func(c *suite.C) {
			var t *suite.Answer
			c.Given("VER-27", func() {
				t = c.Create("v2", "/templates", suite.M{"name": c.Name(), "image": c.Image(), "env": suite.M{"A": "1", "B": "1"}, "disk": 7, "args": "a b", "ports": []any{"8080/http"}}).Success()
			})
			c.SkipIf(readBack(c, "/templates/"+suite.PathSegment(t.Str("id"))).ValueOrNil("serverless") == true, "version 2 created a serverless template: the description leaves open how to create one for pods")
			body := podBody(c, suite.M{"templateId": t.Str("id"), "env": suite.M{"B": "2"}, "ports": []any{"22/tcp"}})
			delete(body, "image")
			pod := readPod(c, c.Create("v2", "/pods", body).Success().Str("id"))
			pod.Equal("image", c.Image()).Equal("env.A", "1").Equal("env.B", "2").Equal("disk", 7).Equal("args", "a b").Equal("ports", []any{"22/tcp"})
			// The description gives isServerless no name in version 2, so a deployment may refuse serverless.
			if serverless := c.Create("v2", "/templates", suite.M{"name": c.Name(), "image": c.Image(), "serverless": true}); !serverless.IsRefusal() {
				c.Create("v2", "/pods", suite.Merge(body, suite.M{"templateId": serverless.Str("id")})).Refused()
			}
			c.Create("v2", "/pods", suite.Merge(body, suite.M{"templateId": suite.SimilarID(t.Str("id"))})).Refused()
		}},
	{ID: "VER-63", Source: "Versioning, 7; v2 document, Mounts", Statement: "A pod has a persistent mount of at least 10 GB or a network mount, not both. A CPU pod can't have a persistent mount. An update can't change the kind of mount or the network volume.",
		Requests: 40, Run: func(c *suite.C) {
			volume, otherVolume := c.NewVolume("v2", 10).Str("id"), c.NewVolume("v2", 10).Str("id")
			persistent := func(size int) suite.M { return suite.M{"size": size, "path": "/p"} }
			network := func(id string) []any { return []any{suite.M{"volumeId": id, "path": "/n"}} }
			gpuPod := func(mounts suite.M) suite.M {
				return suite.M{"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": c.GPUs(1)[0], "count": 1}, "mounts": mounts}
			}
			c.Create("v2", "/pods", gpuPod(suite.M{"persistent": persistent(10), "network": network(volume)})).Refused()
			c.Create("v2", "/pods", gpuPod(suite.M{"persistent": persistent(9)})).Refused()
			c.Create("v2", "/pods", gpuPod(suite.M{"network": network(suite.SimilarID(volume))})).Refused()
			c.Create("v2", "/pods", podBody(c, suite.M{"mounts": suite.M{"persistent": persistent(10)}})).Refused()
			id := newPod(c, suite.M{"mounts": suite.M{"network": network(volume)}})
			for _, mounts := range []suite.M{{"network": []any{}}, {"network": network(otherVolume)}, {"persistent": persistent(10)}} {
				c.V2("PATCH", "/pods/"+suite.PathSegment(id), suite.M{"mounts": mounts}).Refused()
			}
			readPod(c, id).Equal("mounts.network.0.volumeId", volume).Equal("mounts.network.0.path", "/n")
			c.V2("PATCH", "/pods/"+suite.PathSegment(id), suite.M{"mounts": suite.M{"network": []any{suite.M{"volumeId": volume, "path": "/m"}}}}).Success()
			awaitMember(c, "/pods/"+suite.PathSegment(id), "mounts.network.0.path", "/m")
		}},
	{ID: "VER-64", Source: "Versioning, 7; v2 document, BaseCpuConfig", Statement: "The vcpuCount of a CPU pod is a power of two from 2 up.", Requests: 25, Run: func(c *suite.C) {
		for _, withRefused := range refusedValues("v2", "cpuPod") {
			c.Create("v2", "/pods", withRefused(podBody(c, nil))).Refused()
		}
		created := c.Create("v2", "/pods", podBody(c, suite.M{"cpu": suite.M{"id": podFlavor(c), "vcpuCount": 4}})).Success()
		readBack(c, "/pods/"+suite.PathSegment(created.Str("id"))).Equal("cpu.vcpuCount", 4)
		readPod(c, newPod(c, nil)).Equal("cpu.vcpuCount", 2)
	}},
	{ID: "VER-65", Source: "Versioning, 6; v2 document, UpdatePodRequest", Statement: "A locked pod can't be stopped until it is unlocked.",
		Requests: 90, Run: func(c *suite.C) {
			id := newRunningPod(c)
			for _, version := range []api{v2API, v1API} {
				if !version.servedBy(c) {
					continue
				}
				sendTo(c, version, "PATCH", "/pods/"+suite.PathSegment(id), suite.M{"locked": true}).Success().EqualIfShown("locked", true)
				awaitMember(c, "/pods/"+suite.PathSegment(id), "locked", true)
				if v1API.servedBy(c) {
					c.V1("POST", "/pods/"+suite.PathSegment(id)+"/stop", nil).Refused()
				}
				actOnPod(c, id, "stop").Refused()
				readPod(c, id).Equal("status", "RUNNING")
				sendTo(c, version, "PATCH", "/pods/"+suite.PathSegment(id), suite.M{"locked": false}).Success()
				awaitMember(c, "/pods/"+suite.PathSegment(id), "locked", false)
			}
			actOnPod(c, id, "stop").Success()
		}},
	{ID: "VER-66", Source: "Versioning, 3; v2 document, deleteRegistry", Statement: "A registry auth can't be deleted while a pod uses it.",
		Requests: 30, Run: func(c *suite.C) {
			auth, _ := newRegistryAuth(c)
			id := newPod(c, suite.M{"registry": auth})
			for _, version := range []api{v2API, v1API} {
				if version.servedBy(c) {
					sendTo(c, version, "DELETE", collection(version, "registry")+"/"+suite.PathSegment(auth), nil).Refused()
				}
			}
			c.V2("GET", "/registries/"+suite.PathSegment(auth), nil).Is(200)
			c.V2("DELETE", "/pods/"+suite.PathSegment(id), nil).Success()
			c.Expect(eventually(c, func() bool { return c.V2("DELETE", "/registries/"+suite.PathSegment(auth), nil).Code/100 == 2 }), "the deletion of a registry auth without a pod", "a refusal")
		}},
	{ID: "VER-67", Source: "Versioning, 3 and 6", Statement: "Both versions show and change the same pods.",
		Needs: podNeeds | suite.V1, Requests: 80, Run: func(c *suite.C) {
			name := c.Name()
			id := c.Create("v1", "/pods", suite.M{"name": name, "imageName": c.Image(), "computeType": "CPU", "cpuFlavorIds": []any{podFlavor(c)}, "vcpuCount": 2}).Success().Str("id")
			readPod(c, id).Equal("name", name).Equal("image", c.Image()).Equal("cpu.vcpuCount", 2)
			c.Expect(eventually(c, func() bool { return c.IsListed("v1", "/pods", id) }), "the pod in the list of version 1", "a list without it")
			expectShownAs(c, "pod", "v1", map[string]suite.M{id: {"name": name}})
			c.Given("VER-57", func() { awaitPod(c, id, "RUNNING") })
			for _, step := range [][2]string{{"stop", "EXITED"}, {"start", "RUNNING"}, {"restart", "RUNNING"}, {"reset", "RUNNING"}} {
				c.V1("POST", "/pods/"+suite.PathSegment(id)+"/"+step[0], nil).Success()
				awaitPod(c, id, step[1])
			}
			for _, update := range []operation{patch, postUpdate} {
				renamed := c.Name()
				c.V1(update.method, "/pods/"+suite.PathSegment(id)+update.suffix, suite.M{"name": renamed}).Success()
				awaitMember(c, "/pods/"+suite.PathSegment(id), "name", renamed)
			}
			c.V2("PATCH", "/pods/"+suite.PathSegment(id), suite.M{"env": suite.M{"A": "1"}}).Success()
			c.Expect(eventually(c, func() bool {
				return c.V1("GET", "/pods/"+suite.PathSegment(id), nil).Is(200).ValueOrNil("env.A") == "1"
			}), "the new variable in version 1", "a pod without the variable")
			c.V1("DELETE", "/pods/"+suite.PathSegment(id), nil).Success()
			expectNotFound(c, "/pods/"+suite.PathSegment(id))
		}},
	{ID: "VER-68", Source: "Versioning, 7; v2 document, CreateGpuConfig", Statement: "minCudaVersion and a non-empty list of allowedCudaVersions can't be combined.", Run: func(c *suite.C) {
		body := func(allowed ...any) suite.M {
			return suite.M{"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": c.GPUs(1)[0], "count": 1, "minCudaVersion": "12.1", "allowedCudaVersions": append([]any{}, allowed...)}}
		}
		c.Create("v2", "/pods", body("12.8")).Refused()
		c.Create("v2", "/pods", body("x")).Refused()
		c.Create("v2", "/pods", body()).Success()
	}},
	{ID: "VER-69", Level: suite.Unspec, Source: "Versioning, 7", Statement: "What happens to a pod whose image doesn't exist.", Run: func(c *suite.C) {
		a := c.Create("v2", "/pods", podBody(c, suite.M{"image": "conf/" + c.Nonce()}))
		c.Observe("%d with %s", a.Code, a.Shape())
	}},
})

// podFlavor returns the first CPU flavor of the catalog, or else cpu3c.
func podFlavor(c *suite.C) string { return append(c.Catalog("cpus"), "cpu3c")[0] }

// podBody returns the body of a CPU pod, with additional members.
func podBody(c *suite.C, members suite.M) suite.M {
	return suite.Merge(suite.M{"name": c.Name(), "image": c.Image(), "cpu": suite.M{"id": podFlavor(c), "vcpuCount": 2}}, members)
}

// newPod creates a CPU pod and waits until it can be read.
func newPod(c *suite.C, members suite.M) (id string) {
	c.Given("VER-22", func() {
		id = c.Create("v2", "/pods", podBody(c, members)).Success().Str("id")
		readBack(c, "/pods/"+suite.PathSegment(id))
	})
	return id
}

// newRunningPod creates a CPU pod and waits until it runs.
func newRunningPod(c *suite.C) (id string) {
	id = newPod(c, nil)
	c.Given("VER-57", func() { awaitPod(c, id, "RUNNING") })
	return id
}

func readPod(c *suite.C, id string) *suite.Answer {
	return c.V2("GET", "/pods/"+suite.PathSegment(id), nil).Is(200)
}

func actOnPod(c *suite.C, id, action string) *suite.Answer {
	return c.V2("POST", "/pods/"+suite.PathSegment(id)+"/action", suite.M{"action": action})
}

// podPatience is how long a pod may take to start or end.
const podPatience = time.Minute

func awaitPod(c *suite.C, id, status string) {
	var last string
	reached := poll(c, podPatience, 2*time.Second, func() bool {
		last = readPod(c, id).Str("status")
		return last == status
	})
	c.Expect(reached, "the status "+status, "the status %s for %s", last, podPatience)
}

// expectPodActions expects the actions of a pod, in any order. want is sorted.
func expectPodActions(c *suite.C, id string, want ...string) {
	var got []string
	for _, action := range readPod(c, id).Array("actions") {
		name, _ := action.(string)
		got = append(got, name)
	}
	slices.Sort(got)
	c.Expect(slices.Equal(got, want), fmt.Sprintf("the actions %v", want), "the actions %v", got)
}

// maxPodBody is the maximum size in bytes of a request that creates a pod.
const maxPodBody = 102_400

// podChangeCases judge the API changes of November 2026 to pods and clusters.
var podChangeCases = section(suite.Case{Level: suite.Should, Needs: podNeeds, Allow: suite.Create | suite.Spend}, []suite.Case{
	{ID: "VER-79", Source: "API changes of November 2026, 1.3", Statement: "The gpu of a pod contains vcpuCount and memory, numbers of at least 1. A create accepts minRamPerGpu and minVcpuCountPerGpu, integers of at least 1; vcpuCount and memory in a create return 422.",
		Requests: 40, Run: func(c *suite.C) {
			body := func() suite.M {
				return suite.M{"name": c.Name(), "image": c.Image(), "gpu": suite.M{"id": c.GPUs(1)[0], "count": 1, "minVcpuCountPerGpu": 1, "minRamPerGpu": 1}}
			}
			id := c.Create("v2", "/pods", body()).Success().Str("id")
			pods := &objects{c: c, kind: kindOf("pod", "v2")}
			c.Expect(eventually(c, func() bool { return pods.list()[id] != nil }), "the pod in the list", "a list without %s", id)
			for _, shown := range []suite.M{pods.read(id), pods.list()[id]} {
				for _, member := range []string{"gpu.vcpuCount", "gpu.memory"} {
					value, _ := suite.Find(shown, member)
					c.Expect(decimal(value).Cmp(big.NewRat(1, 1)) >= 0, "a number of at least 1 in "+member, "the value %s", suite.JSONText(value))
				}
			}
			for _, withRefused := range refusedValues("v2", "gpuPod") {
				c.Create("v2", "/pods", withRefused(body())).Is(422)
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
			expectProblem(c.Create("v2", "/pods", nil, suite.Raw(larger)).Is(413))
			expectProblem(c.Create("v2", "/pods", nil, suite.Raw(larger), suite.WithoutKey()).Is(413))
		}},
	{ID: "VER-81", Source: "API changes of November 2026, 1.5", Statement: "The settings that a pod gets from its template count towards the limit of 102,400 bytes.",
		Requests: 8, Run: func(c *suite.C) {
			env := func(name string) suite.M { return suite.M{name: strings.Repeat("x", 60_000)} }
			t := c.Create("v2", "/templates", suite.M{"name": c.Name(), "image": c.Image(), "serverless": false, "env": env("A")}).Success()
			for name, want := range map[string]int{"A": 200, "B": 413} { // the body's A replaces the template's
				body := podBody(c, suite.M{"templateId": t.Str("id"), "env": env(name)})
				delete(body, "image")
				c.Create("v2", "/pods", body).Is(want)
			}
		}},
	{ID: "VER-82", Source: "API changes of November 2026, 1.4", Statement: "A cluster created with templateId has the settings and the registry auth of that pod template; its member template is the template's id. templateId together with image, args, entrypoint, cmd, disk, env, ports or mounts returns 400.",
		Requests: 28, Run: func(c *suite.C) {
			registry, _ := newRegistryAuth(c)
			t := c.Create("v2", "/templates", suite.M{"name": c.Name(), "image": c.Image(), "serverless": false, "env": suite.M{"A": "1"}, "disk": 7, "registry": registry}).Success()
			body := suite.Merge(clusterBody(c, 2), suite.M{"templateId": t.Str("id")})
			delete(body, "image")
			id := newClusterOf(c, body)
			c.V2("GET", "/clusters/"+suite.PathSegment(id), nil).Is(200).Equal("template", t.Str("id"))
			pod := readPod(c, podOfCluster(c, id)).Equal("image", c.Image()).Equal("env.A", "1").Equal("disk", 7)
			pod.Expect(pod.Contains(registry), "the template's registry auth") // as an id, or nested
			for member, value := range map[string]any{"image": c.Image(), "args": "a", "entrypoint": listOf("a"), "cmd": listOf("a"), "disk": 9, "env": suite.M{"B": "1"}, "ports": []any{"80/http"}, "mounts": suite.M{"persistent": suite.M{"size": 10, "path": "/p"}}} {
				c.Create("v2", "/clusters", suite.Merge(body, suite.M{member: value})).Is(400)
			}
			c.Create("v2", "/clusters", suite.Merge(body, suite.M{"templateId": ""})).Is(422)
		}},
})
