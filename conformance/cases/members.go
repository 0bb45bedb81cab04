package cases

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

//go:embed members.tsv
var membersTable string

// kind is a kind of management object, such as template, in one version of the API.
type kind struct {
	name, version  string
	path           string // the path after the version
	list           string // the list's key in an answer of version 2
	creationClause string // BLOCKS the case if a creation fails. No clause is about creating registry auths: theirs is about the list
	needs          suite.Needs
	// Whether the service description documents the answer of the operation; updateDocumented is about the first of updates.
	// A wrong value in a documented answer is a FAIL, in any other a WARN.
	createDocumented, readDocumented, listDocumented, updateDocumented, deleteDocumented bool
	// allow is required for a creation, in addition to suite.Create.
	allow suite.Permission
	// updates are the update operations; the first is preferred.
	updates []operation
	fields  []field
}

// operation is an operation on an object. suffix follows the object's id in the path.
type operation struct{ method, suffix string }

var (
	patch      = operation{"PATCH", ""}
	postUpdate = operation{"POST", "/update"}
)

// field is a member of a kind in one version.
type field struct {
	path         string // in bodies and answers, with dots
	mappedPath   string // in the other version, or ""
	value        any
	changedValue any // noValue if the member has only one value
	clearedValue any // noValue if nothing clears the member
	defaultValue any // noValue if the default isn't described
	// value and changedValue in the other version.
	mappedValue, mappedChangedValue any

	// The marks of members.tsv, which explains them.
	described, required, fixed, hidden, mappedHidden             bool
	unordered, isMap, changedLast, setAlone, localOnly, needsGPU bool
}

// noValue is the value of an empty cell; nil is JSON's null.
type noValue struct{}

// kinds has the kinds that can be created and read.
var kinds = func() []kind {
	list := []kind{
		{name: "template", version: "v1", path: "/templates", creationClause: "T-01", createDocumented: true, updates: []operation{patch, postUpdate}},
		{name: "template", version: "v2", path: "/templates", list: "templates", creationClause: "VER-27", createDocumented: true, readDocumented: true, listDocumented: true, updates: []operation{patch}},
		{name: "networkVolume", version: "v1", path: "/networkvolumes", creationClause: "VER-28", updateDocumented: true, updates: []operation{postUpdate, patch}},
		{name: "networkVolume", version: "v2", path: "/network-volumes", list: "networkVolumes", creationClause: "VER-28", createDocumented: true, readDocumented: true, listDocumented: true, updateDocumented: true, updates: []operation{patch}},
		{name: "registryAuth", version: "v1", path: "/containerregistryauth", creationClause: "R-01", listDocumented: true, deleteDocumented: true},
		{name: "registryAuth", version: "v2", path: "/registries", list: "registries", creationClause: "VER-34", createDocumented: true, readDocumented: true, listDocumented: true},
		{name: "endpoint", version: "v1", path: "/endpoints", creationClause: "P-01", updates: []operation{patch, postUpdate}},
		{name: "endpoint", version: "v2", path: "/serverless", list: "endpoints", creationClause: "VER-25", createDocumented: true, readDocumented: true, listDocumented: true, updateDocumented: true, updates: []operation{patch}},
		{name: "cpuEndpoint", version: "v1", path: "/endpoints", creationClause: "P-01", updates: []operation{patch, postUpdate}},
		{name: "cpuEndpoint", version: "v2", path: "/serverless", list: "endpoints", creationClause: "VER-25", createDocumented: true, readDocumented: true, listDocumented: true, updateDocumented: true, updates: []operation{patch}},
		{name: "pod", version: "v1", path: "/pods", creationClause: "VER-67", updates: []operation{patch, postUpdate}},
		{name: "pod", version: "v2", path: "/pods", list: "pods", creationClause: "VER-22", createDocumented: true, readDocumented: true, listDocumented: true, updateDocumented: true, updates: []operation{patch}},
	}
	for i := range list {
		k := &list[i]
		k.needs = suite.V1
		if k.version == "v2" {
			k.needs = suite.V2
		}
		if k.name == "pod" { // pods cost money
			k.needs, k.allow = k.needs|suite.LocalOnly, suite.Spend
		}
		k.fields = fieldsOf(k.name, k.version)
	}
	return list
}()

