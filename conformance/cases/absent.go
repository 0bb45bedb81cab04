package cases

import (
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

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
