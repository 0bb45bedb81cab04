package cases

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// What the cases of stored objects state, each for several kinds.
var (
	madeAsSaid = suite.Case{
		ID: "STO-01", Level: suite.Must, Source: "Resources and their fields; Versioning, 7",
		Statement: "What a creation says of an object is what is shown of it: in the answer, by itself, in the list.",
	}
	changedAsSaid = suite.Case{
		ID: "STO-02", Level: suite.Must, Source: "Endpoints A; Versioning, 6",
		Statement: "An update changes what it says of an object, and nothing else of it.",
	}
	leavesOthers = suite.Case{
		ID: "STO-03", Level: suite.Must, Source: "Endpoints A; Versioning, 6 and 8",
		Statement: "An update or a deletion of one object leaves the others, and the list has all that are there.",
	}
	clears = suite.Case{
		ID: "STO-04", Level: suite.Should, Source: "Versioning, 3",
		Statement: "A member that is set to null or to nothing is cleared, and nothing else is.",
	}
	hasDefaults = suite.Case{
		ID: "STO-05", Level: suite.Should, Source: "Template; Versioning, 3",
		Statement: "What a creation leaves out has its default.",
	}
	sameInBoth = suite.Case{
		ID: "STO-06", Level: suite.Should, Source: "Versioning, 3 and 7",
		Statement: "What one version of the API makes, changes and deletes, the other shows so under its own names.",
	}
)

// storedCases are of the table of members, for each kind in each version.
// Those that try every member are for targets that are there for tests alone;
// elsewhere the seed of the run chooses some.
var storedCases = func() (list []suite.Case) {
	add := func(stated suite.Case, k kind, word string, needs suite.Needs, requests int, run func(*objects)) {
		stated.ID += "-" + k.name + "-" + k.version + word
		stated.Needs, stated.Allow, stated.Requests = k.needs|needs, suite.Create, requests
		stated.Run = func(c *suite.C) { run(newObjects(c, k)) }
		list = append(list, stated)
	}
	for _, k := range kinds {
		has := func(is func(field) bool) bool { return slices.ContainsFunc(k.fields, is) }
		add(madeAsSaid, k, "", 0, 16, judgeCreation)
		add(madeAsSaid, k, "-alone", suite.LocalOnly, 70, judgeSingleMembers)
		if k.updates != nil {
			add(changedAsSaid, k, "", 0, 20, judgeSomeUpdates)
			for nth, op := range k.updates {
				add(changedAsSaid, k, "-all-"+strings.ToLower(op.method), suite.LocalOnly, 110, func(s *objects) { judgeAllUpdates(s, nth) })
			}
		}
		add(leavesOthers, k, "", 0, 24, judgeOthersUnchanged)
		if has(func(f field) bool { return f.clearedValue != any(noValue{}) }) {
			for nth, op := range k.updates {
				add(clears, k, "-"+strings.ToLower(op.method), suite.LocalOnly, 60, func(s *objects) { judgeCleared(s, nth) })
			}
		}
		if has(func(f field) bool { return f.defaultValue != any(noValue{}) }) {
			add(hasDefaults, k, "", 0, 12, judgeDefaults)
		}
		if has(func(f field) bool { return f.mappedPath != "" }) {
			add(sameInBoth, k, "", suite.V1|suite.V2, 24, judgeOtherVersion)
		}
	}
	v2 := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == "endpoint" && k.version == "v2" })]
	add(madeAsSaid, v2, "-template", 0, 12, judgeFromTemplate)
	return list
}()

// judgeFromTemplate: an endpoint that is made from a template has what that has, but
// for what its own body says.
func judgeFromTemplate(s *objects) {
	template := suite.M{"serverless": true, "args": "python -u main.py", "disk": 7, "ports": []any{"8080/http"}, "env": suite.M{"A": "1", "B": "2"}}
	t := s.c.Create("v2", "/templates", withMember(withMember(template, "name", s.c.Name()), "image", s.c.Image()))
	if t.IsRefusal() {
		s.c.Skip("version 2 does not take such a template: %d", t.Code)
	}
	body := s.c.EndpointBody("v2", s.body(suite.M{
		"name": s.c.Name(), "templateId": t.Str("id"), "type": "QUEUE", "workers.max": 0, "scaling.type": "REQUEST_COUNT", "scaling.value": 3,
		"disk": 9, "env": suite.M{"B": "3", "C": "4"},
	}))
	o := object{expected: suite.M{
		"image": s.c.Image(), "args": template["args"], "ports": template["ports"], "env": suite.M{"A": "1", "B": "3", "C": "4"}, "disk": 9,
		"workers.max": 0, "scaling.type": "REQUEST_COUNT", "scaling.value": 3,
	}}
	s.c.Given("VER-24", func() { o.id = s.c.Create("v2", s.k.path, body).Success().Str("id") })
	s.expectShown("after a creation from a template", o)
}

