package cases

import (
	"net/http"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Every path, called with the methods that it does not have.
var methods = []suite.Case{
	{ID: "JOB-46-every", Needs: suite.Own, Allow: suite.Queue, Jobs: 4, Requests: 120, Takes: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, op := range jobOperations {
			for _, method := range otherMethods(c, op) {
				for _, id := range s.ids(op) {
					noMethod(c, ask(c, jobAPI, method, op.at(id), wrongMethodBody(method)))
				}
			}
		}
		s.unchanged()
	}},
	{ID: "JOB-01-every", Needs: suite.Own | suite.Second, Allow: suite.Queue, Jobs: 4, Requests: 60, Takes: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, op := range jobOperations {
			for _, id := range s.ids(op) {
				c.Do(op.method, c.QueueURL()+"/"+c.E+op.at(id), op.good(c, nil, c.Nonce())) // who answers there, and what, is not said
			}
		}
		purge(c, c.E2).Is(200).Equal("removed", 0) // the queue of another endpoint
		s.unchanged()
	}},
	{ID: "JOB-48", Needs: suite.Own, Allow: suite.Queue, Jobs: 4, Requests: 60, Takes: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, op := range jobOperations {
			if op.method == http.MethodPost && !isOpenAI(op) {
				for _, id := range s.ids(op) {
					ask(c, jobAPI, http.MethodGet, op.at(id), nil)
				}
			}
		}
		s.unchanged()
	}},
	{ID: "M-03", Needs: suite.V1 | suite.LocalOnly, Allow: suite.Create, Requests: 120, Takes: 5 * time.Second, Run: otherMethodsOf(v1API)},
	{ID: "VER-53", Needs: suite.V2 | suite.LocalOnly, Allow: suite.Create, Requests: 140, Takes: 5 * time.Second, Run: otherMethodsOf(v2API)},
}

// allMethods are those that are tried. HEAD and OPTIONS are HTTP's own.
var allMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// isOpenAI tells whether an operation is of the paths whose shapes are not shown:
// some of them may be asked with GET.
func isOpenAI(op contractOperation) bool { return matches(op.path, "/openai/") }

// otherMethods are those that the path of an operation does not have, for the first
// operation of the path.
func otherMethods(c *suite.C, op contractOperation) (list []string) {
	first := slices.IndexFunc(contract, func(x contractOperation) bool { return x.api == op.api && x.path == op.path })
	if contract[first].method != op.method {
		return nil
	}
	for _, method := range allMethods {
		_, there := operationAt(op.api, method, op.path)
		switch {
		case there, isOpenAI(op) && method == http.MethodGet:
		case c.Live() && op.api == jobAPI && method == http.MethodPost: // the public SDKs read with POST
		default:
			list = append(list, method)
		}
	}
	return list
}

// wrongMethodBody is a good submission, so that the method alone is wrong.
func wrongMethodBody(method string) any {
	if method == http.MethodGet || method == http.MethodDelete {
		return nil
	}
	return suite.Submission(suite.Echo())
}

// noMethod expects that a method is refused: 405, 404, whatever 4xx, or 501.
func noMethod(c *suite.C, a *suite.Answer) {
	c.Expect(a.IsRefusal() || a.Code == http.StatusNotImplemented, "a refusal of the method: 4xx, or 501", "the code %d", a.Code)
}

func otherMethodsOf(version api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, version)
		var words []string
		for _, op := range o.asked() {
			id, _ := o.subject(op)
			for _, method := range otherMethods(c, op) {
				word := c.Nonce()
				words = append(words, word)
				var body any
				if method != http.MethodGet && method != http.MethodDelete {
					body = suite.M{"name": "conf-" + word}
				}
				noMethod(c, ask(c, version, method, op.at(id), body))
			}
		}
		o.untouched(words...)
	}
}
