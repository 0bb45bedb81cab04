package datasources

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// In the changes of a release, the values of an environment are digests, wherever the environment is.
func TestChangedValueMasksEnvironments(t *testing.T) {
	c := must.Do(api.New(api.Settings{BaseURL: "http://127.0.0.1:1", APIKey: "k"}))(t)
	digest := `"` + c.DigestVariable("TOKEN", "secret") + `"`
	for _, test := range []struct{ field, raw, want string }{
		{"env", `{"TOKEN":"secret"}`, `{"TOKEN":` + digest + `}`},
		{"template.env", `{"TOKEN": "secret"}`, `{"TOKEN":` + digest + `}`},
		{"env.TOKEN", `"secret"`, digest},
		{"template.env.TOKEN", `"secret"`, digest},
		{"template", `{"env":{"TOKEN":"secret"},"image":"<i>"}`, `{"env":{"TOKEN":` + digest + `},"image":"<i>"}`},
		{"templates", `[{"env":{"TOKEN":"secret"}}]`, `[{"env":{"TOKEN":` + digest + `}}]`},
		{"workers.max", `12345678901234567890`, `12345678901234567890`},
		{"environment", `"x"`, `"x"`},
		{"image", `"a\u00fc&"`, `"aü&"`},
		{"env", `null`, ""},
		{"image", ``, ""},
	} {
		got := changedValue(c, test.field, json.RawMessage(test.raw))
		if got == nil {
			got = new("")
		}
		must.Equal(t, *got, test.want, test.field, test.raw)
	}
	for _, malformed := range []string{`["secret"]`, `"secret"`, `{"a":{"b":"secret"}}`, `7`} {
		got := changedValue(c, "env", json.RawMessage(malformed))
		must.Hold(t, got != nil && !strings.Contains(*got, "secret") && *got != "7", malformed, got)
	}
}
