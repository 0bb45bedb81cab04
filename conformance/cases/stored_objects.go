package cases

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// objects creates and reads the objects of one kind for a case.
type objects struct {
	c            *suite.C
	k            kind
	placeholders *placeholders
	// fields are the members that the target can take, and that may be set here.
	fields []field
}

// object is one of them, with its expected members by path.
type object struct {
	id       string
	expected suite.M
}

// canHold tells whether an object can have a member: it has the member, or the one that
// contains it.
func (o object) canHold(f field) bool {
	_, had := o.expected[f.path]
	if had || f.value != any(noValue{}) || !strings.Contains(f.path, ".") {
		return had || f.value == any(noValue{})
	}
	for path := range o.expected {
		if firstSegment(path) == firstSegment(f.path) {
			return true
		}
	}
	return false
}

func newObjects(c *suite.C, k kind) *objects {
	s := &objects{c: c, k: k, placeholders: &placeholders{c: c, known: map[string]any{}, ids: map[string][]string{}}}
	extra := suite.M{}
	if strings.HasSuffix(k.path, "/endpoints") || k.path == "/serverless" {
		extra = c.EndpointBody(k.version, nil)
	}
	chosen := func(name string) bool { return extra[name] != nil }
	if k.name == "cpuEndpoint" && (chosen("gpu") || chosen("cpu")) {
		c.Skip("--endpoint-body says what the workers of each endpoint are")
	}
	for _, f := range k.fields {
		if f.localOnly && !c.Thorough("the member "+f.path) || chosen(firstSegment(f.path)) || f.gpu && (chosen("gpu") || chosen("cpu")) {
			continue
		}
		s.fields = append(s.fields, f)
	}
	i := slices.IndexFunc(s.fields, func(f field) bool { return f.path == "gpu.pools" })
	if i >= 0 {
		if _, known := s.placeholders.resolve(s.fields[i].value); !known { // no gpu is taken without
			s.fields = slices.DeleteFunc(s.fields, func(f field) bool { return f.gpu })
		}
	}
	return s
}

// exclusive are members that exclude another one.
var exclusive = map[string]string{"gpu.minCudaVersion": "gpu.allowedCudaVersions", "minCudaVersion": "allowedCudaVersions"}

// chooseValues returns the members for which pick returns a value.
func (s *objects) chooseValues(pick func(field) any) suite.M {
	chosen := suite.M{}
	for _, f := range s.fields {
		if v, ok := s.placeholders.resolve(pick(f)); ok {
			chosen[f.path] = v
		}
	}
	return chosen
}

// values, otherValues and requiredValues are the values of an object with all members,
// with all members different, and with the required members alone.
func (s *objects) values() suite.M {
	return s.chooseValues(func(f field) any {
		if f.single {
			return noValue{}
		}
		return f.value
	})
}

func (s *objects) otherValues() suite.M {
	return s.chooseValues(func(f field) any {
		switch _, known := s.placeholders.resolve(f.otherValue); {
		case f.single, f.exclusive && f.value == any(noValue{}):
			return noValue{}
		case f.exclusive, !known:
			return f.value
		}
		return f.otherValue
	})
}

func (s *objects) requiredValues() suite.M {
	return s.chooseValues(func(f field) any {
		if f.required {
			return f.value
		}
		return noValue{}
	})
}

// body is that of a request which sets these members.
func (s *objects) body(values suite.M) suite.M {
	body := suite.M{}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		setMember(body, path, values[path])
	}
	if scaling, ok := body["scaling"].(suite.M); ok && s.k.version == "v2" {
		// Each type of scaling has a name of its own for its value.
		name := map[any]string{"QUEUE_DELAY": "queueDelay", "REQUEST_COUNT": "requestCount"}[scaling["type"]]
		scaling[name] = scaling["value"]
		delete(scaling, "value")
	}
	return body
}

