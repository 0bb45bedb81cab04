package cases

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// empty is a body in which everything is missing, nil where there is none.
func (op contractOperation) empty() any {
	if op.body == nil {
		return nil
	}
	return suite.M{}
}

// credential is a way to say who asks.
type credential = suite.Option

func noKey(*suite.C) []credential { return []credential{suite.WithoutKey()} }

func wrongKey(c *suite.C) []credential {
	return []credential{suite.As(strings.Repeat("x", len(c.Key()))), suite.As(c.Nonce())}
}

func otherKey(c *suite.C) []credential { return []credential{suite.As(c.OtherKey())} }

// otherForms carry the right key, or most of it, in a way that is not the bearer
// token that both APIs ask for. The bare key is none of them: whether it is
// accepted, the description leaves open.
func otherForms(c *suite.C) (list []credential) {
	key := c.Key()
	last := "a"
	if strings.HasSuffix(key, last) {
		last = "b"
	}
	basic := func(user, password string) string {
		return "Basic " + c.Hide("BASIC", base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	for _, value := range []string{
		"Bearer ", "Bearer", "Basic dXNlcjpwYXNzd29yZA==",
		"Bearer " + c.Hide("PART_OF_KEY", key[:len(key)-1]), "Bearer " + c.Hide("PART_OF_KEY", key[1:]), "Bearer " + c.Hide("PART_OF_KEY", key[:len(key)/2]),
		"Bearer " + key + "x", "Bearer x" + key, "Bearer " + key + key, "Bearer " + key + " " + key, "Bearer Bearer " + key, "Bearer " + c.Hide("NEARLY_KEY", key[:len(key)-1]+last),
		"Bearer " + c.Hide("NEARLY_KEY", otherCase(key)),
		"Token " + key, "Digest " + key, "ApiKey " + key, "Key " + key, basic(key, ""), basic("", key), basic("user", key), "Basic " + key,
	} {
		list = append(list, suite.With("Authorization", value))
	}
	list = append(list, elsewhere(headersOfKeys, key), elsewhere(headersOfKeys, "Bearer "+key))
	cookies := make([]string, len(namesOfKeys))
	query := make([]string, len(namesOfKeys))
	for i, name := range namesOfKeys {
		cookies[i], query[i] = name+"="+key, name+"="+key
	}
	list = append(list, elsewhere([]string{"Cookie"}, strings.Join(cookies, "; ")))
	if c.Local() { // elsewhere the address may be written to a log
		list = append(list, inQuery(strings.Join(query, "&")))
	}
	return list
}

// headersOfKeys and namesOfKeys are where other APIs take a key. They are sent
// together: none may open anything.
var (
	headersOfKeys = []string{"X-API-Key", "X-Api-Token", "X-Auth-Token", "X-Access-Token", "X-Authorization", "Api-Key", "Token", "Proxy-Authorization"}
	namesOfKeys   = []string{"api_key", "apikey", "apiKey", "api-key", "token", "access_token", "key", "auth", "authorization", "Authorization", "session"}
)

// otherCase is a text with its letters in the other case.
func otherCase(text string) string {
	if upper := strings.ToUpper(text); upper != text {
		return upper
	}
	return strings.ToLower(text)
}

// elsewhere sends a value in other headers than Authorization.
func elsewhere(names []string, value string) suite.Option {
	return func(r *suite.Request) {
		r.Header.Del("Authorization")
		for _, name := range names {
			r.Header.Set(name, value)
		}
	}
}

// inQuery sends keys in the address, and no header.
func inQuery(keys string) suite.Option {
	return func(r *suite.Request) {
		r.Header.Del("Authorization")
		mark := "?"
		if strings.Contains(r.URL, "?") {
			mark = "&"
		}
		r.URL += mark + keys
	}
}

// unauthorized expects 401, or what the deployment answers at a path that it does
// not serve: again asks with the key. A path that has moved is not the operation.
func unauthorized(_ *suite.C, a *suite.Answer, again func() *suite.Answer) {
	if a.Code == 301 || a.Code == 308 || missing(a) && missing(again()) {
		return
	}
	a.Is(401)
}

// forbidden expects 403. The table of errors has 401 for a key that lacks a
// permission, too.
func forbidden(c *suite.C, a *suite.Answer, again func() *suite.Answer) {
	if missing(a) && missing(again()) {
		return
	}
	a.Is(401, 403)
	c.Should(func() { a.Is(403) })
}

// denyJobs asks for every operation of the job API, of a job in each state.
func denyJobs(credentials func(*suite.C) []credential, refused func(*suite.C, *suite.Answer, func() *suite.Answer)) func(*suite.C) {
	return func(c *suite.C) {
		s := newScene(c)
		for _, who := range credentials(c) {
			for _, op := range jobOperations {
				for _, id := range s.ids(op) {
					body := op.good(c, nil, c.Nonce())
					refused(c, op.send(c, id, body, who), func() *suite.Answer { return op.send(c, id, body) })
				}
			}
			refused(c, s.setTTL(c.E, who), s.failed.Status)
		}
		s.unchanged()
	}
}

// denyObjects asks for every operation of a version of the management API, of real
// objects.
func denyObjects(a api, credentials func(*suite.C) []credential) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		var words []string
		for _, who := range credentials(c) {
			for _, op := range o.asked() {
				id, _ := o.subject(op)
				word := c.Nonce()
				words = append(words, word)
				body := op.good(c, o, word)
				send := func(more ...suite.Option) *suite.Answer {
					if op.effect == makes {
						return c.Create(string(a), op.path, body, more...)
					}
					return op.send(c, id, body, more...)
				}
				unauthorized(c, send(who), func() *suite.Answer { return send() })
			}
		}
		o.untouched(words...)
	}
}

