package cases

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// clusterCases judge clusters. The description has their path; the OpenAPI document of version 2 has the
// rest. No case waits for a placement, since a deployment may have too few GPUs.
var clusterCases = section(suite.Case{Level: suite.Must, Needs: podNeeds, Allow: suite.Create | suite.Spend}, []suite.Case{
	{ID: "VER-70", Source: "Versioning, 3; v2 document, Cluster and PodCluster", Statement: "A cluster has podCount pods with the cluster's hardware and ranks from 0. Its response has the number of pods in each status.",
		Requests: 30, Run: func(c *suite.C) {
			name := c.Name()
			body := suite.Merge(clusterBody(c, 3), suite.M{"name": name, "env": suite.M{"A": "1"}})
			id := newClusterOf(c, body)
			shown := c.V2("GET", "/clusters/"+suite.PathSegment(id), nil).Is(200).Equal("name", name).Equal("type", "TRAINING").Equal("compute.podCount", 3).Equal("compute.gpuCountPerPod", 1)
			shown.Equal("compute.gpuTypeId", body["compute"].(suite.M)["gpuTypeId"]).Str("createdAt")
			c.Expect(eventually(c, func() bool { return summaryOf(c, id) == "3 of 3" }), "3 of 3 pods counted by status", "%s pods", summaryOf(c, id))
			for page := range c.Pages("v2", "/clusters") {
				for i, cluster := range page.Is(200).List("clusters") {
					if cluster["id"] == id {
						page.Equal(fmt.Sprintf("clusters.%d.compute", i), shown.Value("compute")).Equal(fmt.Sprintf("clusters.%d.pods.total", i), 3)
					}
				}
			}
			withoutRoles := []string{"", "", ""}
			c.Expect(eventually(c, func() bool { return slices.Equal(rolesByRank(c, id), withoutRoles) }), "the ranks 0, 1 and 2", "the roles by rank %q", rolesByRank(c, id))
			pods := c.V2("GET", "/clusters/"+suite.PathSegment(id)+"/pods", nil).Is(200)
			for i := range 3 {
				pod := fmt.Sprintf("pods.%d.", i)
				pods.Equal(pod+"cluster.id", id).Equal(pod+"image", c.Image()).Equal(pod+"env.A", "1").Equal(pod+"gpu.count", 1).Equal(pod+"gpu.id", shown.Value("compute.gpuTypeId"))
			}
		}},
	{ID: "VER-71", Source: "Versioning, 3; v2 document, listPods", Statement: "GET /v2/pods omits the pods of clusters unless includeClusterPods=true.",
		Requests: 20, Run: func(c *suite.C) {
			pod := podOfCluster(c, newCluster(c))
			c.V2("GET", "/pods/"+suite.PathSegment(pod), nil).Is(200).Equal("id", pod)
			// Check the list that includes the pod first, since a list may show a new pod late.
			c.Expect(eventually(c, func() bool { return c.IsListed("v2", "/pods?includeClusterPods=true", pod) }), "the cluster's pod in the list with includeClusterPods=true", "a list without %s", pod)
			for _, query := range []string{"", "?includeClusterPods=false"} {
				c.Expect(!c.IsListed("v2", "/pods"+query, pod), "no pod of a cluster in /v2/pods"+query, "a list with %s", pod)
			}
		}},
	{ID: "VER-72", Source: "Versioning, 3; v2 document, updateCluster", Statement: "PATCH renames a cluster and changes nothing else.",
		Requests: 30, Run: func(c *suite.C) {
			id, name := newCluster(c), c.Name()
			c.V2("PATCH", "/clusters/"+suite.PathSegment(id), suite.M{"name": name}).Success().EqualIfShown("name", name)
			awaitMember(c, "/clusters/"+suite.PathSegment(id), "name", name)
			c.Expect(eventually(c, func() bool { return c.IsListed("v2", "/clusters", name) }), "the new name in the list", "a list without %s", name)
			for member, value := range map[string]any{
				"type": "APPLICATION", "compute": clusterBody(c, 3)["compute"], "image": c.Image(), "env": suite.M{"A": "2"}, "ports": []any{"80/http"},
			} {
				c.V2("PATCH", "/clusters/"+suite.PathSegment(id), suite.M{"name": name + "x", member: value}).Refused()
			}
			c.V2("PATCH", "/clusters/"+suite.PathSegment(id), suite.M{}).Refused()
			c.V2("PATCH", "/clusters/"+suite.PathSegment(id), suite.M{"name": ""}).Refused()
			c.V2("GET", "/clusters/"+suite.PathSegment(id), nil).Is(200).Equal("name", name).Equal("type", "TRAINING").Equal("compute.podCount", 2)
		}},
	{ID: "VER-73", Source: "Versioning, 6; v2 document, updatePod and deletePod", Statement: "A cluster's pod can't be updated or deleted by itself.",
		Requests: 30, Run: func(c *suite.C) {
			id := newCluster(c)
			pod := podOfCluster(c, id)
			name := readPod(c, pod).Str("name")
			c.V2("PATCH", "/pods/"+suite.PathSegment(pod), suite.M{"name": c.Name()}).Refused()
			c.V2("DELETE", "/pods/"+suite.PathSegment(pod), nil).Refused()
			actOnPod(c, pod, "terminate").Refused()
			if c.Serves("v1") {
				for _, update := range []operation{patch, postUpdate} {
					c.V1(update.method, "/pods/"+suite.PathSegment(pod)+update.suffix, suite.M{"name": c.Name()}).Refused()
				}
				c.V1("DELETE", "/pods/"+suite.PathSegment(pod), nil).Refused()
			}
			readPod(c, pod).Equal("name", name)
			c.Expect(summaryOf(c, id) == "2 of 2", "a cluster of 2 of 2 pods", "%s pods", summaryOf(c, id))
		}},
	{ID: "VER-74", Source: "Versioning, 3; v2 document, deleteCluster", Statement: "DELETE deletes the cluster and all its pods, and no other cluster.",
		Requests: 30, Run: func(c *suite.C) {
			id, other := newCluster(c), newCluster(c)
			podOfOther, deletedPaths := podOfCluster(c, other), []string{"/clusters/" + suite.PathSegment(id), "/clusters/" + suite.PathSegment(id) + "/pods"}
			podOfCluster(c, id) // waits for the pods
			for _, pod := range clusterPods(c, id) {
				deletedPaths = append(deletedPaths, "/pods/"+suite.PathSegment(stringOrEmpty(pod["id"])))
			}
			c.V2("DELETE", "/clusters/"+suite.PathSegment(id), nil).Success()
			for _, path := range deletedPaths {
				expectNotFound(c, path)
			}
			c.Expect(eventually(c, func() bool { return !c.IsListed("v2", "/clusters", id) }), "a list without the deleted cluster", "a list with %s", id)
			readPod(c, podOfOther).Equal("cluster.id", other)
			c.Expect(summaryOf(c, other) == "2 of 2", "the other cluster with 2 of 2 pods", "%s pods", summaryOf(c, other))
		}},
	{ID: "VER-75", Source: "Versioning, 3; v2 document, CreateClusterRequest and ClusterCompute", Statement: "A cluster needs a name, a known type and a compute of 2 to 250 pods with at least one GPU each. A registry auth is rejected.",
		Requests: 60, Run: func(c *suite.C) {
			newCluster(c)
			for _, withRefused := range refusedValues("v2", "cluster") {
				c.Create("v2", "/clusters", withRefused(clusterBody(c, 2))).Refused()
			}
		}},
	{ID: "VER-76", Source: "Versioning, 3; v2 document, PodClusterRole", Statement: "The pods of SLURM and RAY clusters have roles; rank 0 is the controller or the head. Pods of other clusters have no role.",
		Requests: 40, Run: func(c *suite.C) {
			for clusterType, want := range map[string][2]string{
				"TRAINING": {}, "APPLICATION": {}, "RAY": {"RAY_HEAD", "RAY_WORKER"}, "SLURM": {"SLURM_CONTROLLER", "SLURM_COMPUTE"},
			} {
				id := newClusterOf(c, suite.Merge(clusterBody(c, 2), suite.M{"type": clusterType}))
				c.Expect(eventually(c, func() bool { return slices.Equal(rolesByRank(c, id), want[:]) }), fmt.Sprintf("the roles %q by rank in a %s cluster", want, clusterType), "the roles %q", rolesByRank(c, id))
			}
		}},
})

