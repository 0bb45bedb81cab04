package cases

import (
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// managementOperations are those of the management API that the description
// names; x is no id. Remotely the first of each version stands for all.
var managementOperations = []struct{ version, method, path string }{
	{"v1", "GET", "/containerregistryauth"}, {"v1", "DELETE", "/containerregistryauth/x"}, {"v1", "POST", "/templates"},
	{"v1", "POST", "/networkvolumes/x/update"}, {"v1", "POST", "/endpoints"},
	{"v2", "GET", "/serverless"}, {"v2", "POST", "/serverless"}, {"v2", "GET", "/serverless/x"}, {"v2", "PATCH", "/serverless/x"}, {"v2", "DELETE", "/serverless/x"},
	{"v2", "GET", "/serverless/x/workers"}, {"v2", "GET", "/serverless/x/workers/y/logs"}, {"v2", "GET", "/serverless/x/releases"},
	{"v2", "GET", "/templates"}, {"v2", "POST", "/templates"}, {"v2", "GET", "/templates/x"}, {"v2", "DELETE", "/templates/x"},
	{"v2", "GET", "/network-volumes"}, {"v2", "POST", "/network-volumes"}, {"v2", "DELETE", "/network-volumes/x"},
	{"v2", "GET", "/registries"}, {"v2", "POST", "/registries"}, {"v2", "DELETE", "/registries/x"}, {"v2", "GET", "/registries/delegations"},
	{"v2", "GET", "/pods"}, {"v2", "POST", "/pods"}, {"v2", "POST", "/pods/x/action"}, {"v2", "DELETE", "/pods/x"}, {"v2", "GET", "/pods/x/logs"},
	{"v2", "GET", "/catalog/gpus"}, {"v2", "GET", "/catalog/cpus"}, {"v2", "GET", "/catalog/datacenters"}, {"v2", "GET", "/billing"}, {"v2", "GET", "/clusters"},
}

// manage sends each of them, so far as the target has the version.
func manage(c *suite.C, o ...suite.Option) {
	told := map[string]bool{}
	for _, op := range managementOperations {
		if !c.Local() && told[op.version] {
			continue
		}
		told[op.version] = true
		var body any
		if op.method == "POST" || op.method == "PATCH" {
			body = suite.M{}
		}
		switch {
		case op.version == "v1" && c.HasV1():
			c.V1(op.method, op.path, body, o...).Is(401)
		case op.version == "v2" && c.HasV2():
			c.V2(op.method, op.path, body, o...).Is(401)
		}
	}
}

var keys = []suite.Case{
	{ID: "AUT-02", Needs: suite.V2, Run: func(c *suite.C) {
		c.V2("GET", "/templates", nil).Is(200)
		c.Given("AUT-03", func() { c.V2("GET", "/templates", nil, suite.WithoutKey()).Is(401) })
	}},
	{ID: "AUT-02-v1", Needs: suite.V1, Run: func(c *suite.C) {
		c.V1("GET", "/containerregistryauth", nil).Is(200)
		c.Given("AUT-03", func() { c.V1("GET", "/containerregistryauth", nil, suite.WithoutKey()).Is(401) })
	}},
	{ID: "AUT-03-management", Needs: suite.V2, Requests: 40, Run: func(c *suite.C) {
		c.V2("GET", "/serverless", nil).Is(200)
		manage(c, suite.WithoutKey())
	}},
	{ID: "AUT-04", Needs: suite.Endpoint, Requests: 60, Run: func(c *suite.C) {
		c.Get("/health").Is(200)
		wrong := suite.As(strings.Repeat("x", len(c.Key())))
		for _, op := range jobOperations {
			var body any
			if op.method == "POST" {
				body = suite.Submission(suite.Echo())
			}
			c.Job(op.method, c.E, op.path, body, wrong).Is(401)
		}
		manage(c, wrong)
	}},
	{ID: "AUT-06", Needs: suite.Endpoint, Run: func(c *suite.C) {
		c.Observe("%d", c.Get("/health", suite.With("Authorization", c.Key())).Code)
	}},
	{ID: "AUT-07", Needs: suite.Endpoint, Run: func(c *suite.C) {
		c.Get("/health", suite.With("Authorization", "bearer "+c.Key())).Is(200)
		c.Get("/health", suite.With("Authorization", "BEARER "+c.Key())).Is(200)
	}},
	{ID: "AUT-08", Needs: suite.Endpoint, Requests: 6, Run: func(c *suite.C) {
		c.Get("/health").Is(200)
		for _, value := range []string{"Bearer ", "Bearer", "Basic dXNlcjpwYXNzd29yZA=="} {
			c.Get("/health", suite.With("Authorization", value)).Is(401)
		}
		c.Get("/health?api_key=dummy&token=dummy", suite.WithoutKey()).Is(401)
	}},
	{ID: "AUT-09", Needs: suite.V2 | suite.Endpoint, Requests: 10, Run: func(c *suite.C) {
		c.Get("/health").Is(200)
		for _, path := range []string{"/templates", "/serverless", "/network-volumes", "/registries"} {
			c.V2("GET", path, nil).Is(200)
			c.Given("AUT-03", func() { c.V2("GET", path, nil, suite.WithoutKey()).Is(401) })
		}
	}},
	{ID: "AUT-10", Needs: suite.Endpoint, Run: func(c *suite.C) {
		wrong := c.Secret("WRONG_KEY")
		a := c.Get("/health", suite.As("Bearer "+wrong)).Is(401).Lacks(wrong)
		a.JSON()
		if c.HasV2() {
			c.V2("GET", "/templates", nil, suite.As("Bearer "+wrong)).Is(401).Lacks(wrong).JSON()
		}
		if c.HasV1() {
			c.V1("GET", "/containerregistryauth", nil, suite.As("Bearer "+wrong)).Is(401).Lacks(wrong).JSON()
		}
	}},
}
