package cases

import (
	"fmt"
	"regexp"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// registryCases are of the section "Container registry auth".
var registryCases = []suite.Case{
	{
		ID: "R-01", Level: suite.Must, Source: "Endpoints A, GET /containerregistryauth",
		Statement: "GET /containerregistryauth answers 200 and an array of objects with id and name, strings.",
		Needs:     suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
			id, name := newRegistryAuth(c)
			eventually(c, func() bool { return isListed(c, id) })
			found := false
			for _, one := range listRegistryAuths(c) {
				auth, ok := one.(suite.M)
				id, isID := auth["id"].(string)
				called, isName := auth["name"].(string)
				c.Expect(ok && isID && id != "" && isName, "objects with id and name, strings", "the entry %s", suite.JSONText(one))
				found = found || called == name
			}
			c.Expect(found, "the registry auth "+name+" in the list", "a list without that name")
		},
	},
	{
		ID: "R-02", Level: suite.Should, Source: "Container registry auth",
		Statement: "The list does not show credentials.",
		Needs:     suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
			password := c.Secret("PASSWORD")
			made := c.Create("v1", "/containerregistryauth", suite.M{"name": c.Name(), "username": "user", "password": password}).NotContains(password)
			if made.Code/100 != 2 {
				c.Skip("registry auths can't be made by version 1: %d", made.Code)
			}
			c.V1("GET", "/containerregistryauth", nil).Is(200).NotContains(password)
		},
	},
	{ID: "R-02-every", Needs: suite.V1, Allow: suite.Create, Requests: 40, Run: judgeRegistrySecret(v1API)},
	{ID: "R-02-v2", Needs: suite.V2, Allow: suite.Create, Requests: 40, Run: judgeRegistrySecret(v2API)},
	{
		ID: "R-03", Level: suite.Must, Source: "Endpoints A, DELETE /containerregistryauth",
		Statement: "A deletion answers 204, without content.",
		Needs:     suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
			id, _ := newRegistryAuth(c)
			a := c.V1("DELETE", "/containerregistryauth/"+id, nil).Is(204)
			c.Expect(len(a.Body) == 0, "no body", "a body of %d bytes", len(a.Body))
		},
	},
	{
		ID: "R-04", Level: suite.Must, Source: "Endpoints A, DELETE /containerregistryauth",
		Statement: "The deletion of an id that is not there answers 400.",
		Needs:     suite.V1, Run: func(c *suite.C) {
			c.V1("GET", "/containerregistryauth", nil).Is(200).Array("")
			c.V1("DELETE", "/containerregistryauth/"+c.Nonce(), nil).Is(400)
		},
	},
	{
		ID: "R-05", Level: suite.Must, Source: "Endpoints A, DELETE /containerregistryauth",
		Statement: "A deletion without a key answers 401 and deletes nothing.",
		Needs:     suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
			id, _ := newRegistryAuth(c)
			c.V1("DELETE", "/containerregistryauth/"+id, nil, suite.WithoutKey()).Is(401)
			c.Expect(eventually(c, func() bool { return isListed(c, id) }), "the registry auth, still in the list", "a list without the registry auth %s", id)
		},
	},
	{
		ID: "R-06", Level: suite.Must, Source: "Endpoints A, DELETE /containerregistryauth",
		Statement: "What was deleted is no longer listed.",
		Needs:     suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
			id, _ := newRegistryAuth(c)
			c.Given("R-01", func() {
				c.Expect(eventually(c, func() bool { return isListed(c, id) }), "the registry auth in the list", "a list without the registry auth %s", id)
			})
			c.V1("DELETE", "/containerregistryauth/"+id, nil).Success()
			c.Expect(eventually(c, func() bool { return !isListed(c, id) }), "a list without the registry auth", "a list with the registry auth %s", id)
		},
	},
	{
		ID: "R-07", Level: suite.Should, Source: "Endpoints A, DELETE /containerregistryauth",
		Statement: "A second deletion answers 400.",
		Needs:     suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
			id, _ := newRegistryAuth(c)
			c.V1("DELETE", "/containerregistryauth/"+id, nil).Success()
			c.V1("DELETE", "/containerregistryauth/"+id, nil).Is(400)
		},
	},
	{
		ID: "R-08", Level: suite.Unspec, Source: "Container registry auth",
		Statement: "How a registry auth is created.",
		Needs:     suite.V1, Allow: suite.Create, Run: func(c *suite.C) {
			a := c.Create("v1", "/containerregistryauth", suite.M{"name": c.Name(), "username": "user", "password": c.Secret("PASSWORD")})
			c.Observe("%d with %s", a.Code, a.Shape())
		},
	},
}

// newRegistryAuth creates a registry auth, as a fixture. The description leaves the
// body open.
func newRegistryAuth(c *suite.C) (id, name string) {
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

// eventually waits until a condition holds: reads may lag behind an acknowledged change.
func eventually(c *suite.C, so func() bool) bool {
	for late := time.Duration(0); late < c.Grace(); late += time.Second {
		if so() {
			return true
		}
		c.Sleep(time.Second)
	}
	return so()
}

// listRegistryAuths lists the registry auths of all pages: the description leaves open
// how long a page is.
func listRegistryAuths(c *suite.C) (all []any) {
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

func isListed(c *suite.C, id string) bool {
	for _, one := range listRegistryAuths(c) {
		if auth, _ := one.(suite.M); auth["id"] == id {
			return true
		}
	}
	return false
}

// judgeRegistrySecret judges that no answer about registry auths shows a password: not of
// those that are refused either.
func judgeRegistrySecret(a api) func(*suite.C) {
	return func(c *suite.C) {
		path := collection(a, "registry")
		password := c.Secret("PASSWORD")
		good := suite.M{"name": "conf-" + c.Nonce(), "username": "user", "password": password}
		for _, body := range malformedVariants(good) {
			c.Create(string(a), path, nil, suite.Raw(body)).NotContains(password)
		}
		c.Create(string(a), path, good, suite.WithoutKey()).NotContains(password)
		made := c.Create(string(a), path, good)
		if made.Code/100 != 2 { // one of the others was accepted, or nothing is
			made = c.Create(string(a), path, suite.M{"name": "conf-" + c.Nonce(), "username": "user", "password": password})
		}
		made.NotContains(password)
		if id, ok := made.Find("id"); ok {
			ask(c, a, "GET", path+"/"+suite.PathSegment(fmt.Sprint(id)), nil).NotContains(password)
		}
		ask(c, a, "GET", path, nil).Is(200).NotContains(password)
	}
}