func clusterBody(c *suite.C, pods int) suite.M {
	return suite.M{
		"name": c.Name(), "type": "TRAINING", "image": c.Image(),
		"compute": suite.M{"gpuTypeId": c.GPUs(1)[0], "gpuCountPerPod": 1, "podCount": pods},
	}
}

func newCluster(c *suite.C) (id string) { return newClusterOf(c, clusterBody(c, 2)) }

// newClusterOf creates a cluster and waits until it can be read.
func newClusterOf(c *suite.C, body suite.M) (id string) {
	id = c.Create("v2", "/clusters", body).Success().EqualIfShown("name", body["name"]).EqualIfShown("type", body["type"]).Str("id")
	readBack(c, "/clusters/"+suite.PathSegment(id))
	return id
}

// podOfCluster waits until a cluster has pods, and returns the id of the first.
func podOfCluster(c *suite.C, id string) string {
	c.Expect(eventually(c, func() bool { return len(clusterPods(c, id)) > 0 }), "a cluster with pods", "0 pods")
	return stringOrEmpty(clusterPods(c, id)[0]["id"])
}

func clusterPods(c *suite.C, id string) []suite.M {
	return c.V2("GET", "/clusters/"+suite.PathSegment(id)+"/pods", nil).Is(200).List("pods")
}

