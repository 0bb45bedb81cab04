package cases

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// The clauses about stored objects, which the cases of several kinds share.
var (
	createdCase = suite.Case{
		ID: "STO-01", Level: suite.Must, Source: "Resources and their fields; Versioning, 7",
		Statement: "The response to a create, a read and the list contain the values that the create sent.",
	}
	updatedCase = suite.Case{
		ID: "STO-02", Level: suite.Must, Source: "Endpoints A; Versioning, 6",
		Statement: "An update changes only the members that it sends.",
	}
	otherObjectsCase = suite.Case{
		ID: "STO-03", Level: suite.Must, Source: "Endpoints A; Versioning, 6 and 8",
		Statement: "An update or a deletion of one object doesn't change others, and the list contains all objects.",
	}
	clearedCase = suite.Case{
		ID: "STO-04", Level: suite.Should, Source: "Versioning, 3",
		Statement: "Setting a member to null or to an empty value clears that member only.",
	}
	defaultsCase = suite.Case{
		ID: "STO-05", Level: suite.Should, Source: "Template; Versioning, 3",
		Statement: "A member that a create omits has its default.",
	}
	refusedCase  = suite.Case{ID: "VER-85", Level: suite.Should, Source: "Versioning, 7 and 11; v2 document", Statement: "Version 2 rejects creates that lack required members, and values its document excludes."}
	versionsCase = suite.Case{
		ID: "STO-06", Level: suite.Should, Source: "Versioning, 3 and 7",
		Statement: "If one version of the API creates, updates or deletes an object, the other version returns the same, under its own names.",
	}
)

// storedCases are generated from the table of members, for each kind and version. Cases that set or update each member by
// itself run only at test deployments. At any deployment, judgeSomeUpdates updates two members that the seed selects.
var storedCases = func() (list []suite.Case) {
	add := func(common suite.Case, k kind, suffix string, needs suite.Needs, requests int, run func(*objects)) {
		common.ID += "-" + k.name + "-" + k.version + suffix
		common.Needs, common.Allow, common.Requests = k.needs|needs, suite.Create|k.allow, requests
		common.Run = func(c *suite.C) { run(newObjects(c, k)) }
		list = append(list, common)
	}
	for _, k := range kinds {
		anyField := func(condition func(field) bool) bool { return slices.ContainsFunc(k.fields, condition) }
		add(createdCase, k, "", 0, 16, func(s *objects) { s.expectShown("after the creation", s.create(s.values())) })
		add(createdCase, k, "-alone", suite.LocalOnly, 70, judgeSingleMembers)
		if k.version == "v2" {
			add(refusedCase, k, "", 0, 80, func(s *objects) { s.judgeRefusedValues(func(a *suite.Answer) { a.Refused() }) })
		}
		if k.updates != nil {
			add(updatedCase, k, "", 0, 20, judgeSomeUpdates)
			for updateIndex, op := range k.updates {
				add(updatedCase, k, "-all-"+strings.ToLower(op.method), suite.LocalOnly, 110, func(s *objects) { judgeAllUpdates(s, updateIndex) })
			}
		}
		add(otherObjectsCase, k, "", 0, 30, judgeOthersUnchanged)
		if anyField(func(f field) bool { return f.clearedValue != any(noValue{}) }) {
			for updateIndex, op := range k.updates {
				add(clearedCase, k, "-"+strings.ToLower(op.method), suite.LocalOnly, 60, func(s *objects) { judgeClearedMembers(s, updateIndex) })
			}
		}
		if anyField(func(f field) bool { return f.defaultValue != any(noValue{}) }) {
			add(defaultsCase, k, "", 0, 12, judgeDefaults)
		}
		if anyField(func(f field) bool { return f.mappedPath != "" }) {
			add(versionsCase, k, "", suite.V1|suite.V2, 24, judgeOtherVersion)
		}
	}
	add(createdCase, kindOf("endpoint", "v2"), "-template", 0, 12, judgeCreationFromTemplate)
	return list
}()

