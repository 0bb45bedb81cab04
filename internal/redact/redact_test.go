package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

var pem = "-----BEGIN PRIVATE KEY-----\n" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("planted!", 6)))[:64] + "\nQm9iMTIzNDU2Nzg5\n-----END PRIVATE KEY-----\n"

// Long secrets are redacted anywhere and in each spelling; short ones only where they stand by themselves.
func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		secret, text, want string
	}{
		"inside a word":               {"planted-secret", "xplanted-secretz", "x[redacted]z"},
		"in JSON":                     {`pl"anted\secret`, `{"A":"pl\"anted\\secret"}`, `{"A":"[redacted]"}`},
		"in JSON with HTML escapes":   {"<planted&secret>", `"\u003cplanted\u0026secret\u003e"`, `"[redacted]"`},
		"in ASCII":                    {"plänted-secret", `"pl\u00e4nted-secret"`, `"[redacted]"`},
		"in ASCII, a surrogate pair":  {"planted-😀-secret", `"planted-\ud83d\ude00-secret"`, `"[redacted]"`},
		"in a query":                  {"planted secret+", "a=planted+secret%2B", "a=[redacted]"},
		"in HTML":                     {"planted<secret>", "planted&lt;secret&gt;", "[redacted]"},
		"with an escape inside":       {"planted-secret", "planted-\x1b[31msec\x1b[0mret", "[redacted]"},
		"with a title sequence":       {"planted-secret", "plan\x1b]0;title\x07ted-secret", "[redacted]"},
		"with invisible characters":   {"planted-secret", "planted\u200b-\x00sec\u00adret", "[redacted]"},
		"on several lines":            {"planted\nsecret", "got planted\n\tsecret", "got [redacted] [redacted]"},
		"a whole key":                 {pem, "key " + pem, "key [redacted]"},
		"a line of a key":             {pem, "parsing Qm9iMTIzNDU2Nzg5 failed", "parsing [redacted] failed"},
		"a key with \\n":              {strings.ReplaceAll(pem, "\n", `\n`), "parsing Qm9iMTIzNDU2Nzg5 failed", "parsing [redacted] failed"},
		"a key in JSON":               {`{"type":"service_account","private_key":` + redact.JSON(pem) + `}`, "parsing Qm9iMTIzNDU2Nzg5 failed", "parsing [redacted] failed"},
		"a key in a JSON list":        {`["planted-secret-01","b"]`, "key planted-secret-01 failed", "key [redacted] failed"},
		"the password of a URL":       {"postgres://u:hunter2@db/x", "login as u with hunter2 failed", "login as u with [redacted] failed"},
		"seven characters":            {"hunter2", "password hunter2 is refused", "password [redacted] is refused"},
		"seven characters, part":      {"hunter2", "see hunter2000 and ahunter2", "see hunter2000 and ahunter2"},
		"four letters":                {"pass", "pass the password", "[redacted] the password"},
		"one letter":                  {"a", "a template has a name, and args", "a template has a name, and args"},
		"one letter in quotes":        {"a", `"password":"a", 'a' and a`, `"password":"[redacted]", '[redacted]' and a`},
		"one letter in quoted quotes": {"a", `{\"password\":\"a\"}`, `{\"password\":\"[redacted]\"}`},
		"one letter, assigned":        {"a", "PASSWORD=a refused", "PASSWORD=[redacted] refused"},
		"one letter alone":            {"a", "a", "[redacted]"},
		"name of a member":            {"name", `{"name": "x"}`, `{"name": "x"}`},
		"a digit":                     {"1", "1 of 12 workers", "1 of 12 workers"},
		"an ordinary value":           {"INFO", "INFO starting at level info", "INFO starting at level info"},
		"the address of a host":       {"http://127.0.0.1:8420", "GET http://127.0.0.1:8420/v2/pods: refused", "GET http://127.0.0.1:8420/v2/pods: refused"},
		"a webhook":                   {"https://hooks.example/T0/planted", "calling https://hooks.example/T0/planted failed", "calling [redacted] failed"},
		"an empty one":                {"", "text", "text"},
		"letters of other scripts":    {"пароль", "пароль неверен, пароли", "[redacted] неверен, пароли"},
	} {
		var s redact.Set
		s.Add(c.secret)
		must.Equal(t, s.Text(c.text, 1000), c.want, name)
	}
}

// No prefix of a secret is left where a text is cut.
func TestTextIsRedactedBeforeItIsCut(t *testing.T) {
	var s redact.Set
	s.Add("planted-secret")
	must.Equal(t, s.Text("12345 planted-secret", 10), "12345 [red…")
}