// rolesByRank returns the role of each pod of a cluster, or "" for no role, ordered by the ranks from 0.
// It returns nil if the pods don't have these ranks.
func rolesByRank(c *suite.C, id string) []string {
	pods := clusterPods(c, id)
	roles := make([]string, len(pods))
	for rank := range pods {
		i := slices.IndexFunc(pods, func(pod suite.M) bool {
			shown, _ := suite.Find(pod, "cluster.rank")
			return suite.Same(shown, rank)
		})
		if i < 0 {
			return nil
		}
		role, _ := suite.Find(pods[i], "cluster.role")
		roles[rank] = stringOrEmpty(role)
	}
	return roles
}

// summaryOf returns the sum of a cluster's counts by status and its number of pods, such as "3 of 3".
func summaryOf(c *suite.C, id string) string {
	a := c.V2("GET", "/clusters/"+suite.PathSegment(id), nil).Is(200)
	sum := 0
	for status, count := range a.Object("pods.byStatus") {
		if _, isNumber := count.(json.Number); isNumber { // a further member may be anything
			sum += int(a.Int("pods.byStatus." + status))
		}
	}
	return fmt.Sprintf("%d of %d", sum, a.Int("pods.total"))
}

// podClassCases apply rules of other sections to pods and clusters, which cost money, and VER-19 to all members.
var podClassCases = []suite.Case{
	{ID: "AUT-03-compute", Needs: podNeeds, Allow: suite.Create | suite.Spend, Requests: 70, WaitTime: 5 * time.Second, Run: judgeComputeAccess(withoutKey, 401)},
	{ID: "AUT-04-compute", Needs: podNeeds, Allow: suite.Create | suite.Spend, Requests: 110, WaitTime: 5 * time.Second, Run: judgeComputeAccess(unknownKeys, 401)},
	{ID: "AUT-05-compute", Needs: podNeeds | suite.V1 | suite.OtherKey, Allow: suite.Create | suite.Spend, Requests: 80, WaitTime: 5 * time.Second, Run: judgeComputeAccess(otherKey, 401, 403, 404)},
	{ID: "ERR-13-compute", Needs: podNeeds, Allow: suite.Create | suite.Spend, Requests: 100, WaitTime: 5 * time.Second, Run: func(c *suite.C) {
		var words []string // names of refused objects
		send := func(path string, body suite.M) {
			body["name"] = "conf-" + c.Nonce()
			if a := c.Create("v2", path, body); a.Code/100 == 4 {
				words = append(words, body["name"].(string))
			}
		}
		for _, withRefused := range append(refusedValues("v2", "cluster"), refusedValues("v2", "template")...) {
			send("/clusters", withRefused(clusterBody(c, 2)))
		}
		for _, withRefused := range refusedValues("v2", "pod") {
			send("/pods", withRefused(podBody(c, nil)))
		}
		c.Expect(len(words) >= 8, "refusals of malformed clusters and pods", "%d refusals", len(words))
		c.Sleep(consistency)
		for _, list := range []string{"/clusters", "/pods?includeClusterPods=true"} {
			expectNotListed(c, "v2", list, words...)
		}
	}},
	{ID: "ERR-14-compute", Needs: podNeeds, Allow: suite.Create | suite.Spend, Requests: 30, Run: func(c *suite.C) {
		path := "/pods/" + suite.PathSegment(newPod(c, nil))
		for member, value := range map[string]any{"image": 5, "env": suite.M{"A": 5}, "conformance": true, "ports": []any{"80/udp"}, "disk": -1, "locked": "yes", "cpu": suite.M{"id": "other"}} {
			before := c.V2("GET", path, nil).Is(200).Str("name")
			if c.V2("PATCH", path, suite.M{"name": c.Name(), member: value}).Code/100 == 4 {
				c.V2("GET", path, nil).Is(200).Equal("name", before)
			}
		}
	}},
	{ID: "VER-19-each", Needs: suite.V2 | suite.LocalOnly, Allow: suite.Create, Requests: 120, Run: judgeUnsentMembers("endpoint")},
}

