package resources_test

import (
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

func TestTemplate(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		minimal := map[string]any{"name": d.Name("least"), "image": "python:3.12-slim"}
		full := map[string]any{"name": d.Name("most"), "image": "python:3.12", "args": "python -u 'my handler.py'", "disk": 30, "env": map[string]any{"TOKEN": "s3cret", "EMPTY": "", "GRÜSSE": "äöü"},
			"ports": []any{"22/tcp", "8000/http"}, "public": true, "category": "NVIDIA", "mounts": map[string]any{"persistent": map[string]any{"size": 15, "path": "/data"}}}
		state := apply(t, p, "gpucloud_template", tfdrive.State{}, minimal, "create")
		expectState(t, state, map[string]any{"disk": 50.0, "category": "NVIDIA", "serverless": false, "ports": nil})
		expectImport(t, p, state, minimal, false)
		state = apply(t, p, state.Type, state, full, "update")
		expectImport(t, p, state, full, false)
		apply(t, p, state.Type, state, withChanges(full, map[string]any{"ports": []any{"8000/http", "22/tcp"}}), "no-op")
		edit(t, d.Client(t, v).Templates, state.Get("id"), func(template *api.Template) { template.Image = "other" })
		state = applyRestore(t, p, state, full)
		expectState(t, state, map[string]any{"image": "python:3.12"})
		planned := expectPlan(t, p, state.Type, state, withChanges(full, map[string]any{"disk": 31}), "update")
		edit(t, d.Client(t, v).Templates, state.Get("id"), func(template *api.Template) { template.Env["MADE"] = "after the plan" })
		must.Succeed(t, tfdrive.Err(p.Reconfigure().Apply(planned)))
	})
}

var minimalTemplate = map[string]any{"name": "t", "image": "img"}

// Each attribute is set, changed and removed. After each step the next plan is empty.
func TestTemplateEveryAttribute(t *testing.T) {
	both := []struct {
		name string
		a, b any
	}{
		{"name", "t1", "t2"},
		{"image", "img:1", "img:2"},
		{"args", "python -u handler.py", `sh -c "echo 'a b'; exec python"`},
		{"entrypoint", []any{"/bin/sh", "-c"}, []any{"/init"}},
		{"cmd", []any{"a b"}, []any{"", "c"}},
		{"docker_entrypoint", []any{"/bin/sh", "-c"}, []any{"/init"}},
		{"disk", 20, 60},
		{"env", map[string]any{"A": "1", "EMPTY": ""}, map[string]any{"B": "2"}},
		{"ports", []any{"8000/http", "22/tcp"}, []any{"8888/http", "22/tcp"}},
		{"mounts", map[string]any{"persistent": map[string]any{"size": 10, "path": "/a"}}, map[string]any{"persistent": map[string]any{"size": 12, "path": "/b"}}},
		{"public", true, false},
		{"serverless", true, false},
		{"category", "AMD", "CPU"},
	}
	oneVersion := map[api.Version][]struct {
		name string
		a, b any
	}{
		api.V1: {{"readme", "# One", "# Two"}},
		api.V2: {
			{"start_ssh", false, true},
			{"start_jupyter", false, true},
			{"allowed_cuda_versions", []any{"12.8", "12.4"}, []any{"13.0"}},
		},
	}
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		var tested []string
		for _, c := range slices.Concat(both, oneVersion[api.V1], oneVersion[api.V2]) {
			tested = append(tested, c.name)
		}
		expectEveryAttribute(t, p, "gpucloud_template", tested)
		for _, c := range append(both[:len(both):len(both)], oneVersion[v]...) {
			t.Run(c.name, func(t *testing.T) {
				config := withChanges(minimalTemplate, map[string]any{"name": d.Name("every-" + c.name)})
				if c.name == "name" {
					c.a, c.b = d.Name("t1"), d.Name("t2")
				}
				state := apply(t, p, "gpucloud_template", tfdrive.State{}, withChanges(config, map[string]any{c.name: c.a}), "create")
				change, remove := "update", "update" // planned actions
				if v == api.V1 && (c.name == "category" || c.name == "serverless") {
					change, remove = "replace", "replace"
				}
				if c.name == "mounts" && v == api.V2 {
					remove = "replace"
				}
				state = apply(t, p, state.Type, state, withChanges(config, map[string]any{c.name: c.b}), change)
				afterImport := "no-op"
				if c.name == "docker_entrypoint" || c.name == "cmd" && v == api.V1 { // an import reads only one form of the start command
					afterImport = "update"
				}
				apply(t, p, state.Type, importState(t, p, state.Type, state.Get("id").(string)), withChanges(config, map[string]any{c.name: c.b}), afterImport)
				switch c.name {
				case "name", "image": // required
				case "category": // on v1, a template keeps its category
					state = apply(t, p, state.Type, state, config, map[api.Version]string{api.V1: "no-op", api.V2: "update"}[v])
				case "public", "serverless", "start_ssh", "start_jupyter": // b is the default
					apply(t, p, state.Type, state, config, "no-op")
				default:
					state = apply(t, p, state.Type, state, config, remove)
				}
				must.Succeed(t, p.Destroy(state).Err())
				gone, _ := p.Reconfigure().Read(state)
				must.Hold(t, !gone.Exists(), "the template is still there")
				must.Succeed(t, p.Destroy(state).Err()) // it is gone already
			})
		}
	})
}

