package cases

import (
	"cmp"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// judgeRefusedBodies sends invalid submissions without Content-Length. It expects that they are refused
// with 400, or 411 if the deployment requires Content-Length, and that they create no job.
func judgeRefusedBodies(bodies ...string) func(*suite.C) {
	return func(c *suite.C) {
		c.BusyWorker()
		for _, path := range []string{"/run", "/runsync"} {
			for _, body := range bodies {
				a := c.Post(path, nil, suite.Raw(body), suite.Chunked())
				if a.Code != http.StatusLengthRequired {
					a.BadRequest()
				}
			}
		}
		c.Post("/purge-queue", nil).Is(200).Equal("removed", 0)
	}
}

// judgeErrorForm judges the form of all errors that described operations return during the run.
func judgeErrorForm(a api) func(*suite.WatchedExchange) string {
	return func(w *suite.WatchedExchange) string {
		body, ok := errorOf(a, w)
		code := w.Exchange.Status
		isString := func(name string) bool { _, ok := body[name].(string); return ok }
		switch {
		case !ok:
		case a == v1API && !isString("message"):
			return fmt.Sprintf("%d without a message that is a string", code)
		case a == v2API && (!isString("title") || !isString("detail")):
			return fmt.Sprintf("%d without a title and a detail that are strings", code)
		case a == v2API && !suite.Same(body["status"], code):
			return fmt.Sprintf("%d with the status %s", code, suite.JSONText(body["status"]))
		}
		return ""
	}
}

// errorOf returns the body of a described operation's error. ok is false for other answers, a proxy's, and if the path isn't served. Version 2
// is described whole, but only a 400 and a 422 show that it serves a path that operations.tsv lacks.
func errorOf(a api, w *suite.WatchedExchange) (body suite.M, ok bool) {
	op, known := operationAt(a, w.Request.Method, w.Path)
	code := w.Exchange.Status
	tree, err := w.JSON()
	body, _ = tree.(suite.M)
	isServed := known && op.described || a == v2API && err == nil && (code == 400 || code == 422)
	if w.API != string(a) || !isServed || code < 400 || code == http.StatusNotImplemented {
		return nil, false
	}
	return body, !suite.FromProxy(code, err == nil) && (err == nil || !isMissingCode(code))
}

func judgeErrorType(w *suite.WatchedExchange) string {
	contentType := w.Header.Get("Content-Type")
	if mediaType, _, _ := mime.ParseMediaType(contentType); mediaType == "application/problem+json" {
		return ""
	} else if _, ok := errorOf(v2API, w); !ok {
		return ""
	}
	return fmt.Sprintf("%d with the Content-Type %q", w.Exchange.Status, contentType)
}

// judgeRefusals sends invalid requests to each operation, and judges each refusal.
func judgeRefusals(c *suite.C, a api, judge func(*suite.Answer)) {
	o := newRealObjects(c, a)
	for _, op := range o.sendable() {
		id, _ := o.targetID(op)
		answers := []*suite.Answer{
			op.send(c, id, op.validBody(c, o, c.Nonce()), suite.WithoutKey()),
			op.send(c, id, op.validBody(c, o, c.Nonce()), suite.WithKey(c.Nonce())),
		}
		if c.Target.OtherKey != "" && (op.effect != effectCreate || !o.otherKeyMayCreate(op)) {
			answers = append(answers, op.send(c, id, op.validBody(c, o, c.Nonce()), suite.WithKey(c.Target.OtherKey)))
		}
		if op.takesID() {
			answers = append(answers, op.send(c, c.Nonce(), op.validBody(c, o, c.Nonce())))
		}
		if op.body != nil {
			for _, body := range []string{"{", "", "[]", `{"name":5}`, `{"size":"5"}`, "nonsense"} {
				answers = append(answers, op.send(c, id, nil, suite.Raw(body)))
			}
		}
		for _, answer := range answers {
			switch {
			case answer.Code < 400 || answer.FromProxy():
			case isMissing(answer) && !op.described:
				c.Should(func() { judge(answer) }) // perhaps the target doesn't serve the operation
			default:
				judge(answer)
			}
		}
	}
}

// otherKeyMayCreate reports whether the other key might be able to create objects of a kind: it
// can list the kind, or the kind has no list.
func (o *realObjects) otherKeyMayCreate(op contractOperation) bool {
	list, ok := o.listReads[op.kind]
	return !ok || list.send(o.c, "", nil, suite.WithKey(o.c.Target.OtherKey)).Code/100 == 2
}

// sendInvalidJobRequests sends mostly invalid requests, which a deployment may refuse, to a job operation.
func sendInvalidJobRequests(c *suite.C, s *scene, op contractOperation) {
	id := ""
	if op.takesID() {
		id = s.waiting.ID
		op.send(c, c.Nonce(), nil)
		op.send(c, s.completed.ID, nil, suite.WithoutKey())
	}
	validBody := op.validBody(c, nil, c.Nonce())
	for _, auth := range []suite.Option{suite.WithoutKey(), suite.WithKey(c.Nonce()), suite.WithKey(cmp.Or(c.Target.OtherKey, "x"))} {
		op.send(c, id, validBody, auth)
	}
	c.Job(op.method, c.Nonce()[:14], op.pathFor(id), validBody)
	if op.body != nil {
		for _, body := range []string{"{", "", "[]", "nonsense"} {
			op.send(c, id, nil, suite.Raw(body))
		}
	}
	switch op.path {
	case "/retry/{id}":
		for _, j := range []*suite.Job{s.waiting, s.completed, s.running} {
			j.Retry()
		}
	case "/purge-queue", "/requests": // more than their limits
		for range 12 {
			op.send(c, "", nil)
		}
	case "/runsync":
		c.Post("/runsync?wait=soon", suite.Submission(suite.Echo()))
	case "/status/{id}":
		c.Get(s.waiting.Path("status") + "?ttl=soon")
	}
}

// malformedVariants returns variants of a body with one difference each, mostly a fault.
func malformedVariants(body suite.M) (list []string) {
	text := suite.JSONText(body)
	list = append(list, text[:len(text)-1], "["+text+"]", text+text)
	for _, name := range slices.Sorted(maps.Keys(body)) {
		for _, value := range []any{valueOfOtherType(body[name]), nil, -1} {
			changed := maps.Clone(body)
			changed[name] = value
			if value == nil {
				delete(changed, name)
			}
			list = append(list, suite.JSONText(changed))
		}
	}
	return append(list, suite.JSONText(suite.Merge(body, suite.M{"conformance": true})))
}

func valueOfOtherType(value any) any {
	switch value.(type) {
	case string:
		return []any{value}
	case bool:
		return "yes"
	case suite.M, []any:
		return "text"
	}
	return fmt.Sprint(value)
}

// judgeRefusedCreations judges that no list shows an object whose creation was refused.
// Other clauses judge which creations must be refused.
func judgeRefusedCreations(a api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		c.SkipIf(len(o.listReads) == 0, "no list would show the objects")
		for _, op := range operationsOf(a) {
			list, listed := o.listReads[op.kind]
			if op.effect != effectCreate || !listed {
				continue
			}
			var words []string
			for _, pattern := range o.malformedBodies(op) {
				word := c.Nonce()
				body := strings.ReplaceAll(pattern, wordPlaceholder, word)
				if answer := op.send(c, "", nil, suite.Raw(body)); answer.Code/100 == 4 {
					words = append(words, word)
				}
			}
			c.Expect(len(words) > 0, "a refusal of "+op.String()+" with a malformed body", "2xx for every malformed body")
			c.Sleep(consistency)
			expectNotListed(c, string(a), list.path, words...)
		}
	}
}

