package resources_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const podType = "gpucloud_pod"

// cpuPod returns the configuration of a pod without GPUs, which runs on any machine.
func cpuPod(changes map[string]any) map[string]any {
	return withChanges(map[string]any{
		"name": "p", "image": "builtin/echo", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}, "disk": 10,
	}, changes)
}

func gpuPod(changes map[string]any) map[string]any {
	return withChanges(map[string]any{"name": "p", "image": "builtin/echo", "gpu": map[string]any{"id": "NVIDIA L4"}}, changes)
}

func podOf(t *testing.T, d *acctest.Deployment, state tfdrive.State) api.Pod {
	t.Helper()
	return must.Do(d.Client(t, api.V2).Pods.Get(t.Context(), state.Get("id").(string)))(t)
}

// awaitStatus waits for a pod's status, and returns the refreshed state.
func awaitStatus(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, state tfdrive.State, status string) tfdrive.State {
	t.Helper()
	for podOf(t, d, state).Status != status {
		must.Require(t, t.Context().Err() == nil, "the pod never becomes", status)
	}
	return refresh(t, p, state)
}

func TestPod(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		config := cpuPod(map[string]any{"name": "one", "disk": nil})
		created := apply(t, p, podType, tfdrive.State{}, config, "create")
		expectState(t, created, map[string]any{"disk": 50.0, "cpu.memory": 4.0})
		stopped := withChanges(config, map[string]any{"name": "two", "env": map[string]any{"A": "b"}, "ports": []any{"8000/http"}, "desired_state": "EXITED"})
		state := apply(t, p, podType, created, stopped, "update")
		expectState(t, state, map[string]any{"id": created.Get("id"), "status": "EXITED"})
		expectImport(t, p, state, stopped, true)
		// A pod that was started elsewhere is stopped again.
		must.Do(d.Client(t, v).Pods.SetActive(t.Context(), state.Get("id").(string), true))(t)
		state = applyRestore(t, p, state, stopped)
		expectState(t, state, map[string]any{"status": "EXITED"})
		expectState(t, apply(t, p, podType, state, withChanges(config, map[string]any{"name": "two"}), "update"), map[string]any{"env": nil})
	})
}

