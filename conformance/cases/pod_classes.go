package cases

import (
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// podClassCases apply rules of other sections to pods and clusters, which cost money.
var podClassCases = []suite.Case{
	{ID: "AUT-05-compute", Needs: podNeeds | suite.V1 | suite.OtherKey, Allow: suite.Create | suite.Spend, Operations: clusterOperations, Requests: 80, WaitTime: 5 * time.Second, Run: func(c *suite.C) {
		ids := map[string]string{"pod": newPod(c, suite.M{"env": suite.M{"A": "1"}}), "cluster": newCluster(c)}
		c.Given("VER-57", func() { awaitPod(c, ids["pod"], "RUNNING") })
		before := readPod(c, ids["pod"])
		other, word := suite.As(c.OtherKey()), "conf-"+c.Nonce()
		for _, op := range slices.Concat(operationsOfV1, operationsOfV2) {
			id, known := ids[op.kind]
			if !known && op.kind != "billing" {
				continue
			}
			a := op.send(c, id, op.validBody(c, nil, c.Nonce()), other)
			switch {
			case op.takesID():
				expectForeignRefused(c, op, a)
			case op.kind == "billing":
				if op.described || !isMissing(a) {
					expectForeignRefused(c, op, a)
				}
			default: // the list may have the key's own pods
				a.NotContains(ids["pod"]).NotContains(ids["cluster"])
			}
		}
		for _, action := range []string{"stop", "restart", "terminate"} {
			c.V2("POST", "/pods/"+ids["pod"]+"/action", suite.M{"action": action}, other).Is(401, 403, 404)
		}
		for path, body := range map[string]suite.M{"/pods": podBody(c, suite.M{"name": word}), "/clusters": suite.Merge(clusterBody(c, 2), suite.M{"name": word})} {
			c.Create("v2", path, body, other).Is(401, 403, 404)
			c.V2("GET", path+"?includeClusterPods=true", nil).Is(200).NotContains(word)
		}
		c.Sleep(2 * time.Second)
		after := readPod(c, ids["pod"]).Equal("status", "RUNNING")
		for _, member := range []string{"name", "env", "image"} {
			after.Equal(member, before.Value(member))
		}
		c.V2("GET", "/clusters/"+ids["cluster"], nil).Is(200)
	}},
	{ID: "ERR-13-compute", Needs: podNeeds, Allow: suite.Create | suite.Spend, Operations: clusterOperations, Requests: 60, WaitTime: 5 * time.Second, Run: func(c *suite.C) {
		var words []string
		refuse := func(path string, body suite.M) {
			body["name"] = "conf-" + c.Nonce()
			if a := c.Create("v2", path, body); a.Code/100 == 4 {
				words = append(words, body["name"].(string))
			}
		}
		for member, value := range map[string]any{"type": "OTHER", "registry": "some-registry", "image": 5, "env": suite.M{"A": 5}, "conformance": true, "compute": suite.M{}} {
			refuse("/clusters", suite.Merge(clusterBody(c, 2), suite.M{member: value}))
		}
		for member, value := range map[string]any{"podCount": 1, "gpuCountPerPod": 0, "gpuTypeId": ""} {
			body := clusterBody(c, 2)
			body["compute"].(suite.M)[member] = value
			refuse("/clusters", body)
		}
		for member, value := range map[string]any{"image": 5, "env": suite.M{"A": 5}, "conformance": true, "ports": []any{"80/udp"}, "cloud": "OTHER", "disk": -1, "gpu": suite.M{"id": c.GPUs(1)[0], "count": 1}} {
			refuse("/pods", podBody(c, suite.M{member: value}))
		}
		c.Expect(len(words) >= 8, "refusals of malformed clusters and pods", "%d refusals", len(words))
		c.Sleep(consistency)
		for _, list := range []string{"/clusters", "/pods?includeClusterPods=true"} {
			expectNone(c.V2("GET", list, nil).Is(200), words)
		}
	}},
	{ID: "VER-57-settings", Needs: podNeeds, Allow: suite.Create | suite.Spend, Operations: podActions, Requests: 90, Run: func(c *suite.C) {
		s := newObjects(c, kindV2("pod"))
		values := s.values()
		delete(values, "args") // the image doesn't have the command
		id := s.create(values).id
		awaitPod(c, id, "RUNNING")
		before := s.read(id)
		for _, step := range [][2]string{{"stop", "EXITED"}, {"start", "RUNNING"}, {"restart", "RUNNING"}} {
			actOnPod(c, id, step[0]).Success()
			awaitPod(c, id, step[1])
			s.expectUnchangedExcept(id, before, "", "after the action "+step[0])
		}
	}},
	{ID: "VER-65-v1", Needs: podNeeds | suite.V1, Allow: suite.Create | suite.Spend, Operations: append(slices.Clone(podOperationsV1), "PATCH /v2/pods/{id}"), Requests: 90, Run: func(c *suite.C) {
		id := newRunningPod(c)
		for _, version := range []api{v1API, v2API} {
			sendTo(c, version, "PATCH", "/pods/"+id, suite.M{"locked": true}).Success()
			awaitMember(c, "/pods/"+id, "locked", true)
			c.V1("POST", "/pods/"+id+"/stop", nil).Refused()
			actOnPod(c, id, "stop").Refused()
			readPod(c, id).Equal("status", "RUNNING")
			sendTo(c, version, "PATCH", "/pods/"+id, suite.M{"locked": false}).Success()
			awaitMember(c, "/pods/"+id, "locked", false)
		}
		c.V1("POST", "/pods/"+id+"/stop", nil).Success()
		awaitPod(c, id, "EXITED")
	}},
	{ID: "VER-61-each", Needs: podNeeds, Allow: suite.Create | suite.Spend, Operations: podUpdates, Requests: 120, Run: judgeUnsentMembers("pod")},
	{ID: "VER-19-each", Needs: suite.V2 | suite.LocalOnly, Allow: suite.Create, Requests: 120, Run: judgeUnsentMembers("endpoint")},
	{ID: "VER-19-named", Needs: suite.V2, Allow: suite.Create, Requests: 12, Run: func(c *suite.C) {
		s := newObjects(c, kindV2("endpoint"))
		id := s.create(s.values()).id
		before := s.read(id)
		c.V2("PATCH", s.url(id), suite.M{"name": c.Name()}).Success()
		s.expectUnchangedExcept(id, before, "name", "after an update of the name")
	}},
}

func kindV2(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name && k.version == "v2" })]
}

