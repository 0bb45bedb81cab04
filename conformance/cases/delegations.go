package cases

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

// delegationCases judge the registry delegations of version 2. The description has the
// operations, but no schemas, so the cases are skipped unless a delegation can be created.
var delegationCases = section(suite.Case{Needs: suite.V2, Allow: suite.Create, Operations: delegationOperations}, []suite.Case{
	{ID: "VER-55", Level: suite.Must, Source: "Versioning, 10", Statement: "DELETE /v2/registries/delegations/{id} deletes only that registry delegation. The list no longer contains it, and a second deletion returns 404.",
		Requests: 12, Run: func(c *suite.C) {
			id, other := newDelegation(c), newDelegation(c)
			c.Expect(id != other, "an id of its own for each delegation", "the id %s twice", id)
			c.V2("DELETE", delegationPath+"/"+suite.PathSegment(id), nil).Success()
			c.Expect(eventually(c, func() bool { return !listDelegations(c).Contains(id) }), "a list without the delegation", "a list with the delegation %s", id)
			c.Expect(listDelegations(c).Contains(other), "the other delegation in the list", "a list without the delegation %s", other)
			c.V2("DELETE", delegationPath+"/"+suite.PathSegment(id), nil).Is(404, 410)
		}},
	{ID: "VER-56", Level: suite.Unspec, Source: "Versioning, 11", Statement: "How a registry delegation is created and listed.", Run: func(c *suite.C) {
		a := c.Create("v2", delegationPath, delegationBody(c, nil, c.Nonce()))
		c.Observe("%d with %s; the list with %s", a.Code, a.Shape(), listDelegations(c).Shape())
	}},
	{ID: "AUT-03-delegations", Needs: suite.V2, Allow: suite.Create, Operations: delegationOperations, Run: judgeDelegationAccess(withoutKey)},
	{ID: "AUT-04-delegations", Needs: suite.V2, Allow: suite.Create, Operations: delegationOperations, Run: judgeDelegationAccess(wrongKey)},
	{ID: "AUT-05-delegations", Needs: suite.V2 | suite.OtherKey, Allow: suite.Create, Operations: delegationOperations, Run: judgeForeignDelegation},
})

const delegationPath = "/registries/delegations"

var delegationOperations = []string{"GET /v2/registries/delegations", "POST /v2/registries/delegations", "DELETE /v2/registries/delegations/{id}"}

// delegationBody returns a body with the word in the name and the repository.
func delegationBody(_ *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "resource": "arn:aws:ecr:us-east-2:418399314813:repository/conf/" + word}
}

func listDelegations(c *suite.C) *suite.Answer { return c.V2("GET", delegationPath, nil).Is(200) }

// newDelegation creates a delegation that the list shows. It skips the case if it can't,
// since the description leaves open how to create one, and whether the list has pages.
func newDelegation(c *suite.C) (id string) {
	a := c.Create("v2", delegationPath, delegationBody(c, nil, c.Nonce()))
	if a.Code/100 != 2 {
		c.Skip("no registry delegation can be created: %d", a.Code)
	}
	id = a.Str("id")
	if !eventually(c, func() bool { return listDelegations(c).Contains(id) }) {
		c.Skip("the list of delegations doesn't show the new one, which may be on another page")
	}
	return id
}

// judgeDelegationAccess judges that a known key is needed to list, create and delete
// delegations.
func judgeDelegationAccess(credentials func(*suite.C) []credential) func(*suite.C) {
	return func(c *suite.C) {
		id := newDelegation(c)
		withKey := func() *suite.Answer { return listDelegations(c) }
		var words []string
		for _, auth := range credentials(c) {
			list := c.V2("GET", delegationPath, nil, auth)
			expectUnauthorized(c, list, withKey)
			list.NotContains(id)
			word := c.Nonce()
			words = append(words, word)
			expectUnauthorized(c, c.Create("v2", delegationPath, delegationBody(c, nil, word), auth), withKey)
			expectUnauthorized(c, c.V2("DELETE", delegationPath+"/"+suite.PathSegment(id), nil, auth), withKey)
		}
		c.Sleep(consistency)
		all := listDelegations(c)
		c.Expect(all.Contains(id), "the created delegation in the list", "a list without %s", id)
		expectNone(all, words)
	}
}

// judgeForeignDelegation sends requests with a valid key without access to the delegation.
// The list may show the key's own delegations. If the list is refused, a creation must be refused,
// too.
func judgeForeignDelegation(c *suite.C) {
	id, word, other := newDelegation(c), c.Nonce(), suite.As(c.OtherKey())
	operation := func(method, path string) contractOperation {
		op, _ := operationAt(v2API, method, path)
		return op
	}
	list := c.V2("GET", delegationPath, nil, other)
	list.NotContains(id)
	if list.Code/100 != 2 {
		expectForeignRefused(c, operation("GET", delegationPath), list)
		expectForeignRefused(c, operation("POST", delegationPath), c.Create("v2", delegationPath, delegationBody(c, nil, word), other))
	}
	path := delegationPath + "/" + suite.PathSegment(id)
	expectForeignRefused(c, operation("DELETE", path), c.V2("DELETE", path, nil, other))
	c.Sleep(consistency)
	all := listDelegations(c)
	c.Expect(all.Contains(id), "the created delegation in the list", "a list without %s", id)
	expectNone(all, []string{word})
}
