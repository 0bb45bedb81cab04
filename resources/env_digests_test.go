package resources

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// With another API key, variables count as unchanged and their digests are kept for the key that
// made them. Variables that were changed elsewhere aren't shown in env.
func TestDigestsUnderANewAPIKey(t *testing.T) {
	client := func(key string) *api.Client {
		c := must.Do(api.New(api.Settings{BaseURL: "http://127.0.0.1:1", APIKey: key}))(t)
		return c
	}
	var d envDigests
	m := &writeOnlyEnv{values: map[string]string{"S": "secret-1", "T": "secret-2", "U": "secret-3"}}
	m.EnvWOKeys = types.SetValueMust(types.StringType, []attr.Value{types.StringValue("S"), types.StringValue("T"), types.StringValue("U")})
	d.record(client("old"), m)
	server := map[string]string{"S": "secret-1", "T": "elsewhere", "A": "1"}
	for _, key := range []string{"old", "new", "new"} {
		d.compare(client(key), m, server)
		if names := value.Strings(m.EnvWOKeys); len(names) != 1 || names[0] != "S" {
			t.Errorf("%s key: the unchanged variables are %q, expected S", key, names)
		}
		if rest := m.withoutWriteOnly(d, server); len(rest) != 1 || rest["A"] != "1" {
			t.Errorf("%s key: env has %v, expected only A", key, rest)
		}
	}
	server["S"] = "elsewhere"
	for _, key := range []string{"new", "old"} {
		d.compare(client(key), m, server)
		must.Equal(t, m.EnvWOKeys.IsNull(), key == "old", key, "key: after a change of S, the unchanged variables are", m.EnvWOKeys)
	}
	delete(server, "S")
	d.compare(client("newest"), m, server)
	if !m.EnvWOKeys.IsNull() || len(m.owned(d)) != 3 {
		t.Errorf("the unchanged variables are %s of %v, expected none of three", m.EnvWOKeys, m.owned(d))
	}
}