func TestPodEveryAttribute(t *testing.T) {
	acctest.LeaveToCI(t, "TestEndpointEveryAttribute and TestClusterEveryAttribute are the sample")
	gpu := func(more map[string]any) map[string]any { return withChanges(map[string]any{"id": "NVIDIA L4"}, more) }
	persistent := func(size int, path string) map[string]any {
		return map[string]any{"persistent": map[string]any{"size": size, "path": path}}
	}
	commands := []any{[]any{"print", "a b"}, []any{"print", ""}}
	testEveryAttribute(t, podType, map[string]attributeCase{
		"name":                    {values: []any{"a", "b"}, actions: []string{"update"}},
		"image":                   {values: []any{"builtin/echo", "builtin/conformance"}, actions: []string{"update"}},
		"args":                    {values: []any{"print 'a b'", "print c"}, actions: []string{"update"}, removal: "update"},
		"entrypoint":              {values: []any{[]any{"sh"}, []any{"bash", "-c"}}, actions: []string{"update"}, removal: "update"},
		"cmd of v1":               {version: api.V1, values: commands, actions: []string{"update"}, removal: "update", readAs: "args"},
		"cmd of v2":               {version: api.V2, values: commands, actions: []string{"update"}, removal: "update"},
		"docker_entrypoint":       {values: []any{[]any{"sh"}, []any{"bash", "-c"}}, actions: []string{"update"}, removal: "update", readAs: "entrypoint"},
		"disk":                    {values: []any{20, 30}, actions: []string{"update"}, removal: "update", kept: true},
		"env":                     {values: []any{map[string]any{"A": "b"}, map[string]any{"A": "c", "D": "e"}}, actions: []string{"update"}, removal: "update"},
		"ports":                   {values: []any{[]any{"8000/http", "22/tcp"}, []any{"9000/tcp"}}, actions: []string{"update"}, removal: "update", kept: true},
		"registry":                {values: []any{tfdrive.Unknown, tfdrive.Unknown}, actions: []string{"update"}, removal: "update"},
		"gpu":                     {values: []any{gpu(nil), gpu(map[string]any{"count": 2}), gpu(map[string]any{"id": "NVIDIA A40", "count": 2})}, actions: []string{"replace", "replace"}},
		"gpu count":               {values: []any{gpu(map[string]any{"count": 2}), gpu(nil)}, actions: []string{"no-op"}},
		"gpu allowed":             {values: []any{gpu(map[string]any{"allowed_cuda_versions": []any{"12.8"}}), gpu(map[string]any{"allowed_cuda_versions": []any{"12.8", "12.4"}}), gpu(nil)}, actions: []string{"replace", "update"}, unreadable: true},
		"gpu minimum":             {version: api.V2, values: []any{gpu(map[string]any{"min_cuda_version": "12.4"}), gpu(map[string]any{"min_cuda_version": "12.8"}), gpu(nil)}, actions: []string{"replace", "update"}, unreadable: true},
		"cpu":                     {others: map[string]any{"gpu": nil, "disk": 10}, values: []any{map[string]any{"id": "cpu3c", "vcpu_count": 2}, map[string]any{"id": "cpu3c", "vcpu_count": 4}, map[string]any{"id": "cpu5c", "vcpu_count": 4}}, actions: []string{"replace", "replace"}},
		"mounts":                  {values: []any{persistent(20, "/a"), persistent(30, "/b")}, actions: []string{"update"}, removal: "replace"},
		"cloud":                   {values: []any{"COMMUNITY", "SECURE"}, actions: []string{"replace"}, removal: "no-op"},
		"data_center_ids":         {values: []any{[]any{"EU-RO-1"}, []any{"US-TX-3"}}, actions: []string{"replace"}, removal: "update", unreadable: true},
		"global_networking":       {values: []any{map[string]any{"enabled": true}, map[string]any{"enabled": false}}, actions: []string{"update"}, removal: "update", unreadable: true},
		"locked":                  {values: []any{false, true}, actions: []string{"update"}, removal: "update"},
		"start_ssh":               {version: api.V2, values: []any{true, false}, actions: []string{"replace"}, removal: "update", unreadable: true},
		"start_jupyter":           {version: api.V2, values: []any{true, false}, actions: []string{"replace"}, removal: "update", unreadable: true},
		"desired_state":           {values: []any{"RUNNING", "EXITED", "RUNNING"}, actions: []string{"update", "update"}, removal: "update", unreadable: true},
		"deletion_protection":     {values: []any{false, true}, actions: []string{"update"}, removal: "update", unreadable: true},
		"max_hourly_cost":         {values: []any{2.5, 10}, actions: []string{"update"}, removal: "update", unreadable: true},
		"interruptible":           {version: api.V1, values: []any{true, false}, actions: []string{"replace"}, removal: "update", unreadable: true},
		"support_public_ip":       {version: api.V1, values: []any{true, false}, actions: []string{"update"}, removal: "update", unreadable: true},
		"country_codes":           {version: api.V1, values: []any{[]any{"RO"}, []any{"US", "RO"}}, actions: []string{"replace"}, removal: "update", unreadable: true},
		"gpu_type_priority":       {version: api.V1, values: []any{"custom", "availability"}, actions: []string{"replace"}, removal: "update", unreadable: true},
		"cpu_flavor_priority":     {version: api.V1, values: []any{"custom"}, removal: "update", unreadable: true},
		"data_center_priority":    {version: api.V1, values: []any{"custom"}, removal: "update", unreadable: true},
		"min_ram_per_gpu":         {version: api.V1, values: []any{16, 8}, actions: []string{"replace"}, removal: "update", unreadable: true},
		"min_vcpu_per_gpu":        {version: api.V1, values: []any{4}, removal: "update", unreadable: true},
		"min_disk_bandwidth_mbps": {version: api.V1, values: []any{100}, removal: "update", unreadable: true},
		"min_download_mbps":       {version: api.V1, values: []any{1.5}, removal: "update", unreadable: true},
		"min_upload_mbps":         {version: api.V1, values: []any{100, 0, 100, 0}, actions: []string{"update", "replace", "update"}, removal: "update", unreadable: true},
	})
}

