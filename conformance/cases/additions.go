package cases

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// secretCases judge account secrets. The description doesn't mention them, so the cases are skipped at a deployment without them.
var secretCases = section(suite.Case{Level: suite.Should, Source: "API changes of November 2026, 2.1", Needs: suite.V2, Allow: suite.Create}, []suite.Case{
	{ID: "SEC-01", Statement: "POST /v2/account/secrets returns 201 with id, name and createdAt. The list and GET /v2/account/secrets/{id} return the secret. No response contains its value.", Run: func(c *suite.C) {
		value := c.Nonce()
		a := newSecret(c, suite.M{"value": value, "description": "d"}).Is(201)
		a.Str("name")
		expectRFC3339(c, a, "createdAt")
		shown := requestSecret(c, "GET", a.Str("id"), nil).Is(200).Equal("id", a.Str("id")).Equal("name", a.Str("name")).Equal("description", "d")
		var list *suite.Answer
		c.Expect(eventually(c, func() bool { list = c.PageWith("v2", secretPath, a.Str("id")); return list != nil }), "the secret in the list", "a list without %s", a.Str("id"))
		expectRFC3339(c, shown, "createdAt")
		for i, secret := range list.List("secrets") {
			if secret["id"] == a.Str("id") {
				list.Equal(fmt.Sprintf("secrets.%d.name", i), a.Str("name"))
				expectRFC3339(c, list, fmt.Sprintf("secrets.%d.createdAt", i))
			}
		}
		duplicate := c.Create("v2", secretPath, suite.M{"name": a.Str("name"), "value": value}).Refused()
		invalid := c.Create("v2", secretPath, suite.M{"name": secretName(c), "value": value, "kind": "x"}).Refused()
		for _, answer := range []*suite.Answer{a, shown, list, duplicate, invalid} {
			answer.NotContains(value)
		}
	}},
	{ID: "SEC-02", Statement: "Secret names are unique, ignoring case: a second create returns 409.", Run: func(c *suite.C) {
		name := newSecret(c, nil).Str("name")
		for _, takenName := range []string{name, strings.ToUpper(name)} {
			c.Create("v2", secretPath, suite.M{"name": takenName, "value": "v"}).Is(409)
		}
	}},
	{ID: "SEC-03", Statement: "GET /v2/account/secrets?name= returns only the secret with this name, ignoring case.", Run: func(c *suite.C) {
		a := newSecret(c, nil)
		name := a.Str("name")
		newSecret(c, suite.M{"name": name + "x"})
		for _, query := range []string{name, strings.ToUpper(name)} {
			var list *suite.Answer
			eventually(c, func() bool {
				list = c.V2("GET", secretPath+"?name="+query, nil).Is(200)
				return list.Contains(a.Str("id"))
			})
			c.Expect(len(list.Array("secrets")) == 1 && list.Contains(a.Str("id")), "the one secret", "%d secrets", len(list.Array("secrets")))
		}
		c.V2("GET", secretPath+"?name="+name[:len(name)-1], nil).Is(200).Equal("secrets", []any{}) // a part of the name
	}},
	{ID: "SEC-04", Statement: "A secret's name has 1 to 191 letters, digits, _, ., - and /. It begins with a letter or _, but not with RUNPOD, ignoring case. Any other name returns 422.",
		Requests: 20, Run: func(c *suite.C) {
			word := c.Nonce()
			newSecret(c, suite.M{"name": "_" + word + ".a-b/" + strings.Repeat("C", 191-6-len(word))})
			for _, name := range []any{"", "1" + word, "-" + word, word + " a", word + "ä", word + "$", "RUNPOD" + word, "runPod_" + word, strings.Repeat("a", 192), 1, nil} {
				c.Create("v2", secretPath, suite.M{"name": name, "value": "v"}).Is(422)
			}
		}},
	{ID: "SEC-05", Statement: "A secret's value has at least 1 byte, and its description at most 65,535 bytes of UTF-8. Anything else returns 422.", Run: func(c *suite.C) {
		a := newSecret(c, suite.M{"description": strings.Repeat("d", 65535)})
		c.Create("v2", secretPath, suite.M{"name": secretName(c)}).Is(422)
		for _, wrong := range []suite.M{{"value": ""}, {"value": nil}, {"value": 1}, {"description": strings.Repeat("é", 32768)}} {
			c.Create("v2", secretPath, suite.Merge(suite.M{"name": secretName(c), "value": "v"}, wrong)).Is(422)
			requestSecret(c, "PATCH", a.Str("id"), wrong).Is(422)
		}
	}},
	{ID: "SEC-06", Statement: "A body with an unknown member, an empty update and an update of the name return 422.", Run: func(c *suite.C) {
		a := newSecret(c, nil)
		c.Create("v2", secretPath, suite.M{"name": secretName(c), "value": "v", "kind": "x"}).Is(422)
		for _, body := range []suite.M{{}, {"name": secretName(c)}, {"value": "v", "kind": "x"}, {"description": "d", "kind": "x"}} {
			requestSecret(c, "PATCH", a.Str("id"), body).Is(422)
		}
		requestSecret(c, "GET", a.Str("id"), nil).Is(200).Equal("name", a.Str("name"))
	}},
	{ID: "SEC-07", Statement: "An update changes the value, the description, or both, and returns 200 with the secret but not its value. An empty description clears it.", Run: func(c *suite.C) {
		a, value := newSecret(c, suite.M{"description": "before"}), c.Nonce()
		id := a.Str("id")
		requestSecret(c, "PATCH", id, suite.M{"value": value, "description": "after"}).Exactly(200).Equal("id", id).Equal("description", "after").NotContains(value)
		requestSecret(c, "PATCH", id, suite.M{"value": value + "2"}).Exactly(200).Equal("description", "after").NotContains(value)
		requestSecret(c, "PATCH", id, suite.M{"description": ""}).Exactly(200)
		c.Expect(eventually(c, func() bool {
			description := requestSecret(c, "GET", id, nil).Is(200).ValueOrNil("description")
			return description == nil || description == ""
		}), "no description", "a description")
	}},
	{ID: "SEC-08", Statement: "DELETE /v2/account/secrets/{id} deletes only that secret. Later reads, updates and deletions of it return 404, and its name can be used again.", Run: func(c *suite.C) {
		a, other := newSecret(c, nil), newSecret(c, nil)
		requestSecret(c, "DELETE", a.Str("id"), nil).Success()
		requestSecret(c, "PATCH", a.Str("id"), suite.M{"value": "v"}).Is(404)
		requestSecret(c, "DELETE", a.Str("id"), nil).Is(404)
		expectNotFound(c, secretPath+"/"+suite.PathSegment(a.Str("id")))
		requestSecret(c, "GET", other.Str("id"), nil).Is(200)
		c.Expect(eventually(c, func() bool { return !c.IsListed("v2", secretPath, a.Str("id")) }), "a list without the deleted secret", "a list with %s", a.Str("id"))
		c.Create("v2", secretPath, suite.M{"name": a.Str("name"), "value": "v"}).Success()
	}},
	{ID: "SEC-09", Statement: "Requests for account secrets without a valid key return 401 and change nothing.", Requests: 40, Run: func(c *suite.C) {
		a, word := newSecret(c, nil), secretName(c)
		id := a.Str("id")
		for _, auth := range append(withoutKey(c), unknownKeys(c)...) {
			c.V2("GET", secretPath, nil, auth).Is(401).NotContains(id)
			c.V2("GET", secretPath+"/"+suite.PathSegment(id), nil, auth).Is(401)
			c.Create("v2", secretPath, suite.M{"name": word, "value": "v"}, auth).Is(401)
			c.V2("PATCH", secretPath+"/"+suite.PathSegment(id), suite.M{"description": word}, auth).Is(401)
			c.V2("DELETE", secretPath+"/"+suite.PathSegment(id), nil, auth).Is(401)
		}
		c.Sleep(consistency)
		c.Expect(eventually(c, func() bool { return c.IsListed("v2", secretPath, id) }), "the secret, still in the list", "a list without %s", id)
		expectNotListed(c, "v2", secretPath, word)
	}},
	{ID: "SEC-10", Statement: "{{ RUNPOD_SECRET_name }} in an endpoint's env becomes the secret's value in the worker's environment. No response of the management API contains the value.",
		Needs: suite.V2 | suite.AnyEndpoint, Allow: suite.Create | suite.Queue, Requests: 60, Jobs: 1, Seconds: 10, Run: func(c *suite.C) {
			value := c.Nonce()
			a := newSecret(c, suite.M{"value": value})
			endpoint := newSecretEndpoint(c, a)
			expectEnvironment(c, value)
			shown := readBack(c, "/serverless/"+suite.PathSegment(endpoint)).NotContains(value)
			shown.Expect(shown.Contains(placeholderOf(a)), "the placeholder in the endpoint's env")
			c.V2("GET", "/serverless", nil).NotContains(value)
			c.V2("GET", secretPath, nil).NotContains(value)
			if c.HasVersion("v1") {
				c.V1("GET", "/endpoints", nil).NotContains(value)
				c.V1("GET", "/endpoints/"+suite.PathSegment(endpoint), nil).NotContains(value)
			}
		}},
	{ID: "SEC-11", Statement: "Workers that start after an update get the new value; running workers keep the old one. After a deletion the placeholder becomes an empty text.",
		Needs: suite.V2 | suite.AnyEndpoint, Allow: suite.Create | suite.Queue, Requests: 250, Jobs: 15, Seconds: 100, WaitTime: 40 * time.Second, Run: func(c *suite.C) {
			const workerTime = 40 * time.Second // longer than a change of a secret takes, with the pace of a remote run
			oldValue, newValue := c.Nonce(), c.Nonce()
			a := newSecret(c, suite.M{"value": oldValue})
			newSecretEndpoint(c, a)
			c.Given("SEC-10", func() { expectEnvironment(c, oldValue) })
			blocker := c.Blocker(workerTime) // keeps the worker running
			requestSecret(c, "PATCH", a.Str("id"), suite.M{"value": newValue}).Is(200)
			j := c.Run(environmentInput)
			c.ExpectBefore(j.Answer, blocker.StartedAfter.Add(workerTime))
			c.Until(blocker.StartedBefore.Add(workerTime))
			j.AwaitCompleted().Equal("output.TOKEN", oldValue)
			replaceWorker(c, a)
			expectEnvironment(c, newValue)
			requestSecret(c, "DELETE", a.Str("id"), nil).Success()
			replaceWorker(c, a)
			expectEnvironment(c, "")
		}},
	{ID: "SEC-12", Level: suite.Unspec, Statement: "How placeholders treat blanks inside the braces, the case of the name, and text around them.",
		Needs: suite.V2 | suite.AnyEndpoint, Allow: suite.Create | suite.Queue, Requests: 60, Jobs: 1, Seconds: 10, Run: func(c *suite.C) {
			a := newSecret(c, suite.M{"value": "v"})
			name := a.Str("name")
			c.Endpoint = c.NewEndpoint(1, suite.M{"env": suite.M{
				"BLANKS": "{{RUNPOD_SECRET_" + name + "}}", "CASE": "{{ RUNPOD_SECRET_" + strings.ToUpper(name) + " }}", "PART": "a" + placeholderOf(a) + "b",
			}})
			j := c.Run(suite.M{"op": "env", "names": []string{"BLANKS", "CASE", "PART"}})
			c.Observe("%s", suite.JSONText(j.AwaitCompleted().Value("output")))
		}},
})

