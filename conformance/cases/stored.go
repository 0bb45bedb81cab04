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
		ID: "STO-01", Level: suite.Must, From: "Resources and their fields; Versioning, 7",
		Says: "What a creation says of an object is what is shown of it: in the answer, by itself, in the list.",
	}
	changedAsSaid = suite.Case{
		ID: "STO-02", Level: suite.Must, From: "Endpoints A; Versioning, 6",
		Says: "An update changes what it says of an object, and nothing else of it.",
	}
	leavesOthers = suite.Case{
		ID: "STO-03", Level: suite.Must, From: "Endpoints A; Versioning, 6 and 8",
		Says: "An update or a deletion of one object leaves the others, and the list has all that are there.",
	}
	clears = suite.Case{
		ID: "STO-04", Level: suite.Should, From: "Versioning, 3",
		Says: "A member that is set to null or to nothing is cleared, and nothing else is.",
	}
	hasDefaults = suite.Case{
		ID: "STO-05", Level: suite.Should, From: "Template; Versioning, 3",
		Says: "What a creation leaves out has its default.",
	}
	sameInBoth = suite.Case{
		ID: "STO-06", Level: suite.Should, From: "Versioning, 3 and 7",
		Says: "What one version of the API makes, changes and deletes, the other shows so under its own names.",
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
		add(madeAsSaid, k, "", 0, 16, created)
		add(madeAsSaid, k, "-alone", suite.LocalOnly, 70, createdAlone)
		if k.updates != nil {
			add(changedAsSaid, k, "", 0, 20, changedSome)
			for nth, op := range k.updates {
				add(changedAsSaid, k, "-all-"+strings.ToLower(op.method), suite.LocalOnly, 110, func(s *objects) { changedAll(s, nth) })
			}
		}
		add(leavesOthers, k, "", 0, 24, othersStay)
		if has(func(f field) bool { return f.cleared != any(noValue{}) }) {
			for nth, op := range k.updates {
				add(clears, k, "-"+strings.ToLower(op.method), suite.LocalOnly, 60, func(s *objects) { cleared(s, nth) })
			}
		}
		if has(func(f field) bool { return f.byOmission != any(noValue{}) }) {
			add(hasDefaults, k, "", 0, 12, omitted)
		}
		if has(func(f field) bool { return f.mapped != "" }) {
			add(sameInBoth, k, "", suite.V1|suite.V2, 24, inOtherVersion)
		}
	}
	v2 := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == "endpoint" && k.version == "v2" })]
	add(madeAsSaid, v2, "-template", 0, 12, fromTemplate)
	return list
}()

// fromTemplate: an endpoint that is made from a template has what that has, but
// for what its own body says.
func fromTemplate(s *objects) {
	template := suite.M{"serverless": true, "args": "python -u main.py", "disk": 7, "ports": []any{"8080/http"}, "env": suite.M{"A": "1", "B": "2"}}
	t := s.c.Create("v2", "/templates", with(with(template, "name", s.c.Name()), "image", s.c.Image()))
	if t.IsRefusal() {
		s.c.Skip("version 2 does not take such a template: %d", t.Code)
	}
	body := s.c.Endpoint("v2", s.body(suite.M{
		"name": s.c.Name(), "templateId": t.Str("id"), "type": "QUEUE", "workers.max": 0, "scaling.type": "REQUEST_COUNT", "scaling.value": 3,
		"disk": 9, "env": suite.M{"B": "3", "C": "4"},
	}))
	o := object{wants: suite.M{
		"image": s.c.Image(), "args": template["args"], "ports": template["ports"], "env": suite.M{"A": "1", "B": "3", "C": "4"}, "disk": 9,
		"workers.max": 0, "scaling.type": "REQUEST_COUNT", "scaling.value": 3,
	}}
	s.c.Given("VER-24", func() { o.id = s.c.Create("v2", s.k.path, body).Success().Str("id") })
	s.shows("after a creation from a template", o)
}

