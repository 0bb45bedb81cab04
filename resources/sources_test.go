package resources_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// sourceCase describes a kind's data sources for tests.
type sourceCase struct {
	plural string
	config map[string]any // attributes that both versions have; nil if only API v2 has the kind
	v2     map[string]any // additional attributes of API v2
	omits  []string       // attributes of the resource that no data source has
	// differs are the attributes whose values differ from the resource's.
	differs []string
	filters map[string]any // by filter, a value that matches the object
	misses  map[string]any // by filter, a value that doesn't match
}

var sourceCases = map[string]sourceCase{
	"gpucloud_network_volume": {
		plural:  "network_volumes",
		config:  map[string]any{"size": 10, "data_center": "EU-RO-1"},
		filters: map[string]any{"size": 10, "data_center": "EU-RO-1", "type": "STANDARD"},
		misses:  map[string]any{"size": 11, "data_center": "US-TX-3", "type": "HIGH_PERFORMANCE"},
	},
	"gpucloud_global_volume": {
		plural:  "global_volumes",
		v2:      map[string]any{},
		filters: map[string]any{"created_by_user_id": "default"},
		misses:  map[string]any{"created_by_user_id": "another"},
	},
	"gpucloud_secret": {plural: "secrets",
		v2:    map[string]any{"value_wo": "a-planted-secret", "value_wo_version": 1, "description": "d"},
		omits: []string{"value_wo", "value_wo_version"}},
	"gpucloud_registry_auth": {plural: "registry_auths",
		config: map[string]any{"username": "a-user-name", "password": "a-planted-secret"},
		omits:  []string{"username", "password", "password_wo", "password_wo_version"}},
	"gpucloud_registry_delegation": {
		plural:  "registry_delegations",
		v2:      map[string]any{"resource": "arn:aws:ecr:us-east-2:123456789012:repository/team/app:v2"},
		filters: map[string]any{"aws_region": "us-east-2", "repository": "team/app", "tag": "v2"},
		misses:  map[string]any{"aws_region": "us-east-1", "repository": "team", "tag": "latest"},
	},
	"gpucloud_template": {
		plural: "templates",
		config: map[string]any{"image": "i", "args": "-u x", "disk": 7, "env": map[string]any{"TOKEN": "a-planted-secret"}, "ports": []any{"80/http"},
			"public": true, "category": "AMD", "mounts": map[string]any{"persistent": map[string]any{"size": 10, "path": "/data"}}},
		v2:      map[string]any{"start_ssh": false, "start_jupyter": false, "allowed_cuda_versions": []any{"12.8"}},
		differs: []string{"env", "cmd"}, // the resource has args instead
		filters: map[string]any{"category": "AMD", "image": "i", "public": true, "serverless": false},
		misses:  map[string]any{"category": "CPU", "image": "I", "public": false, "serverless": true},
	},
	"gpucloud_pod": {
		plural: "pods",
		config: map[string]any{"image": "builtin/echo", "args": "print x", "disk": 8, "env": map[string]any{"TOKEN": "a-planted-secret"}, "ports": []any{"80/http"},
			"gpu": nil, "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}},
		omits: []string{
			"from_template", "data_center_ids", "start_ssh", "start_jupyter", "desired_state", "interruptible", "support_public_ip", "country_codes", "gpu_type_priority",
			"cpu_flavor_priority", "data_center_priority", "min_ram_per_gpu", "min_vcpu_per_gpu", "min_disk_bandwidth_mbps", "min_download_mbps", "min_upload_mbps",
		},
		differs: []string{"env", "cmd", "status", "runtime", "cost", "ssh"}, // current values, and digests
		filters: map[string]any{"cloud": "SECURE", "image": "builtin/echo"},
		misses:  map[string]any{"cloud": "COMMUNITY", "image": "builtin"},
	},
	"gpucloud_cluster": {
		plural:  "clusters",
		v2:      map[string]any{"env": map[string]any{"TOKEN": "a-planted-secret"}},
		omits:   []string{"template_id", "image", "args", "entrypoint", "cmd", "disk", "env", "ports", "mounts", "data_center_ids", "start_ssh", "start_jupyter"},
		differs: []string{"pods", "network", "primary", "data_center_id"}, // current values
		filters: map[string]any{"type": "TRAINING"},
		misses:  map[string]any{"type": "RAY"},
	},
	"gpucloud_endpoint": {
		plural:  "endpoints",
		config:  map[string]any{"workers": map[string]any{"min": 1, "max": 4, "idle_timeout": 60}, "scaling": map[string]any{"queue_delay": 9}, "timeout": 5000, "data_center_ids": []any{"EU-RO-1"}},
		v2:      map[string]any{"image": "i", "args": "-x", "disk": 9, "env": map[string]any{"TOKEN": "a-planted-secret"}, "ports": []any{"81/http"}, "gpu": map[string]any{"pools": []any{"ADA_24"}}, "flashboot": "FLASHBOOT"},
		omits:   []string{"from_template"},
		differs: []string{"env", "cmd"}, // the resource has args instead
		filters: map[string]any{"type": "QUEUE"},
		misses:  map[string]any{"type": "LOAD_BALANCER"},
	},
}

// configurationOnly are attributes of resources for the provider's own behavior.
var configurationOnly = []string{"deletion_protection", "env_wo", "env_wo_keys", "env_wo_version", "max_hourly_cost", "timeouts", "wait_for"}

// create creates an object of a kind, with the attributes that the version has.
func (s sourceCase) create(t *testing.T, p *tfdrive.Provider, v api.Version, typeName, name string) tfdrive.State {
	t.Helper()
	config := s.config
	if v == api.V2 {
		config = withChanges(config, s.v2)
	}
	return apply(t, p, typeName, tfdrive.State{}, newConfig(t, p, typeName, name, config), "create")
}

func eachSource(t *testing.T, test func(t *testing.T, d *acctest.Deployment, v api.Version, typeName string, s sourceCase)) {
	t.Helper()
	acctest.EachVersion(t, func(t *testing.T, _ *acctest.Deployment, v api.Version) {
		for _, typeName := range slices.Sorted(maps.Keys(sourceCases)) {
			if v == api.V1 && sourceCases[typeName].config == nil { // only API v2 has the kind
				continue
			}
			t.Run(typeName, func(t *testing.T) { test(t, acctest.Deploy(t), v, typeName, sourceCases[typeName]) })
		}
	})
}

// A data source finds an object by id, by name and in the list, and has the same values as the resource. Values that no
// response contains are missing.
func TestSourceShowsTheResource(t *testing.T) {
	oneVersionOnly := oneVersion(t)
	eachSource(t, func(t *testing.T, d *acctest.Deployment, v api.Version, typeName string, s sourceCase) {
		p := drive(t, d, v)
		state := s.create(t, p, v, typeName, d.Name("one"))
		byID := readSource(t, p, typeName, map[string]any{"id": state.Get("id")})
		byName := readSource(t, p, typeName, map[string]any{"name": state.Get("name")})
		must.Hold(t, byID.Value.Equal(byName.Value), "by id", byID.Value, "by name", byName.Value)
		list := readSource(t, p, "gpucloud_"+s.plural, map[string]any{"name": state.Get("name")}).Get(s.plural).([]any)
		must.Require(t, len(list) == 1, "listed", list)
		compared := 0
		for _, a := range p.Schema(typeName).Block.Attributes {
			listed := list[0].(map[string]any)
			if slices.Contains(s.omits, a.Name) || slices.Contains(configurationOnly, a.Name) {
				_, ok := listed[a.Name]
				must.Hold(t, !ok, "the list has the attribute", a.Name)
				continue
			}
			want, got := state.Get(a.Name), byID.Get(a.Name)
			if got == nil && isUnsupported(oneVersionOnly[typeName], a.Name, v) { // TestOneVersionReportsTrueValues checks these
				want = nil
			}
			if slices.Contains(s.differs, a.Name) {
				want = got
			}
			must.Hold(t, reflect.DeepEqual(got, want) && reflect.DeepEqual(listed[a.Name], want),
				a.Name, "the resource has", want, "the data source", got, "the list", listed[a.Name])
			compared++
		}
		must.Hold(t, compared >= 2 && len(list[0].(map[string]any)) == compared,
			compared, "attributes compared", len(list[0].(map[string]any)), "listed")
		for _, read := range []tfdrive.State{byID, readSource(t, p, "gpucloud_"+s.plural, nil)} {
			must.Hold(t, !strings.Contains(read.Value.String(), "a-planted-secret"), "the secret is in the state", read.Value)
		}
	})
}

// A masked variable has the digest of its name and value: equal values of the same variable have equal digests.
func TestSourceMasksVariables(t *testing.T) {
	d, p := deploy(t)
	env := func(variables map[string]any) map[string]any {
		name := d.Name(fmt.Sprint("t", len(variables), variables["B"]))
		state := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": name, "image": "i", "env": variables}, "create")
		return readSource(t, p.Reconfigure(), "gpucloud_template", map[string]any{"id": state.Get("id")}).Get("env").(map[string]any)
	}
	one, other := env(map[string]any{"A": "value", "B": "value"}), env(map[string]any{"A": "value", "B": "another value"})
	must.Hold(t, one["A"] == other["A"] && one["B"] != other["B"] && one["A"] != one["B"] && strings.HasPrefix(one["A"].(string), "digest:"),
		"expected equal digests of A and different ones of B, got", one, other)
}

// A filter selects equal values, and a list is ordered by name and id.
func TestSourceFilters(t *testing.T) {
	t.Parallel()
	eachSource(t, func(t *testing.T, d *acctest.Deployment, v api.Version, typeName string, s sourceCase) {
		p := drive(t, d, v)
		must.Equal(t, readSource(t, p, "gpucloud_"+s.plural, nil).Get(s.plural).([]any), nil, "an empty deployment has")
		var want []any
		for _, name := range []string{"b", "a", "c"} {
			want = append(want, s.create(t, p, v, typeName, d.Name(name)).Get("name"))
		}
		slices.SortFunc(want, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		p = p.Reconfigure()
		listed := func(config map[string]any) (names []any) {
			t.Helper()
			for _, o := range readSource(t, p, "gpucloud_"+s.plural, config).Get(s.plural).([]any) {
				names = append(names, o.(map[string]any)["name"])
			}
			return names
		}
		must.Equal(t, listed(nil), want, "listed")
		must.Equal(t, listed(map[string]any{"name": want[1]}), want[1:2], "filtered by name")
		must.Equal(t, listed(map[string]any{"name": strings.ToUpper(want[1].(string))}), nil, "filtered by a name in capitals")
		for filter, value := range s.filters {
			if filter == "type" && v == api.V1 {
				must.ErrorContains(t, tfdrive.Err(p.Data("gpucloud_"+s.plural, map[string]any{filter: value})), "type: API v1 can't express this", `api_version = "v2"`)
				continue
			}
			must.Equal(t, listed(map[string]any{filter: value, "name": want[0]}), want[:1], filter, value, "and a name")
			must.Equal(t, listed(map[string]any{filter: s.misses[filter], "name": want[0]}), nil, filter, s.misses[filter])
			if slices.Contains([]string{"category", "cloud", "type"}, filter) { // a closed list of values
				must.ErrorContains(t, tfdrive.Err(p.Data("gpucloud_"+s.plural, map[string]any{filter: strings.ToLower(value.(string))})), "Invalid value of "+filter, value.(string))
			}
		}
	})
}

// If no object matches, the error lists existing ones. If two match, it lists both.
func TestSourceNotFound(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		expectError := func(config map[string]any, expect ...string) {
			t.Helper()
			must.ErrorContains(t, tfdrive.Err(p.Reconfigure().Data("gpucloud_network_volume", config)), expect...)
		}
		expectError(map[string]any{"name": "models"}, "name: Could not look up the network volume", `no network volume is named "models"; there are no network volumes`)
		path := map[api.Version]string{api.V1: "/v1/networkvolumes/nonesuch", api.V2: "/v2/network-volumes/nonesuch"}[v]
		expectError(map[string]any{"id": "nonesuch"}, "id: Could not look up the network volume", "GET", path, "404", "request id")
		ids := map[string][]string{}
		for _, name := range []string{"models", "weights", "twice", "twice", "f", "g", "h", "i"} {
			state := apply(t, p, "gpucloud_network_volume", tfdrive.State{}, map[string]any{"name": name, "size": 10, "data_center": "EU-RO-1"}, "create")
			ids[name] = append(ids[name], state.Get("id").(string))
		}
		slices.Sort(ids["twice"])
		expectError(map[string]any{"name": "modles"}, fmt.Sprintf(`no network volume is named "modles"; these are similar: "models" (%s)`, ids["models"][0]))
		expectError(map[string]any{"name": "Models"}, "these are similar", ids["models"][0])
		expectError(map[string]any{"name": "nothing like it"}, "these exist", `"f" (`, "and 3 more")
		expectError(map[string]any{"name": ids["models"][0]}, `it is the id of one, named "models": set id instead of name`)
		expectError(map[string]any{"name": "twice"}, `2 network volumes are named "twice": instead of name, set id to one of `+strings.Join(ids["twice"], ", "))
		expectError(map[string]any{"id": "models"}, "but "+ids["models"][0]+" has this name: set name instead of id")
		expectError(map[string]any{"id": ids["models"][0] + "x"}, "similar: "+ids["models"][0])
		expectError(map[string]any{}, "id: Missing id or name")
		expectError(map[string]any{"id": "a", "name": "b"}, "name: Both id and name")
		expectError(map[string]any{"id": "a b"}, "id: Invalid value of id", `got "a b"`)
		expectError(map[string]any{"name": ""}, "name: Invalid value of name")
		must.ErrorContains(t, tfdrive.Err(p.Data("gpucloud_network_volumes", map[string]any{"size": 10.5})), "size:", "expected a whole number, got 10.5")
		tfdrive.Do(p.Data("gpucloud_network_volume", map[string]any{"id": tfdrive.Unknown}))(t) // not known yet
	})
}