func TestPodPlan(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	v2, v1 := drive(t, d, api.V2), drive(t, d, api.V1)
	noState := tfdrive.State{}
	gpu := func(more map[string]any) map[string]any {
		return gpuPod(map[string]any{"gpu": withChanges(map[string]any{"id": "NVIDIA L4"}, more)})
	}
	persistent := map[string]any{"size": 10, "path": "/a"}
	network := []any{map[string]any{"volume_id": "v", "path": "/a"}}
	for _, c := range []struct {
		p        *tfdrive.Provider
		config   map[string]any
		at, text string
	}{
		{v2, gpuPod(map[string]any{"cpu": map[string]any{"id": "c", "vcpu_count": 2}, "mounts": map[string]any{"persistent": persistent}}), "gpu", "gpu conflicts with cpu"},
		{v2, gpuPod(map[string]any{"gpu": nil}), "gpu", "set gpu or cpu"},
		{v2, gpuPod(map[string]any{"image": nil}), "image", "set template_id or image"},
		{v2, gpuPod(map[string]any{"name": ""}), "name", "expected 1 to 191 characters"},
		{v2, gpuPod(map[string]any{"desired_state": "STOPPED"}), "desired_state", `expected "RUNNING" or "EXITED"`},
		{v2, gpuPod(map[string]any{"cloud": "PRIVATE"}), "cloud", `expected "SECURE" or "COMMUNITY"`},
		{v2, gpuPod(map[string]any{"ports": []any{"80"}}), "ports.*", "expected <port>/<http|tcp>"},
		{v2, gpu(map[string]any{"count": 0}), "gpu.count", "expected at least 1"},
		{v2, gpu(map[string]any{"id": ""}), "gpu.id", "expected at least one character"},
		{v2, gpu(map[string]any{"allowed_cuda_versions": []any{"12"}}), "gpu.allowed_cuda_versions.*", "major.minor"},
		{v2, gpu(map[string]any{"allowed_cuda_versions": []any{"12.8"}, "min_cuda_version": "12.4"}), "gpu.min_cuda_version", "conflicts with allowed_cuda_versions"},
		{v2, cpuPod(map[string]any{"cpu": map[string]any{"id": "c", "vcpu_count": 6}}), "cpu.vcpu_count", "a power of two from 2 up"},
		{v2, cpuPod(map[string]any{"mounts": map[string]any{"persistent": persistent}}), "mounts.persistent", "conflicts with cpu"},
		{v2, cpuPod(map[string]any{"global_networking": map[string]any{"enabled": true}}), "global_networking.enabled", "conflicts with cpu"},
		{v2, gpuPod(map[string]any{"mounts": map[string]any{"persistent": persistent, "network": network}}), "mounts.network", "conflicts with mounts.persistent"},
		{v2, gpuPod(map[string]any{"mounts": map[string]any{}}), "mounts", "needs persistent or network"},
		{v2, gpuPod(map[string]any{"mounts": map[string]any{"persistent": persistent, "network": []any{}}}), "mounts.network", "expected exactly one element, got 0"},
		{v2, gpuPod(map[string]any{"mounts": map[string]any{"network": append(network, network...)}}), "mounts.network", "expected exactly one element, got 2"},
		{v2, gpuPod(map[string]any{"mounts": map[string]any{"network": network}}), "mounts.network", "does not exist"},
		{v2, gpuPod(map[string]any{"mounts": map[string]any{"persistent": map[string]any{"size": 9, "path": "/a"}}}), "mounts.persistent.size", "at least 10 GB on API v2"},
		{v2, gpuPod(map[string]any{"mounts": map[string]any{"persistent": map[string]any{"size": 10, "path": "a"}}}), "mounts.persistent.path", "absolute path"},
		{v2, gpuPod(map[string]any{"registry": "none"}), "registry", "does not exist"},
		{v1, gpuPod(map[string]any{"args": "a 'b"}), "args", "API v1 can't express"},
	} {
		expectRejection(t, d, c.p, noState, podType, c.config, c.at, c.text)
	}
	for name, config := range map[string]map[string]any{
		"unknown":        {"name": tfdrive.Unknown, "template_id": tfdrive.Unknown, "gpu": tfdrive.Unknown, "mounts": tfdrive.Unknown, "registry": tfdrive.Unknown, "env": tfdrive.Unknown, "ports": tfdrive.Unknown},
		"defaults of v1": gpuPod(map[string]any{"interruptible": false, "support_public_ip": false, "country_codes": []any{}, "gpu_type_priority": "availability", "min_ram_per_gpu": 0, "min_vcpu_per_gpu": 0, "min_disk_bandwidth_mbps": 0, "min_download_mbps": 0, "min_upload_mbps": 0}),
		"unknown volume": gpuPod(map[string]any{"mounts": map[string]any{"network": []any{map[string]any{"volume_id": tfdrive.Unknown, "path": "/a"}}}}),
	} {
		planned := v2.Plan(podType, noState, config)
		must.Hold(t, planned.Action == "create" && planned.Diagnostics.Err() == nil, name, "is planned to", planned.Action, planned.Diagnostics)
	}
	withoutMounts := apply(t, v2, podType, noState, gpuPod(nil), "create")
	for name, mounts := range map[string]map[string]any{
		"persistent": {"persistent": tfdrive.Unknown}, "network": {"network": tfdrive.Unknown}, "volume": {"network": []any{tfdrive.Unknown}},
	} {
		planned := v2.Plan(podType, withoutMounts, gpuPod(map[string]any{"mounts": mounts}))
		must.Hold(t, planned.Action == "replace" && planned.Diagnostics.Err() == nil, "an unknown", name, "is planned to", planned.Action, planned.Diagnostics)
	}
	expectPlan(t, v1, podType, noState, gpuPod(map[string]any{"mounts": map[string]any{"persistent": map[string]any{"size": 9, "path": "/a"}}}), "create")
}