// created: all members at once.
func created(s *objects) {
	s.shows("after the creation", s.create(s.one()))
}

// createdAlone: each member, beside those without which nothing is made.
func createdAlone(s *objects) {
	for _, f := range s.fields {
		value, known := s.given.value(f.other)
		if !known {
			value, known = s.given.value(f.one)
		}
		if f.hidden || !known {
			continue
		}
		values := s.fewest()
		for _, sibling := range s.fields {
			if one, ok := s.given.value(sibling.one); ok && top(sibling.path) == top(f.path) && !sibling.alone && exclusive[f.path] != sibling.path {
				values[sibling.path] = one
			}
		}
		values[f.path] = value
		o := s.create(values)
		if list := also[f.path]; list != "" {
			o.wants[list] = []any{value}
		}
		s.settles(func() []problem {
			return s.wrong(o, s.single(o.id), s.k.read, "the read after a creation with "+f.path)
		})
	}
}

// also are lists that one member gives their only element.
var also = map[string]string{"networkVolumeId": "networkVolumeIds"}

// changedSome: two members, each by itself.
func changedSome(s *objects) {
	o := s.create(s.one())
	some := s.changeable(o)
	random := s.c.Random()
	random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	for _, f := range some[:min(2, len(some))] {
		s.change(o, f, 0)
	}
	s.lists("after the updates", []object{o})
}

// changedAll: each member by itself with the nth of the kind's operations, and
// those of objects without the others.
func changedAll(s *objects, nth int) {
	o := s.create(s.one())
	some := s.changeable(o)
	slices.SortStableFunc(some, func(a, b field) int { return rank(a) - rank(b) })
	bare := false
	for _, f := range some {
		if f.last && !bare {
			bare = true
			s.changeBare(o)
		}
		s.change(o, f, nth)
	}
	s.shows("after all updates", o)
}

func rank(f field) int {
	if f.last {
		return 1
	}
	return 0
}

// change sets a member to its other value, and ends the case where nothing updates
// the kind.
func (s *objects) change(o object, f field, nth int) {
	if with := exclusive[f.path]; with != "" && !empty(o.wants[with]) {
		return
	}
	value, _ := s.given.value(f.other)
	if !s.update(o, suite.M{f.path: value}, nth, false) {
		s.c.Skip("version 1 updates no %s here", s.k.name)
	}
}

// partial are members that can be sent without the others of their object.
var partial = []string{"workers.min", "workers.max", "workers.idleTimeout", "gpu.count", "gpu.allowedCudaVersions"}

func (s *objects) changeBare(o object) {
	for _, f := range s.fields {
		if value, known := s.given.value(f.one); known && slices.Contains(partial, f.path) && o.takes(f) {
			// That an object of a body is not replaced as a whole, only the document says.
			s.c.Should(func() { s.update(o, suite.M{f.path: value}, 0, true) })
		}
	}
}

// othersStay: of three objects one is changed and then deleted.
func othersStay(s *objects) {
	first, second, third := s.create(s.one()), s.create(s.one()), s.create(s.other())
	s.changeAll(second)
	s.lists("after the update of another one", []object{first, second, third})
	a := s.ask("DELETE", s.url(second.id), nil)
	if a.Code/100 != 2 {
		s.tell([]problem{{s.k.deleted, "2xx", strconv.Itoa(a.Code) + " to a deletion"}})
		return
	}
	s.lists("after the deletion of another one", []object{first, third}, second)
	s.leaves(second)
	s.shows("after the deletion of another one", first, third)
}

// changeAll sets all members of an object that can be at once; false where
// nothing updates the kind.
func (s *objects) changeAll(o object) bool {
	changes := suite.M{}
	for _, f := range s.changeable(o) {
		if !f.last {
			changes[f.path], _ = s.given.value(f.other)
		}
	}
	return len(changes) > 0 && s.update(o, changes, 0, false)
}

