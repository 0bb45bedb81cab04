package mgmt_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// An update replaces the whole list of SSH keys. Each owner has a list.
func TestSSHKeys(t *testing.T) {
	d := deploy(t)
	d.expectMembers(d.mustSend(200, "GET", "/v2/account/ssh-keys", ""), map[string]string{"keys": `[]`})
	const two = `["ssh-ed25519 AAAA me@example.com","ecdsa-sha2-nistp256 BBBB"]`
	d.expectMembers(d.mustSend(200, "PUT", "/v2/account/ssh-keys", `{"keys":`+two+`}`), map[string]string{"keys": two})
	d.expectMembers(d.mustSend(200, "GET", "/v2/account/ssh-keys", ""), map[string]string{"keys": two})
	for _, body := range []string{`{}`, `{"keys":null}`, `{"keys":"ssh-rsa AAAA"}`, `{"keys":[1]}`, `{"keys":["AAAA"]}`, `{"keys":["ssh-rsa"]}`, `{"keys":["ssh-rsa AAAA\nssh-rsa BBBB"]}`, `{"keys":[],"more":1}`} {
		d.expectRefusal(422, "", "PUT", "/v2/account/ssh-keys", body)
	}
	d.expectMembers(d.mustSend(200, "GET", "/v2/account/ssh-keys", ""), map[string]string{"keys": two})
	d.expectMembers(d.mustSend(200, "PUT", "/v2/account/ssh-keys", `{"keys":["sk-ssh-ed25519@openssh.com CCCC"]}`), map[string]string{"keys": `["sk-ssh-ed25519@openssh.com CCCC"]`})
	d.expectMembers(d.mustSend(200, "PUT", "/v2/account/ssh-keys", `{"keys":[]}`), map[string]string{"keys": `[]`})
	d.expectMembers(d.mustSend(200, "GET", "/v2/account/ssh-keys", ""), map[string]string{"keys": `[]`})
}

// The catalog has the templates that come with the deployment, which can be read and used but not
// changed, and the public templates of users.
func TestCatalogTemplates(t *testing.T) {
	d := deploy(t)
	official := d.mustSend(200, "GET", "/v2/catalog/templates", "")
	list, _ := official.get("templates").([]any)
	if len(list) < 2 || official.text != d.mustSend(200, "GET", "/v2/catalog/templates?source=official", "").text {
		t.Fatalf("%s", official.text)
	}
	for _, one := range list {
		o := one.(map[string]any)
		must.Hold(t, o["public"] == true && o["registry"] == nil, o)
	}
	d.expectMembers(d.mustSend(200, "GET", "/v2/templates/official-echo", ""), map[string]string{"image": `"builtin/echo"`, "serverless": `true`})
	d.expectMembers(d.mustSend(201, "POST", "/v2/serverless", `{"templateId":"official-echo","name":"e","gpu":{"pools":["ADA_24"]}}`), map[string]string{"image": `"builtin/echo"`})
	d.mustSend(201, "POST", "/v2/pods", `{"name":"p","templateId":"official-pod","cpu":{"id":"cpu3c","vcpuCount":2}}`)
	d.expectRefusal(403, "comes with the deployment", "PATCH", "/v2/templates/official-echo", `{"name":"mine"}`)
	d.expectRefusal(403, "comes with the deployment", "DELETE", "/v2/templates/official-echo", "")
	d.expectRefusal(403, "comes with the deployment", "PATCH", "/v1/templates/official-echo", `{"name":"mine"}`)
	d.expectMembers(d.mustSend(200, "GET", "/v2/templates", ""), map[string]string{"templates": `[]`})
	d.expectMembers(d.mustSend(200, "GET", "/v1/templates/official-echo", ""), map[string]string{"isRunpod": `true`, "isPlatform": `true`})
	must.Contain(t, d.mustSend(200, "GET", "/v1/templates?includeRunpodTemplates=true", "").text, "official-echo")

	d.mustSend(201, "POST", "/v2/templates", `{"name":"private","image":"i"}`)
	shared := d.create("/v2/templates", `{"name":"shared","image":"i","public":true}`)
	text := d.mustSend(200, "GET", "/v2/catalog/templates?source=community", "").text
	must.Hold(t, strings.Contains(text, shared) && !strings.Contains(text, "private") && !strings.Contains(text, "official"), text)
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/templates?source=verified", ""), map[string]string{"templates": `[]`})
	d.expectRefusal(422, "source", "GET", "/v2/catalog/templates?source=all", "")
}
