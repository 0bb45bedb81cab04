package cases

import (
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// judgeAbsentObjects judges the answers about objects that never existed and about deleted
// objects.
func judgeAbsentObjects(a api) func(*suite.C) {
	return func(c *suite.C) {
		o, others := newRealObjects(c, a), newRealObjects(c, a)
		for _, kind := range objectKinds {
			id := o.ids[kind]
			var served []contractOperation
			for _, op := range operationsOf(a) {
				if op.kind == kind && op.takesID() && (op.described || o.itemReads[kind].path != "") {
					served = append(served, op)
				}
			}
			for _, op := range served {
				expectAbsent(op, op.send(c, c.Nonce(), op.validBody(c, o, c.Nonce())), 400) // an id may be malformed
				if id != "" {
					expectAbsent(op, op.send(c, suite.SimilarID(id), op.validBody(c, o, c.Nonce())), 404)
				}
				for _, other := range objectKinds {
					if o.ids[other] != "" && !strings.Contains(other, kind) { // an id of another kind
						expectAbsent(op, op.send(c, o.ids[other], op.validBody(c, o, c.Nonce())), 400)
					}
				}
			}
			if id == "" || kind == "serverless template" { // an endpoint uses the serverless template
				continue
			}
			path := collection(a, kind) + "/" + id
			if deleted := sendTo(c, a, "DELETE", path, nil); deleted.Code/100 != 2 {
				deleted.Expect(a == v1API && isMissing(deleted), "2xx to the DELETE of the created "+kind)
				continue // version 1 may not serve it
			}
			c.Sleep(consistency)
			if list, ok := o.listReads[kind]; ok {
				list.send(c, "", nil).Is(200).NotContains(id)
			}
			for _, op := range served {
				expectAbsent(op, op.send(c, id, op.validBody(c, o, c.Nonce())), 410)
			}
		}
		others.expectUntouched()
	}
}

// expectAbsent expects 404 or the alternative code. Version 1 may answer with any refusal.
func expectAbsent(op contractOperation, a *suite.Answer, alternative int) {
	if op.api == v1API {
		a.Refused()
		return
	}
	a.Is(404, alternative)
}
