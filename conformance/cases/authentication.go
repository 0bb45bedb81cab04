package cases

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// authenticationCases judge the section "Authentication".
var authenticationCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint}, []suite.Case{
	{ID: "AUT-01", Source: "Authentication, 1", Statement: "The job API accepts the key as Authorization: Bearer.", Run: func(c *suite.C) {
		c.Get("/health").Is(200).Object("jobs")
		c.Given("AUT-03", func() { c.Get("/health", suite.WithoutKey()).Is(401) })
	}},
	{ID: "AUT-02", Source: "Authentication, 1", Statement: "The management API accepts the key as Authorization: Bearer.", Needs: suite.V2, Run: judgeKey(v2API, "/templates")},
	{ID: "AUT-02-v1", Needs: suite.V1, Run: judgeKey(v1API, "/containerregistryauth")},
	{ID: "AUT-03", Source: "Authentication, 2", Statement: "Every operation without a key returns 401 and changes nothing.", Requests: 12, Run: func(c *suite.C) {
		before := c.Get("/health").Is(200).Object("jobs")
		judgeRefusedKey(c, jobOperations, suite.WithoutKey())
		if c.Endpoint != c.Target.Endpoint { // no other case uses it
			c.Get("/health").Is(200).Equal("jobs", before)
		}
	}},
	{ID: "AUT-03-jobs", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 75, WaitTime: 20 * time.Second, Seconds: 30, Run: judgeJobAccess(withoutKey, expectUnauthorized)},
	{ID: "AUT-03-v1", Needs: suite.V1, Allow: suite.Create, Requests: 110, WaitTime: 5 * time.Second, Run: judgeObjectAccess(v1API, withoutKey)},
	{ID: "AUT-03-v2", Needs: suite.V2, Allow: suite.Create, Requests: 120, WaitTime: 5 * time.Second, Run: judgeObjectAccess(v2API, withoutKey)},
	{ID: "AUT-03-workers", Needs: suite.V2 | suite.OwnEndpoint, Allow: suite.Queue, Jobs: 1, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(time.Minute)
		path := "/serverless/" + suite.PathSegment(c.Endpoint) + "/workers"
		ids := c.V2("GET", path, nil).Is(200).IDs("workers")
		c.SkipIf(len(ids) == 0, "the list shows no worker of the endpoint")
		logs := path + "/" + suite.PathSegment(ids[0]) + "/logs"
		for _, auth := range []suite.Option{suite.WithoutKey(), suite.WithKey(c.Nonce())} {
			expectUnauthorized(c, c.V2("GET", logs, nil, auth), func() *suite.Answer { return c.V2("GET", logs, nil) })
		}
	}},
	// AUT-03-management sends one operation of each kind and method, AUT-04-management one of each method. The other cases send all, with real ids.
	{ID: "AUT-03-management", Needs: suite.V2, Requests: 25, Run: judgeManagementKey(sampleOperations(), withoutKey)},
	{ID: "AUT-04-management", Needs: suite.V2, Requests: 10, Run: judgeManagementKey(oneOfEach(sampleOperations(), apiAndMethod), unknownKeys)},
	{ID: "AUT-04", Source: "Authentication, 2", Statement: "Every operation with an unknown key returns 401 and changes nothing.", Requests: 14, Run: func(c *suite.C) {
		c.Get("/health").Is(200)
		list := jobOperations
		if !c.IncludeIfLocal("all operations with the same method") {
			list = onePerKind(list)
		}
		judgeRefusedKey(c, list, unknownKeys(c)[0])
	}},
	{ID: "AUT-04-jobs", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 75, WaitTime: 20 * time.Second, Seconds: 30, Run: judgeJobAccess(unknownKeys, expectUnauthorized)},
	{ID: "AUT-04-v1", GivenClauses: []string{"AUT-10"}, Needs: suite.V1, Allow: suite.Create, Requests: 110, WaitTime: 5 * time.Second, Run: judgeObjectAccess(v1API, unknownKeys)},
	{ID: "AUT-04-v2", GivenClauses: []string{"AUT-10"}, Needs: suite.V2, Allow: suite.Create, Requests: 120, WaitTime: 5 * time.Second, Run: judgeObjectAccess(v2API, unknownKeys)},
	{ID: "AUT-05", Level: suite.Must, Source: "Authentication, 2",
		Statement: "Every operation with a valid key that has no access to the resource is rejected and changes nothing; the status should be 403.",
		Live:      suite.LiveLevel{Level: suite.Should, Reason: "RunPod answers 401 or 403"},
		Needs:     suite.AnyEndpoint | suite.OtherKey,
		Run: func(c *suite.C) {
			c.Get("/health").Is(200)
			for _, a := range []*suite.Answer{
				c.Get("/health", suite.WithKey(c.Target.OtherKey)), c.Post("/run", suite.Submission(suite.Echo()), suite.WithKey(c.Target.OtherKey)),
			} {
				a.Is(403, 401) // the table of errors also has 401 for a key that lacks a permission
				c.Should(func() { a.Is(403) })
			}
		}},
	{ID: "AUT-05-jobs", GivenClauses: []string{"AUT-10"}, Needs: suite.OwnEndpoint | suite.OtherKey, Allow: suite.Queue, Jobs: 4, Requests: 75, WaitTime: 20 * time.Second, Seconds: 30, Run: judgeJobAccess(otherKey, expectForbidden)},
	{ID: "AUT-05-v1", Needs: suite.V1 | suite.OtherKey, Allow: suite.Create, Requests: 110, WaitTime: 5 * time.Second, Run: judgeForeignAccess(v1API)},
	{ID: "AUT-05-v2", GivenClauses: []string{"AUT-10"}, Needs: suite.V2 | suite.OtherKey, Allow: suite.Create, Requests: 120, WaitTime: 5 * time.Second, Run: judgeForeignAccess(v2API)},
	{ID: "AUT-06", Level: suite.Unspec, Source: "Authentication, 3", Statement: "Whether a key without the scheme Bearer is accepted.", Run: func(c *suite.C) {
		c.Observe("%d", c.Get("/health", suite.WithHeader("Authorization", c.Target.Key)).Code)
	}},
	{ID: "AUT-07", Level: suite.Should, Source: "Authentication, 1", Statement: "The scheme Bearer is matched ignoring case (RFC 9110).", Requests: 4, Run: func(c *suite.C) {
		lower, upper := suite.WithHeader("Authorization", "bearer "+c.Target.Key), suite.WithHeader("Authorization", "BEARER "+c.Target.Key)
		c.Get("/health", lower).Is(200)
		c.Get("/health", upper).Is(200)
		if c.Serves("v1") {
			c.V1("GET", "/containerregistryauth", nil, lower).Is(200)
		}
		if c.Serves("v2") {
			c.V2("GET", "/templates", nil, upper).Is(200)
		}
	}},
	{ID: "AUT-08", Source: "Authentication, 2", Statement: "A key in another scheme, in another header or in the query, and an empty or partial token, return 401. AUT-06 is about bare keys.",
		Requests: 10, Run: func(c *suite.C) {
			c.Get("/health").Is(200)
			for i, form := range malformedCredentials(c) {
				if i%5 == 1 { // a sample; AUT-08-jobs tries all of them locally
					c.Get("/health", form).Is(401)
				}
			}
			c.Get("/health?api_key=dummy&token=dummy", suite.WithoutKey()).Is(401)
		}},
	{ID: "AUT-08-jobs", Needs: suite.OwnEndpoint | suite.LocalOnly, Allow: suite.Queue, Jobs: 4, Requests: 750, WaitTime: 20 * time.Second, Seconds: 30, Run: judgeJobAccess(malformedCredentials, expectUnauthorized)},
	{ID: "AUT-08-v1", Needs: suite.V1 | suite.LocalOnly, Allow: suite.Create, Requests: 850, WaitTime: 5 * time.Second, Run: judgeObjectAccess(v1API, malformedCredentials)},
	{ID: "AUT-08-v2", Needs: suite.V2 | suite.LocalOnly, Allow: suite.Create, Requests: 1150, WaitTime: 5 * time.Second, Run: judgeObjectAccess(v2API, malformedCredentials)},
	{ID: "AUT-09", Source: "Versioning, 3", Statement: "Both versions of the management API accept the same key.",
		Needs: suite.V2, Requests: 4, Run: func(c *suite.C) {
			judgeKey(v2API, "/serverless")(c)
			if c.HasVersion("v1") {
				judgeKey(v1API, "/containerregistryauth")(c)
			}
		}},
	{ID: "AUT-10", Level: suite.Should, Source: "Authentication, 2", Statement: "A 401 and a 403 are JSON. No response contains the request's key.", Requests: 5, Watch: keyInAnswer, Run: func(c *suite.C) {
		wrong := c.Secret("WRONG_KEY")
		c.Get("/health", suite.WithKey(wrong)).Is(401).JSON()
		if c.HasVersion("v2") {
			c.V2("GET", "/templates", nil, suite.WithKey(wrong)).Is(401).JSON()
			c.V2("GET", "/serverless", nil).Is(200)
			c.V2("GET", "/templates/"+c.Nonce(), nil).Refused()
		}
		if c.HasVersion("v1") {
			c.V1("GET", "/containerregistryauth", nil, suite.WithKey(wrong)).Is(401).JSON()
		}
	}},
})