// judgeCreationFromTemplate judges that an endpoint that is created from a template has the
// template's settings, except those in its own body.
func judgeCreationFromTemplate(s *objects) {
	template := suite.M{"serverless": true, "args": "python -u main.py", "disk": 7, "ports": []any{"8080/http"}, "env": suite.M{"A": "1", "B": "2"}}
	t := s.c.Create("v2", "/templates", suite.Merge(template, suite.M{"name": s.c.Name(), "image": s.c.Image()}))
	s.c.SkipIf(t.IsRefusal(), "version 2 does not accept the case's template: %d", t.Code)
	body := s.c.EndpointBody("v2", s.body(suite.M{
		"name": s.c.Name(), "templateId": t.Str("id"), "type": "QUEUE", "workers.max": 0, "scaling.type": "REQUEST_COUNT", "scaling.value": 3,
		"disk": 9, "env": suite.M{"B": "3", "C": "4"},
	}))
	o := object{expected: suite.M{
		"image": s.c.Image(), "args": template["args"], "ports": template["ports"], "env": suite.M{"A": "1", "B": "3", "C": "4"}, "disk": 9,
		"workers.max": 0, "scaling.type": "REQUEST_COUNT", "scaling.value": 3,
	}}
	s.c.Given("VER-24", func() { o.id = s.c.Create("v2", s.kind.path, body).Success().Str("id") })
	s.expectShown("after a creation from a template", o)
}

// judgeSingleMembers judges one creation per member: that member, the others of its nested object, and the required ones.
func judgeSingleMembers(s *objects) {
	for _, f := range s.fields {
		value, known := s.placeholders.resolve(f.changedValue)
		if !known {
			value, known = s.placeholders.resolve(f.value)
		}
		if f.hidden || !known {
			continue
		}
		values := s.requiredValues()
		for _, sibling := range s.fields {
			if siblingValue, ok := s.placeholders.resolve(sibling.value); ok && firstSegment(sibling.path) == firstSegment(f.path) && !sibling.setAlone && excludedMember[f.path] != sibling.path {
				values[sibling.path] = siblingValue
			}
		}
		values[f.path] = value
		o := s.create(values)
		if list := impliedLists[f.path]; list != "" {
			o.expected[list] = []any{value}
		}
		s.judgeEventually(func() []problem {
			return s.compare(o, s.read(o.id), s.kind.readDocumented, "the read after a creation with "+f.path)
		})
	}
}

// impliedLists maps a member to a list that has its value as the only element.
var impliedLists = map[string]string{"networkVolumeId": "networkVolumeIds"}

// judgeSomeUpdates judges updates of two members, one after the other.
func judgeSomeUpdates(s *objects) {
	o := s.create(s.values())
	fields := s.changeable(o)
	random := s.c.Random()
	random.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	for _, f := range fields[:min(2, len(fields))] {
		s.updateMember(o, f, 0)
	}
	s.expectListed("after the updates", []object{o})
}

// judgeAllUpdates judges updates of each member with one of the kind's update operations, and then of one member of a nested object.
func judgeAllUpdates(s *objects, updateIndex int) {
	o := s.create(s.values())
	var last []field
	for _, f := range s.changeable(o) {
		if f.changedLast {
			last = append(last, f)
			continue
		}
		s.updateMember(o, f, updateIndex)
	}
	if last != nil {
		for _, f := range s.fields {
			if value, known := s.placeholders.resolve(f.value); known && slices.Contains(partialMembers, f.path) && o.canHold(f) {
				// Only the OpenAPI document says that an object in a body is merged, not replaced.
				s.c.Should(func() { s.update(o, suite.M{f.path: value}, 0, true) })
			}
		}
	}
	for _, f := range last {
		s.updateMember(o, f, updateIndex)
	}
	s.expectShown("after all updates", o)
}

