package cases

import (
	"net/http"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// triedMethods are the methods that cases send. HEAD and OPTIONS aren't among them, since a
// server may answer these for every path.
var triedMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// isOpenAI tells whether an operation is below /openai. The description doesn't have these
// routes, so some may accept GET.
func isOpenAI(op contractOperation) bool { return pathMatches(op.path, "/openai/") }

// otherMethods returns the methods that the path of an operation doesn't have. For a path
// with several operations, only the first one returns them.
func otherMethods(c *suite.C, op contractOperation) (list []string) {
	first := slices.IndexFunc(contract, func(x contractOperation) bool { return x.api == op.api && x.path == op.path })
	if contract[first].method != op.method {
		return nil
	}
	for _, method := range triedMethods {
		_, exists := operationAt(op.api, method, op.path)
		switch {
		case exists, isOpenAI(op) && method == http.MethodGet:
		case c.Live() && op.api == jobAPI && method == http.MethodPost: // the public SDKs read with POST
		default:
			list = append(list, method)
		}
	}
	return list
}

// bodyFor returns a body for a method, or nil if the method has none.
func bodyFor(method string, body suite.M) any {
	if method == http.MethodGet || method == http.MethodDelete {
		return nil
	}
	return body
}

// expectMethodRefused expects that a method is refused: with any 4xx, or 501.
func expectMethodRefused(a *suite.Answer) {
	a.Expect(a.IsRefusal() || a.Code == http.StatusNotImplemented, "a refusal of the method: 4xx, or 501")
}

func judgeOtherMethods(version api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, version)
		var words []string
		for _, op := range o.sendable() {
			id, _ := o.targetID(op)
			for _, method := range otherMethods(c, op) {
				word := c.Nonce()
				words = append(words, word)
				expectMethodRefused(sendTo(c, version, method, op.pathFor(id), bodyFor(method, suite.M{"name": "conf-" + word})))
			}
		}
		o.expectUntouched(words...)
	}
}