const secretPath = "/account/secrets"

func expectRFC3339(c *suite.C, a *suite.Answer, member string) time.Time {
	t, err := parseRFC3339(a.Str(member))
	c.Expect(err == nil, "a time in "+member, "the value %s", suite.JSONText(a.Value(member)))
	return t
}

// parseRFC3339 also accepts t and z in lower case, as RFC 3339 does.
func parseRFC3339(text string) (time.Time, error) {
	return time.Parse(time.RFC3339, strings.ToUpper(text))
}

func secretName(c *suite.C) string { return "conf_" + c.Nonce() }

// newSecret creates a secret, and waits until it can be read. It skips the case if the deployment has no operations for secrets.
func newSecret(c *suite.C, members suite.M) *suite.Answer {
	list := c.V2("GET", secretPath, nil)
	c.SkipIf(isMissing(list), "the deployment has no account secrets: %d", list.Code)
	body := suite.Merge(suite.M{"name": secretName(c), "value": "v"}, members)
	a := c.Create("v2", secretPath, body).Success().Equal("name", body["name"])
	awaitReadable(c, secretPath+"/"+suite.PathSegment(a.Str("id")))
	return a
}

func requestSecret(c *suite.C, method, id string, body any) *suite.Answer {
	return c.V2(method, secretPath+"/"+suite.PathSegment(id), body)
}