// A run lists each kind once for any number of data sources, and writes nothing.
func TestSourcesShareAList(t *testing.T) {
	const template = `{"name":"t","imageName":"i","isServerless":true}`
	for _, kind := range []struct {
		name, plural, path, body string // body has %q for the name
		v1                       string // path on v1; "" if v1 lacks the kind
		n                        int
	}{
		{"network_volume", "network_volumes", "/v2/network-volumes", `{"name":%q,"size":10,"dataCenter":"EU-RO-1"}`, "/v1/networkvolumes", 1000},
		{"template", "templates", "/v2/templates", `{"name":%q,"image":"i"}`, "/v1/templates", 1000},
		{"registry_auth", "registry_auths", "/v2/registries", `{"name":%q,"username":"u","password":"p"}`, "/v1/containerregistryauth", 1000},
		{"registry_delegation", "registry_delegations", "/v2/registries/delegations", `{"name":%q,"resource":"arn:aws:ecr:us-east-2:123456789012:repository/app"}`, "", 1000},
		{"secret", "secrets", "/v2/account/secrets", `{"name":%q,"value":"v"}`, "", 1000},
		{"global_volume", "global_volumes", "/v2/global-volumes", `{"name":%q}`, "", 1000},
		{"endpoint", "endpoints", "/v2/serverless", `{"name":%q,"image":"i"}`, "/v1/endpoints", 1000},
		{"pod", "pods", "/v2/pods", `{"name":%q,"image":"builtin/echo","cpu":{"id":"cpu3c","vcpuCount":2}}`, "/v1/pods", 200},
		{"cluster", "clusters", "/v2/clusters", `{"name":%q,"type":"TRAINING","image":"builtin/echo","compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":1,"podCount":2}}`, "", 100},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			d, create, body, n := acctest.Deploy(t), kind.path, kind.body, kind.n
			if testing.Short() {
				n = 20
			}
			if kind.name == "endpoint" { // created with v1, which requires a template
				create, body = kind.v1, fmt.Sprintf(`{"name":%%q,"templateId":%q}`, post(t, d, "/v1/templates", template))
			}
			ids := make([]string, n)
			for i := range ids {
				ids[i] = post(t, d, create, fmt.Sprintf(body, fmt.Sprint("o", i)))
			}
			for v, path := range map[api.Version]string{api.V1: kind.v1, api.V2: kind.path} {
				if path == "" {
					continue
				}
				t.Run(string(v), func(t *testing.T) {
					p, writes := drive(t, d, v), d.Writes()
					calls := d.Calls(func() { readAll(t, p.Reconfigure(), kind.name, kind.plural, ids) })
					must.Equal(t, calls["GET "+path], 1, "lists of the kind for", n+1, "data sources", calls)
					delete(calls, "GET "+path)
					delete(calls, "GET /"+string(v)+"/templates") // Configure lists them, and endpoints read their template
					must.Hold(t, len(calls) == 0 && d.Writes() == writes, n+1, "data sources also made the calls", calls)
				})
			}
		})
	}
}

