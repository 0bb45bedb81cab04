package resources_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/resources"
)

// minimal has, by type, a configuration without optional attributes and the members that its
// create sends on each version: configured attributes and those with a default in the schema.
// Members in brackets are sent without either: the empty container settings of a pod without a
// template, and ports and volumeInGb of API v1, where the server would set its own values.
var minimal = map[string]struct {
	config map[string]any
	v2, v1 string
}{
	"gpucloud_network_volume": {map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}, "dataCenter name size", "dataCenterId name size"},
	"gpucloud_template": {map[string]any{"image": "i"},
		"category disk image name public serverless startJupyter startSsh",
		"category containerDiskInGb imageName isPublic isServerless name [ports volumeInGb]"},
	"gpucloud_registry_auth":       {map[string]any{"username": "u", "password": "p"}, "name password username", "name password username"},
	"gpucloud_registry_delegation": {map[string]any{"resource": "arn:aws:ecr:us-east-2:123456789012:repository/app"}, "resource", ""},
	"gpucloud_global_volume":       {map[string]any{}, "name", ""},
	"gpucloud_secret":              {map[string]any{"value_wo": "v", "value_wo_version": 1}, "name value", ""},
	"gpucloud_endpoint": {map[string]any{},
		"flashboot name scaling templateId type workers",
		"flashboot idleTimeout name scalerType scalerValue templateId workersMax workersMin"},
	"gpucloud_pod": {map[string]any{"image": "builtin/echo", "gpu": map[string]any{"id": "NVIDIA L4"}},
		"cloud disk gpu image name [args env ports registry]",
		"cloudType computeType containerDiskInGb gpuCount gpuTypeIds imageName locked name [containerRegistryAuthId dockerStartCmd env ports volumeInGb]"},
	"gpucloud_cluster": {clusterConfig(nil), "compute image name type", ""},
}

// A service may reject members that it doesn't know. So a create sends no unset attributes, and
// a change of the name sends only the name.
func TestUnsetIsNotSent(t *testing.T) {
	t.Parallel()
	for _, kind := range resources.All {
		typeName := typeNameOf(t, kind)
		c, ok := minimal[typeName]
		if !ok {
			if typeName != "gpucloud_ssh_keys" { // it has only one attribute
				t.Errorf("%s: add its minimal configuration to minimal", typeName)
			}
			continue
		}
		for v, want := range map[api.Version]string{api.V1: c.v1, api.V2: c.v2} {
			if want == "" {
				continue
			}
			t.Run(typeName+" "+string(v), func(t *testing.T) {
				d := acctest.Deploy(t)
				config := c.config
				if typeName == endpointType {
					template, _ := serverlessTemplate(t, d, drive(t, d, v), nil)
					config = with(config, map[string]any{"template_id": template.Get("id")})
				}
				named := typeName != "gpucloud_registry_delegation"
				if named {
					config = with(config, map[string]any{"name": d.Name("n")})
				}
				sent := recordMembers(t, d)
				p := drive(t, d, v)
				state := apply(t, p, typeName, tfdrive.State{}, config, "create")
				expectMembers(t, "create", sent(), want)
				if !named || typeName == "gpucloud_registry_auth" || typeName == "gpucloud_secret" { // a new name replaces these
					return
				}
				apply(t, p, typeName, state, with(config, map[string]any{"name": d.Name("o")}), "update")
				want = "name"
				if typeName == endpointType && v == api.V1 {
					want = "[flashboot] name" // v1 may omit it from answers
				}
				expectMembers(t, "update of the name", sent(), want)
			})
		}
	}
}

func expectMembers(t *testing.T, of string, got []string, text string) {
	t.Helper()
	want := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(text))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the %s sends %v, expected %v. An optional attribute that is not set must be no member: `optional(m.X)` in expand, and a `clear` tag in internal/api. "+
			"One that has a default is in `minimal` (resources/minimal_create_test.go).", of, got, want)
	}
}

// recordMembers puts a proxy in front of the deployment. The returned function returns the
// members that were sent since its last call.
func recordMembers(t *testing.T, d *acctest.Deployment) func() []string {
	t.Helper()
	var mu sync.Mutex
	members := map[string]bool{}
	intercept(t, d, func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler) {
		var has map[string]json.RawMessage
		if json.Unmarshal(body, &has) == nil {
			mu.Lock()
			for name := range has {
				members[name] = true
			}
			mu.Unlock()
		}
		forward.ServeHTTP(w, r)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		defer clear(members)
		return slices.Sorted(maps.Keys(members))
	}
}
