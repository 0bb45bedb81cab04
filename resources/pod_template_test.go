package resources_test

import (
	"maps"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// A plan shows each attribute of a pod's template copy that was changed elsewhere, and the apply
// restores it. The pod's own settings and changes of the template aren't drift.
func TestPodDriftsFromItsTemplate(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p, c := drive(t, d, v), d.Client(t, v)
		ownAuth, otherAuth := newObject(t, p, "gpucloud_registry_auth"), newObject(t, p, "gpucloud_registry_auth").(string)
		settings := map[string]any{
			"name": d.Name("t"), "image": "builtin/echo", "args": "print template", "disk": 12, "env": map[string]any{"T": "secret-of-t"}, "ports": []any{"8000/http"}, "registry": ownAuth,
		}
		template := apply(t, p, "gpucloud_template", tfdrive.State{}, settings, "create")
		config := map[string]any{"name": "p", "template_id": template.Get("id"), "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}, "env": map[string]any{"P": "p"}}
		state := apply(t, p, podType, tfdrive.State{}, config, "create")
		got := state.Get("from_template.image")
		must.Hold(t, got == "builtin/echo" && !state.Contains("secret-of-t"), "from_template.image is", got, state.Value)
		withoutAccessVariables := func(env map[string]string) map[string]string {
			maps.DeleteFunc(env, func(name, _ string) bool { return api.IsAccessVariable(name) })
			return env
		}
		var before api.Pod
		for attribute, change := range map[string]func(*api.Container){
			"image":                      func(c *api.Container) { c.Image = new("builtin/conformance") },
			"args":                       func(c *api.Container) { c.Command = api.Command{Args: new("print other")} },
			"disk":                       func(c *api.Container) { c.Disk = new(int64(13)) },
			"ports":                      func(c *api.Container) { c.Ports = new([]string{"22/tcp"}) },
			"registry":                   func(c *api.Container) { c.Registry = &otherAuth },
			"env":                        func(c *api.Container) { c.Env = map[string]string{"P": "p", "T": "other", "NEW": "x"} },
			"env without the template's": func(c *api.Container) { c.Env = map[string]string{"P": "p"} },
		} {
			before = podOf(t, d, state)
			edit(t, c.Pods.Collection, state.Get("id"), func(p *api.Pod) { change(p.Container) })
			planned := p.Plan(podType, refresh(t, p, state), config)
			must.Require(t, planned.Action == "update", attribute, "was changed elsewhere: planned to", planned.Action, planned.Diagnostics)
			applied, diags := p.Apply(planned)
			must.Hold(t, diags.Err() == nil, attribute, "was changed elsewhere, and the apply fails", diags)
			state = expectEmptyPlan(t, p, applied, config)
			after := podOf(t, d, state).Container
			if *after.Image != *before.Container.Image || *after.Args != *before.Container.Args || *after.Disk != *before.Container.Disk || *after.Registry != ownAuth ||
				len(*after.Ports) != 1 || (*after.Ports)[0] != "8000/http" || !maps.Equal(withoutAccessVariables(after.Env), withoutAccessVariables(before.Container.Env)) {
				t.Errorf("%s was changed elsewhere, and isn't restored: %+v", attribute, after)
			}
		}

		apply(t, p, "gpucloud_template", template, withChanges(settings, map[string]any{"image": "builtin/conformance"}), "update")
		state = expectEmptyPlan(t, p, state, config)
		state = apply(t, p, podType, state, withChanges(config, map[string]any{"image": "builtin/echo", "disk": 20}), "update")
		must.Hold(t, state.Get("from_template.image") == nil && state.Get("from_template.disk") == nil && state.Get("from_template.args") == "print template",
			"from_template is", state.Get("from_template"))
		state = apply(t, p, podType, state, config, "update")
		must.Equal(t, state.Get("from_template.image"), "builtin/conformance", "after its own image was removed, from_template has the image")
	})
}

// If a pod gets a mount of its own, like its template's or larger, it keeps the storage and the data.
func TestPodConfiguresStorageOfItsTemplate(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		mounts := func(size int) map[string]any {
			return map[string]any{"mounts": map[string]any{"persistent": map[string]any{"size": size, "path": "/data"}}}
		}
		template := apply(t, p, "gpucloud_template", tfdrive.State{}, withChanges(map[string]any{"name": d.Name("t"), "image": "builtin/echo"}, mounts(20)), "create")
		config := map[string]any{"name": "p", "template_id": template.Get("id"), "gpu": map[string]any{"id": "NVIDIA L4"}}
		state := apply(t, p, podType, tfdrive.State{}, config, "create")
		state = apply(t, p, podType, state, withChanges(config, mounts(30)), "update")
		state = apply(t, p, podType, state, config, "update")
		must.Equal(t, podOf(t, d, state).Mounts.Persistent.Size, 30, "the size of the mount")
		expectPlan(t, p, podType, state, withChanges(config, mounts(30)), "update")
		must.Equal(t, p.Plan(podType, refresh(t, p, state), config).Diagnostics.Warnings(), "", "a plan without a change of the storage warns")
		edit(t, d.Client(t, v).Pods.Collection, state.Get("id"), func(p *api.Pod) { p.Mounts.Persistent.Path = "/b" })
		expectPlan(t, p, podType, refresh(t, p, state), config, "no-op", "had 30 GB at /data, from its template, and has 30 GB at /b")
		edit(t, d.Client(t, v).Pods.Collection, state.Get("id"), func(p *api.Pod) { p.Mounts.Persistent.Path = "/data" })
		must.Contain(t, p.Destroy(state).Warnings(), "so is its persistent mount (30 GB) at /data")
	})
}