func placeholderOf(secret *suite.Answer) string {
	return "{{ RUNPOD_SECRET_" + secret.Str("name") + " }}"
}

// newSecretEndpoint creates an endpoint whose workers have a secret in the variable TOKEN.
func newSecretEndpoint(c *suite.C, secret *suite.Answer) string {
	c.Endpoint = c.NewEndpoint(1, suite.M{"env": suite.M{"TOKEN": placeholderOf(secret)}})
	return c.Endpoint
}

// environmentInput is the input of a job whose output has the variables TOKEN and RELEASE of its worker.
var environmentInput = suite.M{"op": "env", "names": []string{"TOKEN", "RELEASE"}}

// expectEnvironment expects the value of TOKEN in a worker of the endpoint.
func expectEnvironment(c *suite.C, want string) {
	c.Run(environmentInput).AwaitCompleted().Equal("output.TOKEN", want)
}

// replaceWorker changes the endpoint, and waits until a worker has the new release.
func replaceWorker(c *suite.C, secret *suite.Answer) {
	release := c.Nonce()
	c.V2("PATCH", "/serverless/"+suite.PathSegment(c.Endpoint), suite.M{"env": suite.M{"TOKEN": placeholderOf(secret), "RELEASE": release}}).Success()
	for range 5 {
		if c.Run(environmentInput).AwaitCompleted().Value("output.RELEASE") == release {
			return
		}
	}
	c.Skip("no worker has the new release")
}