// readAll concurrently reads the objects o0, o1, … of a kind, by id or by name, and the list of all.
func readAll(t *testing.T, p *tfdrive.Provider, name, plural string, ids []string) {
	t.Helper()
	var group sync.WaitGroup
	for i, id := range ids {
		group.Go(func() {
			config := map[string]any{"id": id}
			if i%2 == 1 {
				config = map[string]any{"name": fmt.Sprint("o", i)}
			}
			got, diags := p.Data("gpucloud_"+name, config)
			must.Hold(t, diags.Err() == nil && got.Get("id") == id && got.Get("name") == fmt.Sprint("o", i), config, "reads", got.Value, diags)
		})
	}
	group.Go(func() {
		got, diags := p.Data("gpucloud_"+plural, nil)
		must.Hold(t, diags.Err() == nil && len(got.Get(plural).([]any)) == len(ids), "all", diags)
	})
	group.Wait()
}

// Pods can be filtered by status. API v1 returns only two statuses.
func TestPodsByStatus(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		awaitStatus(t, d, p, apply(t, p, podType, tfdrive.State{}, cpuPod(nil), "create"), "RUNNING")
		p.Reconfigure()
		for status, want := range map[string]int{"RUNNING": 1, "EXITED": 0} {
			must.Equal(t, len(readSource(t, p, "gpucloud_pods", map[string]any{"status": status}).Get("pods").([]any)), want, status)
		}
		must.ErrorContains(t, tfdrive.Err(p.Data("gpucloud_pods", map[string]any{"status": "running"})), "Invalid value of status", "RUNNING")
		_, diags := p.Data("gpucloud_pods", map[string]any{"status": "ERROR"})
		if v == api.V1 {
			must.ErrorContains(t, diags.Err(), "status: API v1 can't express this", "exists in management API v2 only")
		} else if diags.Err() != nil {
			t.Error(diags)
		}
	})
}