// The plan warns about data that a replacement of a pod or its container loses. A lock prevents a replacement and a stop.
func TestPodPlanNamesTheLoss(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	volume := apply(t, p, "gpucloud_network_volume", tfdrive.State{}, map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}, "create")
	config := cpuPod(map[string]any{"mounts": map[string]any{"network": []any{map[string]any{"volume_id": volume.Get("id"), "path": "/net"}}}})
	state := apply(t, p, podType, tfdrive.State{}, config, "create")
	state = awaitStatus(t, d, p, state, "RUNNING")

	expectWarnings := func(state tfdrive.State, changes map[string]any, want ...string) {
		t.Helper()
		planned := p.Plan(podType, state, withChanges(config, changes))
		for _, text := range want {
			got := planned.Diagnostics.Warnings()
			must.Hold(t, strings.Contains(got, text), "the plan of", changes, "warns", got, "expected", text)
		}
		must.Hold(t, len(want) != 0 || len(planned.Diagnostics) == 0, "the plan of", changes, "reports", planned.Diagnostics)
	}
	expectWarnings(state, map[string]any{"cpu": map[string]any{"id": "cpu5c", "vcpu_count": 2}}, "cpu.id: The pod will be replaced", state.Get("id").(string), "RUNNING: its processes end", "container disk (10 GB) is lost", "Its network volume is kept. With create_before_destroy, the old pod stays")
	expectWarnings(state, map[string]any{"env": map[string]any{"A": "b"}}, "env: The container of the pod will be replaced")
	expectWarnings(state, map[string]any{"name": "other"})
	expectWarnings(state, map[string]any{"locked": true})

	gpu := apply(t, p, podType, tfdrive.State{}, gpuPod(map[string]any{"name": "g", "mounts": map[string]any{"persistent": map[string]any{"size": 30, "path": "/data"}}}), "create")
	must.Contain(t, p.Plan(podType, gpu, gpuPod(map[string]any{"name": "g"})).Diagnostics.Warnings(), "persistent mount (30 GB) at /data")
	must.Contain(t, p.Destroy(gpu).Warnings(), "The pod will be deleted", "(30 GB) at /data")

	withKey := map[string]any{"locked": true, "env": map[string]any{"PUBLIC_KEY": "ssh-ed25519 AAAA me"}, "args": "print 'a b'"}
	locked := apply(t, p, podType, state, withChanges(config, withKey), "update")
	expectWarnings(importState(t, p, podType, locked.Get("id").(string)), withKey) // an import hides the key, which nothing sends again
	expectWarnings(locked, withChanges(withKey, map[string]any{"args": nil, "cmd": []any{"print", "a b"}}))
	copied := withChanges(config, withKey, map[string]any{"template_id": apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": "t", "image": "builtin/echo"}, "create").Get("id"), "image": nil, "args": nil, "entrypoint": []any{}, "cmd": []any{"print", "a b"}})
	must.Succeed(t, p.Plan(podType, importState(t, p, podType, locked.Get("id").(string)), copied).Diagnostics.Err()) // the same command in another form
	expectRejection(t, d, p, locked, podType, withChanges(config, map[string]any{"locked": true, "env": map[string]any{"A": "b"}}), "locked", "which its lock prevents")
	expectRejection(t, d, p, locked, podType, withChanges(config, map[string]any{"locked": true, "desired_state": "EXITED"}), "locked", "can't be stopped")
	expectWarnings(locked, withChanges(withKey, map[string]any{"env": tfdrive.Unknown}), "env: The container of the pod will be replaced") // no error: env may turn out unchanged
	unlocked := apply(t, p, podType, locked, withChanges(config, map[string]any{"env": map[string]any{"A": "b"}, "desired_state": "EXITED"}), "update")
	stopped := apply(t, p, podType, unlocked, withChanges(config, map[string]any{"locked": true, "env": map[string]any{"A": "c"}, "desired_state": "EXITED"}), "update")
	expectWarnings(stopped, map[string]any{"locked": true, "env": map[string]any{"A": "d"}, "desired_state": "EXITED"}) // no container runs
}

// A pod keeps its network volume when it is created, changed and read.
func TestPodOnNetworkVolume(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		volume := apply(t, p, "gpucloud_network_volume", tfdrive.State{}, map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}, "create")
		config := cpuPod(map[string]any{"mounts": map[string]any{"network": []any{map[string]any{"volume_id": volume.Get("id"), "path": "/net"}}}})
		state := apply(t, p, podType, tfdrive.State{}, config, "create")
		expectImport(t, p, state, config, false)
		config = withChanges(config, map[string]any{"env": map[string]any{"A": "b"}})
		state = apply(t, p, podType, state, config, "update")
		expectImport(t, p, state, config, false)

		// If the volume is deleted, no plan replaces the pod, which couldn't be created again.
		must.Succeed(t, d.Client(t, v).NetworkVolumes.Delete(t.Context(), volume.Get("id").(string)))
		planned := expectPlan(t, p, podType, refresh(t, p, state), config, "update", "The network volume is gone")
		must.ErrorContains(t, tfdrive.Err(p.Apply(planned)), "no longer exists, and the pod runs without it")
	})
}

