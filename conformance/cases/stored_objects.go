package cases

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// objects creates and reads the objects of one kind for a case.
type objects struct {
	c            *suite.C
	kind         kind
	placeholders *placeholders
	// fields are the members that the target supports and that the case may set.
	fields []field
}

// object is an object with its expected members by path.
type object struct {
	id       string
	expected suite.M
}

// canHold reports whether an update can set a member. If creates set the member, o must have it. A nested member
// that only updates set needs another member of its parent in o.
func (o object) canHold(f field) bool {
	if _, ok := o.expected[f.path]; ok || f.value != any(noValue{}) {
		return ok
	}
	parent, _, nested := strings.Cut(f.path, ".")
	for path := range o.expected {
		if firstSegment(path) == parent {
			return true
		}
	}
	return !nested
}

func newObjects(c *suite.C, k kind) *objects {
	s := &objects{c: c, kind: k, placeholders: &placeholders{c: c, values: map[string]any{}, ids: map[string][]string{}}}
	endpointBody := suite.M{}
	if k.isEndpoint() {
		endpointBody = c.EndpointBody(k.version, nil)
	}
	userSets := func(name string) bool { return endpointBody[name] != nil } // with --endpoint-body
	c.SkipIf(k.name == "cpuEndpoint" && (userSets("gpu") || userSets("cpu")), "--endpoint-body decides whether workers have GPUs")
	for _, f := range k.fields {
		if f.localOnly && !c.IncludeIfLocal("the member "+f.path) || userSets(firstSegment(f.path)) || f.needsGPU && (userSets("gpu") || userSets("cpu")) {
			continue
		}
		s.fields = append(s.fields, f)
	}
	i := slices.IndexFunc(s.fields, func(f field) bool { return f.path == "gpu.pools" })
	if i >= 0 {
		if _, known := s.placeholders.resolve(s.fields[i].value); !known { // version 2 requires the type of a GPU
			s.fields = slices.DeleteFunc(s.fields, func(f field) bool { return f.needsGPU })
		}
	}
	return s
}

// excludedMember maps a member to the member that can't be set with it.
var excludedMember = map[string]string{"gpu.minCudaVersion": "gpu.allowedCudaVersions", "minCudaVersion": "allowedCudaVersions"}

func (s *objects) chooseValues(pick func(field) any) suite.M {
	chosen := suite.M{}
	for _, f := range s.fields {
		if v, ok := s.placeholders.resolve(pick(f)); ok {
			chosen[f.path] = v
		}
	}
	return chosen
}

// values returns the members that a create can set together.
func (s *objects) values() suite.M {
	return s.chooseValues(func(f field) any {
		if f.setAlone {
			return noValue{}
		}
		return f.value
	})
}

