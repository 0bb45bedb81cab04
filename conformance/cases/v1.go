package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// v1Cases judge the section "Endpoints A": version 1 as a whole.
var v1Cases = section(suite.Case{Needs: suite.V1}, []suite.Case{
	{ID: "M-01", Level: suite.Unspec, Source: "Endpoints A", Statement: "Which other operations of version 1 exist.", Requests: 8, Run: func(c *suite.C) {
		for _, path := range []string{"/pods", "/endpoints", "/templates", "/networkvolumes", "/containerregistryauth", "/billing/pods", "/billing/endpoints", "/billing/networkvolumes"} {
			c.Observe("GET %s: %d", path, c.V1("GET", path, nil).Code)
		}
	}},
	{ID: "M-02", Level: suite.Unspec, Source: "Errors", Statement: "The response to an unknown path of version 1.", Run: func(c *suite.C) {
		a := c.V1("GET", "/"+c.Nonce(), nil)
		c.Observe("%d with %s", a.Code, a.Shape())
	}},
	{ID: "M-03", Level: suite.Should, Source: "Endpoints A", Statement: "A path of version 1 rejects unknown methods, and such a request changes nothing.",
		Needs: suite.V1 | suite.LocalOnly, Allow: suite.Create, Requests: 120, WaitTime: 5 * time.Second, Run: judgeOtherMethods(v1API)},
})
