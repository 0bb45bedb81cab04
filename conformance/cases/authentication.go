package cases

import (
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// askAll asks for each operation with a key that opens nothing, so far as the target
// has the API: for ids that are nothing's, and with bodies in which everything is
// missing, so that nothing comes of it.
func askAll(c *suite.C, list []contractOperation, who suite.Option) {
	for _, op := range list {
		if !op.api.has(c) {
			continue
		}
		body := op.empty()
		if op.api == jobAPI {
			body = op.good(c, nil, c.Nonce())
		}
		a := op.send(c, c.Nonce(), body, who)
		switch {
		case a.Code == 401:
		case missing(a) && (c.Unserved(op.String()) || !op.shown):
		case op.about() && missing(a), body != nil && (a.Code == 400 || a.Code == 422): // which of two errors is answered is open
		default:
			a.Is(401)
		}
	}
}

// sample are the operations of the management API that the description has and that
// stand for all: one of each kind of object and method.
func sample() []contractOperation {
	return onePerKind(slices.DeleteFunc(slices.Concat(operationsOfV1, operationsOfV2), func(op contractOperation) bool {
		return !op.shown || !slices.Contains(objectKinds, op.kind)
	}))
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
	// One operation of each kind of object and method stands for all, which are asked
	// locally.
	{ID: "AUT-03-management", Needs: suite.V2, Requests: 25, Run: func(c *suite.C) {
		c.V2("GET", "/serverless", nil).Is(200)
		askAll(c, sample(), suite.WithoutKey())
	}},
	{ID: "AUT-03-every", Needs: suite.V2 | suite.LocalOnly, Requests: 90, Run: func(c *suite.C) {
		c.V2("GET", "/serverless", nil).Is(200)
		askAll(c, slices.Concat(operationsOfV1, operationsOfV2), suite.WithoutKey())
	}},
	{ID: "AUT-04", Needs: suite.Endpoint, Requests: 14, Run: func(c *suite.C) {
		c.Get("/health").Is(200)
		list := jobOperations
		if !c.Local() {
			list = onePerKind(list)
		}
		askAll(c, list, suite.As(strings.Repeat("x", len(c.Key()))))
	}},
	{ID: "AUT-04-management", Needs: suite.V2, Requests: 10, Run: func(c *suite.C) {
		c.V2("GET", "/serverless", nil).Is(200)
		wrong := suite.As(strings.Repeat("x", len(c.Key())))
		var methods []contractOperation
		for _, op := range sample() {
			if !slices.ContainsFunc(methods, func(x contractOperation) bool { return x.api == op.api && x.method == op.method }) {
				methods = append(methods, op)
			}
		}
		askAll(c, methods, wrong)
	}},
	{ID: "AUT-04-every", Needs: suite.V2 | suite.LocalOnly, Requests: 90, Run: func(c *suite.C) {
		c.V2("GET", "/serverless", nil).Is(200)
		askAll(c, slices.Concat(operationsOfV1, operationsOfV2), suite.As(strings.Repeat("x", len(c.Key()))))
	}},
	{ID: "AUT-06", Needs: suite.Endpoint, Run: func(c *suite.C) {
		c.Observe("%d", c.Get("/health", suite.With("Authorization", c.Key())).Code)
	}},
	{ID: "AUT-07", Needs: suite.Endpoint, Run: func(c *suite.C) {
		c.Get("/health", suite.With("Authorization", "bearer "+c.Key())).Is(200)
		c.Get("/health", suite.With("Authorization", "BEARER "+c.Key())).Is(200)
	}},
	{ID: "AUT-08", Needs: suite.Endpoint, Requests: 10, Run: func(c *suite.C) {
		c.Get("/health").Is(200)
		for i, form := range otherForms(c) {
			if i%5 == 0 { // all of them are tried locally
				c.Get("/health", form).Is(401)
			}
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
