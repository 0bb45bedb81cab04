package cases

import (
	"regexp"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Network volumes of version 1, but for V-05.
var volumes = []suite.Case{
	{ID: "V-01", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		a := grow(c, v, suite.M{"size": 11}).Success().Equal("id", v.Str("id"))
		a.Str("dataCenterId")
		a.Str("name")
		a.Int("size")
	}},
	{ID: "V-02", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		name := c.Name()
		c.NewVolume("v1", 10, suite.M{"name": name})
		c.Create("v1", "/networkvolumes", suite.M{"name": name, "size": 10, "dataCenterId": c.DataCenter()}).Success()
	}},
	{ID: "V-03", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		grow(c, v, suite.M{"size": 11}).Success().Equal("id", v.Str("id")).Equal("size", 11)
	}},
	{ID: "V-04", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		c.Given("V-03", func() { grow(c, v, suite.M{"size": 12}).Success().Equal("size", 12) })
		grow(c, v, suite.M{"size": 12}).Refused()
	}},
	{ID: "V-06", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v, name := c.NewVolume("v1", 10), c.Name()
		grow(c, v, suite.M{"name": name}).Success().Equal("name", name).Equal("size", 10)
	}},
	{ID: "V-07", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		grow(c, v, suite.M{"size": 4001}).Is(400, 409, 422)
		if c.Local() { // elsewhere it costs
			grow(c, v, suite.M{"size": 4000}).Success().Equal("size", 4000)
		}
	}},
	{ID: "V-08", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		for _, size := range []int{-1, 0} {
			grow(c, v, suite.M{"size": size}).Refused()
		}
		c.Create("v1", "/networkvolumes", suite.M{"name": c.Name(), "size": -1, "dataCenterId": c.DataCenter()}).Refused()
		grow(c, v, suite.M{"size": 11}).Success()
	}},
	{ID: "V-09", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		for _, size := range []any{10.5, "11", true} {
			grow(c, v, suite.M{"size": size}).Is(400, 409, 422)
		}
	}},
	{ID: "V-10", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v, name := c.NewVolume("v1", 10), c.Name()
		grow(c, v, suite.M{"name": name, "size": 11}).Success().Equal("id", v.Str("id")).Equal("name", name).Equal("size", 11)
	}},
	{ID: "V-11", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v, name := c.NewVolume("v1", 10), c.Name()
		grow(c, v, suite.M{"name": name, "size": 5}).Refused()
		a := grow(c, v, suite.M{"size": 11}).Success()
		c.Expect(!suite.Same(a.Value("name"), name), "the name as it was", "name = %s", suite.Text(a.Value("name")))
	}},
	{ID: "V-12", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		v := c.NewVolume("v1", 10)
		grow(c, v, suite.M{"size": 11}).Success().Equal("dataCenterId", v.Value("dataCenterId"))
	}},
	{ID: "V-13", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		unknown := c.V1("POST", "/networkvolumes/"+c.Nonce()+"/update", suite.M{"size": 11})
		c.Observe("unknown: %d", unknown.Code)
		c.Observe("empty body: %d", grow(c, c.NewVolume("v1", 10), suite.M{}).Code)
		c.Should(func() { unknown.Refused() })
	}},
}

func grow(c *suite.C, volume *suite.Answer, body suite.M) *suite.Answer {
	return c.V1("POST", "/networkvolumes/"+volume.Str("id")+"/update", body)
}

// Registry auths of version 1.
var registries = []suite.Case{
	{ID: "R-01", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		id, name := registry(c)
		eventually(c, func() bool { return listed(c, id) })
		found := false
		for _, one := range auths(c) {
			auth, ok := one.(suite.M)
			id, isID := auth["id"].(string)
			called, isName := auth["name"].(string)
			c.Expect(ok && isID && id != "" && isName, "objects with id and name, strings", "the entry %s", suite.Text(one))
			found = found || called == name
		}
		c.Expect(found, "the registry auth "+name+" in the list", "a list without that name")
	}},
	{ID: "R-02", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		password := c.Secret("PASSWORD")
		made := c.Create("v1", "/containerregistryauth", suite.M{"name": c.Name(), "username": "user", "password": password}).Lacks(password)
		if made.Code/100 != 2 {
			c.Skip("registry auths can't be made by version 1: %d", made.Code)
		}
		c.V1("GET", "/containerregistryauth", nil).Is(200).Lacks(password)
	}},
	{ID: "R-03", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		id, _ := registry(c)
		a := c.V1("DELETE", "/containerregistryauth/"+id, nil).Is(204)
		c.Expect(len(a.Body) == 0, "no body", "a body of %d bytes", len(a.Body))
	}},
	{ID: "R-04", Needs: suite.V1, Run: func(c *suite.C) {
		c.V1("GET", "/containerregistryauth", nil).Is(200).Array("")
		c.V1("DELETE", "/containerregistryauth/"+c.Nonce(), nil).Is(400)
	}},
	{ID: "R-05", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		id, _ := registry(c)
		c.V1("DELETE", "/containerregistryauth/"+id, nil, suite.WithoutKey()).Is(401)
		c.Expect(eventually(c, func() bool { return listed(c, id) }), "the registry auth, still in the list", "a list without the registry auth %s", id)
	}},
	{ID: "R-06", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		id, _ := registry(c)
		c.Given("R-01", func() {
			c.Expect(eventually(c, func() bool { return listed(c, id) }), "the registry auth in the list", "a list without the registry auth %s", id)
		})
		c.V1("DELETE", "/containerregistryauth/"+id, nil).Success()
		c.Expect(eventually(c, func() bool { return !listed(c, id) }), "a list without the registry auth", "a list with the registry auth %s", id)
	}},
	{ID: "R-07", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		id, _ := registry(c)
		c.V1("DELETE", "/containerregistryauth/"+id, nil).Success()
		c.V1("DELETE", "/containerregistryauth/"+id, nil).Is(400)
	}},
	{ID: "R-08", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		a := c.Create("v1", "/containerregistryauth", suite.M{"name": c.Name(), "username": "user", "password": c.Secret("PASSWORD")})
		c.Observe("%d with %s", a.Code, a.Shape())
	}},
}