// Other clients may repeat an element of a list that is a set in this provider.
func TestTemplateRepeatsElements(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		created := must.Do(d.Client(t, v).Templates.Create(t.Context(), api.Template{Name: d.Name("repeats"), Image: "i", Disk: 10, Category: "NVIDIA", Ports: []string{"80/http", "80/http"}}))(t)
		got, _ := importState(t, drive(t, d, v), "gpucloud_template", created.ID).Get("ports").([]any)
		must.Hold(t, len(got) == 1, "the ports are", got)
		must.Succeed(t, d.Client(t, v).Templates.Delete(t.Context(), created.ID))
	})
}

// null, "" and [] have the same effect. A change among them is an update; the next plan is empty.
func TestTemplateEmptyIsNull(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		minimal := withChanges(minimalTemplate, map[string]any{"name": d.Name("t")})
		empty := map[string]any{"args": "", "env": map[string]any{}, "ports": []any{}, "registry": ""}
		state := apply(t, p, "gpucloud_template", tfdrive.State{}, withChanges(minimal, empty), "create")
		if v == api.V1 {
			empty = withChanges(empty, map[string]any{"readme": "", "docker_entrypoint": []any{}})
			state = apply(t, p, "gpucloud_template", state, withChanges(minimal, empty), "update")
		}
		state = apply(t, p, "gpucloud_template", state, minimal, "update")
		apply(t, p, "gpucloud_template", state, withChanges(minimal, empty), "update")
	})
}

func TestTemplateRules(t *testing.T) {
	mount := func(size int, path string) map[string]any {
		return map[string]any{"mounts": map[string]any{"persistent": map[string]any{"size": size, "path": path}}}
	}
	always := []rejection{
		{map[string]any{"name": ""}, "name", `Invalid name: expected at least one character, got "".`},
		{map[string]any{"image": ""}, "image", `Invalid image: expected the reference of a container image, such as ghcr.io/acme/worker:1.2, got "".`},
		{map[string]any{"disk": 0}, "disk", "Invalid disk: expected at least 1 GB, got 0."},
		{map[string]any{"category": "TPU"}, "category", `Invalid category: expected "NVIDIA", "AMD" or "CPU", got "TPU".`},
		{map[string]any{"env": map[string]any{"": "x"}}, "env.", "at least one character"},
		{map[string]any{"env": map[string]any{"A=B": "x"}}, "env.A=B", "without = and NUL"},
		{map[string]any{"registry": "nosuchauth"}, "registry", "which does not exist"},
		{map[string]any{"env": map[string]any{"A": nil}}, "env.A", `"A" is null. Leave the key out`},
		{map[string]any{"ports": []any{"80/http", nil}}, "ports", "an element is null"},
		{mount(0, "/a"), "mounts.persistent.size", "Invalid mounts.persistent.size: expected at least 1, got 0."},
		{mount(10, "data"), "mounts.persistent.path", "expected an absolute path"},
		{map[string]any{"ports": []any{"80"}}, "ports.*", "expected <port>/<http|tcp>"},
		{map[string]any{"ports": []any{"65536/tcp"}}, "ports.*", "1 to 65535"},
		{map[string]any{"ports": []any{"80/udp"}}, "ports.*", "expected <port>/<http|tcp>"},
		{map[string]any{"ports": []any{"80/http/x"}}, "ports.*", "expected <port>/<http|tcp>"},
	}
	byVersion := map[api.Version][]rejection{
		api.V1: {
			{map[string]any{"args": `python "unclosed`}, "args", "list of arguments, but args can't be split into words: Unterm"},
			{map[string]any{"docker_entrypoint": []any{"a", nil}}, "docker_entrypoint", "an element is null"},
		},
		api.V2: {
			{mount(9, "/a"), "mounts.persistent.size", "at least 10 GB on API v2"},
			{map[string]any{"allowed_cuda_versions": []any{"12"}}, "allowed_cuda_versions.*", "major.minor"},
			{map[string]any{"allowed_cuda_versions": []any{nil}}, "allowed_cuda_versions", "an element is null"},
		},
	}
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		minimal := withChanges(minimalTemplate, map[string]any{"name": d.Name("t")})
		expectRejections(t, d, p, "gpucloud_template", minimal, slices.Concat(always, byVersion[v])...)
		// Values that are equivalent to an omission are valid on both versions.
		apply(t, p, "gpucloud_template", tfdrive.State{}, withChanges(minimal, map[string]any{"start_ssh": true, "start_jupyter": true, "allowed_cuda_versions": []any{}, "docker_entrypoint": []any{}, "readme": ""}), "create")
	})
}

// A change that can't be made in place replaces a template, and is rejected while an endpoint links to it.
func TestTemplateInUse(t *testing.T) {
	d := acctest.Deploy(t)
	p := drive(t, d, api.V1)
	config := withChanges(minimalTemplate, map[string]any{"name": d.Name("t"), "serverless": true})
	template := apply(t, p, "gpucloud_template", tfdrive.State{}, config, "create")
	endpoint := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, map[string]any{"name": "e", "template_id": template.Get("id")}, "create")
	expectRejection(t, d, p, template, template.Type, withChanges(config, map[string]any{"category": "CPU"}), "category", "an endpoint is linked to (e ("+endpoint.Get("id").(string)+"))")
	expectRejection(t, d, p, template, template.Type, withChanges(config, map[string]any{"serverless": false}), "serverless", "an endpoint is linked to")
	must.Succeed(t, p.Destroy(endpoint).Err())
	apply(t, p, template.Type, template, withChanges(config, map[string]any{"category": "CPU"}), "replace")
}
