package cases

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// objects are those of one kind that a case makes and looks at.
type objects struct {
	c     *suite.C
	k     kind
	given *given
	// fields are the members that the target can take, and that may be set here.
	fields []field
}

// object is one of them: what it should show by the path of each member.
type object struct {
	id    string
	wants suite.M
}

// takes tells whether an object can be given a member: it has it, or what it is
// a member of.
func (o object) takes(f field) bool {
	_, had := o.wants[f.path]
	if had || f.one != any(noValue{}) || !strings.Contains(f.path, ".") {
		return had || f.one == any(noValue{})
	}
	for path := range o.wants {
		if top(path) == top(f.path) {
			return true
		}
	}
	return false
}

func newObjects(c *suite.C, k kind) *objects {
	s := &objects{c: c, k: k, given: &given{c: c, known: map[string]any{}, ids: map[string][]string{}}}
	extra := suite.M{}
	if strings.HasSuffix(k.path, "/endpoints") || k.path == "/serverless" {
		extra = c.Endpoint(k.version, nil)
	}
	chosen := func(name string) bool { return extra[name] != nil }
	if k.name == "cpuEndpoint" && (chosen("gpu") || chosen("cpu")) {
		c.Skip("--endpoint-body says what the workers of each endpoint are")
	}
	for _, f := range k.fields {
		if f.local && !c.Local() || chosen(top(f.path)) || f.gpu && (chosen("gpu") || chosen("cpu")) {
			continue
		}
		s.fields = append(s.fields, f)
	}
	i := slices.IndexFunc(s.fields, func(f field) bool { return f.path == "gpu.pools" })
	if i >= 0 {
		if _, known := s.given.value(s.fields[i].one); !known { // no gpu is taken without
			s.fields = slices.DeleteFunc(s.fields, func(f field) bool { return f.gpu })
		}
	}
	return s
}

// exclusive are members that exclude another one.
var exclusive = map[string]string{"gpu.minCudaVersion": "gpu.allowedCudaVersions", "minCudaVersion": "allowedCudaVersions"}

// values are those of the members that pick answers a value for.
func (s *objects) values(pick func(field) any) suite.M {
	chosen := suite.M{}
	for _, f := range s.fields {
		if v, ok := s.given.value(pick(f)); ok {
			chosen[f.path] = v
		}
	}
	return chosen
}

// one, other and fewest are the values of an object with all members, with all
// members otherwise, and with those without which nothing is made.
func (s *objects) one() suite.M {
	return s.values(func(f field) any {
		if f.alone {
			return noValue{}
		}
		return f.one
	})
}

func (s *objects) other() suite.M {
	return s.values(func(f field) any {
		switch _, known := s.given.value(f.other); {
		case f.alone, f.last && f.one == any(noValue{}):
			return noValue{}
		case f.last, !known:
			return f.one
		}
		return f.other
	})
}

func (s *objects) fewest() suite.M {
	return s.values(func(f field) any {
		if f.required {
			return f.one
		}
		return noValue{}
	})
}

// body is that of a request which sets these members.
func (s *objects) body(values suite.M) suite.M {
	body := suite.M{}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		put(body, path, values[path])
	}
	if scaling, ok := body["scaling"].(suite.M); ok && s.k.version == "v2" {
		// Each type of scaling has a name of its own for its value.
		name := map[any]string{"QUEUE_DELAY": "queueDelay", "REQUEST_COUNT": "requestCount"}[scaling["type"]]
		scaling[name] = scaling["value"]
		delete(scaling, "value")
	}
	return body
}

// seen is an object of an answer, with the members as the table has them.
func (s *objects) seen(o suite.M) suite.M {
	scaling, ok := o["scaling"].(suite.M)
	if !ok || s.k.version != "v2" {
		return o
	}
	o, scaling = maps.Clone(o), maps.Clone(scaling)
	for _, name := range []string{"queueDelay", "requestCount"} {
		if v, there := scaling[name]; there {
			scaling["value"] = v
		}
	}
	o["scaling"] = scaling
	return o
}

