package cases

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

//go:embed members.tsv
var membersTable string

// kind is a sort of management object in one version of the API.
type kind struct {
	name, version string
	path          string // after the version
	list          string // the list's name in an answer of version 2
	made          string // the clause that its creation stands on
	needs         suite.Needs
	// The operations that the description shows, of the updates the first one: only
	// in their answers is a wrong value a FAIL.
	answered, read, listed, changed, deleted bool
	// updates are the operations that change it, the first one in preference.
	updates []operation
	fields  []field
}

// operation is one on an object: what follows its id in the path.
type operation struct{ method, suffix string }

var (
	patch      = operation{"PATCH", ""}
	postUpdate = operation{"POST", "/update"}
)

// field is a member of a kind in one version.
type field struct {
	path       string // in bodies and answers, with dots
	mapped     string // in the other version, "" where that has none
	one        any
	other      any // nil: none
	cleared    any // noValue: nothing clears it
	byOmission any // noValue: no default is told
	// What the other version shows for one and other.
	mappedOne, mappedOther any

	described, required, fixed, hidden, mappedHidden bool
	set, exact, last, alone, local, gpu              bool
}

// noValue stands where the table has none; nil is a value.
type noValue struct{}

// kinds are those that can be made and read.
var kinds = func() []kind {
	list := []kind{
		{name: "template", version: "v1", path: "/templates", made: "T-01", answered: true, updates: []operation{patch, postUpdate}},
		{name: "template", version: "v2", path: "/templates", list: "templates", made: "VER-27", answered: true, read: true, listed: true, updates: []operation{patch}},
		{name: "networkVolume", version: "v1", path: "/networkvolumes", made: "VER-28", changed: true, updates: []operation{postUpdate, patch}},
		{name: "networkVolume", version: "v2", path: "/network-volumes", list: "networkVolumes", made: "VER-28", answered: true, read: true, listed: true, changed: true, updates: []operation{patch}},
		{name: "registryAuth", version: "v1", path: "/containerregistryauth", made: "R-01", listed: true, deleted: true},
		{name: "registryAuth", version: "v2", path: "/registries", list: "registries", made: "VER-34", answered: true, read: true, listed: true},
		{name: "endpoint", version: "v1", path: "/endpoints", made: "P-01", updates: []operation{patch, postUpdate}},
		{name: "endpoint", version: "v2", path: "/serverless", list: "endpoints", made: "VER-25", answered: true, read: true, listed: true, changed: true, updates: []operation{patch}},
		{name: "cpuEndpoint", version: "v1", path: "/endpoints", made: "P-01", updates: []operation{patch, postUpdate}},
		{name: "cpuEndpoint", version: "v2", path: "/serverless", list: "endpoints", made: "VER-25", answered: true, read: true, listed: true, changed: true, updates: []operation{patch}},
	}
	for i := range list {
		k := &list[i]
		k.needs = suite.V1
		if k.version == "v2" {
			k.needs = suite.V2
		}
		k.fields = fieldsOf(k.name, k.version)
	}
	return list
}()

// fieldsOf are the members of a kind that a version has, in the order of the
// table, which is part of the program and tested.
func fieldsOf(kind, version string) (fields []field) {
	for line := range strings.Lines(membersTable) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if strings.HasPrefix(line, "#") || f[0] != kind {
			continue
		}
		if len(f) != 9 {
			panic(fmt.Sprintf("members.tsv: %d columns: %s", len(f), line))
		}
		own, others := 0, 1
		if version == "v2" {
			own, others = 1, 0
		}
		if f[1+own] == "-" {
			continue
		}
		marks := strings.Fields(f[8])
		marked := func(mark string, version int) bool {
			return slices.Contains(marks, mark) || slices.Contains(marks, fmt.Sprint(mark, version+1))
		}
		one, other, cleared := values(f[3]), values(f[4]), values(f[5])
		d := field{
			path: f[1+own], one: one[own], other: other[own], mappedOne: one[others], mappedOther: other[others], cleared: cleared[own], byOmission: values(f[6+own])[0],
			described: marked("described", own), required: marked("required", own), fixed: marked("fixed", own), hidden: marked("hidden", own), mappedHidden: marked("hidden", others),
			set: marked("set", own), exact: marked("map", own), last: marked("last", own), alone: marked("alone", own), local: marked("local", own), gpu: marked("gpu", own),
		}
		if f[1+others] != "-" {
			d.mapped = f[1+others]
		}
		fields = append(fields, d)
	}
	return fields
}

// values are those of a column: of both versions, or of each.
func values(column string) (v [2]any) {
	first, second, two := strings.Cut(column, " ~ ")
	if !two {
		second = first
	}
	for i, text := range []string{first, second} {
		if v[i] = (noValue{}); text == "-" || text == "" {
			continue
		}
		value, err := suite.Decode([]byte(text))
		if err != nil {
			panic(fmt.Sprintf("members.tsv: %s: %v", text, err))
		}
		v[i] = value
	}
	return v
}

// member is the one of an object at a path.
func member(o suite.M, path string) (v any, there bool) {
	first, rest, deeper := strings.Cut(path, ".")
	v, there = o[first]
	if deeper && there {
		below, _ := v.(suite.M)
		return member(below, rest)
	}
	return v, there
}

// put gives an object a member at a path.
func put(o suite.M, path string, v any) {
	first, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		o[first] = v
		return
	}
	below, ok := o[first].(suite.M)
	if !ok {
		below = suite.M{}
		o[first] = below
	}
	put(below, rest, v)
}

// top is the member of a body that a path begins with.
func top(path string) string {
	first, _, _ := strings.Cut(path, ".")
	return first
}

// differs says how a member's value is not the wanted one, "" where it is: an
// object may have further members, and a list without order any.
func (f field) differs(want, got any) string {
	return suite.Difference(f.plain(want, want), f.plain(got, want))
}

// plain is a value without what does not matter to a wanted one.
func (f field) plain(v, want any) any {
	switch x := v.(type) {
	case []any:
		list := slices.Clone(x)
		wants, _ := want.([]any)
		for i := range list {
			if len(wants) > 0 {
				list[i] = f.plain(list[i], wants[0])
			}
		}
		if f.set {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(suite.Text(a), suite.Text(b)) })
		}
		return list
	case suite.M:
		wants, ok := want.(suite.M)
		if !ok && top(f.path) == "registry" { // nested, as the description has it
			return x["id"]
		}
		if !ok || f.exact {
			return v
		}
		some := suite.M{}
		for name, value := range x {
			if w, wanted := wants[name]; wanted {
				some[name] = f.plain(value, w)
			}
		}
		return some
	}
	return v
}

// empty tells whether a value is as good as none.
func empty(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case string:
		return x == ""
	case []any:
		return len(x) == 0
	case suite.M:
		return len(x) == 0
	case bool:
		return !x
	}
	return suite.Same(v, 0)
}
