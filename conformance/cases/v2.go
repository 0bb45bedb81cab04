package cases

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

var v2 = []suite.Case{
	{
		ID: "VER-16", Needs: suite.V2, Requests: 7, Serves: []string{"POST /v2/pods/{id}/action"},
		Run: func(c *suite.C) {
			// Only a path that is there knows which pods there are.
			c.Given("VER-05", func() { c.V2("GET", "/pods", nil).Is(200) })
			for _, action := range []string{"start", "stop", "restart", "terminate"} {
				c.V2("POST", "/pods/"+c.Nonce()+"/action", suite.M{"action": action}).Is(404).Str("detail")
			}
			unknown(c, "POST", "/pods/{id}/action", "/pods/{id}/nothing", suite.M{"action": "start"})
		},
	},
}