// judgeUnsentMembers updates each member of the table by itself, and expects that all
// others keep their values. It also compares members that the description lacks.
func judgeUnsentMembers(name string) func(*suite.C) {
	return func(c *suite.C) {
		s := newObjects(c, kindV2(name))
		o := s.create(s.values())
		for _, f := range s.changeable(o) {
			if f.exclusive || f.single || excludes[f.path] != "" || slices.Contains([]string{"image", "scaling", "gpu"}, firstSegment(f.path)) {
				continue // may change other members
			}
			before := s.read(o.id)
			value, _ := s.placeholders.resolve(f.otherValue)
			if a := s.ask("PATCH", s.url(o.id), s.body(suite.M{f.path: value})); a.Code/100 == 2 {
				s.expectUnchangedExcept(o.id, before, f.path, "after an update of "+f.path)
			}
		}
	}
}

// expectUnchangedExcept expects that an object's members are unchanged, except one.
func (s *objects) expectUnchangedExcept(id string, before suite.M, except, when string) {
	before = s.asTable(before)
	var changed string
	unchanged := eventually(s.c, func() bool {
		changed = ""
		current := s.asTable(s.read(id))
		for _, f := range s.fields {
			old, shown := memberAt(before, f.path)
			if value, _ := memberAt(current, f.path); shown && f.path != except && !isEmpty(old) && f.difference(old, value) != "" {
				changed = f.path
			}
		}
		return changed == ""
	})
	s.c.Expect(unchanged, "all other members as before", "another %s %s", changed, when)
}
