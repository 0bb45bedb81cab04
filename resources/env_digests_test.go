package resources

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Digests of another API key can't be compared: under a new key, variables count as unchanged and keep their digests.
// A write-only variable that was changed elsewhere isn't shown in env.
func TestDigestsUnderANewAPIKey(t *testing.T) {
	client := func(key string) *api.Client {
		return must.Do(api.New(api.Settings{BaseURL: "http://127.0.0.1:1", APIKey: key}))(t)
	}
	var d envDigests
	m := &writeOnlyEnv{values: map[string]string{"S": "secret-1", "T": "secret-2", "U": "secret-3"}}
	m.EnvWOKeys = types.SetValueMust(types.StringType, []attr.Value{types.StringValue("S"), types.StringValue("T"), types.StringValue("U")})
	d.recordResponse(client("old"), m, m.values)
	server := map[string]string{"S": "secret-1", "T": "elsewhere", "A": "1"}
	for _, key := range []string{"old", "new", "new"} {
		d.dropChanged(client(key), m, server)
		names := value.Strings(m.EnvWOKeys)
		must.Hold(t, len(names) == 1 && names[0] == "S", key, "key: the unchanged variables are", names, "expected S")
		rest := m.withoutWriteOnly(d, server)
		must.Hold(t, len(rest) == 1 && rest["A"] == "1", key, "key: env has", rest, "expected only A")
	}
	server["S"] = "elsewhere"
	for _, key := range []string{"new", "old"} {
		d.dropChanged(client(key), m, server)
		must.Equal(t, m.EnvWOKeys.IsNull(), key == "old", key, "key: after a change of S, the unchanged variables are", m.EnvWOKeys)
	}
	delete(server, "S")
	d.dropChanged(client("newest"), m, server)
	must.Hold(t, m.EnvWOKeys.IsNull() && len(m.writeOnlyNames(d)) == 3, "the unchanged variables are", m.EnvWOKeys, "of", m.writeOnlyNames(d), "expected none of three")
}