// fieldsOf returns a version's members of a kind, in the order of members.tsv. It panics if the table is invalid:
// tests find that.
func fieldsOf(kind, version string) (fields []field) {
	for line := range strings.Lines(membersTable) {
		columns := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if strings.HasPrefix(line, "#") || columns[0] != kind {
			continue
		}
		if len(columns) != 9 {
			panic(fmt.Sprintf("members.tsv: %d columns: %s", len(columns), line))
		}
		own, other := 0, 1 // the indexes of this version and of the other one
		if version == "v2" {
			own, other = 1, 0
		}
		if columns[1+own] == "-" {
			continue
		}
		marks := strings.Fields(columns[8])
		marked := func(mark string, index int) bool {
			return slices.Contains(marks, mark) || slices.Contains(marks, fmt.Sprint(mark, index+1))
		}
		value, changedValue, cleared := columnValues(columns[3]), columnValues(columns[4]), columnValues(columns[5])
		f := field{
			path: columns[1+own], value: value[own], changedValue: changedValue[own], mappedValue: value[other], mappedChangedValue: changedValue[other], clearedValue: cleared[own], defaultValue: columnValues(columns[6+own])[0],
			described: marked("described", own), required: marked("required", own), fixed: marked("fixed", own), hidden: marked("hidden", own), mappedHidden: marked("hidden", other),
			unordered: marked("set", own), isMap: marked("map", own), changedLast: marked("last", own), setAlone: marked("alone", own), localOnly: marked("local", own), needsGPU: marked("gpu", own),
		}
		if columns[1+other] != "-" {
			f.mappedPath = columns[1+other]
		}
		fields = append(fields, f)
	}
	return fields
}

// columnValues parses a column: one value for both versions, or a value for each.
func columnValues(column string) (v [2]any) {
	first, second, hasTwo := strings.Cut(column, " ~ ")
	if !hasTwo {
		second = first
	}
	for i, text := range []string{first, second} {
		v[i] = noValue{}
		if text == "-" || text == "" {
			continue
		}
		value, err := wire.Decode([]byte(text))
		if err != nil {
			panic(fmt.Sprintf("members.tsv: %s: %v", text, err))
		}
		v[i] = value
	}
	return v
}

func setMember(o suite.M, path string, v any) {
	first, rest, nested := strings.Cut(path, ".")
	if !nested {
		o[first] = v
		return
	}
	child, ok := o[first].(suite.M)
	if !ok {
		child = suite.M{}
		o[first] = child
	}
	setMember(child, rest, v)
}

func firstSegment(path string) string {
	first, _, _ := strings.Cut(path, ".")
	return first
}

// difference describes how a value differs from the expected one, or returns "". An object
// may have additional members, and unordered lists any order.
func (f field) difference(want, got any) string {
	return suite.Difference(f.normalize(want, want), f.normalize(got, want))
}

// normalize removes differences that the comparison ignores.
func (f field) normalize(v, want any) any {
	switch x := v.(type) {
	case string:
		// If args is the JSON form with an entrypoint, compare only its cmd.
		var command struct{ Cmd []string }
		if (f.path == "args" || f.mappedPath == "args") && json.Unmarshal([]byte(x), &command) == nil && command.Cmd != nil {
			return strings.Join(command.Cmd, " ")
		}
	case []any:
		list := slices.Clone(x)
		wants, _ := want.([]any)
		for i := range list {
			if len(wants) > 0 {
				list[i] = f.normalize(list[i], wants[0])
			}
		}
		if f.unordered {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(suite.JSONText(a), suite.JSONText(b)) })
		}
		return list
	case suite.M:
		wants, ok := want.(suite.M)
		if !ok && (f.path == "registry" || f.mappedPath == "registry") { // the answer may nest the registry as an object: compare its id
			return x["id"]
		}
		if !ok || f.isMap {
			return v
		}
		subset := suite.M{}
		for name, value := range x {
			if w, wanted := wants[name]; wanted {
				subset[name] = f.normalize(value, w)
			}
		}
		return subset
	}
	return v
}

