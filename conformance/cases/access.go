package cases

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// emptyBody is an object without members, nil where the operation has no body.
func (op contractOperation) emptyBody() any {
	if op.body == nil {
		return nil
	}
	return suite.M{}
}

// credential is a way to authenticate a request.
type credential = suite.Option

func withoutKey(*suite.C) []credential { return []credential{suite.WithoutKey()} }

func wrongKey(c *suite.C) []credential {
	return []credential{suite.As(strings.Repeat("x", len(c.Key()))), suite.As(c.Nonce())}
}

func otherKey(c *suite.C) []credential { return []credential{suite.As(c.OtherKey())} }

// malformedCredentials carry the valid key, or most of it, in another way than the
// bearer token that both APIs require. The bare key is left out: the description
// leaves open whether it is accepted.
func malformedCredentials(c *suite.C) (list []credential) {
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

// headersOfKeys and keyParameterNames are where other APIs take a key. They are
// sent together, and none may grant access.
var (
	headersOfKeys     = []string{"X-API-Key", "X-Api-Token", "X-Auth-Token", "X-Access-Token", "X-Authorization", "Api-Key", "Token", "Proxy-Authorization"}
	keyParameterNames = []string{"api_key", "apikey", "apiKey", "api-key", "token", "access_token", "key", "auth", "authorization", "Authorization", "session"}
)

// swapCase returns a text in upper case, or in lower case where it was in upper case.
func swapCase(text string) string {
	if upper := strings.ToUpper(text); upper != text {
		return upper
	}
	return strings.ToLower(text)
}

// keyInHeaders sends a value in other headers than Authorization.
func keyInHeaders(names []string, value string) suite.Option {
	return func(r *suite.Request) {
		r.Header.Del("Authorization")
		for _, name := range names {
			r.Header.Set(name, value)
		}
	}
}

// keyInQuery sends keys in the query, and no header.
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

// expectUnauthorized expects 401, or the answer at a path that the deployment does
// not serve: again repeats the request with the key. A redirect is accepted, too.
func expectUnauthorized(_ *suite.C, a *suite.Answer, again func() *suite.Answer) {
	if a.Code == 301 || a.Code == 308 || isMissing(a) && isMissing(again()) {
		return
	}
	a.Is(401)
}

// expectForbidden expects 403. The table of errors has 401 for a key that lacks a
// permission, too.
func expectForbidden(c *suite.C, a *suite.Answer, again func() *suite.Answer) {
	if isMissing(a) && isMissing(again()) {
		return
	}
	a.Is(401, 403)
	c.Should(func() { a.Is(403) })
}

// judgeJobAccess sends every operation of the job API about a job in each state.
func judgeJobAccess(credentials func(*suite.C) []credential, refused func(*suite.C, *suite.Answer, func() *suite.Answer)) func(*suite.C) {
	return func(c *suite.C) {
		s := newScene(c)
		for _, who := range credentials(c) {
			for _, op := range jobOperations {
				for _, id := range s.ids(op) {
					body := op.validBody(c, nil, c.Nonce())
					refused(c, op.send(c, id, body, who), func() *suite.Answer { return op.send(c, id, body) })
				}
			}
			refused(c, s.requestTTL(c.Endpoint, who), s.failed.Status)
		}
		s.expectUnchanged()
	}
}

// judgeObjectAccess sends every operation of a version of the management API about
// objects that exist.
func judgeObjectAccess(a api, credentials func(*suite.C) []credential) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		var words []string
		for _, who := range credentials(c) {
			for _, op := range o.sendable() {
				id, _ := o.targetID(op)
				word := c.Nonce()
				words = append(words, word)
				body := op.validBody(c, o, word)
				send := func(more ...suite.Option) *suite.Answer {
					if op.effect == effectCreate {
						return c.Create(string(a), op.path, body, more...)
					}
					return op.send(c, id, body, more...)
				}
				expectUnauthorized(c, send(who), func() *suite.Answer { return send() })
			}
		}
		o.expectUntouched(words...)
	}
}

// sendable returns the operations for which the case has an object. On a shared target
// it is one operation of each kind and method, to send fewer requests.
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

// onePerKind keeps the first operation of each API, kind and method.
func onePerKind(list []contractOperation) (some []contractOperation) {
	for _, op := range list {
		if !slices.ContainsFunc(some, func(x contractOperation) bool { return x.api == op.api && x.kind == op.kind && x.method == op.method }) {
			some = append(some, op)
		}
	}
	return some
}

// judgeForeignAccess sends requests about the objects with a valid key that has no
// access to them. A list may show the key's own objects; where it is refused,
// creations are, too.
func judgeForeignAccess(a api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		other := suite.As(c.OtherKey())
		var words []string
		closed := map[string]bool{}
		for _, op := range o.sendable() {
			id, word := o.ids[op.kind], c.Nonce()
			if !slices.Contains(objectKinds, op.kind) || op.effect == effectCreate && !closed[op.kind] {
				continue // what everybody may see, and what the key may be for
			}
			words = append(words, word)
			body := op.validBody(c, o, word)
			switch {
			case op.takesID():
				expectForeignRefused(c, op, op.send(c, id, body, other))
			case op.effect == effectRead:
				list := op.send(c, "", nil, other)
				if closed[op.kind] = list.Code == 401 || list.Code == 403; !closed[op.kind] {
					list.NotContains(id)
				}
			default:
				expectForeignRefused(c, op, c.Create(string(a), op.path, body, other))
			}
		}
		o.expectUntouched(words...)
	}
}

// expectForeignRefused expects that an operation on another user's object is refused:
// with 403, which the description has, or with another 4xx that hides the object.
func expectForeignRefused(c *suite.C, op contractOperation, a *suite.Answer) {
	c.Expect(a.Code/100 == 4 && a.Code != 429, op.String()+" with a key that is not for it: 403 Forbidden", "the code %d", a.Code)
	if op.described || !isMissing(a) {
		c.Should(func() { a.Is(403) })
	}
}