// A pod is created stopped and locked in one apply, and unlocked and started in another.
func TestPodCreatedStopped(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, _ api.Version) {
		state := apply(t, p, podType, tfdrive.State{}, cpuPod(map[string]any{"desired_state": "EXITED", "locked": true}), "create")
		got := podOf(t, d, state)
		must.Hold(t, got.Status == "EXITED" && *got.Locked, "expected a stopped and locked pod, got", got.Status, "locked:", *got.Locked)
		state = apply(t, p, podType, state, cpuPod(map[string]any{"desired_state": "RUNNING"}), "update")
		got = podOf(t, d, state)
		must.Hold(t, got.Active() && !*got.Locked, "expected an active and unlocked pod, got", got.Status, "locked:", *got.Locked)
	})
}

// A new pod that couldn't be stopped is kept, and the next apply stops it.
func TestPodCreatedAndNotStopped(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	d.Intercept(t, func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/action") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"title":"Forbidden","status":403,"message":"no actions"}`)
			return
		}
		forward.ServeHTTP(w, r)
	})
	p, config := drive(t, d, api.V2), cpuPod(map[string]any{"desired_state": "EXITED", "locked": true})
	created, diags := p.Apply(p.Plan(podType, tfdrive.State{}, config))
	got := diags.Warnings()
	must.Hold(t, diags.Err() == nil && strings.Contains(got, "could not be stopped or locked") && !strings.Contains(got, "answered other values"), "expected only a warning that the pod isn't stopped, got", diags, created.Value)
	must.Equal(t, p.Plan(podType, refresh(t, p, created), config).Action, "update", "the next apply is planned to")
}

