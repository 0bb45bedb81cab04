package cases

import (
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Every operation on what is not there: never was, is another endpoint's, or was
// deleted.
var absent = []suite.Case{
	{ID: "JOB-40-like", Needs: suite.Own, Allow: suite.Queue, Jobs: 4, Requests: 40, Takes: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, j := range s.jobs() {
			id := suite.Resembling(j.ID)
			ofJobs(func(op contractOperation) { op.send(c, id, nil).Is(404) })
		}
		s.unchanged()
	}},
	{ID: "JOB-41-every", Needs: suite.Own | suite.Second, Allow: suite.Queue, Jobs: 4, Requests: 60, Takes: 20 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		ofJobs(func(op contractOperation) {
			for _, j := range s.jobs() {
				a := c.Job(op.method, c.E2, op.at(j.ID), nil)
				c.Expect(a.IsRefusal() || a.Code == 403, op.String()+" through another endpoint: 404 or 403", "the answer %d %.200s", a.Code, a.Body)
			}
		})
		s.setTTL(c.E2)
		for _, j := range s.jobs() {
			c.Job("GET", c.E2, "/requests", nil).Lacks(j.ID)
		}
		c.Job("POST", c.E2, "/purge-queue", nil).Is(200).Equal("removed", 0)
		s.unchanged()
	}},
	{ID: "ERR-02-management", Needs: suite.V2, Requests: 10, Run: func(c *suite.C) {
		c.V2("GET", "/serverless", nil).Is(200)
		id := c.Nonce()[:14]
		list := operationsOf(v2API)
		if !c.Local() {
			list = onePerKind(slices.DeleteFunc(list, func(op contractOperation) bool { return !op.about() }))
		}
		for _, op := range list {
			if op.kind == "endpoint" && op.about() {
				op.send(c, id, op.good(c, nil, c.Nonce())).Is(404, 400) // the id may be malformed
			}
		}
	}},
	{ID: "ERR-02-deleted", Needs: suite.V2 | suite.Endpoint, Allow: suite.Create | suite.Queue, Jobs: 3, Requests: 45, Takes: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		c.E = c.NewEndpoint(1)
		done := c.Run(suite.Echo())
		done.Completed()
		jobs := []*suite.Job{done, c.Blocker(time.Minute), c.Run(suite.Echo())}
		c.V2("DELETE", "/serverless/"+c.E, nil).Success()
		c.Sleep(consistency)
		until(c, func() *suite.Answer { return c.Get("/health") }, func(a *suite.Answer) bool { return a.Code/100 == 4 })
		for _, op := range jobOperations {
			for _, j := range jobs {
				op.send(c, j.ID, op.good(c, nil, c.Nonce())).Is(404, 410)
				if !op.about() {
					break
				}
			}
		}
		for _, op := range operationsOf(v2API) {
			if op.kind == "endpoint" && op.about() {
				op.send(c, c.E, op.good(c, nil, c.Nonce())).Is(404, 410)
			}
		}
		c.V2("GET", "/serverless", nil).Is(200).Lacks(c.E)
	}},
	{ID: "ERR-15", Needs: suite.V1, Allow: suite.Create, Requests: 170, Takes: time.Minute, Run: deleted(v1API)},
	{ID: "ERR-15-v2", Needs: suite.V2, Allow: suite.Create, Requests: 170, Takes: time.Minute, Run: deleted(v2API)},
}

// ofJobs is for each operation on a job.
func ofJobs(do func(op contractOperation)) {
	for _, op := range jobOperations {
		if op.about() {
			do(op)
		}
	}
}

// until waits until the answer is what it should be: deletions and counts may come a
// little late.
func until(c *suite.C, ask func() *suite.Answer, done func(*suite.Answer) bool) {
	for range 5 {
		if done(ask()) {
			return
		}
		c.Sleep(time.Second)
	}
}

// deleted judges that a version knows nothing of objects that never were, and of
// those that were deleted.
func deleted(a api) func(*suite.C) {
	return func(c *suite.C) {
		o, others := newRealObjects(c, a), newRealObjects(c, a)
		for _, kind := range objectKinds {
			id := o.ids[kind]
			var served []contractOperation
			for _, op := range operationsOf(a) {
				if op.kind == kind && op.about() && (op.shown || o.item[kind].path != "") {
					served = append(served, op)
				}
			}
			for _, op := range served {
				absentObject(op, op.send(c, c.Nonce(), op.good(c, o, c.Nonce())), 400) // an id may be malformed
				if id != "" {
					absentObject(op, op.send(c, suite.Resembling(id), op.good(c, o, c.Nonce())), 404)
				}
				for _, other := range objectKinds {
					if o.ids[other] != "" && !strings.Contains(other, kind) { // of another kind
						absentObject(op, op.send(c, o.ids[other], op.good(c, o, c.Nonce())), 400)
					}
				}
			}
			if id == "" || kind == "serverless template" { // an endpoint uses that one
				continue
			}
			path := collection(a, kind) + "/" + id
			if down := ask(c, a, "DELETE", path, nil); down.Code/100 != 2 {
				c.Expect(a == v1API && missing(down), "DELETE of the "+kind+" that was made: 2xx", "the answer %d %.200s", down.Code, down.Body)
				continue // version 1 need not serve it
			}
			c.Sleep(consistency)
			if list, ok := o.list[kind]; ok {
				list.send(c, "", nil).Is(200).Lacks(id)
			}
			for _, op := range served {
				absentObject(op, op.send(c, id, op.good(c, o, c.Nonce())), 410)
			}
		}
		others.untouched()
	}
}

// absentObject expects 404, or what else says so; version 1 answers 400, too.
func absentObject(op contractOperation, a *suite.Answer, or int) {
	if op.api == v1API {
		a.Refused()
		return
	}
	a.Is(404, or)
}