// cleared: all members that can be by a creation, and each by the nth of the
// kind's operations; then those that stand only where another one does not.
func cleared(s *objects, nth int) {
	s.shows("after a creation with nothing in it", s.create(s.values(func(f field) any {
		switch {
		case f.required || f.path == "gpu.pools":
			return f.one
		case f.last:
			return noValue{}
		}
		return f.cleared
	})))
	o := s.create(s.one())
	if excluded := "gpu.excludedTypes"; !empty(o.wants[excluded]) {
		// Other pools are another choice, which excludes nothing.
		o.wants[excluded] = []any{}
		s.c.Should(func() { s.update(o, suite.M{"gpu.pools": o.wants["gpu.pools"]}, 0, true) })
	}
	for i, f := range slices.Concat(s.fields, s.lasts(), s.lasts()) {
		value, known := s.given.value(f.cleared)
		if f.last && empty(o.wants[f.path]) {
			value, known = s.given.value(f.other)
		}
		if !known || !o.takes(f) || f.last && i < len(s.fields) {
			continue
		}
		if !s.update(o, suite.M{f.path: value}, nth, false) {
			s.c.Skip("version 1 updates no %s here", s.k.name)
		}
	}
	s.lists("after all was cleared", []object{o})
}

// lasts are members that exclude others.
func (s *objects) lasts() (some []field) {
	for _, f := range s.fields {
		if exclusive[f.path] != "" {
			some = append(some, f)
		}
	}
	return some
}

// omitted: what a creation leaves out has its default.
func omitted(s *objects) {
	o := s.create(s.fewest())
	for _, f := range s.fields {
		if value, known := s.given.value(f.byOmission); known && o.wants[f.path] == nil {
			o.wants[f.path] = value
		}
	}
	// A wrong default is a failure where the description has it: see T-05 to T-16.
	for i := range s.fields {
		s.fields[i].described = false
	}
	s.shows("of what was made without it", o)
}

// inOtherVersion: what one version makes, changes and deletes, the other shows
// so under its own names.
func inOtherVersion(s *objects) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == s.k.name && k.version != s.k.version })
	other := &objects{c: s.c, k: kinds[i]}
	o := s.create(s.one())
	if !s.mapped(other, o, "after the creation") {
		s.c.Observe("version %s does not show what %s made", other.k.version[1:], s.k.version)
		return
	}
	if s.changeAll(o) {
		s.mapped(other, o, "after the update")
	}
	if a := s.ask("DELETE", s.url(o.id), nil); a.Code/100 == 2 {
		other.leaves(o)
		other.lists("after a deletion by version "+s.k.version[1:], nil, o)
	}
}

// mapped compares what the other version shows; false where it shows nothing.
func (s *objects) mapped(other *objects, o object, when string) (shows bool) {
	s.settles(func() (wrong []problem) {
		single, listed := other.single(o.id), other.all()[o.id]
		shows = single != nil || listed != nil
		for _, view := range []struct {
			where string
			shown suite.M
		}{{"the read", single}, {"the list", listed}} {
			shown := other.seen(view.shown)
			for _, f := range s.fields {
				want, known := s.inOther(f, o)
				got, there := member(shown, f.mapped)
				if f.mapped == "" || f.mappedHidden || !known || shown[top(f.mapped)] == nil && !there || empty(want) && empty(got) {
					continue
				}
				wrong = append(wrong, f.problems(want, got, f.mapped, view.where+" of version "+other.k.version[1:]+" "+when, false)...)
			}
		}
		return wrong
	})
	return shows
}

// inOther is the value that the other version should show for a member.
func (s *objects) inOther(f field, o object) (want any, known bool) {
	want, known = o.wants[f.path]
	for _, v := range [][2]any{{f.one, f.mappedOne}, {f.other, f.mappedOther}} {
		if own, ok := s.given.value(v[0]); ok && known && !suite.Same(v[0], v[1]) && suite.Same(own, want) {
			return s.given.value(v[1])
		}
	}
	return want, known
}