const globalVolumePath = "/global-volumes"

// globalVolumeCases observe global volumes. They only warn: paths and statuses are inferred from RunPod's pages.
var globalVolumeCases = section(suite.Case{Level: suite.Unspec, Source: "API changes of November 2026, 2.3", Needs: suite.V2, Allow: suite.Create}, []suite.Case{
	{ID: "GLO-01", Statement: "What the create, read, list and deletion of a global volume return.", Run: func(c *suite.C) {
		a, other := newGlobalVolume(c, c.Name()), newGlobalVolume(c, c.Name())
		path := globalVolumePath + "/" + suite.PathSegment(a.Str("id"))
		c.Observe("created: %d with %s", a.Code, a.Shape())
		c.Observe("read: %d, listed: %s", c.V2("GET", path, nil).Code, c.V2("GET", globalVolumePath, nil).Shape())
		c.Observe("deleted: %d, and again: %d, then read: %d", c.V2("DELETE", path, nil).Code, c.V2("DELETE", path, nil).Code, c.V2("GET", path, nil).Code)
		c.Should(func() {
			expectRFC3339(c, a.Is(201), "createdAt")
			expectNotFound(c, path)
			readBack(c, globalVolumePath+"/"+suite.PathSegment(other.Str("id"))).Equal("name", other.Str("name"))
		})
	}},
	{ID: "GLO-02", Statement: "Whether a global volume's name is trimmed, may be used twice and can be updated; whether blank names, names of more than 191 characters and empty updates are rejected.", Run: func(c *suite.C) {
		name := c.Name()
		a := newGlobalVolume(c, " "+name+" ")
		path := globalVolumePath + "/" + suite.PathSegment(a.Str("id"))
		duplicate := c.Create("v2", globalVolumePath, suite.M{"name": name})
		renamed := c.V2("PATCH", path, suite.M{"name": name + "x"})
		c.Observe("trimmed: %t, the same name again: %d, renamed: %d, an empty update: %d", a.Value("name") == name, duplicate.Code, renamed.Code, c.V2("PATCH", path, suite.M{}).Code)
		c.Should(func() {
			a.Equal("name", name)
			duplicate.Success()
			renamed.Is(200).Equal("name", name+"x")
			c.V2("PATCH", path, suite.M{}).Is(400, 422)
			for _, wrong := range []any{"", " \t", strings.Repeat("a", 192), nil} {
				c.Create("v2", globalVolumePath, suite.M{"name": wrong}).Is(400, 422)
			}
		})
	}},
	{ID: "GLO-03", Statement: "Whether the list of global volumes is paged.", Requests: 8, Run: func(c *suite.C) {
		for range 3 {
			newGlobalVolume(c, c.Name())
		}
		var first *suite.Answer
		eventually(c, func() bool {
			first = c.V2("GET", globalVolumePath+"?limit=2", nil).Is(200)
			return len(first.Objects()) >= 2
		})
		if _, paged := first.Find("pagination"); !paged {
			c.Observe("one page without pagination")
			return
		}
		next := nextPageQuery(c, first, "limit=2")
		c.Observe("a next page with limit=2: %t", next != "")
		c.Should(func() {
			first.Expect(len(first.Array("globalVolumes")) == 2 && next != "", "2 of at least 3 volumes with limit=2, and a next page")
			second := c.V2("GET", globalVolumePath+"?"+next, nil).Is(200)
			second.Expect(!second.Contains(first.Str("globalVolumes.0.id")) && second.Str("globalVolumes.0.id") != "", "other volumes")
		})
	}},
})