// asked are the operations that there is an object for. Where others use the
// target too, one of each kind and method stands for all.
func (o *realObjects) asked() (list []contractOperation) {
	for _, op := range operationsOf(o.api) {
		if _, ok := o.subject(op); ok {
			list = append(list, op)
		}
	}
	if o.c.Local() {
		return list
	}
	return onePerKind(list)
}

// onePerKind leaves out the operations that are like one before.
func onePerKind(list []contractOperation) (some []contractOperation) {
	for _, op := range list {
		if !slices.ContainsFunc(some, func(x contractOperation) bool { return x.api == op.api && x.kind == op.kind && x.method == op.method }) {
			some = append(some, op)
		}
	}
	return some
}

// forbidObjects asks for the objects with a valid key that is not for them. Lists
// may be of what the key is for; where they are refused, so are creations.
func forbidObjects(a api) func(*suite.C) {
	return func(c *suite.C) {
		o := newRealObjects(c, a)
		other := suite.As(c.OtherKey())
		var words []string
		closed := map[string]bool{}
		for _, op := range o.asked() {
			id, word := o.ids[op.kind], c.Nonce()
			if !slices.Contains(objectKinds, op.kind) || op.effect == makes && !closed[op.kind] {
				continue // what everybody may see, and what the key may be for
			}
			words = append(words, word)
			body := op.good(c, o, word)
			switch {
			case op.about():
				foreign(c, op, op.send(c, id, body, other))
			case op.effect == reads:
				list := op.send(c, "", nil, other)
				if closed[op.kind] = list.Code == 401 || list.Code == 403; !closed[op.kind] {
					list.Lacks(id)
				}
			default:
				foreign(c, op, c.Create(string(a), op.path, body, other))
			}
		}
		o.untouched(words...)
	}
}

// foreign expects that an operation on an object of somebody else is refused. 403
// is what the description says; a deployment may rather not tell that there is
// such an object.
func foreign(c *suite.C, op contractOperation, a *suite.Answer) {
	c.Expect(a.Code/100 == 4 && a.Code != 429, op.String()+" with a key that is not for it: 403 Forbidden", "the code %d", a.Code)
	if op.shown || !missing(a) {
		c.Should(func() { a.Is(403) })
	}
}