// judgeComputeAccess sends every operation on a pod and a cluster with credentials that don't give access, and expects one of the codes, and
// no effect. With several codes, a list may have the key's own objects.
func judgeComputeAccess(credentials func(*suite.C) []suite.Option, codes ...int) func(*suite.C) {
	return func(c *suite.C) {
		ids := map[string]string{"pod": newPod(c, suite.M{"env": suite.M{"A": "1"}}), "billing": ""}
		c.Given("VER-70", func() { ids["cluster"] = newCluster(c) })
		c.Given("VER-57", func() { awaitPod(c, ids["pod"], "RUNNING") })
		before, word := readPod(c, ids["pod"]), "conf-"+c.Nonce()
		paths := strings.NewReplacer("{pod}", suite.PathSegment(ids["pod"]), "{cluster}", suite.PathSegment(ids["cluster"]))
		for _, auth := range credentials(c) {
			for _, op := range managementOperations {
				id, known := ids[op.kind]
				if !known || !op.api.servedBy(c) {
					continue
				}
				switch a := op.send(c, id, op.validBody(c, nil, c.Nonce()), auth); {
				case !op.described && isMissing(a):
				case len(codes) == 1:
					a.Is(codes...)
				case op.takesID() || op.kind == "billing":
					expectForeignRefused(c, op, a)
				default:
					a.NotContains(ids["pod"]).NotContains(ids["cluster"])
				}
			}
			for _, request := range []string{ // not in operations.tsv, or with a real pod
				`v2 POST /pods/{pod}/action {"action":"stop"}`, `v2 POST /pods/{pod}/action {"action":"restart"}`, `v2 POST /pods/{pod}/action {"action":"terminate"}`,
				`v2 PATCH /clusters/{cluster} {"name":"other"}`, `v2 GET /clusters/{cluster}/pods `, `v1 POST /pods/{pod}/stop `, `v1 PATCH /pods/{pod} {"name":"other"}`, `v1 POST /pods/{pod}/update {"name":"other"}`,
			} {
				parts := strings.SplitN(paths.Replace(request), " ", 4)
				if version := api(parts[0]); version.servedBy(c) {
					if a := sendTo(c, version, parts[1], parts[2], nil, suite.Raw(parts[3]), auth); version == v2API || !isMissing(a) {
						a.Is(codes...)
					}
				}
			}
			for path, body := range map[string]suite.M{"/pods": podBody(c, suite.M{"name": word}), "/clusters": suite.Merge(clusterBody(c, 2), suite.M{"name": word})} {
				c.Create("v2", path, body, auth).Is(codes...)
				expectNotListed(c, "v2", path+"?includeClusterPods=true", word)
			}
		}
		c.Sleep(2 * time.Second)
		readPod(c, ids["pod"]).Equal("status", "RUNNING").Equal("name", before.Value("name")).Equal("env", before.Value("env")).Equal("image", before.Value("image"))
		c.V2("GET", "/clusters/"+suite.PathSegment(ids["cluster"]), nil).Is(200)
	}
}

