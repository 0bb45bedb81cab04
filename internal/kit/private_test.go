package kit

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

type privateKeys map[string][]byte

func (p privateKeys) GetKey(_ context.Context, key string) ([]byte, diag.Diagnostics) {
	return p[key], nil
}

func (p privateKeys) SetKey(_ context.Context, key string, value []byte) diag.Diagnostics {
	p[key] = value
	return nil
}

type noted struct {
	ID      types.String
	Private struct {
		Digests map[string]string
		Linked  bool
	}
}

var notedKind = &Kind[noted]{Name: "noted", Title: "noted object"}

// The private state of every release can be read. If a part that this release knows is dropped, a diagnostic says so.
func TestPrivateState(t *testing.T) {
	const bare = `{"Digests":{"A":"digest:1"},"Linked":true}`
	for text, want := range map[string]string{
		``:                                   "empty", // after an import
		bare:                                 "read",  // older form, without a version
		`{"version":1,"notes":` + bare + `}`: "read",
		`{"version":1,"notes":{"Digests":{"A":"digest:1"},"Linked":true,"Gone":{}}}`: "read",
		`{"version":2,"notes":` + bare + `}`:                                         "error: it has version 2, and this release reads 0 to 1",
		`{"version":2}`:                                                              "error: ",
		`{"version":-1}`:                                                             "error: ",
		`{"version":"1","notes":` + bare + `}`:                                       "warning: ",
		`{"version":1}`:                                                              "warning: ",
		`{"version":1,"notes":null}`:                                                 "warning: ",
		`{"version":1,"notes":{}}`:                                                   "warning: it is empty",
		`{"version":1,"notes":[]}`:                                                   "warning: ",
		`{"version":1,"notes":{"Digests":7}}`:                                        "warning: ",
		`{"Digests":{"A":"digest:1"},"Linked":"perhaps"}`:                            "warning: ",
		`{}`: "warning: it is empty", `null`: "warning: ", `[]`: "warning: ", `"x"`: "warning: ", `{"Digests":`: "warning: ",
	} {
		m, keys := &noted{ID: types.StringValue("n-1")}, privateKeys{}
		if text != "" {
			keys[kindKey] = []byte(text)
		}
		var diags diag.Diagnostics
		notedKind.loadPrivate(t.Context(), m, keys, &diags)
		got := []string{"empty", "read"}[min(len(m.Private.Digests), 1)]
		for _, d := range diags {
			got = strings.ToLower(d.Severity().String()) + ": " + d.Detail()
		}
		severity, detail, _ := strings.Cut(want, ": ")
		must.Hold(t, strings.HasPrefix(got, severity) && strings.Contains(got, detail) && (len(diags) == 0 || strings.Contains(got, "noted object n-1")), "the private state", text, "gives", got, "want", want)
		must.Hold(t, want == "read" || m.Private.Digests == nil && !m.Private.Linked, "of the private state", text, "a part is kept:", m.Private)
	}
}

func TestPrivateStateIsWrittenWithItsVersion(t *testing.T) {
	m, keys := new(noted), privateKeys{}
	m.Private.Digests = map[string]string{"A": "digest:1"}
	var diags diag.Diagnostics
	notedKind.savePrivate(t.Context(), m, keys, &diags)
	got, want := string(keys[kindKey]), `{"version":1,"notes":{"Digests":{"A":"digest:1"},"Linked":false}}`
	must.Hold(t, got == want && !diags.HasError(), "got", got, diags, "expected", want)
	read := new(noted)
	notedKind.loadPrivate(t.Context(), read, keys, &diags)
	must.Hold(t, len(diags) == 0 && read.Private.Digests["A"] == "digest:1", "the written private state is read as", read.Private, diags)
}

func TestUnreadableKeysOfThePrivateState(t *testing.T) {
	c := must.Do(api.New(api.Settings{BaseURL: "http://127.0.0.1:1", APIKey: "planted-key"}))(t)
	for key, text := range map[string]string{planrule.CreatedAtKey: `"yesterday"`, "deployment": `7`} {
		var diags diag.Diagnostics
		keys := privateKeys{key: []byte(text)}
		restoreCreateTime(t.Context(), c, "n-1", keys, &diags)
		diags.Append(planrule.WarnOfAnotherDeployment(t.Context(), keys, c, "noted object", "n-1")...)
		must.Hold(t, len(diags) == 1 && !diags.HasError() && strings.Contains(diags[0].Detail(), "n-1"), "with", text, "under", key, "expected one warning that names n-1 and got", diags)
	}
}