// judgeKey judges that a list is returned with the key, and not without it.
func judgeKey(a api, path string) func(*suite.C) {
	return func(c *suite.C) {
		sendTo(c, a, "GET", path, nil).Is(200)
		c.Given("AUT-03", func() { sendTo(c, a, "GET", path, nil, suite.WithoutKey()).Is(401) })
	}
}

// judgeManagementKey sends operations of the management API without a valid key.
func judgeManagementKey(list []contractOperation, credentials func(*suite.C) []suite.Option) func(*suite.C) {
	return func(c *suite.C) {
		c.V2("GET", "/serverless", nil).Is(200)
		judgeRefusedKey(c, list, credentials(c)[0])
	}
}

// judgeRefusedKey sends, without a valid key, the operations that the target serves, and expects 401.
// Ids are unknown and bodies of the management API empty, so that an accepted request changes no object.
func judgeRefusedKey(c *suite.C, list []contractOperation, auth suite.Option) {
	for _, op := range list {
		if !op.api.servedBy(c) {
			continue
		}
		var body any
		switch {
		case op.api == jobAPI:
			body = op.validBody(c, nil, c.Nonce())
		case op.body != nil:
			body = suite.M{}
		}
		a := op.send(c, c.Nonce(), body, auth)
		switch {
		case a.Code == 401:
		case isMissing(a) && !op.described:
		case op.takesID() && isMissing(a), body != nil && (a.Code == 400 || a.Code == 422): // the description doesn't say which of the two errors is returned
		default:
			a.Is(401)
		}
	}
}

