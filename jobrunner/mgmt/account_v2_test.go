package mgmt_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const secretsPath = "/v2/account/secrets"

// valueLastUpdatedAt is the time of the value's last update. The clauses SEC-01 to SEC-08 of the conformance suite have the other rules.
func TestSecrets(t *testing.T) {
	d := deploy(t)
	must.Equal(t, d.mustSend(200, "GET", secretsPath, "").text, `{"secrets":[]}`+"\n", "the list of secrets")
	created := d.mustSend(201, "POST", secretsPath, `{"name":"Token","value":"planted-1"}`)
	d.expectMembers(created, map[string]string{"name": `"Token"`, "description": ""})
	must.Hold(t, created.get("createdAt") == created.get("valueLastUpdatedAt"), "created", created.text)
	object := secretsPath + "/" + created.get("id").(string)
	time.Sleep(2 * time.Millisecond) // the clock counts milliseconds
	changed := d.mustSend(200, "PATCH", object, `{"value":"planted-2"}`)
	must.Hold(t, changed.get("valueLastUpdatedAt") != created.get("valueLastUpdatedAt") &&
		changed.get("createdAt") == created.get("createdAt"), "changed to", changed.text, "was", created.text)
	described := d.mustSend(200, "PATCH", object, `{"description":"again"}`)
	must.Equal(t, described.get("valueLastUpdatedAt"), changed.get("valueLastUpdatedAt"), "the time of the value after a change of the description", described.text)
	d.expectMembers(d.mustSend(200, "GET", secretsPath+"?name=", ""), map[string]string{"secrets": `[]`})
	d.expectRefusal(409, `TOKEN\" is taken`, "POST", secretsPath, `{"name":"TOKEN","value":"planted-3"}`)
	must.Hold(t, !strings.Contains(d.transcript.String(), "planted"), "an answer has a value:", d.transcript.String())
}

// The bounds of value and description count bytes, not characters.
func TestSecretRules(t *testing.T) {
	d := deploy(t)
	text := func(s string, n int) string { return `"` + strings.Repeat(s, n) + `"` }
	for body, want := range map[string]string{
		`{}`:                                  "missing property 'name'",
		`{"name":"a"}`:                        "missing property 'value'",
		`{"name":"a\n","value":"planted"}`:    "$.name",
		`{"name":"runPod","value":"planted"}`: "must not begin with RUNPOD",
		`{"name":"a","value":{"planted":1}}`:  "got object, want string",
		`{"name":"a","value":"planted","description":null}`:                     "got null, want string",
		`{"name":"a","value":"planted","description":` + text("é", 32768) + `}`: "got 65536 bytes, want at most 65535",
		`{"name":"a","value":` + text("é", 1<<23) + `}`:                         "got 16777216 bytes, want at most 16777215",
	} {
		d.expectRefusal(422, want, "POST", secretsPath, body)
	}
	d.mustSend(201, "POST", secretsPath, `{"name":"_a.b-c/D9","value":`+text("x", 1<<24-1)+`,"description":`+text("d", 65535)+`}`)
	d.mustSend(201, "POST", secretsPath, `{"name":`+text("b", 191)+`,"value":"`+strings.Repeat(`\u00e9`, 1<<23-1)+`"}`)
	d.expectRefusal(413, "", "POST", secretsPath, `{"name":"c","value":`+text("x", 49<<20)+`}`)
	must.Hold(t, !strings.Contains(d.transcript.String(), "planted"), "an answer has a value")
}

// An update replaces the whole list of SSH keys.
func TestSSHKeys(t *testing.T) {
	d := deploy(t)
	d.expectMembers(d.mustSend(200, "GET", "/v2/account/ssh-keys", ""), map[string]string{"keys": `[]`})
	const twoKeys = `["ssh-ed25519 AAAA me@example.com","ecdsa-sha2-nistp256 BBBB"]`
	d.expectMembers(d.mustSend(200, "PUT", "/v2/account/ssh-keys", `{"keys":`+twoKeys+`}`), map[string]string{"keys": twoKeys})
	d.expectMembers(d.mustSend(200, "GET", "/v2/account/ssh-keys", ""), map[string]string{"keys": twoKeys})
	for _, body := range []string{`{}`, `{"keys":null}`, `{"keys":"ssh-rsa AAAA"}`, `{"keys":[1]}`, `{"keys":["AAAA"]}`, `{"keys":["ssh-rsa"]}`, `{"keys":["ssh-rsa AAAA\nssh-rsa BBBB"]}`, `{"keys":[],"more":1}`} {
		d.expectRefusal(422, "", "PUT", "/v2/account/ssh-keys", body)
	}
	d.expectMembers(d.mustSend(200, "GET", "/v2/account/ssh-keys", ""), map[string]string{"keys": twoKeys})
	d.expectMembers(d.mustSend(200, "PUT", "/v2/account/ssh-keys", `{"keys":["sk-ssh-ed25519@openssh.com CCCC"]}`), map[string]string{"keys": `["sk-ssh-ed25519@openssh.com CCCC"]`})
	d.expectMembers(d.mustSend(200, "PUT", "/v2/account/ssh-keys", `{"keys":[]}`), map[string]string{"keys": `[]`})
	d.expectMembers(d.mustSend(200, "GET", "/v2/account/ssh-keys", ""), map[string]string{"keys": `[]`})
}
