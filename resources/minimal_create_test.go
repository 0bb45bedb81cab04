package resources_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/resources"
)

// minimalCreates has the members that a create with only the required attributes sends on each version.
// Those in brackets are neither configured nor defaults of the schema.
var minimalCreates = map[string]struct{ v2, v1 string }{
	"gpucloud_network_volume": {"dataCenter name size", "dataCenterId name size"},
	"gpucloud_template": {
		"category disk image name public serverless startJupyter startSsh",
		"category containerDiskInGb imageName isPublic isServerless name [ports volumeInGb]"},
	"gpucloud_registry_auth":       {"name password username", "name password username"},
	"gpucloud_registry_delegation": {"resource", ""},
	"gpucloud_global_volume":       {"name", ""},
	"gpucloud_secret":              {"name value", ""},
	"gpucloud_endpoint": {
		"flashboot name scaling templateId type workers",
		"flashboot idleTimeout name scalerType scalerValue templateId workersMax workersMin"},
	"gpucloud_pod": {
		"cloud disk gpu image name [args env ports registry]",
		"cloudType computeType containerDiskInGb gpuCount gpuTypeIds imageName locked name [containerRegistryAuthId dockerStartCmd env ports volumeInGb]"},
	"gpucloud_cluster": {"compute image name type", ""},
}

// A create sends no unset attributes, which a service may not know, and a change of the name just the name.
func TestUnsetIsNotSent(t *testing.T) {
	t.Parallel()
	for _, kind := range resources.All {
		typeName := typeNameOf(t, kind)
		c, ok := minimalCreates[typeName]
		if !ok {
			must.Equal(t, typeName, "gpucloud_ssh_keys", "minimalCreates has no members of the kind: add them")
			continue
		}
		for v, want := range map[api.Version]string{api.V1: c.v1, api.V2: c.v2} {
			if want == "" {
				continue
			}
			t.Run(typeName+" "+string(v), func(t *testing.T) {
				d := acctest.Deploy(t)
				config := newConfig(t, drive(t, d, v), typeName, d.Name("n"))
				hasName := typeName != delegationType
				if !hasName {
					delete(config, "name")
				}
				sent := recordMembers(t, d)
				p := drive(t, d, v)
				state := apply(t, p, typeName, tfdrive.State{}, config, "create")
				expectMembers(t, "create", sent(), want)
				if !hasName || typeName == "gpucloud_registry_auth" || typeName == "gpucloud_secret" { // a new name replaces these
					return
				}
				apply(t, p, typeName, state, withChanges(config, map[string]any{"name": d.Name("o")}), "update")
				want = "name"
				if typeName == endpointType && v == api.V1 {
					want = "[flashboot] name" // v1 may omit it from responses
				}
				expectMembers(t, "update of the name", sent(), want)
			})
		}
	}
}

func expectMembers(t *testing.T, operation string, got []string, text string) {
	t.Helper()
	want := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(text))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the %s sends %v, expected %v. Omit optional attributes that are not set: use `pointerIfSet(m.X)` in expand, and `clearedBy` in the contract. "+
			"Add an attribute with a default to `minimalCreates` (resources/minimal_create_test.go).", operation, got, want)
	}
}

