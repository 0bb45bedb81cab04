package cases

import (
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// volumeCases judge the section "Network volume".
var volumeCases = section(suite.Case{Level: suite.Must, Needs: suite.V1, Allow: suite.Create}, []suite.Case{
	{ID: "V-01", Source: "Endpoints A, POST /networkvolumes/{id}/update", Statement: "An update returns dataCenterId, id, name and size with the documented types.", Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		a := updateVolume(c, v, suite.M{"size": 11}).Success().Equal("id", v.Str("id"))
		a.Str("dataCenterId")
		a.Str("name")
		a.Int("size")
	}},
	{ID: "V-02", Source: "Network volume, name", Statement: "Two volumes may have the same name.", Run: func(c *suite.C) {
		name := c.Name()
		c.NewVolume("v1", 10, suite.M{"name": name})
		second := c.Create("v1", "/networkvolumes", suite.M{"name": name, "size": 10, "dataCenterId": c.DataCenter()}).Success()
		updateVolume(c, second, suite.M{"name": name}).Success()
		if c.Serves("v2") {
			c.Create("v2", "/network-volumes", suite.M{"name": name, "size": 10, "dataCenter": c.DataCenter()}).Success()
		}
	}},
	{ID: "V-03", Source: "States and transitions, Network volume size rule", Statement: "A larger size is accepted.", Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		updateVolume(c, v, suite.M{"size": 11}).Success().Equal("id", v.Str("id")).Equal("size", 11)
	}},
	{ID: "V-04", Source: "States and transitions, Network volume size rule", Statement: "An update to the current size is rejected.", Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		c.Given("V-03", func() { updateVolume(c, v, suite.M{"size": 12}).Success().Equal("size", 12) })
		expectUpdateRefused(c, v, suite.M{"size": 12})
	}},
	{ID: "V-05", Source: "States and transitions, Network volume size rule", Statement: "An update to a smaller size is rejected.", Run: func(c *suite.C) {
		v := c.NewVolume("v1", 12)
		c.Given("V-03", func() { updateVolume(c, v, suite.M{"size": 13}).Success().Equal("size", 13) })
		expectUpdateRefused(c, v, suite.M{"size": 11}).Is(400, 409, 422)
		updateVolume(c, v, suite.M{"size": 14}).Success().Equal("size", 14)
	}},
	{ID: "V-06", Source: "Endpoints A, POST /networkvolumes/{id}/update", Statement: "An update with only a name changes the name and keeps the size.", Run: func(c *suite.C) {
		v, name := c.NewVolume("v1", 10), c.Name()
		updateVolume(c, v, suite.M{"name": name}).Success().Equal("name", name).Equal("size", 10)
		c.Should(func() { expectUpdateRefused(c, v, suite.M{"name": 5}) })
	}},
	{ID: "V-07", Source: "Limits, Network volume size", Statement: "In version 1, the size is at most 4000 GB.", Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		updateVolume(c, v, suite.M{"size": 4001}).Is(400, 409, 422)
		c.Create("v1", "/networkvolumes", suite.M{"name": c.Name(), "size": 4001, "dataCenterId": c.DataCenter()}).Refused()
		if c.IncludeIfLocal("a volume of 4000 GB, which is expensive") {
			updateVolume(c, v, suite.M{"size": 4000}).Success().Equal("size", 4000)
		}
	}},
	{ID: "V-08", Source: "Limits, Network volume size", Statement: "The size is at least 0 GB.", Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		for _, size := range []int{-1, 0} {
			expectUpdateRefused(c, v, suite.M{"size": size})
		}
		c.Create("v1", "/networkvolumes", suite.M{"name": c.Name(), "size": -1, "dataCenterId": c.DataCenter()}).Refused()
		if c.Serves("v2") {
			c.Create("v2", "/network-volumes", suite.M{"name": c.Name(), "size": -1, "dataCenter": c.DataCenter()}).Refused()
		}
		updateVolume(c, v, suite.M{"size": 11}).Success()
	}},
	{ID: "V-09", Level: suite.Should, Source: "Endpoints A, POST /networkvolumes/{id}/update", Statement: "The size is an integer.", Requests: 18, Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		for _, size := range []any{11.5, "11", true} {
			expectUpdateRefused(c, v, suite.M{"size": size}).Is(400, 409, 422)
			c.Create("v1", "/networkvolumes", suite.M{"name": c.Name(), "size": size, "dataCenterId": c.DataCenter()}).Refused()
		}
		updateVolume(c, v, suite.M{"size": 11}).Success().Int("size")
	}},
	{ID: "V-10", Source: "Endpoints A, POST /networkvolumes/{id}/update", Statement: "Name and size can be changed together.", Run: func(c *suite.C) {
		v, name := c.NewVolume("v1", 10), c.Name()
		updateVolume(c, v, suite.M{"name": name, "size": 11}).Success().Equal("id", v.Str("id")).Equal("name", name).Equal("size", 11)
	}},
	{ID: "V-11", Level: suite.Should, Source: "Endpoints A, POST /networkvolumes/{id}/update", Statement: "A rejected update changes nothing.", Run: func(c *suite.C) {
		v, name := c.NewVolume("v1", 10), c.Name()
		expectUpdateRefused(c, v, suite.M{"name": name, "size": 5})
		a := updateVolume(c, v, suite.M{"size": 11}).Success()
		c.Expect(!suite.Same(a.Value("name"), name), "the previous name", "name = %s", suite.JSONText(a.Value("name")))
	}},
	{ID: "V-12", Level: suite.Should, Source: "Network volume, dataCenterId", Statement: "An update doesn't change the data center.", Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		dataCenter, dataCenters := v.Value("dataCenterId"), c.DataCenters()
		other := dataCenters[len(dataCenters)-1]
		updateVolume(c, v, suite.M{"size": 11}).Success().Equal("dataCenterId", dataCenter)
		for _, a := range patchVolume(c, v, suite.M{"name": c.Name()}) {
			a.EqualIfShown("dataCenterId", dataCenter).EqualIfShown("dataCenter", dataCenter)
		}
		for _, member := range []string{"dataCenterId", "dataCenter"} { // a deployment may ignore or refuse them
			patchVolume(c, v, suite.M{member: other})
		}
		updateVolume(c, v, suite.M{"size": 13, "dataCenterId": other})
		updateVolume(c, v, suite.M{"size": 14}).Success().Equal("dataCenterId", dataCenter)
	}},
	{ID: "V-13", Level: suite.Unspec, Source: "Endpoints A, POST /networkvolumes/{id}/update", Statement: "The response to an empty update, and to an update of an unknown volume, which should be rejected.", Run: func(c *suite.C) {
		unknown := c.V1("POST", "/networkvolumes/"+c.Nonce()+"/update", suite.M{"size": 11})
		c.Observe("unknown: %d", unknown.Code)
		c.Observe("empty body: %d", updateVolume(c, c.NewVolume("v1", 10), suite.M{}).Code)
		c.Should(func() { unknown.Refused() })
	}},
})

func updateVolume(c *suite.C, volume *suite.Answer, body suite.M) *suite.Answer {
	return c.V1("POST", "/networkvolumes/"+suite.PathSegment(volume.Str("id"))+"/update", body)
}

func patchVolume(c *suite.C, volume *suite.Answer, body suite.M) (answers []*suite.Answer) {
	for _, version := range []string{"v1", "v2"} {
		if c.Serves(version) {
			path := kindOf("networkVolume", version).path + "/" + suite.PathSegment(volume.Str("id"))
			answers = append(answers, c.Manage(version, "PATCH", path, body))
		}
	}
	return answers
}

// expectUpdateRefused expects that each operation refuses an update, and returns the answer to the described one.
// It also accepts that a version has no PATCH or doesn't show the volume.
func expectUpdateRefused(c *suite.C, volume *suite.Answer, body suite.M) *suite.Answer {
	for _, a := range patchVolume(c, volume, body) {
		expectRefusedIfServed(a)
	}
	return updateVolume(c, volume, body).Refused()
}