func readSource(t *testing.T, p *tfdrive.Provider, typeName string, config map[string]any) tfdrive.State {
	t.Helper()
	if config == nil {
		config = map[string]any{}
	}
	return tfdrive.Do(p.Data(typeName, config))(t)
}

// post creates an object without the client, because the client lists before it creates.
func post(t *testing.T, d *acctest.Deployment, path, body string) (id string) {
	t.Helper()
	req := must.Do(http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL+path, strings.NewReader(body)))(t)
	req.Header.Set("Authorization", "Bearer "+d.Key)
	resp := must.Do(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	var created struct{ ID string }
	err := json.NewDecoder(resp.Body).Decode(&created)
	must.Require(t, err == nil && created.ID != "", "POST", path, body, resp.Status, err)
	return created.ID
}

// Public templates belong to RunPod or are shared by a user.
func TestCatalogTemplates(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		shared := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("shared"), "image": "i", "public": true, "env": map[string]any{"A": "shown"}}, "create")
		private := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("private"), "image": "i"}, "create")
		p = p.Reconfigure()
		list := func(config map[string]any) (names []any) {
			for _, o := range readSource(t, p, "gpucloud_catalog_templates", config).Get("catalog_templates").([]any) {
				names = append(names, o.(map[string]any)["name"])
			}
			return names
		}
		var official []any
		calls := d.Calls(func() {
			official = list(map[string]any{"source": "official"})
			all := list(nil)
			must.Hold(t, len(official) >= 1 && len(all) == len(official)+1 && slices.Contains(all, shared.Get("name")) && !slices.Contains(all, private.Get("name")),
				"official", official, "all", all)
			must.Equal(t, list(map[string]any{"source": "community"}), []any{shared.Get("name")}, "of the community")
			one := readSource(t, p, "gpucloud_catalog_template", map[string]any{"name": shared.Get("name")})
			must.Hold(t, one.Get("id") == shared.Get("id") && one.Get("source") == "community" && one.Get("image") == "i" && one.Get("env").(map[string]any)["A"] == "shown",
				"got", one.Value)
		})
		want := map[api.Version]map[string]int{api.V1: {"GET /v1/templates": 1}, api.V2: {"GET /v2/catalog/templates": 3}}[v]
		must.Equal(t, calls, want, "calls")
		must.ErrorContains(t, tfdrive.Err(p.Data("gpucloud_catalog_template", map[string]any{"id": private.Get("id")})), "is not public")
		must.ErrorContains(t, tfdrive.Err(p.Data("gpucloud_catalog_template", map[string]any{"name": official[0].(string) + "x"})), "these are similar", official[0].(string))
		must.ErrorContains(t, tfdrive.Err(p.Data("gpucloud_catalog_template", map[string]any{"id": "nonesuch"})), "id: Could not look up the public template", "404", "/templates/nonesuch")
		must.ErrorContains(t, tfdrive.Err(p.Data("gpucloud_catalog_templates", map[string]any{"source": "Official"})), "Invalid value of source", "official")
		err := tfdrive.Err(p.Data("gpucloud_catalog_templates", map[string]any{"source": "verified"}))
		if v == api.V2 {
			must.Succeed(t, err)
			return
		}
		must.ErrorContains(t, err, "source: API v1 can't express this", "exists in management API v2 only")
	})
}

// These data sources exist on API v2 only.
func TestSourcesOnlyOnV2(t *testing.T) {
	d := acctest.Deploy(t)
	p := drive(t, d, api.V1)
	calls := d.Calls(func() {
		for name, config := range map[string]map[string]any{
			"gpucloud_registry_delegation": {"id": "x"}, "gpucloud_registry_delegations": {}, "gpucloud_ssh_keys": {},
			"gpucloud_secret": {"id": "x"}, "gpucloud_secrets": {}, "gpucloud_global_volume": {"id": "x"}, "gpucloud_global_volumes": {},
		} {
			must.ErrorContains(t, tfdrive.Err(p.Data(name, config)), name+" exists in management API v2 only", `api_version = "v2"`)
		}
	})
	must.Equal(t, calls, nil, "calls")
}