// A pod that has ended by itself is started again only if the configuration requests RUNNING.
func TestPodThatEnds(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	config := cpuPod(map[string]any{"args": "exit 3"})
	state := apply(t, p, podType, tfdrive.State{}, config, "create")
	state = awaitStatus(t, d, p, state, "ERROR")
	expectEmptyPlan(t, p, state, config)
	must.Equal(t, p.Plan(podType, state, withChanges(config, map[string]any{"desired_state": "EXITED"})).Action, "update", "planned to")
	config = withChanges(config, map[string]any{"desired_state": "RUNNING", "args": nil})
	state = apply(t, p, podType, state, config, "update")
	awaitStatus(t, d, p, state, "RUNNING")
}

// After an import, an update records the settings that no response has and sends nothing, even if
// the pod got variables from its template and from the account's SSH keys.
func TestPodImport(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		addKey(t, d, annesKey)
		template := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("t"), "image": "builtin/echo", "disk": 12, "env": map[string]any{"T": "t"}}, "create")
		config := map[string]any{
			"name": "p", "template_id": template.Get("id"), "gpu": map[string]any{"id": "NVIDIA L4", "allowed_cuda_versions": []any{"12.8"}}, "env": map[string]any{"P": "p"}, "data_center_ids": []any{"EU-RO-1"},
			"desired_state": "RUNNING",
		}
		if v == api.V2 {
			config = withChanges(config, map[string]any{"start_ssh": true, "start_jupyter": true})
		}
		before := podOf(t, d, apply(t, p, podType, tfdrive.State{}, config, "create"))
		_, ok := before.Container.Env["PUBLIC_KEY"]
		must.Require(t, ok == (v == api.V2), "the pod has the variables", before.Container.Env)
		planned := expectPlan(t, p, podType, importState(t, p.Reconfigure(), podType, before.ID), config, "update", "Settings are recorded, and not sent")
		must.Require(t, !strings.Contains(planned.Diagnostics.Warnings(), "will be replaced"), "the plan warns of a replacement", planned.Diagnostics)
		writes := d.Writes()
		state := applyPlan(t, p, planned)
		must.Equal(t, d.Writes(), writes, "a write was sent")
		state = expectEmptyPlan(t, p, state, config)
		// A later change of a recorded setting replaces the pod.
		must.Equal(t, p.Plan(podType, state, withChanges(config, map[string]any{"data_center_ids": []any{"US-TX-3"}})).Action, "replace", "a change is planned to")
		if v == api.V2 { // an update keeps the deployment's variables
			state = apply(t, p, podType, state, withChanges(config, map[string]any{"env": map[string]any{"P": "q"}}), "update")
			after := podOf(t, d, state).Container.Env
			must.Hold(t, after["PUBLIC_KEY"] != "" && after["JUPYTER_PASSWORD"] != "" && after["T"] == "t" && after["P"] == "q", "the pod has the variables", after)
		}
	})
}

// Adding a setting replaces a pod that this provider created, unless it is the default: without a template, start_ssh = false.
func TestAddedPodSetting(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	state := apply(t, p, podType, tfdrive.State{}, gpuPod(nil), "create")
	for attribute, value := range map[string]any{"start_ssh": true, "data_center_ids": []any{"EU-RO-1"}} {
		must.Equal(t, p.Plan(podType, state, gpuPod(map[string]any{attribute: value})).Action, "replace", attribute, "is planned to")
	}
	expectPlan(t, p, podType, state, gpuPod(map[string]any{"start_ssh": false}), "update")
	template := apply(t, p, "gpucloud_template", tfdrive.State{}, withChanges(minimalTemplate, map[string]any{"name": d.Name("t")}), "create")
	config := gpuPod(map[string]any{"template_id": template.Get("id")})
	state = apply(t, p, podType, tfdrive.State{}, config, "create")
	expectPlan(t, p, podType, state, withChanges(config, map[string]any{"start_ssh": false}), "replace")
}

// An omitted requirement has its documented default. Setting that or 0 doesn't replace the pod.
func TestAddedDefault(t *testing.T) {
	t.Parallel()
	p := drive(t, acctest.Deploy(t), api.V1)
	state := apply(t, p, podType, tfdrive.State{}, gpuPod(nil), "create")
	for attribute, values := range map[string][]any{
		"min_ram_per_gpu": {8, 0}, "min_vcpu_per_gpu": {2, 0}, "min_upload_mbps": {0}, "gpu_type_priority": {"availability"}, "data_center_priority": {"availability"},
		"cpu": {tfdrive.Unknown}, // becomes null
	} {
		for _, value := range values {
			expectPlan(t, p, podType, state, gpuPod(map[string]any{attribute: value}), "update")
		}
	}
}

