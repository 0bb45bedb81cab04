package cases

import (
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// realObjects has objects of one version of the management API, for requests that must be refused although the objects exist.
type realObjects struct {
	c                    *suite.C
	api                  api
	ids, names           map[string]string // by kind
	dataCenter           string
	itemReads, listReads map[string]contractOperation // by kind; only served operations
}

// objectKinds are the kinds of realObjects, in the order of creation.
var objectKinds = []string{"template", "serverless template", "volume", "registry", "endpoint", "delegation"}

// creationClause has the clause about the creation of each kind. A registry auth and a delegation
// have none, since the description leaves their creation open.
var creationClause = map[api]map[string]string{
	v1API: {"template": "T-01", "serverless template": "T-01", "volume": "VER-28", "endpoint": "P-01"},
	v2API: {"template": "VER-27", "volume": "VER-28", "endpoint": "VER-25"},
}

// newRealObjects creates an object of each kind, and finds out which operations read it.
func newRealObjects(c *suite.C, a api) *realObjects {
	o := &realObjects{c: c, api: a, ids: map[string]string{}, names: map[string]string{}, itemReads: map[string]contractOperation{}, listReads: map[string]contractOperation{}}
	o.dataCenter = c.DataCenter()
	for _, kind := range objectKinds {
		if kind == "serverless template" && a == v2API || kind == "delegation" && a == v1API {
			continue // version 2 creates the endpoint from an image; version 1 has no delegations
		}
		o.create(kind)
	}
	for _, op := range operationsOf(a) {
		if op.effect == effectRead && o.ids[op.kind] != "" && (op.path == collection(a, op.kind) || op.path == collection(a, op.kind)+"/{id}") {
			o.recordRead(op)
		}
	}
	if a == v2API {
		for kind, list := range map[string]string{"gpu": "gpus", "cpu": "cpus", "datacenter": "datacenters"} {
			c.Given(catalogClause[list], func() {
				if ids := c.CatalogIDs(list); len(ids) > 0 {
					o.ids[kind] = ids[0]
				}
			})
		}
	}
	return o
}

var catalogClause = map[string]string{"gpus": "VER-36", "cpus": "VER-38", "datacenters": "VER-40"}

func creationOf(a api, kind string) contractOperation {
	return contract[slices.IndexFunc(contract, func(op contractOperation) bool { return op.api == a && op.kind == kind && op.effect == effectCreate })]
}

func collection(a api, kind string) string { return creationOf(a, kind).path }

// create creates an object of a kind. If the description leaves the body open, the creation may be refused.
func (o *realObjects) create(kind string) {
	word := o.c.Nonce()
	op := creationOf(o.api, strings.TrimPrefix(kind, "serverless "))
	body := op.body(o.c, o, word)
	if kind == "serverless template" {
		body["isServerless"] = true
	}
	o.names[kind], _ = body["name"].(string)
	a := op.send(o.c, "", body)
	clause := creationClause[o.api][kind]
	if clause == "" || !op.described && isMissing(a) {
		if a.Code/100 == 2 {
			o.ids[kind] = a.Str("id")
		}
		return
	}
	o.c.Given(clause, func() { o.ids[kind] = a.Success().Str("id") })
}

// consistency is how long reads may lag behind a write.
const consistency = 2 * time.Second

// eventually waits until a condition is true, at most for the grace time: reads may lag behind.
func eventually(c *suite.C, condition func() bool) bool {
	return poll(c, c.Grace(), time.Second, condition)
}

// poll repeats a check at an interval until it is true, at most for patience.
func poll(c *suite.C, patience, interval time.Duration, check func() bool) bool {
	for waited := time.Duration(0); ; waited += interval {
		ok := check()
		if ok || waited >= patience {
			return ok
		}
		c.Sleep(interval)
	}
}

// recordRead finds out whether an operation reads the object. The deployment may lack an operation that isn't described.
func (o *realObjects) recordRead(op contractOperation) {
	var a *suite.Answer
	eventually(o.c, func() bool { a = op.send(o.c, o.ids[op.kind], nil); return a.Contains(o.ids[op.kind]) })
	reads := o.listReads
	if op.takesID() {
		reads = o.itemReads
	}
	if !op.described && a.Code/100 != 2 {
		return
	}
	if !op.takesID() && a.Code/100 == 2 && !a.Contains(o.ids[op.kind]) {
		return // the object may be on another page
	}
	if clause := creationClause[o.api][op.kind]; clause != "" {
		o.c.Given(clause, func() { a.Is(200) })
	} else {
		a.Is(200)
	}
	reads[op.kind] = op
}

// targetID returns the id for the path of an operation, and whether an object exists.
func (o *realObjects) targetID(op contractOperation) (id string, ok bool) {
	if !op.takesID() {
		return "", true
	}
	id = o.ids[op.kind]
	return id, id != ""
}

// expectUntouched expects that all objects are unchanged, without a word of a refused request.
func (o *realObjects) expectUntouched(words ...string) {
	o.c.Sleep(consistency)
	for _, kind := range objectKinds {
		if op, ok := o.itemReads[kind]; ok {
			a := op.send(o.c, o.ids[kind], nil).Is(200)
			expectContainsNone(a, words)
			if size, exists := a.Find("size"); exists && kind == "volume" {
				a.Expect(suite.Same(size, sizeOfVolume), op.String()+": size = 10, as created")
			}
		}
		if op, ok := o.listReads[kind]; ok {
			expectNotListed(o.c, string(o.api), op.path, words...)
			o.c.Expect(o.c.IsListed(string(o.api), op.path, o.ids[kind]), op.String()+": the existing "+kind, "a list without %s", o.ids[kind])
		}
	}
}

// expectNotListed expects that no page of a list contains one of the words.
func expectNotListed(c *suite.C, version, path string, words ...string) {
	for page := range c.Pages(version, path) {
		expectContainsNone(page.Is(200), words)
	}
}

func expectContainsNone(a *suite.Answer, words []string) {
	for _, word := range words {
		a.NotContains(word)
	}
}

// scene is an endpoint with one busy worker, and a job in each of four states.
type scene struct {
	c                                   *suite.C
	completed, failed, running, waiting *suite.Job
	ttlRequested                        bool
}

// newScene returns a scene on the case's own endpoint.
func newScene(c *suite.C) *scene {
	return &scene{
		c: c, completed: c.Run(suite.Stream(chunksOfScene, 0)).Reach(suite.Completed), failed: c.Run(suite.Fail()).Reach(suite.Failed),
		running: c.Blocker(10 * time.Minute), waiting: c.Run(suite.Echo()).Reach(suite.InQueue),
	}
}

const chunksOfScene = 3

func (s *scene) jobs() []*suite.Job { return []*suite.Job{s.completed, s.failed, s.running, s.waiting} }

// ids returns the ids for the path of an operation, or only "" if its path has no id.
func (s *scene) ids(op contractOperation) (ids []string) {
	if !op.takesID() {
		return []string{""}
	}
	for _, j := range s.jobs() {
		ids = append(ids, j.ID)
	}
	return ids
}

// requestTTL sends a request for a short time to live, which must be refused.
func (s *scene) requestTTL(endpoint string, options ...suite.Option) *suite.Answer {
	s.ttlRequested = true
	return s.c.Job("GET", endpoint, s.failed.Path("status")+"?ttl=10000", nil, options...)
}

// expectUnchanged expects that all jobs are unchanged, the stream is unread, and no job was added.
func (s *scene) expectUnchanged() {
	s.c.Sleep(consistency)
	if s.ttlRequested {
		s.c.Sleep(10*time.Second + s.c.Grace())
	}
	for i, status := range []string{suite.Completed, suite.Failed, suite.InProgress, suite.InQueue} {
		s.jobs()[i].Status().Is(200).Equal("status", status)
	}
	chunks := s.completed.Chunks(chunksOfScene)
	s.c.Expect(len(chunks) == chunksOfScene, "3 unread chunks", "%d chunks", len(chunks))
	s.c.Post("/purge-queue", nil).Is(200).Equal("removed", 1)
}