// create makes an object and judges the answer. A target that does not know what
// the description does not have is asked for the rest.
func (s *objects) create(values suite.M) object {
	ask := func() *suite.Answer {
		body := s.body(values)
		if s.isEndpoint() {
			body = s.c.Endpoint(s.k.version, body)
		}
		return s.c.Create(s.k.version, s.k.path, body)
	}
	a := ask()
	if a.IsRefusal() {
		for _, f := range s.fields {
			if !f.described && !f.required {
				delete(values, f.path)
			}
		}
		a = ask()
	}
	if s.k.name == "registryAuth" && s.k.version == "v1" && a.Code/100 != 2 {
		s.c.Skip("registry auths can't be made by version 1: %d", a.Code)
	}
	o := object{wants: values}
	s.c.Given(s.k.made, func() { o.id = a.Success().Str("id") })
	s.tell(s.wrong(o, a.Object(""), s.k.answered, "the answer to the creation"))
	return o
}

func (s *objects) isEndpoint() bool { return s.k.path == "/endpoints" || s.k.path == "/serverless" }

// problem is what is wrong with an answer: a failure where must is set, else no
// more than a warning.
type problem struct {
	must           bool
	accepted, came string
}

// tell fails with the gravest of some problems.
func (s *objects) tell(some []problem) {
	for _, p := range some {
		if p.must {
			s.c.Fail(p.came, p.accepted)
		}
	}
	for _, p := range some {
		s.c.Should(func() { s.c.Fail(p.came, p.accepted) })
	}
}

// settles looks until nothing is wrong, and tells what still is after a while: a
// read may come from before a change.
func (s *objects) settles(look func() []problem) {
	var some []problem
	eventually(s.c, func() bool {
		some = look()
		return len(some) == 0
	})
	s.tell(some)
}

// wrong compares what an answer shows of an object with what it should. What it
// leaves out it does not show wrongly; null is shown, and so is what an object
// lacks that is there.
func (s *objects) wrong(o object, shown suite.M, must bool, where string) (some []problem) {
	shown = s.seen(shown)
	for _, f := range s.fields {
		want, known := o.wants[f.path]
		got, there := member(shown, f.path)
		if !known || f.hidden || shown[top(f.path)] == nil && !there || empty(want) && empty(got) {
			continue
		}
		some = append(some, f.problems(want, got, f.path, where, must && f.described && got != nil)...)
	}
	return some
}

// problems are those of the value of a member that an answer shows at a path.
func (f field) problems(want, got any, path, where string, must bool) []problem {
	d := strings.Replace(f.differs(want, got), "the value", path, 1)
	if d == "" {
		return nil
	}
	if !strings.HasPrefix(d, path) {
		d = path + d
	}
	return []problem{{must, path + " as it was set", d + " in " + where}}
}

// url is the path of an object after the version.
func (s *objects) url(id string) string { return s.k.path + "/" + suite.Segment(id) }

func (s *objects) ask(method, path string, body any) *suite.Answer {
	if s.k.version == "v1" {
		return s.c.V1(method, path, body)
	}
	return s.c.V2(method, path, body)
}

// single reads an object by itself, nil where that is not served.
func (s *objects) single(id string) suite.M {
	a := s.ask("GET", s.url(id), nil)
	body, _ := a.Find("")
	shown, _ := body.(suite.M)
	if a.Code/100 != 2 {
		return nil
	}
	return shown
}

// all lists the objects by id, of all pages that there are; nil where that is not
// served.
func (s *objects) all() map[string]suite.M {
	list, path := map[string]suite.M{}, s.k.path
	for range 100 {
		a := s.ask("GET", path, nil)
		if s.k.listed {
			a.Is(http.StatusOK).Array(s.k.list)
		}
		body, _ := a.Find(s.k.list)
		items, ok := body.([]any)
		if !ok || a.Code/100 != 2 {
			return nil
		}
		for _, item := range items {
			one, _ := item.(suite.M)
			if id, ok := one["id"].(string); ok {
				list[id] = one
			}
		}
		next := nextPage.FindStringSubmatch(a.Header.Get("Link"))
		if next == nil {
			break
		}
		path = s.k.path + next[1]
	}
	return list
}

// shows expects objects by themselves and in the list as they should be.
func (s *objects) shows(when string, some ...object) {
	s.settles(func() (wrong []problem) {
		for _, o := range some {
			wrong = append(wrong, s.wrong(o, s.single(o.id), s.k.read, "the read "+when)...)
		}
		return wrong
	})
	s.lists(when, some)
}

