package cases

import (
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// existenceCases judge that operations exist by their effect on an object of the case. They
// are for deployments that answer an unknown id and an unknown path alike.
var existenceCases = []suite.Case{
	{ID: "VER-16-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create | suite.Spend, Requests: 130, Operations: podActions, Run: func(c *suite.C) {
		id := newPod(c, nil)
		await := func(status string) { c.Given("VER-57", func() { awaitPod(c, id, status) }) }
		await("RUNNING")
		c.V2("POST", "/pods/"+id+"/nothing", suite.M{"action": "stop"}).Refused()
		for _, step := range [][2]string{{"restart", "RUNNING"}, {"stop", "EXITED"}, {"start", "RUNNING"}} {
			actOnPod(c, id, step[0]).Success()
			await(step[1])
		}
		actOnPod(c, id, "terminate").Success()
		c.Given("VER-60", func() { expectNotFound(c, "/pods/"+id) })
	}},
	{ID: "VER-17-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create | suite.Spend, Requests: 80, Operations: podActions, Run: func(c *suite.C) {
		id := newRunningPod(c)
		for _, body := range []suite.M{{"action": "reset"}, {"action": "dance"}, {}} {
			c.V2("POST", "/pods/"+id+"/action", body).Refused()
			readPod(c, id).Equal("status", "RUNNING")
		}
		c.Given("VER-16", func() { actOnPod(c, id, "stop").Success() }) // shows that the body was refused, not the path
		c.Given("VER-57", func() { awaitPod(c, id, "EXITED") })
	}},
	{ID: "VER-18-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create | suite.Spend, Operations: podDeletions, Run: func(c *suite.C) {
		id := newPod(c, nil)
		c.V2("DELETE", "/nothings/"+id, nil).Refused()
		c.V2("DELETE", "/pods/"+id, nil).Success()
		c.Given("VER-60", func() { expectNotFound(c, "/pods/"+id) })
	}},
	{ID: "VER-42-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create | suite.Spend, Requests: 60, Operations: append(slices.Clone(podOperations), "GET /v2/pods/{id}/logs"), Run: func(c *suite.C) {
		id := newRunningPod(c)
		expectLogs(c, "/pods/"+id)
	}},
	{ID: "VER-44-effect", Supplementary: true, Decides: true, Needs: suite.V2 | suite.OwnEndpoint, Allow: suite.Queue, Requests: 30, Jobs: 1, Seconds: 10,
		Operations: []string{"GET /v2/serverless/{id}/workers", "GET /v2/serverless/{id}/workers/{workerId}/logs"}, Run: func(c *suite.C) {
			c.Blocker(10 * time.Second)
			path := "/serverless/" + c.Endpoint + "/workers"
			var ids []string
			c.Given("VER-43", func() {
				eventually(c, func() bool { ids = c.V2("GET", path, nil).Is(200).IDs(); return len(ids) > 0 })
			})
			if len(ids) == 0 {
				c.Skip("the list shows no worker of the endpoint")
			}
			expectLogs(c, path+"/"+suite.PathSegment(ids[0]))
		}},
	{ID: "VER-48-effect", Supplementary: true, Decides: true, Needs: suite.V2, Allow: suite.Create, Operations: delegationOperations, Run: func(c *suite.C) {
		id := newDelegation(c)
		c.V2("DELETE", "/registries/nothings/"+suite.PathSegment(id), nil).Refused()
		c.V2("DELETE", delegationPath+"/"+suite.PathSegment(id), nil).Success()
		c.Given("VER-55", func() {
			c.Expect(eventually(c, func() bool { return !listDelegations(c).Contains(id) }), "a list without the delegation", "a list with the delegation %s", id)
		})
	}},
}

// expectNotFound expects that an object of version 2 doesn't exist.
func expectNotFound(c *suite.C, path string) {
	var a *suite.Answer
	eventually(c, func() bool { a = c.V2("GET", path, nil); return a.Code == 404 })
	a.Exactly(404)
}

// expectLogs expects that a path has logs, unlike its neighbours. A stream that is held
// counts, since an unknown path is answered at once.
func expectLogs(c *suite.C, path string) {
	c.V2("GET", path+"/nothing", nil, suite.SkipBody()).Refused()
	var a *suite.Answer
	if !eventually(c, func() bool {
		a = c.V2("GET", path+"/logs", nil, suite.SkipBody())
		return a.Code == 0 || a.Code/100 == 2
	}) {
		a.Success()
	}
}

// expectUnknownID expects that version 2 has the path, but no object with the id. If the
// answer about an unknown path has the same words, or if the words change, only a case with
// Decides can judge this.
func expectUnknownID(c *suite.C, method, path, none string, body any) {
	send := func(path string) (a *suite.Answer, words string) {
		path = strings.ReplaceAll(path, "{id}", c.Nonce())
		a = c.V2(method, path, body)
		words = suite.JSONText(a.Shown("detail"))
		for segment := range strings.SplitSeq(path, "/") {
			words = strings.ReplaceAll(words, segment, "")
		}
		return a, words
	}
	a, words := send(path)
	a.Is(404, 400, 422).Str("detail") // the id may be malformed
	unknown, wordsOfUnknown := send(none)
	_, wordsOfRepeat := send(none)
	if unknown.Code == a.Code && (words == wordsOfUnknown || wordsOfRepeat != wordsOfUnknown) {
		c.Inconclusive("an unknown id and an unknown path get the same answer, %d %s; only an object of the suite distinguishes them: --allow create,queue,spend", a.Code, words)
	}
}