// sampleOperations returns described operations of the management API, one for each kind and method.
func sampleOperations() []contractOperation {
	return onePerKind(slices.DeleteFunc(slices.Clone(managementOperations), func(op contractOperation) bool {
		return !op.described || !slices.Contains(objectKinds, op.kind) || op.kind == "delegation" // some deployments have none
	}))
}

func keyInAnswer(w *suite.WatchedExchange) string {
	_, key, _ := strings.Cut(w.Request.Header.Get("Authorization"), " ")
	if len(key) < 16 || !strings.Contains(fmt.Sprint(w.Header), key) && !bytes.Contains(w.Body, []byte(key)) {
		return ""
	}
	return "the request's key in the answer"
}

func withoutKey(*suite.C) []suite.Option { return []suite.Option{suite.WithoutKey()} }

func unknownKeys(c *suite.C) []suite.Option {
	return []suite.Option{suite.WithKey(strings.Repeat("x", len(c.Target.Key))), suite.WithKey(c.Nonce())}
}

func otherKey(c *suite.C) []suite.Option { return []suite.Option{suite.WithKey(c.Target.OtherKey)} }

// malformedCredentials returns credentials that aren't the valid key as a bearer token: the key in
// another form or place, a similar token, and an empty one. The bare key isn't among them, since the
// description doesn't say whether it is accepted.
func malformedCredentials(c *suite.C) (list []suite.Option) {
	key := c.Target.Key
	last := "a"
	if strings.HasSuffix(key, last) {
		last = "b"
	}
	otherCase := strings.ToUpper(key)
	if otherCase == key {
		otherCase = strings.ToLower(key)
	}
	if otherCase == key { // it has no letters
		otherCase = "x"
	}
	basic := func(user, password string) string {
		return "Basic " + c.HideSecret("BASIC", base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	for _, value := range []string{
		"Bearer ", "Bearer", "Basic dXNlcjpwYXNzd29yZA==",
		"Bearer " + c.HideSecret("PART_OF_KEY", key[:len(key)-1]), "Bearer " + c.HideSecret("PART_OF_KEY", key[1:]), "Bearer " + key + "x",
		"Bearer " + c.HideSecret("PART_OF_KEY", key[:len(key)/2]), "Bearer x" + key, "Bearer " + key + key, "Bearer " + key + " " + key,
		"Bearer " + c.HideSecret("NEARLY_KEY", otherCase), "Bearer " + c.HideSecret("NEARLY_KEY", key[:len(key)-1]+last), "Bearer Bearer " + key,
		"Token " + key, "Digest " + key, "ApiKey " + key, "Key " + key, basic(key, ""), basic("", key), basic("user", key), "Basic " + key,
	} {
		list = append(list, suite.WithHeader("Authorization", value))
	}
	list = append(list, keyInHeaders(keyHeaderNames, key), keyInHeaders(keyHeaderNames, "Bearer "+key))
	var pairs []string
	for _, name := range keyParameterNames {
		pairs = append(pairs, name+"="+key)
	}
	list = append(list, keyInHeaders([]string{"Cookie"}, strings.Join(pairs, "; ")))
	if c.IncludeIfLocal("keys in the query, since an address may be written to a log") {
		list = append(list, func(r *suite.Request) {
			r.Header.Del("Authorization")
			mark := "?"
			if strings.Contains(r.URL, "?") {
				mark = "&"
			}
			r.URL += mark + strings.Join(pairs, "&")
		})
	}
	return list
}

// keyHeaderNames and keyParameterNames are where other APIs expect a key. None may grant access, so one request has them all.
var (
	keyHeaderNames    = []string{"X-API-Key", "X-Api-Token", "X-Auth-Token", "X-Access-Token", "X-Authorization", "Api-Key", "Token", "Proxy-Authorization"}
	keyParameterNames = []string{"api_key", "apikey", "apiKey", "api-key", "token", "access_token", "key", "auth", "authorization", "Authorization", "session"}
)

// keyInHeaders sends a value in the named headers instead of Authorization.
func keyInHeaders(names []string, value string) suite.Option {
	return func(r *suite.Request) {
		r.Header.Del("Authorization")
		for _, name := range names {
			r.Header.Set(name, value)
		}
	}
}

// expectUnauthorized expects 401. It also accepts a redirect, and 404, 405 or 501 if withKey, the same request
// with the key, gets one of these, too: then the deployment doesn't serve the path.
func expectUnauthorized(_ *suite.C, a *suite.Answer, withKey func() *suite.Answer) {
	if a.Code == 301 || a.Code == 308 || isMissing(a) && isMissing(withKey()) {
		return
	}
	a.Is(401)
}

// expectForbidden expects 403. The table of errors also has 401 for a key that lacks a permission.
func expectForbidden(c *suite.C, a *suite.Answer, withKey func() *suite.Answer) {
	if isMissing(a) && isMissing(withKey()) {
		return
	}
	a.Is(401, 403)
	c.Should(func() { a.Is(403) })
}

// judgeJobAccess sends every operation of the job API for a job in each state.
func judgeJobAccess(credentials func(*suite.C) []suite.Option, expectRefusal func(*suite.C, *suite.Answer, func() *suite.Answer)) func(*suite.C) {
	return func(c *suite.C) {
		s := newScene(c)
		for _, auth := range credentials(c) {
			for _, op := range jobOperations {
				for _, id := range s.ids(op) {
					body := op.validBody(c, nil, c.Nonce())
					expectRefusal(c, op.send(c, id, body, auth), func() *suite.Answer { return op.send(c, id, body) })
				}
			}
			expectRefusal(c, s.requestTTL(c.Endpoint, auth), s.failed.Status)
		}
		s.expectUnchanged()
	}
}

// judgeObjectAccess sends every operation of a version of the management API for existing objects.
func judgeObjectAccess(a api, credentials func(*suite.C) []suite.Option) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		var words []string
		for _, auth := range credentials(c) {
			for _, op := range o.sendable() {
				id, _ := o.targetID(op)
				word := c.Nonce()
				words = append(words, word)
				body := op.validBody(c, o, word)
				expectUnauthorized(c, op.send(c, id, body, auth), func() *suite.Answer { return op.send(c, id, body) })
			}
		}
		o.expectUntouched(words...)
	}
}