func TestEscapesDoNotReachTheTerminal(t *testing.T) {
	var s *redact.Set // without secrets, too
	for text, want := range map[string]string{
		"\x1b[1;31mred\x1b[0m":                      "red",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\.": "link.",
		"\x1b]0;title\aafter":                       "after",
		"\u009b31mred":                              "red",
		"\x1bPdevice\x1b\\after":                    "after",
		"\x1bcreset \x1b(Bset \x1b":                 "reset set",
		"  10%\r  20%\b\a":                          "  10%   20%",
		"\u202egnp.exe":                             "gnp.exe",
		"\tindented":                                "\tindented",
		"bad \xff\xfe":                              "bad \ufffd\ufffd",
	} {
		must.Equal(t, s.Line(text), want, text)
	}
	must.Equal(t, s.Lines("a\r\nb\rc\x1b[2J"), "a\nb\nc")
	must.Equal(t, s.Message("a\n\x1b[2Jb"), "a\nb")
}

// The provider's own texts keep words that are equal to short secrets.
func TestMessage(t *testing.T) {
	var s redact.Set
	s.Add("image", "planted-secret")
	must.Equal(t, s.Message("image planted-secret"), "image [redacted]")
}

// AddJSON adds the secrets of requests and answers by the names of their members.
func TestAddJSON(t *testing.T) {
	for document, secrets := range map[string]string{
		`{"env":{"A":"planted-1","B":null,"C":7},"name":"visible-1"}`:                    "planted-1",
		`{"template":{"env":{"A":"planted-1"}},"templates":[{"env":{"A":"planted-2"}}]}`: "planted-1 planted-2",
		`{"env":[{"key":"A","value":"planted-1"}]}`:                                      "planted-1",
		`{"name":"visible-1","password":"planted-1"}`:                                    "planted-1",
		`{"input":{"prompt":"visible-1"},"webhook":"http://h/planted-1","s3Config":{"accessId":"planted-2","accessSecret":"planted-3","bucketName":"visible-2"}}`: "http://h/planted-1 planted-2 planted-3",
		`{"args":"serve --model org/visible-1 --key=planted-1 planted-2"}`:                                                                                        "planted-1 planted-2",
		`{"dockerStartCmd":["--key","planted-1"],"dockerEntrypoint":["planted-2"]}`:                                                                               "planted-1 planted-2",
		`not JSON`: "",
	} {
		var s redact.Set
		s.AddJSON([]byte(document))
		text := "visible-1 visible-2 " + secrets
		must.Equal(t, s.Text(text, 1000), "visible-1 visible-2"+strings.Repeat(" [redacted]", len(strings.Fields(secrets))), document)
	}
}

// A logged body has neither the values of secrets nor the data of users.
func TestBody(t *testing.T) {
	var s redact.Set
	s.Add("planted-secret")
	for body, want := range map[string]string{
		`{"env":{"A":"x","B":[1,{"c":true}]},"name":"n","size":12345678901234567890}`: `{"env":{"A":"[redacted]","B":["[redacted]",{"c":"[redacted]"}]},"name":"n","size":12345678901234567890}`,
		`{"input":{"a":"b"},"output":"x","error":null}`:                               `{"error":null,"input":{"a":"[redacted]"},"output":"[redacted]"}`,
		`[{"title":"no planted-secret here <1>"}]`:                                    `[{"title":"no [redacted] here <1>"}]`,
		`<html>planted</html>`:                                                        `[not JSON]`,
		``:                                                                            ``,
	} {
		must.Equal(t, s.Body([]byte(body)), want, body)
	}
}

// Secrets that are added after a text was redacted count for the next one.
func TestAddLater(t *testing.T) {
	var both redact.Set // a long secret that is also a spelling of a short one
	both.Add("p%40ss%3Aw", "p@ss:w")
	must.Equal(t, both.Text("xp%40ss%3Awz", 100), "x[redacted]z")
	var s redact.Set
	s.Add("planted-1")
	must.Equal(t, s.Line("planted-1 planted-2"), "[redacted] planted-2")
	s.Add("planted-2")
	must.Equal(t, s.Line("planted-1 planted-2"), "[redacted] [redacted]")
}

// A secret is redacted in each encoding, whatever special character it has.
func TestEachCharacterInEachEncoding(t *testing.T) {
	for r := '!'; r <= '~'; r++ {
		secret := "secret" + string(r) + "value"
		s := new(redact.Set)
		s.Add(secret)
		quoted := must.Do(json.Marshal(secret))(t)
		for _, text := range []string{secret, string(quoted), strconv.Quote(secret), url.QueryEscape(secret), url.PathEscape(secret), html.EscapeString(secret)} {
			got := s.Message("a " + text + " b")
			must.Hold(t, strings.Contains(got, redact.Redacted), text, "isn't redacted in", got)
		}
	}
}

// A secret may have 16 MiB, and any content.
func BenchmarkLargeSecret(b *testing.B) {
	for name, secret := range map[string]string{"one character": strings.Repeat("x", 16<<20), "short lines": strings.Repeat("abcdefgh i\n", 16<<20/11)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, s := redact.NewContext(b.Context())
				s.Add(secret)
				s.Message("could not create the secret")
			}
		})
	}
}