// judgeCreation: all members at once.
func judgeCreation(s *objects) {
	s.expectShown("after the creation", s.create(s.values()))
}

// judgeSingleMembers: each member, beside those without which nothing is made.
func judgeSingleMembers(s *objects) {
	for _, f := range s.fields {
		value, known := s.placeholders.resolve(f.otherValue)
		if !known {
			value, known = s.placeholders.resolve(f.value)
		}
		if f.hidden || !known {
			continue
		}
		values := s.requiredValues()
		for _, sibling := range s.fields {
			if one, ok := s.placeholders.resolve(sibling.value); ok && firstSegment(sibling.path) == firstSegment(f.path) && !sibling.single && exclusive[f.path] != sibling.path {
				values[sibling.path] = one
			}
		}
		values[f.path] = value
		o := s.create(values)
		if list := also[f.path]; list != "" {
			o.expected[list] = []any{value}
		}
		s.judgeEventually(func() []problem {
			return s.compare(o, s.read(o.id), s.k.read, "the read after a creation with "+f.path)
		})
	}
}

// also are lists that one member gives their only element.
var also = map[string]string{"networkVolumeId": "networkVolumeIds"}

// judgeSomeUpdates: two members, each by itself.
func judgeSomeUpdates(s *objects) {
	o := s.create(s.values())
	some := s.changeable(o)
	random := s.c.Random()
	random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	for _, f := range some[:min(2, len(some))] {
		s.updateMember(o, f, 0)
	}
	s.expectListed("after the updates", []object{o})
}

// judgeAllUpdates: each member by itself with the nth of the kind's operations, and
// those of objects without the others.
func judgeAllUpdates(s *objects, nth int) {
	o := s.create(s.values())
	some := s.changeable(o)
	slices.SortStableFunc(some, func(a, b field) int { return sortRank(a) - sortRank(b) })
	bare := false
	for _, f := range some {
		if f.exclusive && !bare {
			bare = true
			s.judgePartialObjects(o)
		}
		s.updateMember(o, f, nth)
	}
	s.expectShown("after all updates", o)
}

func sortRank(f field) int {
	if f.exclusive {
		return 1
	}
	return 0
}

// updateMember sets a member to its other value, and skips the case where no operation
// updates the kind.
func (s *objects) updateMember(o object, f field, nth int) {
	if with := exclusive[f.path]; with != "" && !isEmpty(o.expected[with]) {
		return
	}
	value, _ := s.placeholders.resolve(f.otherValue)
	if !s.update(o, suite.M{f.path: value}, nth, false) {
		s.c.Skip("version 1 updates no %s here", s.k.name)
	}
}

// partial are members that can be sent without the others of their object.
var partial = []string{"workers.min", "workers.max", "workers.idleTimeout", "gpu.count", "gpu.allowedCudaVersions"}

func (s *objects) judgePartialObjects(o object) {
	for _, f := range s.fields {
		if value, known := s.placeholders.resolve(f.value); known && slices.Contains(partial, f.path) && o.canHold(f) {
			// That an object of a body is not replaced as a whole, only the document says.
			s.c.Should(func() { s.update(o, suite.M{f.path: value}, 0, true) })
		}
	}
}

// judgeOthersUnchanged: of three objects, one is updated and then deleted.
func judgeOthersUnchanged(s *objects) {
	first, second, third := s.create(s.values()), s.create(s.values()), s.create(s.otherValues())
	s.updateAllMembers(second)
	s.expectListed("after the update of another one", []object{first, second, third})
	a := s.ask("DELETE", s.url(second.id), nil)
	if a.Code/100 != 2 {
		s.reportGravest([]problem{{s.k.deleted, "2xx", strconv.Itoa(a.Code) + " to a deletion"}})
		return
	}
	s.expectListed("after the deletion of another one", []object{first, third}, second)
	s.expectDeleted(second)
	s.expectShown("after the deletion of another one", first, third)
}

// updateAllMembers sets all members of an object that can be set at once; false where
// no operation updates the kind.
func (s *objects) updateAllMembers(o object) bool {
	changes := suite.M{}
	for _, f := range s.changeable(o) {
		if !f.exclusive {
			changes[f.path], _ = s.placeholders.resolve(f.otherValue)
		}
	}
	return len(changes) > 0 && s.update(o, changes, 0, false)
}