// invalidMembers has members, by kind, that make an otherwise valid body of a create or an update invalid.
var invalidMembers = map[string][]suite.M{
	"template": {
		{"category": "TPU"}, {"ports": []any{"80/udp"}}, {"env": suite.M{"NUMBER": 5}}, {"volumeMountPath": "relative"}, {"containerDiskInGb": -5}, {"disk": -5},
		{"dockerEntrypoint": "sh"}, {"isServerless": "yes"}, {"public": "no"},
	},
	"volume":   {{"size": 5}, {"size": sizeOfVolume}, {"size": 5000}, {"size": 10.5}, {"type": "FLOPPY"}, {"dataCenterId": "nowhere"}, {"dataCenter": "nowhere"}},
	"registry": {{"username": 5}, {"password": []any{}}},
	"endpoint": {
		{"templateId": "no-template"}, {"workers": suite.M{"min": 3, "max": 1}}, {"workersMin": 3, "workersMax": 1}, {"scaling": suite.M{"type": "DICE"}}, {"scalerType": "DICE"},
		{"idleTimeout": -1}, {"gpu": suite.M{"count": -1}}, {"gpuTypeIds": "any"}, {"timeout": 1}, {"executionTimeoutMs": -1},
	},
}

// malformedBodies returns bodies of an operation that may be refused: malformed JSON,
// members that violate a rule, and the name of another object.
func (o *realObjects) malformedBodies(op contractOperation) []string {
	validBody := op.body(o.c, o, wordPlaceholder)
	list := malformedVariants(validBody)
	for _, members := range invalidMembers[op.kind] {
		list = append(list, suite.JSONText(suite.Merge(validBody, members)))
	}
	if op.effect == effectCreate && o.names[op.kind] != "" {
		list = append(list, suite.JSONText(suite.Merge(validBody, suite.M{"name": o.names[op.kind]})))
	}
	return list
}