// registry makes a registry auth, as a fixture: how, the description leaves open.
func registry(c *suite.C) (id, name string) {
	name = c.Name()
	a := c.Create("v1", "/containerregistryauth", suite.M{"name": name, "username": "user", "password": c.Secret("PASSWORD")})
	if a.Code/100 != 2 {
		a = c.Create("v2", "/registries", suite.M{"name": name, "username": "user", "password": c.Secret("PASSWORD")})
	}
	if a.Code/100 != 2 {
		c.Skip("no registry auth can be made: %d", a.Code)
	}
	return a.Str("id"), name
}

// eventually waits until something is so: a read may come from before a change
// that was acknowledged.
func eventually(c *suite.C, so func() bool) bool {
	for late := time.Duration(0); late < c.Grace(); late += time.Second {
		if so() {
			return true
		}
		c.Sleep(time.Second)
	}
	return so()
}

// auths are the registry auths of all pages that there are: how long a list may
// be, the description leaves open.
func auths(c *suite.C) (all []any) {
	path := "/containerregistryauth"
	for range 100 {
		a := c.V1("GET", path, nil).Exactly(200)
		all = append(all, a.Array("")...)
		next := nextPage.FindStringSubmatch(a.Header.Get("Link"))
		if next == nil {
			break
		}
		path = "/containerregistryauth" + next[1]
	}
	return all
}

// nextPage is a link to the next page of a list (RFC 8288).
var nextPage = regexp.MustCompile(`<[^>?]*(\?[^>]*)>[^,]*rel="?next`)

func listed(c *suite.C, id string) bool {
	for _, one := range auths(c) {
		if auth, _ := one.(suite.M); auth["id"] == id {
			return true
		}
	}
	return false
}

// Endpoints of version 1, and what else there is.
var restOfV1 = []suite.Case{
	{ID: "P-01", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) { endpointV1(c) }},
	{ID: "P-02", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		var id string
		c.Given("P-01", func() { id = endpointV1(c) })
		c.Given("ERR-02", func() { c.Job("GET", suite.Resembling(id), "/health", nil).Is(404) })
		c.Job("GET", id, "/health", nil).Is(200).Object("jobs")
	}},
	{ID: "P-03", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		t := c.NewTemplate("v1", suite.M{"isServerless": true})
		want := c.GPUs(2)
		a := c.Create("v1", "/endpoints", c.Endpoint("v1", suite.M{"name": c.Name(), "templateId": t.Str("id"), "gpuTypeIds": want, "workersMax": 0}))
		got, _ := a.Find("gpuTypeIds")
		c.Observe("%d, the order is kept: %v", a.Code, suite.Same(got, want))
	}},
	{ID: "P-04", Needs: suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
		t := c.NewTemplate("v1", suite.M{"isServerless": true})
		a := c.Create("v1", "/endpoints", c.Endpoint("v1", suite.M{"name": c.Name(), "templateId": t.Str("id"), "workersMax": 0}))
		for _, name := range []string{"scalerType", "scalerValue", "idleTimeout", "workersMin", "executionTimeoutMs"} {
			value, _ := a.Find(name)
			c.Observe("%s: %s", name, suite.Text(value))
		}
		c.Observe("idleTimeout 3601: %d", c.Create("v1", "/endpoints", c.Endpoint("v1", suite.M{"name": c.Name(), "templateId": t.Str("id"), "idleTimeout": 3601})).Code)
	}},
	{ID: "M-01", Needs: suite.V1, Requests: 8, Run: func(c *suite.C) {
		for _, path := range []string{"/pods", "/endpoints", "/templates", "/networkvolumes", "/containerregistryauth", "/billing/pods", "/billing/endpoints", "/billing/networkvolumes"} {
			c.Observe("GET %s: %d", path, c.V1("GET", path, nil).Code)
		}
	}},
	{ID: "M-02", Needs: suite.V1, Run: func(c *suite.C) {
		a := c.V1("GET", "/"+c.Nonce(), nil)
		c.Observe("%d with %s", a.Code, a.Shape())
	}},
}

func endpointV1(c *suite.C) (id string) {
	t := c.NewTemplate("v1", suite.M{"isServerless": true})
	a := c.Create("v1", "/endpoints", c.Endpoint("v1", suite.M{
		"name": c.Name(), "templateId": t.Str("id"), "gpuTypeIds": c.GPUs(1), "workersMin": 0, "workersMax": 1, "idleTimeout": 5, "scalerType": "QUEUE_DELAY",
	}))
	return a.Success().Str("id")
}
