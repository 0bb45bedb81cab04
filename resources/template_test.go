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

func TestTemplateEveryAttribute(t *testing.T) {
	update, replace := []string{"update"}, []string{"replace"}
	persistent := func(size int, path string) map[string]any {
		return map[string]any{"persistent": map[string]any{"size": size, "path": path}}
	}
	mounts := []any{persistent(10, "/a"), persistent(12, "/b")}
	entrypoints, commands := []any{[]any{"/bin/sh", "-c"}, []any{"/init"}}, []any{[]any{"a b"}, []any{"", "c"}}
	testEveryAttribute(t, "gpucloud_template", map[string]attributeCase{
		"name":                  {values: []any{"t1", "t2"}, actions: update},
		"image":                 {values: []any{"img:1", "img:2"}, actions: update},
		"args":                  {values: []any{"python -u handler.py", `sh -c "echo 'a b'; exec python"`}, actions: update, removal: "update"},
		"entrypoint":            {values: entrypoints, actions: update, removal: "update"},
		"cmd of v1":             {version: api.V1, values: commands, actions: update, removal: "update", readAs: "args"},
		"cmd of v2":             {version: api.V2, values: commands, actions: update, removal: "update"},
		"docker_entrypoint":     {values: entrypoints, actions: update, removal: "update", readAs: "entrypoint"},
		"disk":                  {values: []any{20, 60}, actions: update, removal: "update"},
		"env":                   {values: []any{map[string]any{"A": "1", "EMPTY": ""}, map[string]any{"B": "2"}}, actions: update, removal: "update"},
		"ports":                 {values: []any{[]any{"8888/http", "22/tcp"}, []any{"8000/http", "22/tcp"}}, actions: update, removal: "update"},
		"registry":              {values: []any{tfdrive.Unknown, tfdrive.Unknown}, actions: update, removal: "update"},
		"mounts of v1":          {version: api.V1, values: mounts, actions: update, removal: "update", kept: true},
		"mounts of v2":          {version: api.V2, values: mounts, actions: update, removal: "replace"},
		"public":                {values: []any{false, true}, actions: update, removal: "update"},
		"serverless of v1":      {version: api.V1, values: []any{true, false}, actions: replace, removal: "no-op"},
		"serverless of v2":      {version: api.V2, values: []any{true, false}, actions: update, removal: "no-op"},
		"category of v1":        {version: api.V1, values: []any{"AMD", "CPU"}, actions: replace, removal: "no-op"}, // a template keeps it
		"category of v2":        {version: api.V2, values: []any{"AMD", "CPU"}, actions: update, removal: "update", kept: true},
		"readme":                {version: api.V1, values: []any{"# One", "# Two"}, actions: update, removal: "update"},
		"start_ssh":             {version: api.V2, values: []any{true, false}, actions: update, removal: "update"},
		"start_jupyter":         {version: api.V2, values: []any{true, false}, actions: update, removal: "update"},
		"allowed_cuda_versions": {version: api.V2, values: []any{[]any{"12.8", "12.4"}, []any{"13.0"}}, actions: update, removal: "update"},
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
