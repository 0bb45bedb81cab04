package cases

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// refusedBodies expects 400 to submissions that are sent with and without their
// length, and no job of them. A deployment may ask for the length: 411.
func refusedBodies(bodies ...string) func(*suite.C) {
	return func(c *suite.C) {
		c.Blocker(time.Minute)
		for _, path := range []string{"/run", "/runsync"} {
			for _, body := range bodies {
				a := c.Post(path, nil, suite.Raw(body), suite.Chunked())
				if a.Code != http.StatusLengthRequired {
					a.BadRequest()
				}
			}
		}
		purge(c, c.E).Is(200).Equal("removed", 0)
	}
}

// errorForm judges the errors of all cases at the operations that the description
// has.
func errorForm(a api) func(*suite.Watched) string {
	return func(w *suite.Watched) string {
		op, ok := operationAt(a, w.Request.Method, w.Path)
		code := w.Exchange.Status
		if w.API != string(a) || !ok || !op.shown || code < 400 || code == http.StatusNotImplemented {
			return ""
		}
		tree, err := w.JSON()
		if err != nil && (suite.FromProxy(code) || missingCode(code)) {
			return "" // of a proxy, or of a path that is not served
		}
		body, _ := tree.(suite.M)
		text := func(name string) bool { _, ok := body[name].(string); return ok }
		switch {
		case a == v1API && !text("message"):
			return fmt.Sprintf("%d without a message that is a string", code)
		case a == v2API && (!text("title") || !text("detail")):
			return fmt.Sprintf("%d without a title and a detail that are strings", code)
		case a == v2API && !suite.Same(body["status"], code):
			return fmt.Sprintf("%d with the status %s", code, suite.Text(body["status"]))
		}
		return ""
	}
}

func missingCode(code int) bool {
	return code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented
}

// refuseAll asks for each operation in ways that are refused, and hands every
// refusal on.
func refuseAll(c *suite.C, a api, form func(*suite.Answer)) {
	o := newRealObjects(c, a)
	for _, op := range o.asked() {
		id, _ := o.subject(op)
		send := func(id string, body any, more ...suite.Option) *suite.Answer {
			if op.effect == makes {
				return c.Create(string(a), op.path, body, more...)
			}
			return op.send(c, id, body, more...)
		}
		answers := []*suite.Answer{
			send(id, op.good(c, o, c.Nonce()), suite.WithoutKey()),
			send(id, op.good(c, o, c.Nonce()), suite.As(c.Nonce())),
		}
		if c.OtherKey() != "" && (op.effect != makes || !o.opens(op)) {
			answers = append(answers, send(id, op.good(c, o, c.Nonce()), suite.As(c.OtherKey())))
		}
		if op.about() {
			answers = append(answers, send(c.Nonce(), op.good(c, o, c.Nonce())))
		}
		if op.body != nil {
			for _, body := range []string{"{", "", "[]", `{"name":5}`, `{"size":"5"}`, "nonsense"} {
				answers = append(answers, send(id, nil, suite.Raw(body)))
			}
		}
		for _, answer := range answers {
			switch {
			case answer.Code < 400 || answer.FromProxy():
			case missing(answer) && !op.shown:
				c.Should(func() { form(answer) }) // perhaps it is not served
			default:
				form(answer)
			}
		}
	}
}

// opens tells whether the other key lists a kind: it may then make one, too.
func (o *realObjects) opens(op contractOperation) bool {
	list, ok := o.list[op.kind]
	return !ok || list.send(o.c, "", nil, suite.As(o.c.OtherKey())).Code/100 == 2
}

// refuseJobs asks for an operation of the job API in ways that are refused.
func refuseJobs(c *suite.C, s *scene, op contractOperation) (answers []*suite.Answer) {
	id := ""
	if op.about() {
		id = s.waiting.ID
		answers = append(answers, op.send(c, c.Nonce(), nil), op.send(c, s.done.ID, nil, suite.WithoutKey()))
	}
	good := op.good(c, nil, c.Nonce())
	answers = append(answers, op.send(c, id, good, suite.WithoutKey()), op.send(c, id, good, suite.As(c.Nonce())))
	if c.OtherKey() != "" {
		answers = append(answers, op.send(c, id, good, suite.As(c.OtherKey())))
	}
	answers = append(answers, c.Job(op.method, c.Nonce()[:14], op.at(id), good))
	if op.body != nil {
		for _, body := range []string{"{", "", "[]", "nonsense"} {
			answers = append(answers, op.send(c, id, nil, suite.Raw(body)))
		}
	}
	switch op.path {
	case "/retry/{id}":
		answers = append(answers, op.send(c, s.waiting.ID, nil), op.send(c, s.done.ID, nil), op.send(c, s.running.ID, nil))
	case "/purge-queue":
		answers = append(answers, op.send(c, "", nil), op.send(c, "", nil), op.send(c, "", nil))
	case "/requests":
		for range 12 {
			answers = append(answers, op.send(c, "", nil))
		}
	case "/runsync":
		answers = append(answers, c.Post("/runsync?wait=soon", suite.Submission(suite.Echo())))
	case "/status/{id}":
		answers = append(answers, c.Get("/status/"+s.waiting.ID+"?ttl=soon"))
	}
	return answers
}

