package resources_test

import (
	"maps"
	"strings"
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
		auth := func(name string) string {
			return apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, map[string]any{"name": d.Name(name), "username": "u", "password": "p"}, "create").Get("id").(string)
		}
		one, two := auth("one"), auth("two")
		settings := map[string]any{
			"name": d.Name("t"), "image": "builtin/echo", "args": "print template", "disk": 12, "env": map[string]any{"T": "secret-of-t"}, "ports": []any{"8000/http"}, "registry": one,
		}
		template := apply(t, p, "gpucloud_template", tfdrive.State{}, settings, "create")
		config := map[string]any{"name": "p", "template_id": template.Get("id"), "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}, "env": map[string]any{"P": "p"}}
		state := apply(t, p, podType, tfdrive.State{}, config, "create")
		got := state.Get("from_template.image")
		must.Hold(t, got == "builtin/echo" && !state.Holds("secret-of-t"), "from_template.image is", got, state.Value)
		own := func(env map[string]string) map[string]string {
			maps.DeleteFunc(env, func(name, _ string) bool { return api.IsAccessVariable(name) })
			return env
		}
		var before api.Pod
		for attribute, change := range map[string]func(*api.Container){
			"image":    func(c *api.Container) { c.Image = new("builtin/conformance") },
			"args":     func(c *api.Container) { c.Command = api.Command{Args: new("print other")} },
			"disk":     func(c *api.Container) { c.Disk = new(int64(13)) },
			"ports":    func(c *api.Container) { c.Ports = new([]string{"22/tcp"}) },
			"registry": func(c *api.Container) { c.Registry = &two },
			"env":      func(c *api.Container) { c.Env = map[string]string{"P": "p", "T": "other", "NEW": "x"} },
			"env less": func(c *api.Container) { c.Env = map[string]string{"P": "p"} },
		} {
			before = podOf(t, d, state)
			edit(t, c.Pods, state.Get("id"), func(p *api.Pod) { change(p.Container) })
			read := refresh(t, p, state)
			planned := p.Plan(podType, read, config)
			if planned.Action != "update" {
				t.Errorf("%s was changed elsewhere: planned to %s: %s", attribute, planned.Action, planned.Diagnostics)
				continue
			}
			applied, diags := p.Apply(planned)
			err := diags.Err()
			must.Hold(t, err == nil, attribute, "was changed elsewhere", err)
			state = expectEmptyPlan(t, p, applied, config)
			after := podOf(t, d, state).Container
			if *after.Image != *before.Container.Image || *after.Args != *before.Container.Args || *after.Disk != *before.Container.Disk || *after.Registry != one ||
				len(*after.Ports) != 1 || (*after.Ports)[0] != "8000/http" || !maps.Equal(own(after.Env), own(before.Container.Env)) {
				t.Errorf("%s was changed elsewhere, and isn't restored: %+v", attribute, after)
			}
		}

		apply(t, p, "gpucloud_template", template, with(settings, map[string]any{"image": "builtin/conformance"}), "update")
		state = expectEmptyPlan(t, p, state, config)
		state = apply(t, p, podType, state, with(config, map[string]any{"image": "builtin/echo", "disk": 20}), "update")
		if state.Get("from_template.image") != nil || state.Get("from_template.disk") != nil || state.Get("from_template.args") != "print template" {
			t.Errorf("from_template is %v", state.Get("from_template"))
		}
		state = apply(t, p, podType, state, config, "update")
		must.Equal(t, state.Get("from_template.image"), "builtin/conformance", "after its own image was removed, from_template has the image")
	})
}

// If another client replaces a pod's environment, the variables of the deployment are lost, and
// the plan names them. An update by the provider keeps them.
func TestPodLosesAccessVariables(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	addKey(t, d, annesKey)
	config := gpuPod(map[string]any{"start_ssh": true, "start_jupyter": true, "env": map[string]any{"A": "1"}})
	state := apply(t, p, podType, tfdrive.State{}, config, "create")
	config = with(config, map[string]any{"env": map[string]any{"A": "2"}})
	state = apply(t, p, podType, state, config, "update")
	have := podOf(t, d, state)
	if have.Container.Env["JUPYTER_PASSWORD"] == "" || have.Container.Env["PUBLIC_KEY"] == "" {
		t.Fatalf("an update of env removes the variables of the deployment: %v", have.Container.Env)
	}
	edit(t, d.Client(t, api.V2).Pods, have.ID, func(p *api.Pod) { p.Container.Env = map[string]string{"A": "elsewhere"} })
	read, _ := p.Walk().Read(state)
	planned := p.Plan(podType, read, config)
	got := planned.Diagnostics.Warnings()
	must.Hold(t, planned.Action == "update" && strings.Contains(got, "no longer has JUPYTER_PASSWORD, PUBLIC_KEY"), "planned to", planned.Action, planned.Diagnostics)
	expectEmptyPlan(t, p, applyPlan(t, p, planned), config)
}

// A pod's template must exist. It belongs to the account or is public.
func TestPodTemplateExists(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p := drive(t, d, v)
		config := map[string]any{"name": "p", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}}
		for _, id := range []string{"nope", "gone0123456789"} {
			expectRefusal(t, d, p, tfdrive.State{}, podType, with(config, map[string]any{"template_id": id}), "template_id", "does not exist")
		}
		public := must.Do(d.Client(t, v).CatalogTemplates(t.Context()))(t)
		for _, template := range public {
			planned := p.Plan(podType, tfdrive.State{}, with(config, map[string]any{"template_id": template.ID}))
			err := planned.Diagnostics.Err()
			must.Hold(t, (err != nil) == template.Serverless, "public template", template.Name, err)
		}
		must.Hold(t, len(public) != 0, "the deployment has no public template")
		state := apply(t, p, podType, tfdrive.State{}, with(config, map[string]any{"image": "builtin/echo"}), "create")
		expectRefusal(t, d, p, state, podType, with(config, map[string]any{"template_id": "nope"}), "template_id", "does not exist")
	})
}
