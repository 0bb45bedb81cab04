package cases

import (
	"fmt"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// registryCases judge the section "Container registry auth".
var registryCases = section(suite.Case{Level: suite.Must, Needs: suite.V1}, []suite.Case{
	{ID: "R-01", Source: "Endpoints A, GET /containerregistryauth", Statement: "GET /containerregistryauth returns 200 and an array of objects with the strings id and name.",
		Allow: suite.Create, Run: func(c *suite.C) {
			id, name := newRegistryAuth(c)
			eventually(c, func() bool { return isListed(c, id) })
			found := false
			for page := range c.Pages("v1", "/containerregistryauth") { // the description doesn't set a page size
				for _, entry := range page.Exactly(200).Array("") {
					auth, ok := entry.(suite.M)
					id, isID := auth["id"].(string)
					entryName, isName := auth["name"].(string)
					c.Expect(ok && isID && id != "" && isName, "objects with id and name, strings", "the entry %s", suite.JSONText(entry))
					found = found || entryName == name
				}
			}
			c.Expect(found, "the registry auth "+name+" in the list", "a list without that name")
		}},
	{ID: "R-02", Level: suite.Should, Source: "Container registry auth", Statement: "No response contains the password, not even the answer to a create or an error.", Allow: suite.Create, Requests: 40, Run: judgeRegistrySecret(v1API)},
	{ID: "R-02-v2", Needs: suite.V2, Allow: suite.Create, Requests: 40, Run: judgeRegistrySecret(v2API)},
	{ID: "R-03", Source: "Endpoints A, DELETE /containerregistryauth", Statement: "A deletion returns 204 without a body.", Allow: suite.Create, Run: func(c *suite.C) {
		id, _ := newRegistryAuth(c)
		a := c.V1("DELETE", "/containerregistryauth/"+suite.PathSegment(id), nil).Is(204)
		c.Expect(len(a.Body) == 0, "no body", "a body of %d bytes", len(a.Body))
	}},
	{ID: "R-04", Source: "Endpoints A, DELETE /containerregistryauth", Statement: "The deletion of an unknown id returns 400.", Run: func(c *suite.C) {
		c.V1("GET", "/containerregistryauth", nil).Is(200).Array("")
		c.V1("DELETE", "/containerregistryauth/"+c.Nonce(), nil).Is(400)
	}},
	{ID: "R-05", Source: "Endpoints A, DELETE /containerregistryauth", Statement: "A deletion without a key returns 401 and deletes nothing.",
		Allow: suite.Create, Run: func(c *suite.C) {
			id, _ := newRegistryAuth(c)
			c.V1("DELETE", "/containerregistryauth/"+suite.PathSegment(id), nil, suite.WithoutKey()).Is(401)
			c.Expect(eventually(c, func() bool { return isListed(c, id) }), "the registry auth, still in the list", "a list without the registry auth %s", id)
		}},
	{ID: "R-06", Source: "Endpoints A, DELETE /containerregistryauth", Statement: "The list omits a deleted registry auth.", Allow: suite.Create, Run: func(c *suite.C) {
		id, _ := newRegistryAuth(c)
		c.Given("R-01", func() {
			c.Expect(eventually(c, func() bool { return isListed(c, id) }), "the registry auth in the list", "a list without the registry auth %s", id)
		})
		c.V1("DELETE", "/containerregistryauth/"+suite.PathSegment(id), nil).Success()
		c.Expect(eventually(c, func() bool { return !isListed(c, id) }), "a list without the registry auth", "a list with the registry auth %s", id)
	}},
	{ID: "R-07", Level: suite.Should, Source: "Endpoints A, DELETE /containerregistryauth", Statement: "A second deletion returns 400.", Allow: suite.Create, Run: func(c *suite.C) {
		id, _ := newRegistryAuth(c)
		c.V1("DELETE", "/containerregistryauth/"+suite.PathSegment(id), nil).Success()
		c.V1("DELETE", "/containerregistryauth/"+suite.PathSegment(id), nil).Is(400)
	}},
	{ID: "R-08", Level: suite.Unspec, Source: "Container registry auth", Statement: "How a registry auth is created.", Allow: suite.Create, Run: func(c *suite.C) {
		a := c.Create("v1", "/containerregistryauth", suite.M{"name": c.Name(), "username": "user", "password": c.Secret("PASSWORD")})
		c.Observe("%d with %s", a.Code, a.Shape())
	}},
	{ID: "R-09", Level: suite.Should, Source: "API changes of November 2026, 1.6", Statement: "In version 2, the name and the username of a registry auth have at most 191 characters and its password at most 16,384. A longer one returns 422.",
		Needs: suite.V2, Allow: suite.Create, Requests: 4, Run: func(c *suite.C) {
			limits := map[string]int{"name": 191, "username": 191, "password": 16384}
			body := func(tooLong string) suite.M { // every other member is as long as its limit
				members := suite.M{}
				for name, n := range limits {
					if name == tooLong {
						n++
					}
					word := c.Name()
					members[name] = word + strings.Repeat("x", n-len(word))
				}
				return members
			}
			c.Create("v2", "/registries", body("")).Success()
			for member := range limits {
				c.Create("v2", "/registries", body(member)).Is(422)
			}
		}},
})

// newRegistryAuth creates a registry auth. It skips the case if that fails, since the description leaves the body open.
func newRegistryAuth(c *suite.C) (id, name string) {
	name = c.Name()
	var a *suite.Answer
	for _, version := range []api{v1API, v2API} {
		if c.Serves(string(version)) && (a == nil || a.Code/100 != 2) {
			a = c.Create(string(version), collection(version, "registry"), suite.M{"name": name, "username": "user", "password": c.Secret("PASSWORD")})
		}
	}
	c.SkipIf(a.Code/100 != 2, "no judged version creates a registry auth: %d", a.Code)
	return a.Str("id"), name
}

func isListed(c *suite.C, id string) bool { return c.IsListed("v1", "/containerregistryauth", id) }

// judgeRegistrySecret judges that no answer about registry auths contains a password, not even a refusal.
func judgeRegistrySecret(a api) func(*suite.C) {
	return func(c *suite.C) {
		path := collection(a, "registry")
		password := c.Secret("PASSWORD")
		validBody := suite.M{"name": "conf-" + c.Nonce(), "username": "user", "password": password}
		for _, body := range malformedVariants(validBody) {
			c.Create(string(a), path, nil, suite.Raw(body)).NotContains(password)
		}
		c.Create(string(a), path, validBody, suite.WithoutKey()).NotContains(password)
		created := c.Create(string(a), path, validBody)
		if created.Code/100 != 2 { // a malformed body may have been accepted with this name
			created = c.Create(string(a), path, suite.M{"name": "conf-" + c.Nonce(), "username": "user", "password": password})
		}
		created.NotContains(password)
		c.SkipIf(created.Code/100 != 2, "version %s creates no registry auths: %d", a[1:], created.Code)
		if id, ok := created.Find("id"); ok {
			sendTo(c, a, "GET", path+"/"+suite.PathSegment(fmt.Sprint(id)), nil).NotContains(password)
		}
		expectNotListed(c, string(a), path, password)
	}
}

// delegationCases judge the registry delegations of version 2. The description has the
// operations, but no schemas, so VER-55 is skipped unless a delegation can be created.
var delegationCases = section(suite.Case{Needs: suite.V2, Allow: suite.Create}, []suite.Case{
	{ID: "VER-55", Level: suite.Must, Source: "Versioning, 10", Statement: "DELETE /v2/registries/delegations/{id} deletes only that registry delegation. The list no longer contains it, and a second deletion returns 404 or 410.",
		Requests: 12, Run: func(c *suite.C) {
			id, other := newDelegation(c), newDelegation(c)
			c.Expect(id != other, "an id of its own for each delegation", "the id %s twice", id)
			c.V2("DELETE", delegationPath+"/"+suite.PathSegment(id), nil).Success()
			c.Expect(eventually(c, func() bool { return !c.IsListed("v2", delegationPath, id) }), "a list without the delegation", "a list with the delegation %s", id)
			c.Expect(c.IsListed("v2", delegationPath, other), "the other delegation in the list", "a list without the delegation %s", other)
			c.V2("DELETE", delegationPath+"/"+suite.PathSegment(id), nil).Is(404, 410)
		}},
	{ID: "VER-56", Level: suite.Unspec, Source: "Versioning, 11", Statement: "How a registry delegation is created and listed.", Run: func(c *suite.C) {
		a := c.Create("v2", delegationPath, delegationBody(c, nil, c.Nonce()))
		c.Observe("%d with %s; the list with %s", a.Code, a.Shape(), c.V2("GET", delegationPath, nil).Is(200).Shape())
	}},
})

const delegationPath = "/registries/delegations"

func delegationBody(_ *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "resource": "arn:aws:ecr:us-east-2:418399314813:repository/conf/" + word}
}

// newDelegation creates a delegation that the list shows. It skips the case if it can't,
// since the description leaves open how to create one.
func newDelegation(c *suite.C) (id string) {
	a := c.Create("v2", delegationPath, delegationBody(c, nil, c.Nonce()))
	c.SkipIf(a.Code/100 != 2, "no registry delegation can be created: %d", a.Code)
	id = a.Str("id")
	c.SkipIf(!eventually(c, func() bool { return c.IsListed("v2", delegationPath, id) }), "the list of delegations doesn't show the new one")
	return id
}