// buildCases judge the builds of an endpoint's image.
var buildCases = []suite.Case{{
	ID: "BLD-01", Level: suite.Should, Source: "API changes of November 2026, 2.2",
	Statement: "GET /v2/serverless/{id}/builds returns an object with builds and pagination. A limit outside 1 to 100 returns 422, and an unknown build 404.",
	Needs:     suite.V2 | suite.AnyEndpoint, Requests: 8, Run: func(c *suite.C) {
		path := "/serverless/" + suite.PathSegment(c.Endpoint) + "/builds"
		a := c.V2("GET", path, nil)
		c.SkipIf(a.Code == 404 || a.Code == 501, "the deployment has no builds: %d", a.Code)
		a.Is(200).Array("builds")
		nextPageQuery(c, a, "limit=1")
		c.V2("GET", path+"?limit=100", nil).Is(200)
		for _, limit := range []string{"0", "101", "x"} {
			c.V2("GET", path+"?limit="+limit, nil).Is(422)
		}
		c.V2("GET", path+"/"+c.Nonce(), nil).Is(404)
	},
}}

// newGlobalVolume creates a global volume. It skips the case if that fails.
func newGlobalVolume(c *suite.C, name string) *suite.Answer {
	a := c.Create("v2", globalVolumePath, suite.M{"name": name})
	c.SkipIf(a.Code/100 != 2, "no global volume can be created: %d", a.Code)
	a.Str("id")
	return a
}