// If only a plan rule changes an attribute, such as a disk that returns to its default, the
// volatile attributes become unknown. An equivalent configuration has an empty plan.
func TestPodUnknowns(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, _ api.Version) {
		config := cpuPod(map[string]any{"disk": 20, "args": "print 'a'", "ports": []any{"8000/http"}})
		state := awaitStatus(t, d, p, apply(t, p, podType, tfdrive.State{}, config, "create"), "RUNNING")
		apply(t, p, podType, state, withChanges(config, map[string]any{"args": "print a"}), "no-op")
		without := withChanges(config, map[string]any{"disk": nil})
		planned := p.Plan(podType, state, without)
		for _, attribute := range []string{"status", "cost", "runtime", "ssh", "data_center_id"} {
			must.Equal[any](t, planned.Get(attribute), tfdrive.Unknown, attribute, "is planned to be")
		}
		apply(t, p, podType, state, without, "update")
	})
}

// The state shows the pod's vCPUs and memory. Another minimum replaces the pod.
func TestPodMachine(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	gpu := func(more map[string]any) map[string]any {
		return map[string]any{"name": d.Name("p"), "image": "builtin/echo", "gpu": withChanges(map[string]any{"id": "NVIDIA L4", "count": 2}, more)}
	}
	state := apply(t, p, "gpucloud_pod", tfdrive.State{}, gpu(map[string]any{"min_ram_per_gpu": 3000, "min_vcpu_count_per_gpu": 5000}), "create")
	expectState(t, state, map[string]any{"gpu.memory": 6000.0, "gpu.vcpu_count": 10000.0})
	state = apply(t, p, state.Type, state, gpu(map[string]any{"min_ram_per_gpu": 3500, "min_vcpu_count_per_gpu": 5000}), "replace")
	state = apply(t, p, state.Type, state, gpu(map[string]any{"min_ram_per_gpu": 3500, "min_vcpu_count_per_gpu": 6000}), "replace")
	expectState(t, state, map[string]any{"gpu.memory": 7000.0, "gpu.vcpu_count": 12000.0})
	for name, low := range map[string]any{"min_ram_per_gpu": 0, "min_vcpu_count_per_gpu": -1} {
		expectRejection(t, d, p, tfdrive.State{}, "gpucloud_pod", gpu(map[string]any{name: low}), "gpu."+name, "at least 1")
	}
}

// If a create's body would exceed its size limit, the plan reports an error at the largest attribute.
func TestPodTooLarge(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	config := func(changes map[string]any) map[string]any {
		return withChanges(map[string]any{"name": "p", "image": "builtin/echo", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}}, changes)
	}
	long := strings.Repeat("x", contract.MaxPodBody)
	limit := fmt.Sprintf("at most %d bytes", contract.MaxPodBody)
	for attribute, changes := range map[string]map[string]any{
		"env": {"env": map[string]any{"A": long}}, "args": {"args": long, "env": map[string]any{"A": "b"}}, "env_wo": {"env_wo": map[string]any{"A": long}, "env_wo_version": 1},
	} {
		expectRejection(t, d, p, tfdrive.State{}, "gpucloud_pod", config(changes), attribute, limit)
	}
	half := strings.Repeat("x", contract.MaxPodBody/2)
	expectRejection(t, d, p, tfdrive.State{}, "gpucloud_pod", config(map[string]any{"args": half, "env": map[string]any{"A": half + "x"}}), "env", limit)
	state := apply(t, p, "gpucloud_pod", tfdrive.State{}, config(map[string]any{"env": map[string]any{"A": half}}), "create")
	state = apply(t, p, state.Type, state, config(map[string]any{"env": map[string]any{"A": long}}), "update") // the limit applies only to a create
	expectRejection(t, d, p, state, state.Type, config(map[string]any{"env": map[string]any{"A": long}, "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 4}}), "env", limit)
}