// sendable returns the operations for which the case has an object. At a shared target it
// returns only one operation for each kind and method, to send fewer requests.
func (o *realObjects) sendable() (list []contractOperation) {
	for _, op := range operationsOf(o.api) {
		if _, ok := o.targetID(op); ok {
			list = append(list, op)
		}
	}
	if o.c.IncludeIfLocal("all operations with the same method on the same kind of object") {
		return list
	}
	return onePerKind(list)
}

// onePerKind returns the first operation of each API, kind and method.
func onePerKind(list []contractOperation) []contractOperation {
	return oneOfEach(list, func(op contractOperation) string { return apiAndMethod(op) + op.kind })
}

func apiAndMethod(op contractOperation) string { return string(op.api) + op.method }

// oneOfEach returns the first operation of each class.
func oneOfEach(list []contractOperation, class func(contractOperation) string) (selected []contractOperation) {
	seen := map[string]bool{}
	for _, op := range list {
		if !seen[class(op)] {
			seen[class(op)] = true
			selected = append(selected, op)
		}
	}
	return selected
}

// judgeForeignAccess sends requests about the objects with a valid key without access to them. A list may
// show the key's own objects. If the list is refused, creations must be refused, too.
func judgeForeignAccess(a api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		foreignKey := suite.WithKey(c.Target.OtherKey)
		var words []string
		listRefused := map[string]bool{}
		for _, op := range o.sendable() {
			id, word := o.ids[op.kind], c.Nonce()
			if !slices.Contains(objectKinds, op.kind) || op.effect == effectCreate && !listRefused[op.kind] {
				continue // anybody may see other kinds, and the key may be allowed to create
			}
			words = append(words, word)
			body := op.validBody(c, o, word)
			switch {
			case op.takesID():
				expectForeignRefused(c, op, op.send(c, id, body, foreignKey))
			case op.effect == effectRead:
				list := op.send(c, "", nil, foreignKey)
				if listRefused[op.kind] = list.Code == 401 || list.Code == 403; !listRefused[op.kind] {
					list.NotContains(id)
				}
			default:
				expectForeignRefused(c, op, op.send(c, "", body, foreignKey))
			}
		}
		o.expectUntouched(words...)
	}
}

// expectForeignRefused expects that an operation on another user's object is refused: with
// 403, which the description has, or with another 4xx that hides the object.
func expectForeignRefused(c *suite.C, op contractOperation, a *suite.Answer) {
	a.Expect(a.Code/100 == 4 && a.Code != 429 || !op.described && isMissing(a), op.String()+" with a key without access: 403 Forbidden")
	if op.described || !isMissing(a) {
		c.Should(func() { a.Is(403) })
	}
}