// spoiled are a body's forms with one thing wrong each.
func spoiled(body suite.M) (list []string) {
	text := suite.Text(body)
	list = append(list, text[:len(text)-1], "["+text+"]", text+text)
	for _, name := range slices.Sorted(maps.Keys(body)) {
		for _, wrong := range []any{otherType(body[name]), nil, -1} {
			changed := maps.Clone(body)
			if changed[name] = wrong; wrong == nil {
				delete(changed, name)
			}
			list = append(list, suite.Text(changed))
		}
	}
	more := maps.Clone(body)
	more["conformance"] = true
	return append(list, suite.Text(more))
}

// otherType is a value of another type than this one.
func otherType(value any) any {
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

// refusedCreations judges that a creation that was refused is in no list. What is
// refused, other clauses say.
func refusedCreations(a api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		if len(o.list) == 0 {
			c.Skip("no list shows what was made")
		}
		for _, op := range operationsOf(a) {
			list, listed := o.list[op.kind]
			if op.effect != makes || !listed {
				continue
			}
			var words []string
			for _, form := range o.wrongForms(op) {
				word := c.Nonce()
				body := strings.ReplaceAll(form, theWord, word)
				if answer := c.Create(string(a), op.path, nil, suite.Raw(body)); answer.Code/100 == 4 {
					words = append(words, word)
				}
			}
			c.Expect(len(words) > 0, "a refusal of "+op.String()+" with a body that is malformed", "2xx to each")
			c.Sleep(consistency)
			lacks(list.send(c, "", nil).Is(200), words)
		}
	}
}

// wrongMembers are members that break a rule of a kind, beside good ones. Where an
// object is named, it is that of the case.
var wrongMembers = map[string][]suite.M{
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

// wrongForms are bodies of an operation that may be refused: malformed ones, such as
// break a rule, and one with the name of another object.
func (o *realObjects) wrongForms(op contractOperation) []string {
	good := op.body(o.c, o, theWord)
	list := spoiled(good)
	for _, wrong := range wrongMembers[op.kind] {
		body := maps.Clone(good)
		maps.Copy(body, wrong)
		list = append(list, suite.Text(body))
	}
	if op.effect == makes && o.names[op.kind] != "" {
		body := maps.Clone(good)
		body["name"] = o.names[op.kind]
		list = append(list, suite.Text(body))
	}
	return list
}

// theWord stands for a new word in a body.
const theWord = "the-word-of-a-body"

// refusedChanges judges that a change that was refused changes nothing.
func refusedChanges(a api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		for _, op := range o.asked() {
			id := o.ids[op.kind]
			item, readable := o.item[op.kind]
			if op.effect != changes || id == "" || !readable {
				continue
			}
			for _, form := range o.wrongForms(op) {
				before := item.send(c, id, nil).Is(200)
				word := c.Nonce()
				answer := op.send(c, id, nil, suite.Raw(strings.ReplaceAll(form, theWord, word)))
				if answer.Code/100 != 4 {
					c.Sleep(consistency) // it is changed
					continue
				}
				after := item.send(c, id, nil).Is(200).Lacks(word)
				for _, name := range []string{"name", "size", "env"} {
					if was, ok := before.Find(name); ok {
						after.Equal(name, was)
					}
				}
			}
		}
		// A template that an endpoint uses may be refused to go; then it is there.
		if item, ok := o.item["template"]; ok && o.ids["serverless template"] != "" {
			id := o.ids["serverless template"]
			item.path = strings.Replace(item.path, "{id}", "{id}?includeEndpointBoundTemplates=true", 1)
			if ask(c, a, "DELETE", collection(a, "template")+"/"+id, nil).Code/100 == 4 {
				item.send(c, id, nil).Is(200)
			}
		}
	}
}
