package cases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// placeholders resolves the $names in values of the table to ids of the target's catalog
// and of objects that the case creates.
type placeholders struct {
	c     *suite.C
	known map[string]any
	ids   map[string][]string // of the catalog
	types []suite.M           // GPU types of the catalog; nil until requested
}

// resolve replaces the $names in a value. It returns false if the target lacks one.
func (g *placeholders) resolve(v any) (any, bool) {
	switch x := v.(type) {
	case noValue:
		return nil, false
	case string:
		if !strings.HasPrefix(x, "$") {
			return x, true
		}
		found := g.lookUp(x[1:])
		return found, found != nil
	case []any:
		list := make([]any, len(x))
		for i := range x {
			resolved, ok := g.resolve(x[i])
			if !ok {
				return nil, false
			}
			list[i] = resolved
		}
		return list, true
	case suite.M:
		o := suite.M{}
		for name := range x {
			resolved, ok := g.resolve(x[name])
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
func (g *placeholders) lookUp(name string) any {
	switch name {
	case "name":
		if g.c.Local() {
			return g.c.Name() + " \u00e9 e\u0301 漢 'two words' <&>"
		}
		return g.c.Name()
	case "secret":
		return g.c.Secret("PASSWORD")
	case "image":
		return g.c.Image()
	case "long":
		return strings.Repeat("A line – \u00e9 e\u0301 漢字 <b>&amp;</b> \"quoted\"\\\n\n", countFor(g.c, 1500, 50))
	case "env":
		env := suite.M{"B": "ключ \u00e9 e\u0301 漢字 🚀", "with.dot": `a=b;c,"d" <&>`, "lower": "  $HOME \n next line ", "EMPTY": "", "N": "007"}
		for i := range countFor(g.c, 150, 10) {
			env[fmt.Sprint("VARIABLE_", i)] = strings.Repeat(strconv.Itoa(i), i)
		}
		return env
	}
	if _, done := g.known[name]; !done {
		g.known[name] = g.make(name)
	}
	return g.known[name]
}

func (g *placeholders) make(name string) any {
	c := g.c
	switch kind, n := strings.TrimRight(name, "123"), int(name[len(name)-1]-'1'); kind {
	case "registry":
		version, path := "v1", "/containerregistryauth"
		if !c.Serves("v1") {
			version, path = "v2", "/registries"
		}
		a := c.Create(version, path, suite.M{"name": c.Name(), "username": "user", "password": c.Secret("PASSWORD")})
		if a.Code/100 == 2 {
			return a.Shown("id")
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
		return nthOrNil(g.idsOnce("datacenters", c.DataCenters), n)
	case "gpu":
		return nthOrNil(g.idsOnce("gpus", func() []string { return c.Catalog("gpus") }), n)
	case "cpu":
		return nthOrNil(g.idsOnce("cpus", func() []string { return c.Catalog("cpus") }), n)
	case "pool":
		if pools, _ := g.pools(); n < len(pools) {
			return pools[n]["pool"]
		}
	case "excluded":
		// A type of the first pool, which has more types.
		if pools, types := g.pools(); len(pools) > 0 && types[0] > 1 {
			return pools[0]["id"]
		}
	}
	return nil
}

// idsOnce returns the ids of a kind. It requests them once.
func (g *placeholders) idsOnce(kind string, ask func() []string) []string {
	if _, done := g.ids[kind]; !done {
		g.ids[kind] = ask()
	}
	return g.ids[kind]
}

// pools returns a GPU type of each pool, starting with the largest pool, and the number of types in
// each pool.
func (g *placeholders) pools() (gpus []suite.M, types []int) {
	if g.types == nil && g.c.Serves("v2") {
		g.types = append([]suite.M{}, g.c.V2("GET", "/catalog/gpus", nil).Objects()...)
	}
	count := map[any]int{}
	for _, gpu := range g.types {
		pool, ok := gpu["pool"].(string)
		if count[pool]++; ok && pool != "" && count[pool] == 1 {
			gpus = append(gpus, gpu)
		}
	}
	slices.SortStableFunc(gpus, func(a, b suite.M) int { return count[b["pool"]] - count[a["pool"]] })
	for _, gpu := range gpus {
		types = append(types, count[gpu["pool"]])
	}
	return gpus, types
}

// nthOrNil returns the nth element of a list, or nil.
func nthOrNil(list []string, n int) any {
	if n >= len(list) {
		return nil
	}
	return list[n]
}
