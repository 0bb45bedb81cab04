package cases

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// emptyBody returns an object without members, or nil if the operation has no body.
func (op contractOperation) emptyBody() any {
	if op.body == nil {
		return nil
	}
	return suite.M{}
}

func withoutKey(*suite.C) []suite.Option { return []suite.Option{suite.WithoutKey()} }

func wrongKey(c *suite.C) []suite.Option {
	return []suite.Option{suite.As(strings.Repeat("x", len(c.Key()))), suite.As(c.Nonce())}
}

func otherKey(c *suite.C) []suite.Option { return []suite.Option{suite.As(c.OtherKey())} }

// malformedCredentials returns ways to send the valid key, or most of it, other than as the
// bearer token that both APIs require. The bare key isn't among them, since the description
// doesn't say whether it is accepted.
func malformedCredentials(c *suite.C) (list []suite.Option) {
	key := c.Key()
	last := "a"
	if strings.HasSuffix(key, last) {
		last = "b"
	}
	basic := func(user, password string) string {
		return "Basic " + c.HideSecret("BASIC", base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	for _, value := range []string{
		"Bearer ", "Bearer", "Basic dXNlcjpwYXNzd29yZA==",
		"Bearer " + c.HideSecret("PART_OF_KEY", key[:len(key)-1]), "Bearer " + c.HideSecret("PART_OF_KEY", key[1:]), "Bearer " + c.HideSecret("PART_OF_KEY", key[:len(key)/2]),
		"Bearer " + key + "x", "Bearer x" + key, "Bearer " + key + key, "Bearer " + key + " " + key, "Bearer Bearer " + key, "Bearer " + c.HideSecret("NEARLY_KEY", key[:len(key)-1]+last),
		"Bearer " + c.HideSecret("NEARLY_KEY", swapCase(key)),
		"Token " + key, "Digest " + key, "ApiKey " + key, "Key " + key, basic(key, ""), basic("", key), basic("user", key), "Basic " + key,
	} {
		list = append(list, suite.With("Authorization", value))
	}
	list = append(list, keyInHeaders(headersOfKeys, key), keyInHeaders(headersOfKeys, "Bearer "+key))
	cookies := make([]string, len(keyParameterNames))
	query := make([]string, len(keyParameterNames))
	for i, name := range keyParameterNames {
		cookies[i], query[i] = name+"="+key, name+"="+key
	}
	list = append(list, keyInHeaders([]string{"Cookie"}, strings.Join(cookies, "; ")))
	if c.Thorough("keys in the query, since an address may be written to a log") {
		list = append(list, keyInQuery(strings.Join(query, "&")))
	}
	return list
}

// headersOfKeys and keyParameterNames are places in which other APIs expect a key. None may grant
// access, so they are sent together.
var (
	headersOfKeys     = []string{"X-API-Key", "X-Api-Token", "X-Auth-Token", "X-Access-Token", "X-Authorization", "Api-Key", "Token", "Proxy-Authorization"}
	keyParameterNames = []string{"api_key", "apikey", "apiKey", "api-key", "token", "access_token", "key", "auth", "authorization", "Authorization", "session"}
)

// swapCase returns a text in upper case, or in lower case if it is already in upper case.
func swapCase(text string) string {
	if upper := strings.ToUpper(text); upper != text {
		return upper
	}
	return strings.ToLower(text)
}

// keyInHeaders sends a value in the named headers instead of Authorization.
func keyInHeaders(names []string, value string) suite.Option {
	return func(r *suite.Request) {
		r.Header.Del("Authorization")
		for _, name := range names {
			r.Header.Set(name, value)
		}
	}
}

// keyInQuery sends keys in the query instead of Authorization.
func keyInQuery(keys string) suite.Option {
	return func(r *suite.Request) {
		r.Header.Del("Authorization")
		mark := "?"
		if strings.Contains(r.URL, "?") {
			mark = "&"
		}
		r.URL += mark + keys
	}
}

// expectUnauthorized expects 401. It also accepts a redirect, and any answer at a path that the
// deployment doesn't serve. withKey repeats the request with the key to find out whether the path
// is served.
func expectUnauthorized(_ *suite.C, a *suite.Answer, withKey func() *suite.Answer) {
	if a.Code == 301 || a.Code == 308 || isMissing(a) && isMissing(withKey()) {
		return
	}
	a.Is(401)
}

// expectForbidden expects 403. The table of errors also has 401 for a key that lacks a
// permission.
func expectForbidden(c *suite.C, a *suite.Answer, withKey func() *suite.Answer) {
	if isMissing(a) && isMissing(withKey()) {
		return
	}
	a.Is(401, 403)
	c.Should(func() { a.Is(403) })
}

// judgeJobAccess sends every operation of the job API for a job in each state.
func judgeJobAccess(credentials func(*suite.C) []suite.Option, refused func(*suite.C, *suite.Answer, func() *suite.Answer)) func(*suite.C) {
	return func(c *suite.C) {
		s := newScene(c)
		for _, auth := range credentials(c) {
			for _, op := range jobOperations {
				for _, id := range s.ids(op) {
					body := op.validBody(c, nil, c.Nonce())
					refused(c, op.send(c, id, body, auth), func() *suite.Answer { return op.send(c, id, body) })
				}
			}
			refused(c, s.requestTTL(c.Endpoint, auth), s.failed.Status)
		}
		s.expectUnchanged()
	}
}

// judgeObjectAccess sends every operation of a version of the management API for existing
// objects.
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
	if o.c.Thorough("all operations with the same method on the same kind of object") {
		return list
	}
	return onePerKind(list)
}

// onePerKind returns the first operation of each API, kind and method.
func onePerKind(list []contractOperation) (selected []contractOperation) {
	for _, op := range list {
		if !slices.ContainsFunc(selected, func(x contractOperation) bool { return x.api == op.api && x.kind == op.kind && x.method == op.method }) {
			selected = append(selected, op)
		}
	}
	return selected
}

// judgeForeignAccess sends requests about the objects with a valid key without access to
// them. A list may show the key's own objects. If the list is refused, creations must be
// refused, too.
func judgeForeignAccess(a api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		other := suite.As(c.OtherKey())
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
				expectForeignRefused(c, op, op.send(c, id, body, other))
			case op.effect == effectRead:
				list := op.send(c, "", nil, other)
				if listRefused[op.kind] = list.Code == 401 || list.Code == 403; !listRefused[op.kind] {
					list.NotContains(id)
				}
			default:
				expectForeignRefused(c, op, op.send(c, "", body, other))
			}
		}
		o.expectUntouched(words...)
	}
}

// expectForeignRefused expects that an operation on another user's object is refused: with
// 403, which the description has, or with another 4xx that hides the object.
func expectForeignRefused(c *suite.C, op contractOperation, a *suite.Answer) {
	a.Expect(a.Code/100 == 4 && a.Code != 429, op.String()+" with a key without access: 403 Forbidden")
	if op.described || !isMissing(a) {
		c.Should(func() { a.Is(403) })
	}
}