// recordMembers returns a function that returns the members sent to the deployment since its last call.
func recordMembers(t *testing.T, d *acctest.Deployment) func() []string {
	t.Helper()
	var mu sync.Mutex
	members := map[string]bool{}
	d.Intercept(t, func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler) {
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

// If another client creates an object with the required members only, the minimal configuration plans no change.
func TestServerDefaultsPlanNothing(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		template, _ := serverlessTemplate(t, d, p, nil)
		for typeName, c := range map[string]struct{ v2, v1 string }{
			"gpucloud_network_volume":      {`/v2/network-volumes {"name": %q, "size": 10, "dataCenter": "US-TX-3"}`, `/v1/networkvolumes {"name": %q, "size": 10, "dataCenterId": "US-TX-3"}`},
			"gpucloud_template":            {`/v2/templates {"name": %q, "image": "i"}`, `/v1/templates {"name": %q, "imageName": "i"}`},
			"gpucloud_global_volume":       {`/v2/global-volumes {"name": %q}`, ""},
			"gpucloud_registry_delegation": {`/v2/registries/delegations {"name": %q, "resource": "` + repository + `"}`, ""},
			"gpucloud_pod": {`/v2/pods {"name": %q, "image": "builtin/echo", "gpu": {"id": "NVIDIA L4"}}`,
				`/v1/pods {"name": %q, "imageName": "builtin/echo", "gpuTypeIds": ["NVIDIA L4"]}`},
			"gpucloud_cluster": {`/v2/clusters {"name": %q, "type": "TRAINING", "image": "builtin/echo", "compute": {"gpuTypeId": "NVIDIA L4", "gpuCountPerPod": 1, "podCount": 2}}`, ""},
			"gpucloud_endpoint": {`/v2/serverless {"name": %q, "templateId": "` + template.Get("id").(string) + `"}`,
				`/v1/endpoints {"name": %q, "idleTimeout": 10, "templateId": "` + template.Get("id").(string) + `"}`}, // the provider's default of idle_timeout isn't API v1's
		} {
			text := map[api.Version]string{api.V1: c.v1, api.V2: c.v2}[v]
			if text == "" {
				continue
			}
			config := withChanges(requiredAttributes[typeName], map[string]any{"name": d.Name("d")})
			if typeName == endpointType {
				config["template_id"] = template.Get("id")
			}
			path, body, _ := strings.Cut(fmt.Sprintf(text, d.Name("d")), " ")
			imported := importState(t, p.Reconfigure(), typeName, post(t, d, path, body))
			t.Cleanup(func() { _ = p.Destroy(imported) })
			planned := p.Plan(typeName, imported, config)
			changes := changesOf(p, planned, imported)
			must.Hold(t, planned.Action != "replace" && len(changes) == 0, typeName, "is planned to", planned.Action, "replace", planned.Replace, changes)
		}
	})
}

// If all responses have null in place of a value, the next plans are empty, also after an update.
func TestNullInResponsesPlansNothing(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		var member string // responses have null as its value
		d.Intercept(t, func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
			null := &wirefault.Fault{Answer: wirefault.Edit{Raw: [][2]string{{`"` + member + `":("[^"]*"|{([^{}]|{[^}]*})*}|\w+)`, `"` + member + `":null`}}}}
			wirefault.Handler(forward, wirefault.Deployment{}, null).ServeHTTP(w, r)
		})
		p := drive(t, d, v)
		changed := map[string]map[string]any{
			"gpucloud_template": {"serverless": true, "category": "CPU", "disk": 20}, podType: {"mounts": map[string]any{"persistent": map[string]any{"size": 30, "path": "/data"}}},
			endpointType: {"workers": map[string]any{"min": 1, "max": 5}, "scaling": map[string]any{"type": "REQUEST_COUNT"}, "flashboot": "FLASHBOOT"},
		}
		for typeName, members := range map[string][]string{
			"gpucloud_template": {"category", "isServerless", "containerDiskInGb"}, endpointType: {"scalerType", "workersMax", "workers", "scaling", "flashboot"},
			podType: {"volumeInGb", "mounts"}, volumeType: {"dataCenter", "dataCenterId"}, "gpucloud_registry_auth": {"name"}, "gpucloud_secret": {"name"},
			"gpucloud_cluster": {"type", "compute"}, "gpucloud_registry_delegation": {"repository", "awsRegion"},
		} {
			config := newConfig(t, p, typeName, d.Name("n"), changed[typeName])
			if member = ""; p.Plan(typeName, tfdrive.State{}, config).Diagnostics.Err() != nil {
				continue // the version doesn't have the kind
			}
			state := apply(t, p, typeName, tfdrive.State{}, config, "create")
			for _, member = range members {
				state = expectEmptyPlan(t, p, state, config)
				if changed[typeName] != nil {
					config["name"] = d.Name(strings.ToLower(member))
					state = apply(t, p, typeName, state, config, "update")
				}
			}
			if member = members[0]; typeName == volumeType {
				must.Hold(t, p.Plan(typeName, importState(t, p, typeName, state.Get("id").(string)), config).Action != "replace", "an imported volume is replaced")
			}
			member = ""
		}
	})
}