// changedValues returns the same members with changedValue, if they have one.
func (s *objects) changedValues() suite.M {
	return s.chooseValues(func(f field) any {
		switch _, known := s.placeholders.resolve(f.changedValue); {
		case f.setAlone, f.changedLast && f.value == any(noValue{}):
			return noValue{}
		case f.changedLast, !known:
			return f.value
		}
		return f.changedValue
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

func (s *objects) body(values suite.M) suite.M {
	body := suite.M{}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		setMember(body, path, values[path])
	}
	if scaling, ok := body["scaling"].(suite.M); ok && s.kind.version == "v2" {
		name := map[any]string{"QUEUE_DELAY": "queueDelay", "REQUEST_COUNT": "requestCount"}[scaling["type"]]
		scaling[name] = scaling["value"]
		delete(scaling, "value")
	}
	return body
}

// asTable converts an object of an answer to the member names of the table.
func (s *objects) asTable(o suite.M) suite.M {
	scaling, ok := o["scaling"].(suite.M)
	if !ok || s.kind.version != "v2" {
		return o
	}
	o, scaling = maps.Clone(o), maps.Clone(scaling)
	for _, name := range []string{"queueDelay", "requestCount"} {
		if v, exists := scaling[name]; exists {
			scaling["value"] = v
		}
	}
	o["scaling"] = scaling
	return o
}

// create creates an object and judges the answer. If the target refuses the members, create tries again without
// the optional ones that the description lacks.
func (s *objects) create(values suite.M) object {
	a := s.post(s.body(values))
	if a.IsRefusal() {
		for _, f := range s.fields {
			if !f.described && !f.required {
				delete(values, f.path)
			}
		}
		a = s.post(s.body(values))
	}
	s.c.SkipIf(s.kind.name == "registryAuth" && s.kind.version == "v1" && a.Code/100 != 2, "version 1 can't create registry auths: %d", a.Code)
	o := object{expected: values}
	s.c.Given(s.kind.creationClause, func() { o.id = a.Success().Str("id") })
	s.reportGravest(s.compare(o, a.Object(""), s.kind.createDocumented, "the answer to the creation"))
	return o
}

func (s *objects) post(body suite.M) *suite.Answer {
	if s.kind.isEndpoint() {
		body = s.c.EndpointBody(s.kind.version, body)
	}
	return s.c.Create(s.kind.version, s.kind.path, body)
}

func (k kind) isEndpoint() bool { return k.path == "/endpoints" || k.path == "/serverless" }

// problem is a deviation of an answer: a failure if must is set, and otherwise a warning.
type problem struct {
	must             bool
	accepted, actual string
}

func (s *objects) reportGravest(problems []problem) {
	for _, p := range problems {
		if p.must {
			s.c.Fail(p.actual, p.accepted)
		}
	}
	for _, p := range problems {
		s.c.Should(func() { s.c.Fail(p.actual, p.accepted) })
	}
}

// judgeEventually repeats a check for a short time until it finds no problem, since reads
// may lag behind a change. It reports the remaining problems.
func (s *objects) judgeEventually(check func() []problem) {
	var problems []problem
	eventually(s.c, func() bool {
		problems = check()
		return len(problems) == 0
	})
	s.reportGravest(problems)
}

// compare compares an object in an answer with the expected one. A member that the answer
// omits isn't judged, unless it is a member of an object in the answer. Null is judged.
func (s *objects) compare(o object, shown suite.M, must bool, place string) (problems []problem) {
	if id, ok := shown["id"].(string); ok && id != o.id {
		problems = []problem{{false, "the id " + o.id, "the id " + id + " in " + place}}
	}
	shown = s.asTable(shown)
	for _, f := range s.fields {
		want, known := o.expected[f.path]
		got, ok := suite.Find(shown, f.path)
		if !known || f.hidden || shown[firstSegment(f.path)] == nil && !ok || isEmpty(want) && isEmpty(got) {
			continue
		}
		problems = append(problems, f.problems(want, got, f.path, place, must && f.described && got != nil)...)
	}
	return problems
}

// problems judges the value of a member at a path of an answer.
func (f field) problems(want, got any, path, place string, must bool) []problem {
	d := strings.Replace(f.difference(want, got), "the value", path, 1)
	if d == "" {
		return nil
	}
	if !strings.HasPrefix(d, path) {
		d = path + d
	}
	return []problem{{must, path + " as it was set", d + " in " + place}}
}

// url returns the path of an object, without the version.
func (s *objects) url(id string) string { return s.kind.path + "/" + suite.PathSegment(id) }

func (s *objects) request(method, path string, body any) *suite.Answer {
	return s.c.Manage(s.kind.version, method, path, body)
}

// read returns a single object, or nil if the operation isn't served.
func (s *objects) read(id string) suite.M {
	a := s.request("GET", s.url(id), nil)
	if a.Code/100 != 2 {
		return nil
	}
	shown, _ := a.ValueOrNil("").(suite.M)
	return shown
}

// list returns the objects of all pages by id, or nil if the operation isn't served.
func (s *objects) list() map[string]suite.M {
	list := map[string]suite.M{}
	for a := range s.c.Pages(s.kind.version, s.kind.path) {
		if s.kind.listDocumented {
			a.Is(http.StatusOK).Array(s.kind.list)
		}
		items, ok := a.ValueOrNil(s.kind.list).([]any)
		if !ok || a.Code/100 != 2 {
			return nil
		}
		for _, item := range items {
			object, _ := item.(suite.M)
			if id, ok := object["id"].(string); ok {
				list[id] = object
			}
		}
	}
	return list
}

// expectShown expects that reads and the list show the objects as expected.
func (s *objects) expectShown(occasion string, objects ...object) {
	s.judgeEventually(func() (problems []problem) {
		for _, o := range objects {
			problems = append(problems, s.compare(o, s.read(o.id), s.kind.readDocumented, "the read "+occasion)...)
		}
		return problems
	})
	s.expectListed(occasion, objects)
}

// expectListed expects that the list has some objects and doesn't have deleted ones.
func (s *objects) expectListed(occasion string, listed []object, deleted ...object) {
	s.judgeEventually(func() (problems []problem) {
		list := s.list()
		if list == nil {
			return nil
		}
		for _, o := range listed {
			if list[o.id] == nil {
				problems = append(problems, problem{s.kind.listDocumented, "the " + s.kind.name + " in the list " + occasion, "none of " + strconv.Itoa(len(list)) + " with its id"})
			}
			problems = append(problems, s.compare(o, list[o.id], s.kind.listDocumented, "the list "+occasion)...)
		}
		for _, o := range deleted {
			if list[o.id] != nil {
				problems = append(problems, problem{s.kind.deleteDocumented, "no deleted " + s.kind.name + " in the list", "a list with the deleted " + s.kind.name})
			}
		}
		return problems
	})
}

// expectShownAs expects the values of members, by id and path, in reads and in the list. If the description
// lacks the operation, a wrong value is a warning, and a missing one is accepted.
func expectShownAs(c *suite.C, kind, version string, want map[string]suite.M) {
	s := &objects{c: c, kind: kindOf(kind, version)}
	s.judgeEventually(func() (problems []problem) {
		list := s.list()
		for id, members := range want {
			for _, view := range []struct {
				place      string
				shown      suite.M
				documented bool
			}{{"the read", s.read(id), s.kind.readDocumented}, {"the list", list[id], s.kind.listDocumented}} {
				for path, value := range members {
					got, ok := suite.Find(view.shown, path)
					if !view.documented && !ok || isEmpty(value) && isEmpty(got) || suite.Same(got, value) {
						continue
					}
					problems = append(problems, problem{view.documented, path + " = " + suite.JSONText(value), "the value " + suite.JSONText(got) + " in " + view.place})
				}
			}
		}
		return problems
	})
}

func (s *objects) expectDeleted(o object) {
	s.judgeEventually(func() (problems []problem) {
		if a := s.request("GET", s.url(o.id), nil); a.Code/100 == 2 {
			problems = append(problems, problem{false, "no deleted object", "the status code " + strconv.Itoa(a.Code)})
		}
		return problems
	})
}

// changeable returns the members of an object that an update may set to another value.
func (s *objects) changeable(o object) (fields []field) {
	for _, f := range s.fields {
		if _, known := s.placeholders.resolve(f.changedValue); known && !f.fixed && !f.setAlone && o.canHold(f) {
			fields = append(fields, f)
		}
	}
	return fields
}

// update changes members of an object, and judges that these have the new values and all others are
// unchanged. Unless alone is set, it also sends the unchanged members of the same nested object, such as gpu.
// updateIndex selects the update operation. It returns false if no operation updates the kind.
func (s *objects) update(o object, changes suite.M, updateIndex int, alone bool) bool {
	sent := suite.M{}
	for path, value := range changes {
		for sibling, siblingValue := range o.expected {
			if !alone && firstSegment(sibling) == firstSegment(path) {
				sent[sibling] = siblingValue
			}
		}
		sent[path] = value
	}
	maps.Copy(sent, changes)
	if changes["scaling.type"] == "REQUEST_COUNT" || changes["workers.idleTimeout"] != nil && o.expected["scaling.type"] == "REQUEST_COUNT" {
		delete(o.expected, "workers.idleTimeout") // with REQUEST_COUNT, an endpoint has no idle time-out
		delete(sent, "workers.idleTimeout")
		changes = maps.Clone(changes)
		if delete(changes, "workers.idleTimeout"); len(changes) == 0 {
			return true
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(changes)), ", ")
	a, described := s.sendUpdate(o, s.body(sent), updateIndex)
	if a == nil {
		return false
	}
	if a.Code/100 != 2 {
		s.reportGravest([]problem{{described && s.describes(changes), "2xx", strconv.Itoa(a.Code) + " to an update of " + names}})
		return true
	}
	maps.Copy(o.expected, changes)
	if shown, ok := a.ValueOrNil("").(suite.M); ok && shown["id"] != nil {
		s.reportGravest(s.compare(o, shown, described, "the answer to the update of "+names))
	}
	s.judgeEventually(func() []problem {
		return s.compare(o, s.read(o.id), described && s.kind.readDocumented, "the read after the update of "+names)
	})
	return true
}

// describes reports whether the description has all members of the values.
func (s *objects) describes(values suite.M) bool {
	return !slices.ContainsFunc(s.fields, func(f field) bool { return values[f.path] != nil && !f.described })
}

// sendUpdate sends an update with the operation at updateIndex, or with another update operation that is served. If
// no operation is served, it returns nil. described reports whether the description has the
// operation, which must then be served.
func (s *objects) sendUpdate(o object, body suite.M, updateIndex int) (a *suite.Answer, described bool) {
	for i := range s.kind.updates {
		op := (updateIndex + i) % len(s.kind.updates)
		described = s.kind.updateDocumented && op == 0
		a = s.request(s.kind.updates[op].method, s.url(o.id)+s.kind.updates[op].suffix, body)
		if described || !isMissing(a) {
			return a, described
		}
	}
	return nil, false
}