// judgeCleared: all members that can be by a creation, and each by the nth of the
// kind's operations; then those that stand only where another one does not.
func judgeCleared(s *objects, nth int) {
	s.expectShown("after a creation with nothing in it", s.create(s.chooseValues(func(f field) any {
		switch {
		case f.required || f.path == "gpu.pools":
			return f.value
		case f.exclusive:
			return noValue{}
		}
		return f.clearedValue
	})))
	o := s.create(s.values())
	if excluded := "gpu.excludedTypes"; !isEmpty(o.expected[excluded]) {
		// Other pools are another choice, which excludes nothing.
		o.expected[excluded] = []any{}
		s.c.Should(func() { s.update(o, suite.M{"gpu.pools": o.expected["gpu.pools"]}, 0, true) })
	}
	for i, f := range slices.Concat(s.fields, s.exclusiveFields(), s.exclusiveFields()) {
		value, known := s.placeholders.resolve(f.clearedValue)
		if f.exclusive && isEmpty(o.expected[f.path]) {
			value, known = s.placeholders.resolve(f.otherValue)
		}
		if !known || !o.canHold(f) || f.exclusive && i < len(s.fields) {
			continue
		}
		if !s.update(o, suite.M{f.path: value}, nth, false) {
			s.c.Skip("version 1 updates no %s here", s.k.name)
		}
	}
	s.expectListed("after all was cleared", []object{o})
}

// exclusiveFields are members that exclude others.
func (s *objects) exclusiveFields() (some []field) {
	for _, f := range s.fields {
		if exclusive[f.path] != "" {
			some = append(some, f)
		}
	}
	return some
}

// judgeDefaults: what a creation leaves out has its default.
func judgeDefaults(s *objects) {
	o := s.create(s.requiredValues())
	for _, f := range s.fields {
		if value, known := s.placeholders.resolve(f.defaultValue); known && o.expected[f.path] == nil {
			o.expected[f.path] = value
		}
	}
	// A wrong default is a failure where the description has it: see T-05 to T-16.
	for i := range s.fields {
		s.fields[i].described = false
	}
	s.expectShown("of what was made without it", o)
}

// judgeOtherVersion: objects that one version creates, updates and deletes are shown
// by the other under its own names.
func judgeOtherVersion(s *objects) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == s.k.name && k.version != s.k.version })
	other := &objects{c: s.c, k: kinds[i]}
	o := s.create(s.values())
	if !s.compareMapped(other, o, "after the creation") {
		s.c.Observe("version %s does not show what %s made", other.k.version[1:], s.k.version)
		return
	}
	if s.updateAllMembers(o) {
		s.compareMapped(other, o, "after the update")
	}
	if a := s.ask("DELETE", s.url(o.id), nil); a.Code/100 == 2 {
		other.expectDeleted(o)
		other.expectListed("after a deletion by version "+s.k.version[1:], nil, o)
	}
}

// compareMapped compares what the other version shows; false where it shows nothing.
func (s *objects) compareMapped(other *objects, o object, when string) (shows bool) {
	s.judgeEventually(func() (wrong []problem) {
		single, listed := other.read(o.id), other.list()[o.id]
		shows = single != nil || listed != nil
		for _, view := range []struct {
			where string
			shown suite.M
		}{{"the read", single}, {"the list", listed}} {
			shown := other.asTable(view.shown)
			for _, f := range s.fields {
				want, known := s.mappedValue(f, o)
				got, there := memberAt(shown, f.mappedPath)
				if f.mappedPath == "" || f.mappedHidden || !known || shown[firstSegment(f.mappedPath)] == nil && !there || isEmpty(want) && isEmpty(got) {
					continue
				}
				wrong = append(wrong, f.problems(want, got, f.mappedPath, view.where+" of version "+other.k.version[1:]+" "+when, false)...)
			}
		}
		return wrong
	})
	return shows
}

// mappedValue is the value that the other version should show for a member.
func (s *objects) mappedValue(f field, o object) (want any, known bool) {
	want, known = o.expected[f.path]
	for _, v := range [][2]any{{f.value, f.mappedValue}, {f.otherValue, f.mappedOtherValue}} {
		if own, ok := s.placeholders.resolve(v[0]); ok && known && !suite.Same(v[0], v[1]) && suite.Same(own, want) {
			return s.placeholders.resolve(v[1])
		}
	}
	return want, known
}