// updateMember sets a member to its other value. It skips the case if no operation updates the kind.
func (s *objects) updateMember(o object, f field, updateIndex int) {
	if excluded := excludedMember[f.path]; excluded != "" && !isEmpty(o.expected[excluded]) {
		return
	}
	value, _ := s.placeholders.resolve(f.changedValue)
	s.c.SkipIf(!s.update(o, suite.M{f.path: value}, updateIndex, false), "version %s can't update this %s", s.kind.version[1:], s.kind.name)
}

// partialMembers can be updated without the other members of their object.
var partialMembers = []string{"workers.min", "workers.max", "workers.idleTimeout", "gpu.count", "gpu.allowedCudaVersions"}

//go:embed refused.tsv
var refusedTable string

// refusedValues returns, for each value of refused.tsv, a function that adds it to a body.
func refusedValues(version, kind string) (list []func(body suite.M) suite.M) {
	for line := range strings.Lines(refusedTable) {
		if text, ok := strings.CutPrefix(line, version+"\t"+kind+"\t"); ok {
			path, values, _ := strings.Cut(text, "\t")
			decoded, _ := wire.Decode([]byte(values))
			for _, value := range decoded.([]any) {
				list = append(list, func(body suite.M) suite.M {
					if setMember(body, path, value); value == "$absent" {
						delete(body, path)
					}
					return body
				})
			}
		}
	}
	return list
}

// judgeRefusedValues creates an object, then sends creates and updates with refused values.
func (s *objects) judgeRefusedValues(expectRefusal func(*suite.Answer)) {
	o := s.create(s.values())
	for _, withRefused := range refusedValues(s.kind.version, s.kind.name) {
		expectRefusal(s.post(withRefused(s.body(suite.Merge(o.expected, suite.M{"name": s.c.Name()})))))
		for _, op := range s.kind.updates {
			body := withRefused(suite.M{})
			if a := s.request(op.method, s.url(o.id)+op.suffix, body); len(body) > 0 && !isMissing(a) {
				expectRefusal(a)
			}
		}
	}
}

// judgeOthersUnchanged updates and deletes one of three objects, and judges the others.
func judgeOthersUnchanged(s *objects) {
	first, second, third := s.create(s.values()), s.create(s.values()), s.create(s.changedValues())
	otherKind := "template"
	if s.kind.name == otherKind {
		otherKind = "networkVolume"
	}
	other := newObjects(s.c, kindOf(otherKind, s.kind.version))
	otherObject := other.create(other.values())
	s.updateAllMembers(second)
	s.expectListed("after the update of another one", []object{first, second, third})
	a := s.request("DELETE", s.url(second.id), nil)
	if a.Code/100 != 2 {
		s.reportGravest([]problem{{s.kind.deleteDocumented, "2xx", strconv.Itoa(a.Code) + " to a deletion"}})
		return
	}
	s.expectListed("after the deletion of another one", []object{first, third}, second)
	s.expectDeleted(second)
	s.expectShown("after the deletion of another one", first, third)
	other.expectShown("after the deletion of an object of another kind", otherObject)
}

// updateAllMembers updates all members that one request can set. It returns false if nothing changes, or no operation is served.
func (s *objects) updateAllMembers(o object) bool {
	changes := suite.M{}
	for _, f := range s.changeable(o) {
		if !f.changedLast {
			changes[f.path], _ = s.placeholders.resolve(f.changedValue)
		}
	}
	return len(changes) > 0 && s.update(o, changes, 0, false)
}