// asTable returns an object of an answer with the members as in the table.
func (s *objects) asTable(o suite.M) suite.M {
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

// create creates an object and judges the answer. Where the target refuses members
// that are not in the description, they are left out.
func (s *objects) create(values suite.M) object {
	ask := func() *suite.Answer {
		body := s.body(values)
		if s.isEndpoint() {
			body = s.c.EndpointBody(s.k.version, body)
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
	o := object{expected: values}
	s.c.Given(s.k.creationClause, func() { o.id = a.Success().Str("id") })
	s.reportGravest(s.compare(o, a.Object(""), s.k.answered, "the answer to the creation"))
	return o
}

func (s *objects) isEndpoint() bool { return s.k.path == "/endpoints" || s.k.path == "/serverless" }

// problem is a deviation of an answer: a failure where must is set, else a warning.
type problem struct {
	must             bool
	accepted, actual string
}

// reportGravest fails or warns with the gravest of some problems.
func (s *objects) reportGravest(some []problem) {
	for _, p := range some {
		if p.must {
			s.c.Fail(p.actual, p.accepted)
		}
	}
	for _, p := range some {
		s.c.Should(func() { s.c.Fail(p.actual, p.accepted) })
	}
}

// judgeEventually repeats a check until it finds no problem, and reports what remains
// after a while: reads may lag behind a change.
func (s *objects) judgeEventually(look func() []problem) {
	var some []problem
	eventually(s.c, func() bool {
		some = look()
		return len(some) == 0
	})
	s.reportGravest(some)
}

// compare compares the object that an answer shows with the expected one. A member that
// the answer leaves out is not judged; null is, and so is a member that an object
// within the answer lacks.
func (s *objects) compare(o object, shown suite.M, must bool, where string) (some []problem) {
	shown = s.asTable(shown)
	for _, f := range s.fields {
		want, known := o.expected[f.path]
		got, there := memberAt(shown, f.path)
		if !known || f.hidden || shown[firstSegment(f.path)] == nil && !there || isEmpty(want) && isEmpty(got) {
			continue
		}
		some = append(some, f.problems(want, got, f.path, where, must && f.described && got != nil)...)
	}
	return some
}

// problems are those of the value of a member that an answer shows at a path.
func (f field) problems(want, got any, path, where string, must bool) []problem {
	d := strings.Replace(f.difference(want, got), "the value", path, 1)
	if d == "" {
		return nil
	}
	if !strings.HasPrefix(d, path) {
		d = path + d
	}
	return []problem{{must, path + " as it was set", d + " in " + where}}
}

// url is the path of an object after the version.
func (s *objects) url(id string) string { return s.k.path + "/" + suite.PathSegment(id) }

func (s *objects) ask(method, path string, body any) *suite.Answer {
	if s.k.version == "v1" {
		return s.c.V1(method, path, body)
	}
	return s.c.V2(method, path, body)
}

// read reads a single object, nil where the operation is not served.
func (s *objects) read(id string) suite.M {
	a := s.ask("GET", s.url(id), nil)
	body, _ := a.Find("")
	shown, _ := body.(suite.M)
	if a.Code/100 != 2 {
		return nil
	}
	return shown
}

// list returns the objects of all pages by id; nil where the operation is not served.
func (s *objects) list() map[string]suite.M {
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
		cursor, _ := a.Find("pagination.nextCursor")
		next := nextPage.FindStringSubmatch(a.Header.Get("Link"))
		switch text, _ := cursor.(string); {
		case text != "":
			path = s.k.path + "?cursor=" + url.QueryEscape(text)
		case next != nil:
			path = s.k.path + next[1]
		default:
			return list
		}
	}
	return list
}

// expectShown expects objects to be as they should, read alone and in the list.
func (s *objects) expectShown(when string, some ...object) {
	s.judgeEventually(func() (wrong []problem) {
		for _, o := range some {
			wrong = append(wrong, s.compare(o, s.read(o.id), s.k.read, "the read "+when)...)
		}
		return wrong
	})
	s.expectListed(when, some)
}

// expectListed expects some objects in the list, and others not.
func (s *objects) expectListed(when string, some []object, gone ...object) {
	s.judgeEventually(func() (wrong []problem) {
		list := s.list()
		if list == nil {
			return nil
		}
		for _, o := range some {
			if list[o.id] == nil {
				wrong = append(wrong, problem{s.k.listed, "the " + s.k.name + " in the list " + when, "none of " + strconv.Itoa(len(list)) + " with its id"})
			}
			wrong = append(wrong, s.compare(o, list[o.id], s.k.listed, "the list "+when)...)
		}
		for _, o := range gone {
			if list[o.id] != nil {
				wrong = append(wrong, problem{s.k.deleted, "no " + s.k.name + " in the list that was deleted", "a list with the deleted " + s.k.name})
			}
		}
		return wrong
	})
}

// expectDeleted expects that a deleted object can't be read.
func (s *objects) expectDeleted(o object) {
	s.judgeEventually(func() (wrong []problem) {
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
		if _, known := s.placeholders.resolve(f.otherValue); known && !f.fixed && !f.single && o.canHold(f) {
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
		for sibling, was := range o.expected {
			if !bare && firstSegment(sibling) == firstSegment(path) {
				sent[sibling] = was
			}
		}
		sent[path] = value
	}
	for path, value := range changes {
		sent[path] = value
	}
	if changes["scaling.type"] == "REQUEST_COUNT" || changes["workers.idleTimeout"] != nil && o.expected["scaling.type"] == "REQUEST_COUNT" {
		delete(o.expected, "workers.idleTimeout") // such an endpoint has none
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
		s.reportGravest([]problem{{described && s.describes(changes), "2xx", strconv.Itoa(a.Code) + " to an update of " + names}})
		return true
	}
	maps.Copy(o.expected, changes)
	if body, _ := a.Find(""); body != nil {
		if shown, ok := body.(suite.M); ok && shown["id"] != nil {
			s.reportGravest(s.compare(o, shown, described, "the answer to the update of "+names))
		}
	}
	s.judgeEventually(func() []problem {
		return s.compare(o, s.read(o.id), described && s.k.read, "the read after the update of "+names)
	})
	return true
}

// describes tells whether the description has all of these members.
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
