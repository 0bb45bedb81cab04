package mgmt_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestGlobalVolumes(t *testing.T) {
	const path = "/v2/global-volumes"
	d := deploy(t)
	created := d.mustSend(201, "POST", path, `{"name":" \tdata\u00a0"}`)
	d.expectMembers(created, map[string]string{"name": `"data"`, "createdByUserId": `"default"`})
	at := path + "/" + created.get("id").(string)
	d.mustSend(201, "POST", path, `{"name":"data"}`) // names need not be unique
	must.Equal(t, d.mustSend(200, "GET", at, "").text, created.text, "read", "created")
	renamed := d.mustSend(200, "PATCH", at, `{"name":"other "}`)
	d.expectMembers(renamed, map[string]string{"name": `"other"`})
	must.Equal(t, renamed.get("createdAt"), created.get("createdAt"), "renamed", renamed.text)
	for body, want := range map[string]string{
		`{"name":""}`: "at least 1", `{"name":" \t\u00a0\u2003\u0085"}`: "a character that is not white space", `{"name":null}`: "got null", `{"size":1}`: "'size' not allowed",
		`{"name":"` + strings.Repeat("é", 192) + `"}`: "got 192 characters, want at most 191", `{}`: "",
	} {
		d.expectRefusal(422, want, "POST", path, body)
		d.expectRefusal(422, want, "PATCH", at, body)
	}
	d.expectRefusal(422, "got no properties", "PATCH", at, `{}`)
	d.mustSend(201, "POST", path, `{"name":"`+strings.Repeat("é", 191)+`"}`)
	d.mustSend(204, "DELETE", at, "")
	for _, method := range []string{"GET", "DELETE"} {
		d.expectRefusal(404, "not found", method, at, "")
	}
	d.expectRefusal(404, "not found", "PATCH", at, `{"name":"x"}`)
}