// judgePodActions acts on a pod, and expects the status after each action and unchanged settings.
func judgePodActions(steps ...[2]string) func(*suite.C) {
	return func(c *suite.C) {
		s := newObjects(c, kindOf("pod", "v2"))
		values := s.values()
		delete(values, "args") // the image doesn't have the command
		id := s.create(values).id
		c.Given("VER-57", func() { awaitPod(c, id, "RUNNING") })
		before := s.read(id)
		for _, step := range steps {
			actOnPod(c, id, step[0]).Success()
			awaitPod(c, id, step[1])
			s.expectUnchangedExcept(id, before, "", "after the action "+step[0])
		}
	}
}

func kindOf(name, version string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name && k.version == version })]
}

// judgeUnsentMembers updates the given members of the table, or all if none is given, one by one.
// It expects that the other members keep their values, even if the description lacks them. Only an
// update of the name must succeed.
func judgeUnsentMembers(name string, members ...string) func(*suite.C) {
	return func(c *suite.C) {
		s := newObjects(c, kindOf(name, "v2"))
		o := s.create(s.values())
		for _, f := range s.changeable(o) {
			if len(members) > 0 && !slices.Contains(members, f.path) || f.changedLast || f.setAlone || excludedMember[f.path] != "" || slices.Contains([]string{"image", "scaling", "gpu"}, firstSegment(f.path)) {
				continue // may change other members
			}
			before := s.read(o.id)
			value, _ := s.placeholders.resolve(f.changedValue)
			a := s.request("PATCH", s.url(o.id), s.body(suite.M{f.path: value}))
			if f.path == "name" {
				a.Success().EqualIfShown("name", value)
				awaitMember(c, s.url(o.id), "name", value)
			}
			if a.Code/100 == 2 {
				s.expectUnchangedExcept(o.id, before, f.path, "after an update of "+f.path)
			}
		}
	}
}

// expectUnchangedExcept expects that an object's members are unchanged, except one. A failure names the occasion.
func (s *objects) expectUnchangedExcept(id string, before suite.M, exceptPath, occasion string) {
	before = s.asTable(before)
	var changed string
	unchanged := eventually(s.c, func() bool {
		changed = ""
		current := s.asTable(s.read(id))
		for _, f := range s.fields {
			old, shown := suite.Find(before, f.path)
			if value, _ := suite.Find(current, f.path); shown && f.path != exceptPath && !isEmpty(old) && f.difference(old, value) != "" {
				changed = f.path
			}
		}
		return changed == ""
	})
	s.c.Expect(unchanged, "all other members as before", "another %s %s", changed, occasion)
}
