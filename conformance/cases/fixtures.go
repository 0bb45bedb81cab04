package cases

import (
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// realObjects are things of one version of the management API, which a case has
// made to ask for them in ways that must be refused.
type realObjects struct {
	c          *suite.C
	api        api
	ids, names map[string]string // by kind
	dataCenter string
	item, list map[string]contractOperation // those that read a kind, where the deployment serves them
}

// objectKinds are those of which there is one, in the order in which they are made.
var objectKinds = []string{"template", "serverless template", "volume", "registry", "endpoint"}

// makingClause is the clause about the creation of a kind; a registry auth may be
// created in any way.
var makingClause = map[api]map[string]string{
	v1API: {"template": "T-01", "serverless template": "T-01", "volume": "VER-28", "endpoint": "P-01"},
	v2API: {"template": "VER-27", "volume": "VER-28", "endpoint": "VER-25"},
}

// newRealObjects makes one object of each kind that the deployment lets the version
// make, and finds out which of them can be read.
func newRealObjects(c *suite.C, a api) *realObjects {
	o := &realObjects{c: c, api: a, ids: map[string]string{}, names: map[string]string{}, item: map[string]contractOperation{}, list: map[string]contractOperation{}}
	o.dataCenter = c.DataCenter()
	for _, kind := range objectKinds {
		if kind == "serverless template" && a == v2API {
			continue // an endpoint is made from an image
		}
		o.create(kind)
	}
	for _, op := range operationsOf(a) {
		if op.effect == reads && o.ids[op.kind] != "" && (op.path == collection(a, op.kind) || op.path == collection(a, op.kind)+"/{id}") {
			o.see(op)
		}
	}
	if a == v2API {
		for kind, list := range map[string]string{"gpu": "gpus", "cpu": "cpus", "datacenter": "datacenters"} {
			c.Given(catalogClause[list], func() { o.ids[kind] = firstOf(c, list) })
		}
	}
	return o
}

var catalogClause = map[string]string{"gpus": "VER-36", "cpus": "VER-38", "datacenters": "VER-40"}

// collection is the path of a kind's list.
func collection(a api, kind string) string {
	i := slices.IndexFunc(contract, func(op contractOperation) bool { return op.api == a && op.kind == kind && op.effect == makes })
	return contract[i].path
}

// create makes an object of a kind. Where the description leaves open how, there
// may be none.
func (o *realObjects) create(kind string) {
	word := o.c.Nonce()
	asked := kind
	if kind == "serverless template" {
		asked = "template"
	}
	at := slices.IndexFunc(contract, func(op contractOperation) bool { return op.api == o.api && op.kind == asked && op.effect == makes })
	op := contract[at]
	body := op.body(o.c, o, word)
	if kind == "serverless template" {
		body["isServerless"] = true
	}
	o.names[kind], _ = body["name"].(string)
	a := o.c.Create(string(o.api), op.path, body)
	clause := makingClause[o.api][kind]
	if clause == "" || !op.shown && missing(a) {
		if a.Code/100 == 2 {
			o.ids[kind] = a.Str("id")
		}
		return
	}
	o.c.Given(clause, func() { o.ids[kind] = a.Success().Str("id") })
}

// id is that of the object of a kind, "" where there is none.
func (o *realObjects) id(kind string) string { return o.ids[kind] }

// consistency is how long a read may be late.
const consistency = 2 * time.Second

// see notes that an operation reads the object. One that the description has not
// need not be served.
func (o *realObjects) see(op contractOperation) {
	var a *suite.Answer
	until(o.c, func() *suite.Answer { a = op.send(o.c, o.ids[op.kind], nil); return a }, func(a *suite.Answer) bool { return a.Shows(o.ids[op.kind]) })
	reads := o.list
	if op.about() {
		reads = o.item
	}
	if !op.shown && a.Code/100 != 2 {
		return
	}
	if !op.about() && a.Code/100 == 2 && !a.Shows(o.ids[op.kind]) {
		return // it may be on another page
	}
	if clause := makingClause[o.api][op.kind]; clause != "" {
		o.c.Given(clause, func() { a.Is(200) })
	} else {
		a.Is(200)
	}
	reads[op.kind] = op
}

// subject is the id that an operation is asked for, and whether there is one.
func (o *realObjects) subject(op contractOperation) (id string, ok bool) {
	if !op.about() {
		return "", true
	}
	id = o.ids[op.kind]
	return id, id != ""
}

// untouched expects that all objects are there as they were made, and that no word
// of a request that was refused is seen in one of them or in a list.
func (o *realObjects) untouched(words ...string) {
	o.c.Sleep(consistency)
	for _, kind := range objectKinds {
		if op, ok := o.item[kind]; ok {
			a := op.send(o.c, o.ids[kind], nil).Is(200)
			lacks(a, words)
			if size, there := a.Find("size"); there && kind == "volume" {
				o.c.Expect(suite.Same(size, sizeOfVolume), op.String()+": size = 10, as it was made", "the body %s", a.Body)
			}
		}
		if op, ok := o.list[kind]; ok {
			a := op.send(o.c, "", nil).Is(200)
			o.c.Expect(a.Shows(o.ids[kind]), op.String()+": the "+kind+" that is there", "a list without %s", o.ids[kind])
			lacks(a, words)
		}
	}
}

// lacks expects that an answer shows none of these words.
func lacks(a *suite.Answer, words []string) {
	for _, word := range words {
		a.Lacks(word)
	}
}

// scene is an endpoint with a job in each of four states: one worker that is busy,
// and one job that waits.
type scene struct {
	c                              *suite.C
	done, failed, running, waiting *suite.Job
	ttl                            bool // one was asked for
}

// newScene needs an endpoint of the case's own.
func newScene(c *suite.C) *scene {
	s := &scene{c: c, done: c.Run(suite.Stream(chunksOfScene, 0)), failed: c.Run(suite.Fail())}
	s.done.Completed()
	s.failed.Failed()
	s.running = c.Blocker(10 * time.Minute)
	s.waiting = c.Run(suite.Echo())
	s.waiting.InQueue()
	return s
}

const chunksOfScene = 3

func (s *scene) jobs() []*suite.Job { return []*suite.Job{s.done, s.failed, s.running, s.waiting} }

// ids are those that an operation is asked for, "" for one without.
func (s *scene) ids(op contractOperation) (ids []string) {
	if !op.about() {
		return []string{""}
	}
	for _, j := range s.jobs() {
		ids = append(ids, j.ID)
	}
	return ids
}

// setTTL asks for a time to live that is soon over, in a way that is refused.
func (s *scene) setTTL(endpoint string, options ...suite.Option) *suite.Answer {
	s.ttl = true
	return s.c.Job("GET", endpoint, "/status/"+s.failed.ID+"?ttl=10000", nil, options...)
}

// unchanged expects that each job is as it was, that nobody has read the stream,
// and that no further job waits.
func (s *scene) unchanged() {
	s.c.Sleep(consistency)
	if s.ttl {
		s.c.Sleep(10*time.Second + s.c.Grace())
	}
	for i, status := range []string{suite.Completed, suite.Failed, suite.InProgress, suite.InQueue} {
		s.jobs()[i].Status().Is(200).Equal("status", status)
	}
	chunks := s.done.Stream().Is(200).Chunks()
	s.c.Expect(len(chunks) == chunksOfScene, "3 chunks, which nobody has read", "%d chunks", len(chunks))
	s.c.Post("/purge-queue", nil).Is(200).Equal("removed", 1)
}