// judgeClearedMembers judges a creation with empty members, then updates that clear each member
// with one of the update operations, and at last members that exclude others.
func judgeClearedMembers(s *objects, updateIndex int) {
	s.expectShown("after a creation with empty members", s.create(s.chooseValues(func(f field) any {
		switch {
		case f.required || f.path == "gpu.pools":
			return f.value
		case f.changedLast:
			return noValue{}
		}
		return f.clearedValue
	})))
	o := s.create(s.values())
	if excluded := "gpu.excludedTypes"; !isEmpty(o.expected[excluded]) {
		// An update of the pools also clears the excluded types.
		o.expected[excluded] = []any{}
		s.c.Should(func() { s.update(o, suite.M{"gpu.pools": o.expected["gpu.pools"]}, 0, true) })
	}
	// exclusive comes twice: first a member that excludes others is set, then cleared.
	exclusive := slices.DeleteFunc(slices.Clone(s.fields), func(f field) bool { return excludedMember[f.path] == "" })
	for i, f := range slices.Concat(s.fields, exclusive, exclusive) {
		value, known := s.placeholders.resolve(f.clearedValue)
		if f.changedLast && isEmpty(o.expected[f.path]) {
			value, known = s.placeholders.resolve(f.changedValue)
		}
		if !known || !o.canHold(f) || f.changedLast && i < len(s.fields) {
			continue
		}
		s.c.SkipIf(!s.update(o, suite.M{f.path: value}, updateIndex, false), "version %s can't update this %s", s.kind.version[1:], s.kind.name)
	}
	s.expectListed("after all members were cleared", []object{o})
}

// judgeDefaults judges that members that a creation omits have their defaults.
func judgeDefaults(s *objects) {
	o := s.create(s.requiredValues())
	for _, f := range s.fields {
		if value, known := s.placeholders.resolve(f.defaultValue); known && o.expected[f.path] == nil {
			o.expected[f.path] = value
		}
	}
	// A wrong default is only a warning here. T-05 to T-16 judge the described defaults.
	for i := range s.fields {
		s.fields[i].described = false
	}
	s.expectShown("after a creation without the member", o)
}

// judgeOtherVersion judges that the other version shows, under its own names, what this version creates, updates and deletes.
func judgeOtherVersion(s *objects) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == s.kind.name && k.version != s.kind.version })
	other := &objects{c: s.c, kind: kinds[i]}
	o := s.create(s.values())
	if !s.compareMapped(other, o, "after the creation") {
		s.c.Observe("version %s does not show objects of version %s", other.kind.version[1:], s.kind.version[1:])
		return
	}
	if s.updateAllMembers(o) {
		s.compareMapped(other, o, "after the update")
	}
	if a := s.request("DELETE", s.url(o.id), nil); a.Code/100 == 2 {
		other.expectDeleted(o)
		other.expectListed("after a deletion by version "+s.kind.version[1:], nil, o)
	}
}

// compareMapped compares an object with its form in the other version, and reports whether that version shows it.
func (s *objects) compareMapped(other *objects, o object, occasion string) (shows bool) {
	s.judgeEventually(func() (problems []problem) {
		single, listed := other.read(o.id), other.list()[o.id]
		shows = single != nil || listed != nil
		for _, view := range []struct {
			place string
			shown suite.M
		}{{"the read", single}, {"the list", listed}} {
			shown := other.asTable(view.shown)
			for _, f := range s.fields {
				want, known := s.mappedValue(f, o)
				got, present := suite.Find(shown, f.mappedPath)
				if f.mappedPath == "" || f.mappedHidden || !known || shown[firstSegment(f.mappedPath)] == nil && !present || isEmpty(want) && isEmpty(got) {
					continue
				}
				problems = append(problems, f.problems(want, got, f.mappedPath, view.place+" of version "+other.kind.version[1:]+" "+occasion, false)...)
			}
		}
		return problems
	})
	return shows
}

// mappedValue returns the value of a member in the other version.
func (s *objects) mappedValue(f field, o object) (want any, known bool) {
	want, known = o.expected[f.path]
	for _, v := range [][2]any{{f.value, f.mappedValue}, {f.changedValue, f.mappedChangedValue}} {
		if own, ok := s.placeholders.resolve(v[0]); ok && known && !suite.Same(v[0], v[1]) && suite.Same(own, want) {
			return s.placeholders.resolve(v[1])
		}
	}
	return want, known
}