// wordPlaceholder is replaced by a unique word, which identifies an object that the body created.
const wordPlaceholder = "the-word-of-a-body"

// judgeRefusedUpdates judges that a refused update changes nothing.
func judgeRefusedUpdates(a api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		for _, op := range o.sendable() {
			id := o.ids[op.kind]
			item, readable := o.itemReads[op.kind]
			if op.effect != effectUpdate || id == "" || !readable {
				continue
			}
			for _, pattern := range o.malformedBodies(op) {
				before := item.send(c, id, nil).Is(200)
				word := c.Nonce()
				answer := op.send(c, id, nil, suite.Raw(strings.ReplaceAll(pattern, wordPlaceholder, word)))
				if answer.Code/100 != 4 {
					c.Sleep(consistency) // the update was accepted
					continue
				}
				after := item.send(c, id, nil).Is(200).NotContains(word)
				for _, name := range []string{"name", "size", "env"} {
					if value, ok := before.Find(name); ok {
						after.Equal(name, value)
					}
				}
			}
		}
		// If the deletion of a template that an endpoint uses is refused, the template still exists.
		if item, ok := o.itemReads["template"]; ok && o.ids["serverless template"] != "" {
			id := o.ids["serverless template"]
			item.path = strings.Replace(item.path, "{id}", "{id}?includeEndpointBoundTemplates=true", 1)
			if sendTo(c, a, "DELETE", collection(a, "template")+"/"+suite.PathSegment(id), nil).Code/100 == 4 {
				item.send(c, id, nil).Is(200)
			}
		}
	}
}

// judgeAbsentObjects judges the answers about objects that never existed and about deleted objects.
func judgeAbsentObjects(a api) func(*suite.C) {
	return func(c *suite.C) {
		o, others := newRealObjects(c, a), newRealObjects(c, a)
		for _, kind := range objectKinds {
			id := o.ids[kind]
			if id == "" && kind == "delegation" {
				continue // some deployments have none
			}
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
			path := collection(a, kind) + "/" + suite.PathSegment(id)
			if deleted := sendTo(c, a, "DELETE", path, nil); deleted.Code/100 != 2 {
				deleted.Expect(a == v1API && isMissing(deleted), "2xx to the DELETE of the created "+kind)
				continue // perhaps version 1 doesn't serve the operation
			}
			c.Sleep(consistency)
			if list, ok := o.listReads[kind]; ok && !eventually(c, func() bool { return !c.IsListed(string(a), list.path, id) }) {
				expectNotListed(c, string(a), list.path, id)
			}
			for _, op := range served {
				answer := op.send(c, id, op.validBody(c, o, c.Nonce()))
				if op.effect == effectRead {
					eventually(c, func() bool { answer = op.send(c, id, nil); return answer.IsRefusal() })
				}
				expectAbsent(op, answer, 410)
			}
		}
		for _, op := range operationsOf(a) { // on pods, clusters and the catalog
			if op.takesID() && !slices.Contains(objectKinds, op.kind) {
				expectAbsent(op, op.send(c, c.Nonce(), op.validBody(c, o, c.Nonce())), 400)
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

// triedMethods are the methods that cases send. A server may answer HEAD and OPTIONS for every path.
var triedMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// isOpenAI reports whether an operation is below /openai, where the description leaves GET open.
func isOpenAI(op contractOperation) bool { return pathMatches(op.path, "/openai/") }

// otherMethods returns the methods that the path of an operation doesn't have. It returns none for the
// second and later operations of a path, so that each method is tried once.
func otherMethods(c *suite.C, op contractOperation) (list []string) {
	first := slices.IndexFunc(contract, func(x contractOperation) bool { return x.api == op.api && x.path == op.path })
	if contract[first].method != op.method {
		return nil
	}
	for _, method := range triedMethods {
		_, exists := operationAt(op.api, method, op.path)
		switch {
		case exists, isOpenAI(op) && method == http.MethodGet:
		case c.Target.Live && op.api == jobAPI && method == http.MethodPost: // the public SDKs read with POST
		default:
			list = append(list, method)
		}
	}
	return list
}

func bodyFor(method string, body suite.M) any {
	if method == http.MethodGet || method == http.MethodDelete {
		return nil
	}
	return body
}

// expectRefusedIfServed expects a refusal. It accepts 501, since the deployment may lack the operation.
func expectRefusedIfServed(a *suite.Answer) {
	a.Expect(a.IsRefusal() || a.Code == http.StatusNotImplemented, "a refusal: 4xx, or 501")
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
				expectRefusedIfServed(sendTo(c, version, method, op.pathFor(id), bodyFor(method, suite.M{"name": "conf-" + word})))
			}
		}
		o.expectUntouched(words...)
	}
}