// lists expects some objects in the list, and others not.
func (s *objects) lists(when string, some []object, gone ...object) {
	s.settles(func() (wrong []problem) {
		list := s.all()
		if list == nil {
			return nil
		}
		for _, o := range some {
			if list[o.id] == nil {
				wrong = append(wrong, problem{s.k.listed, "the " + s.k.name + " in the list " + when, "none of " + strconv.Itoa(len(list)) + " with its id"})
			}
			wrong = append(wrong, s.wrong(o, list[o.id], s.k.listed, "the list "+when)...)
		}
		for _, o := range gone {
			if list[o.id] != nil {
				wrong = append(wrong, problem{s.k.deleted, "no " + s.k.name + " in the list that was deleted", "a list with the deleted " + s.k.name})
			}
		}
		return wrong
	})
}

// leaves expects no answer for an object that was deleted.
func (s *objects) leaves(o object) {
	s.settles(func() (wrong []problem) {
		if a := s.ask("GET", s.url(o.id), nil); a.Code/100 == 2 {
			wrong = append(wrong, problem{false, "no answer for what was deleted", "the status code " + strconv.Itoa(a.Code)})
		}
		return wrong
	})
}

// changeable are the members of an object that an update may set to another
// value.
func (s *objects) changeable(o object) (some []field) {
	for _, f := range s.fields {
		if _, known := s.given.value(f.other); known && !f.fixed && !f.alone && o.takes(f) {
			some = append(some, f)
		}
	}
	return some
}

// update changes members of an object and judges what is shown of it after that:
// these are as they were sent, and all others as they were. Where a member is
// one of an object in the body, what else that has is sent with it, unless bare.
// nth chooses among the operations. It is false where nothing updates the kind.
func (s *objects) update(o object, changes suite.M, nth int, bare bool) bool {
	sent := suite.M{}
	for path, value := range changes {
		for sibling, was := range o.wants {
			if !bare && top(sibling) == top(path) {
				sent[sibling] = was
			}
		}
		sent[path] = value
	}
	for path, value := range changes {
		sent[path] = value
	}
	if changes["scaling.type"] == "REQUEST_COUNT" || changes["workers.idleTimeout"] != nil && o.wants["scaling.type"] == "REQUEST_COUNT" {
		delete(o.wants, "workers.idleTimeout") // such an endpoint has none
		delete(sent, "workers.idleTimeout")
		changes = maps.Clone(changes)
		if delete(changes, "workers.idleTimeout"); len(changes) == 0 {
			return true
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(changes)), ", ")
	a, described := s.send(o, s.body(sent), nth)
	if a == nil {
		return false
	}
	if a.Code/100 != 2 {
		s.tell([]problem{{described && s.describes(changes), "2xx", strconv.Itoa(a.Code) + " to an update of " + names}})
		return true
	}
	maps.Copy(o.wants, changes)
	if body, _ := a.Find(""); body != nil {
		if shown, ok := body.(suite.M); ok && shown["id"] != nil {
			s.tell(s.wrong(o, shown, described, "the answer to the update of "+names))
		}
	}
	s.settles(func() []problem {
		return s.wrong(o, s.single(o.id), described && s.k.read, "the read after the update of "+names)
	})
	return true
}

// describes tells whether the description has all of some members.
func (s *objects) describes(some suite.M) bool {
	return !slices.ContainsFunc(s.fields, func(f field) bool { return some[f.path] != nil && !f.described })
}

// send sends an update by the nth of the kind's operations, or by another one
// that is served; nil where none is. described says that the description has the
// operation, which then has to be there.
func (s *objects) send(o object, body suite.M, nth int) (a *suite.Answer, described bool) {
	for i := range s.k.updates {
		op := (nth + i) % len(s.k.updates)
		described = s.k.changed && op == 0
		a = s.ask(s.k.updates[op].method, s.url(o.id)+s.k.updates[op].suffix, body)
		if described || a.Code != http.StatusNotFound && a.Code != http.StatusMethodNotAllowed && a.Code != http.StatusNotImplemented {
			return a, described
		}
	}
	return nil, false
}
