package cases

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

var v1Volumes = []suite.Case{
	{
		ID: "V-05", Needs: suite.V1, Allow: suite.Create,
		Run: func(c *suite.C) {
			id := c.NewVolume("v1", 12).Str("id")
			update := "/networkvolumes/" + id + "/update"
			c.Given("V-03", func() { c.V1("POST", update, suite.M{"size": 13}).Success().Equal("size", 13) })
			c.V1("POST", update, suite.M{"size": 11}).Is(400, 409, 422)
			c.V1("POST", update, suite.M{"size": 14}).Success().Equal("size", 14)
		},
	},
}