// isEmpty reports whether a value is equivalent to a missing one.
func isEmpty(v any) bool {
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

// Member is a member that the suite tests. Cleared and Default are JSON, or "" if the table has none.
type Member struct{ Version, Kind, Path, Cleared, Default string }

// Members returns the members that the suite tests.
func Members() (list []Member) {
	text := func(v any) string {
		if v == any(noValue{}) {
			return ""
		}
		return suite.JSONText(v)
	}
	for _, k := range kinds {
		for _, f := range k.fields {
			list = append(list, Member{k.version, k.name, f.path, text(f.clearedValue), text(f.defaultValue)})
		}
	}
	return list
}

// placeholders resolves the $names in the table to ids of the target's catalog and of created objects.
type placeholders struct {
	c      *suite.C
	values map[string]any      // of names that have the same value throughout the case
	ids    map[string][]string // of the catalog
	types  []suite.M           // GPU types of the catalog; nil until requested
}

// resolve replaces the $names in a value. It returns false if the target lacks one.
func (p *placeholders) resolve(v any) (any, bool) {
	switch x := v.(type) {
	case noValue:
		return nil, false
	case string:
		if !strings.HasPrefix(x, "$") {
			return x, true
		}
		found := p.lookUp(x[1:])
		return found, found != nil
	case []any:
		list := make([]any, len(x))
		for i := range x {
			resolved, ok := p.resolve(x[i])
			if !ok {
				return nil, false
			}
			list[i] = resolved
		}
		return list, true
	case suite.M:
		o := suite.M{}
		for name := range x {
			resolved, ok := p.resolve(x[name])
			if !ok {
				return nil, false
			}
			o[name] = resolved
		}
		return o, true
	}
	return v, true
}

// lookUp returns the value of a name, or nil if the target has none. A name that ends with
// a digit has the same value throughout the case.
func (p *placeholders) lookUp(name string) any {
	switch name {
	case "name":
		if p.c.Target.Local {
			return p.c.Name() + " \u00e9 e\u0301 漢 'two words' <&>"
		}
		return p.c.Name()
	case "secret":
		return p.c.Secret("PASSWORD")
	case "image":
		return p.c.Image()
	case "long":
		return strings.Repeat("A line – \u00e9 e\u0301 漢字 <b>&amp;</b> \"quoted\"\\\n\n", localOrRemote(p.c, 1500, 50))
	case "env":
		env := suite.M{"B": "ключ \u00e9 e\u0301 漢字 🚀", "with.dot": `a=b;c,"d" <&>`, "lower": "  $HOME \n next line ", "EMPTY": "", "N": "007"}
		for i := range localOrRemote(p.c, 150, 10) {
			env[fmt.Sprint("VARIABLE_", i)] = strings.Repeat(strconv.Itoa(i), i)
		}
		return env
	}
	if _, done := p.values[name]; !done {
		p.values[name] = p.make(name)
	}
	return p.values[name]
}

func (p *placeholders) make(name string) any {
	c := p.c
	switch kind, n := strings.TrimRight(name, "123"), int(name[len(name)-1]-'1'); kind {
	case "registry":
		version, path := "v1", "/containerregistryauth"
		if !c.Serves("v1") {
			version, path = "v2", "/registries"
		}
		a := c.Create(version, path, suite.M{"name": c.Name(), "username": "user", "password": c.Secret("PASSWORD")})
		if a.Code/100 == 2 {
			return a.ValueOrNil("id")
		}
	case "template":
		return c.NewTemplate("v1", suite.M{"isServerless": true}).Str("id")
	case "volume":
		version := "v2"
		if !c.Serves("v2") {
			version = "v1"
		}
		return c.NewVolume(version, 10).Str("id")
	case "dataCenter":
		return nthOrNil(p.idsOnce("datacenters", c.DataCenters), n)
	case "gpu":
		return nthOrNil(p.idsOnce("gpus", func() []string { return c.Catalog("gpus") }), n)
	case "cpu":
		return nthOrNil(p.idsOnce("cpus", func() []string { return c.Catalog("cpus") }), n)
	case "pool":
		if types, _ := p.typeOfEachPool(); n < len(types) {
			return types[n]["pool"]
		}
	case "excluded":
		// A type of the largest pool, if that pool has at least two: excluding one leaves others.
		if types, sizes := p.typeOfEachPool(); len(types) > 0 && sizes[0] > 1 {
			return types[0]["id"]
		}
	}
	return nil
}

// idsOnce returns the ids of a kind. It requests them once.
func (p *placeholders) idsOnce(kind string, ask func() []string) []string {
	if _, done := p.ids[kind]; !done {
		p.ids[kind] = ask()
	}
	return p.ids[kind]
}

// typeOfEachPool returns a GPU type of each pool, the largest pool first, and the number of types in each pool.
func (p *placeholders) typeOfEachPool() (gpus []suite.M, sizes []int) {
	if p.types == nil && p.c.Serves("v2") {
		p.types = append([]suite.M{}, p.c.V2("GET", "/catalog/gpus", nil).Objects()...)
	}
	count := map[any]int{}
	for _, gpu := range p.types {
		pool, ok := gpu["pool"].(string)
		if count[pool]++; ok && pool != "" && count[pool] == 1 {
			gpus = append(gpus, gpu)
		}
	}
	slices.SortStableFunc(gpus, func(a, b suite.M) int { return count[b["pool"]] - count[a["pool"]] })
	for _, gpu := range gpus {
		sizes = append(sizes, count[gpu["pool"]])
	}
	return gpus, sizes
}

func nthOrNil(list []string, n int) any {
	if n >= len(list) {
		return nil
	}
	return list[n]
}