// If another client's change loses the deployment's variables, the plan names them. The provider's update keeps them.
func TestPodLosesAccessVariables(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	addKey(t, d, annesKey)
	config := gpuPod(map[string]any{"start_ssh": true, "start_jupyter": true, "env": map[string]any{"A": "1"}})
	state := apply(t, p, podType, tfdrive.State{}, config, "create")
	config = withChanges(config, map[string]any{"env": map[string]any{"A": "2"}})
	state = apply(t, p, podType, state, config, "update")
	have := podOf(t, d, state)
	must.Require(t, have.Container.Env["JUPYTER_PASSWORD"] != "" && have.Container.Env["PUBLIC_KEY"] != "",
		"an update of env removes the variables of the deployment", have.Container.Env)
	edit(t, d.Client(t, api.V2).Pods.Collection, have.ID, func(p *api.Pod) { p.Container.Env = map[string]string{"A": "elsewhere"} })
	planned := expectPlan(t, p, podType, refresh(t, p, state), config, "update", "no longer has JUPYTER_PASSWORD, PUBLIC_KEY")
	expectEmptyPlan(t, p, applyPlan(t, p, planned), config)
}

// A pod's template must exist. It belongs to the account or is public.
func TestPodTemplateExists(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		config := map[string]any{"name": "p", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}}
		for _, id := range []string{"nope", "gone0123456789"} {
			expectRejection(t, d, p, tfdrive.State{}, podType, withChanges(config, map[string]any{"template_id": id}), "template_id", "does not exist")
		}
		public := must.Do(d.Client(t, v).CatalogTemplates(t.Context()))(t)
		for _, template := range public {
			err := p.Plan(podType, tfdrive.State{}, withChanges(config, map[string]any{"template_id": template.ID})).Diagnostics.Err()
			must.Hold(t, (err != nil) == template.Serverless, "public template", template.Name, err)
		}
		must.Hold(t, len(public) != 0, "the deployment has no public template")
		state := apply(t, p, podType, tfdrive.State{}, withChanges(config, map[string]any{"image": "builtin/echo"}), "create")
		expectRejection(t, d, p, state, podType, withChanges(config, map[string]any{"template_id": "nope"}), "template_id", "does not exist")
	})
}

// A pod copies its template's settings and overrides them with its own. If its own setting is
// removed, the template's applies again. A change of the pod's variables keeps the template's.
func TestPodOfATemplate(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, _ api.Version) {
		template := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{
			"name": d.Name("t"), "image": "builtin/echo", "args": "print template", "disk": 12, "env": map[string]any{"T": "t", "BOTH": "template"}, "ports": []any{"8000/http"},
		}, "create")
		config := map[string]any{"name": "p", "template_id": template.Get("id"), "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}, "env": map[string]any{"P": "p", "BOTH": "pod"}}
		state := apply(t, p, podType, tfdrive.State{}, config, "create")
		expectContainer := func(image, args string, disk int64, env map[string]string) {
			t.Helper()
			got := podOf(t, d, state).Container
			for name, v := range got.Env {
				want, ok := env[name]
				must.Hold(t, api.IsAccessVariable(name) || ok && v == want, "it has the variable", name, "=", v)
			}
			must.Hold(t, *got.Image == image && *got.Args == args && *got.Disk == disk && len(*got.Ports) == 1,
				"got", *got.Image, *got.Args, *got.Disk, "GB", *got.Ports)
			for name := range env {
				_, ok := got.Env[name]
				must.Hold(t, ok, "it lacks the variable", name)
			}
		}
		expectContainer("builtin/echo", "print template", 12, map[string]string{"T": "t", "BOTH": "pod", "P": "p"})
		must.Hold(t, state.Get("image") == nil && state.Get("disk") == nil, "the state has the template's settings", state.Value)
		own := withChanges(config, map[string]any{"args": "print own", "disk": 20, "env": map[string]any{"P": "q", "BOTH": "pod"}})
		state = apply(t, p, podType, state, own, "update")
		expectContainer("builtin/echo", "print own", 20, map[string]string{"T": "t", "BOTH": "pod", "P": "q"})
		state = apply(t, p, podType, state, withChanges(config, map[string]any{"env": nil}), "update")
		expectContainer("builtin/echo", "print template", 12, map[string]string{"T": "t", "BOTH": "template"})
		expectImport(t, p, state, withChanges(config, map[string]any{"env": nil}), true)

		// A change of the template doesn't change the pod.
		apply(t, p, "gpucloud_template", template, map[string]any{
			"name": d.Name("t"), "image": "builtin/conformance", "args": "print template", "disk": 12, "env": map[string]any{"T": "changed", "BOTH": "template"}, "ports": []any{"8000/http"},
		}, "update")
		expectEmptyPlan(t, p, state, withChanges(config, map[string]any{"env": nil}))

		workers := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("w"), "image": "i", "serverless": true}, "create")
		expectRejection(t, d, p, tfdrive.State{}, podType, withChanges(config, map[string]any{"template_id": workers.Get("id")}), "template_id", "is for serverless workers")
		p.Plan("gpucloud_template", workers, map[string]any{"name": workers.Get("name"), "image": "another", "serverless": true}) // a planned change of a template for workers doesn't make it one for pods
		expectRejection(t, d, p, state, podType, withChanges(config, map[string]any{"template_id": workers.Get("id")}), "template_id", "is for serverless workers")
		must.Equal(t, p.Plan(podType, state, cpuPod(nil)).Action, "replace", "without the template it is planned to")
	})
}
