package resources_test

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// workerImage returns the image of an endpoint's workers, read with API v2.
func workerImage(t *testing.T, d *acctest.Deployment, id string) string {
	t.Helper()
	return *must.Do(d.Client(t, api.V2).Endpoints.Get(t.Context(), id))(t).Container.Image
}

// A plan finds every difference between a template and the endpoint's copy, whichever has changed.
func TestEndpointTemplateDrift(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	c := d.Client(t, api.V2)
	// Another process creates the template, so p knows only what it reads.
	template, _ := serverlessTemplate(t, d, drive(t, d, api.V2), map[string]any{"env": map[string]any{"A": "1", "B": "2"}})
	id := template.Get("id").(string)
	config := map[string]any{"name": "e", "template_id": id, "env": map[string]any{"B": "own"}}
	state := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, config, "create")
	endpointID := state.Get("id").(string)

	// nextRun refreshes, plans and applies. An update must change only this setting of from_template.
	nextRun := func(what, setting, action string) {
		t.Helper()
		read := refresh(t, p, state)
		planned := p.Plan(state.Type, read, config)
		must.Require(t, planned.Action == action, what, "planned to", planned.Action, "not to", action)
		if action == "update" {
			before, after := read.Get("from_template").(map[string]any), planned.Get("from_template").(map[string]any)
			for name := range before {
				must.Equal(t, !reflect.DeepEqual(before[name], after[name]), (name == setting), what, "the plan shows", name, "as", before[name], "and then", after[name])
			}
			state = apply(t, p, state.Type, read, config, action)
		}
	}
	nextRun("nothing", "", "no-op")
	for what, change := range map[string]func(*api.Template){
		"image": func(t *api.Template) { t.Image = "img:2" },
		"args":  func(t *api.Template) { t.Command = api.Command{Args: new("--new")} },
		"disk":  func(t *api.Template) { t.Disk = 70 },
		"env":   func(t *api.Template) { t.Env = map[string]string{"A": "changed", "B": "2"} },
		"ports": func(t *api.Template) { t.Ports = []string{"80/http"} },
	} {
		edit(t, c.Templates, id, change)
		nextRun("the template: "+what, what, "update")
		nextRun("after the template's "+what, "", "no-op")
	}
	// These settings don't affect workers.
	edit(t, c.Templates, id, func(t *api.Template) {
		t.Name, t.Public = d.Name("renamed"), true
		t.Mounts.Persistent = &api.PersistentMount{Size: 10, Path: "/x"}
	})
	nextRun("the template's name and mounts", "", "no-op")

	for what, change := range map[string]func(*api.Endpoint){
		"image":       func(e *api.Endpoint) { e.Container.Image = new("elsewhere") },
		"args":        func(e *api.Endpoint) { e.Container.Command = api.Command{Args: new("elsewhere")} },
		"disk":        func(e *api.Endpoint) { e.Container.Disk = new(int64(99)) },
		"ports":       func(e *api.Endpoint) { e.Container.Ports = &[]string{"99/tcp"} },
		"env":         func(e *api.Endpoint) { e.Container.Env = map[string]string{"A": "drift", "B": "own"} },
		"another env": func(e *api.Endpoint) { e.Container.Env = map[string]string{"A": "changed", "B": "own", "C": "new"} },
		"its own env": func(e *api.Endpoint) { e.Container.Env = map[string]string{"A": "changed", "B": "drift"} },
	} {
		edit(t, c.Endpoints, endpointID, change)
		setting := map[string]string{"another env": "env", "its own env": "none"}[what]
		nextRun("the endpoint's copy: "+what, cmp.Or(setting, what), "update")
		nextRun("after the endpoint's copy of "+what, "", "no-op")
	}
	got, err := c.Endpoints.Get(t.Context(), endpointID)
	must.Hold(t, err == nil && got.Container.Env["A"] == "changed" && got.Container.Env["B"] == "own" && len(got.Container.Env) == 2 && *got.Container.Image == "img:2",
		"the endpoint ended with", got.Container, err)

	// A change of workers doesn't change the container.
	config["workers"] = map[string]any{"max": 7}
	read, _ := p.Reconfigure().Read(state)
	planned := p.Plan(state.Type, read, config)
	must.Hold(t, planned.Action == "update" && reflect.DeepEqual(planned.Get("from_template"), read.Get("from_template")),
		"a change of workers planned to", planned.Action, "and applies the template", planned.Get("from_template"))

	// Without the template, the endpoint keeps its settings. A plan only warns, so that a destroy works; the apply of
	// a change fails.
	must.Succeed(t, c.Templates.Delete(t.Context(), id))
	read, _ = p.Reconfigure().Read(state)
	planned = expectPlan(t, p, state.Type, read, config, "update", "template_id: The template is gone")
	must.ErrorContains(t, tfdrive.Err(p.Apply(planned)), "template_id names a template that does not exist")
	delete(config, "workers")
	expectPlan(t, p, state.Type, read, config, "no-op", "The template is gone")
	read = tfdrive.State{Type: read.Type, Value: read.Value}
	planned = p.Plan(state.Type, read, config)
	must.Hold(t, planned.Action == "no-op" && planned.Diagnostics.Warnings() == "", "without the private state", planned.Action, planned.Diagnostics)
}

// A change of the template also plans an update of the endpoint. The process that applies makes the same plan.
func TestEndpointTemplatePlannedInTheSameRun(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		first := drive(t, d, v)
		template, templateConfig := serverlessTemplate(t, d, first, nil)
		config := map[string]any{"name": "e", "template_id": template.Get("id")}
		endpoint := apply(t, first, "gpucloud_endpoint", tfdrive.State{}, config, "create")

		changed := withChanges(templateConfig, map[string]any{"image": "img:2"})
		for setting, c := range map[string]struct {
			change map[string]any
			want   any
		}{
			"image":    {changed, "img:2"},
			"registry": {withChanges(templateConfig, map[string]any{"registry": tfdrive.Unknown}), tfdrive.Unknown},
		} {
			planning := drive(t, d, v)
			planning.Plan("gpucloud_template", template, c.change)
			got := planning.Plan(endpoint.Type, endpoint, config)
			shown := got.Get("from_template").(map[string]any)
			must.Hold(t, got.Action == "update" && shown[setting] == c.want, setting, "planned to", got.Action, shown)
		}
		applying := drive(t, d, v)
		template, _ = applying.Apply(applying.Plan("gpucloud_template", template, changed))
		endpoint = tfdrive.Do(applying.Apply(expectPlan(t, applying, endpoint.Type, endpoint, config, "update")))(t)
		must.Equal(t, workerImage(t, d, endpoint.Get("id").(string)), "img:2", "workers run")
		expectEmptyPlan(t, drive(t, d, v), endpoint, config)

		// A revert of the template to the applied settings doesn't change the endpoint.
		got := drive(t, d, v)
		must.Hold(t, got.Plan("gpucloud_template", template, changed).Action == "no-op" && got.Plan(endpoint.Type, endpoint, config).Action == "no-op",
			"an unchanged template plans something")
	})
}

// If another provider configuration changes a template, the plan of its endpoint lacks the change, and the apply
// follows the plan or sends nothing. The next run applies the change.
func TestTemplateOfAnotherProviderConfiguration(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p, alias := drive(t, d, v), drive(t, d, v)
		template, templateConfig := serverlessTemplate(t, d, alias, map[string]any{"image": "img:0"})
		config := map[string]any{"name": "e", "template_id": template.Get("id")}
		state := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, config, "create")
		for i, c := range []struct {
			what       string
			change     map[string]any // the change of the endpoint
			action     string
			listsAgain bool // the process that applies lists the templates after the change, too
			wantError  string
		}{
			{"no change", nil, "no-op", false, ""},
			{"another setting", map[string]any{"workers": map[string]any{"max": 7}}, "update", false, ""},
			{"another setting, templates listed again", map[string]any{"workers": map[string]any{"max": 8}}, "update", true, ""},
			{"the container", map[string]any{"env": map[string]any{"A": "1"}}, "update", false, "the template has changed since the plan was made. Nothing was sent"},
			{"the container, templates listed again", map[string]any{"env": map[string]any{"A": "2"}}, "update", true, "the template has changed since the plan was made. Nothing was sent"},
		} {
			if c.wantError != "" && v == api.V1 { // v1 has no container settings of an endpoint
				break
			}
			oldImage, newImage := fmt.Sprint("img:", i), fmt.Sprint("img:", i+1)
			maps.Copy(config, c.change)
			templateConfig["image"] = newImage
			changed := alias.Reconfigure().Plan("gpucloud_template", template, templateConfig)
			planned := p.Reconfigure().Plan(state.Type, state, config)
			must.Hold(t, planned.Action == c.action && planned.Get("from_template.image") == oldImage,
				c.what, "planned to", planned.Action, "with", planned.Get("from_template.image"))
			p.Reconfigure() // lists the templates
			template = applyPlan(t, alias, changed)
			if c.listsAgain {
				serverlessTemplate(t, d, p, map[string]any{"name": d.Name(fmt.Sprint(i))})
			}
			if c.action != "no-op" {
				writes := d.Writes()
				after, diags := p.Apply(p.Resolve(planned, config))
				switch {
				case c.wantError == "" && diags.Err() == nil:
					state = after
				case c.wantError == "" || diags.Err() == nil || !strings.Contains(diags.Err().Error(), c.wantError) || d.Writes() != writes:
					t.Errorf("%s: %s, %d writes", c.what, diags, d.Writes()-writes)
				}
			}
			read := refresh(t, p, state)
			next := p.Plan(state.Type, read, config)
			shown := map[api.Version]any{api.V1: newImage, api.V2: oldImage}[v] // on API v1, the server applies a changed template
			must.Hold(t, next.Get("from_template.image") == newImage && (next.Action == "no-op") == (shown == newImage) && read.Get("from_template.image") == shown,
				c.what, "the next run plans to", next.Action, "from", read.Get("from_template.image"), "to", next.Get("from_template.image"))
			state = read
			if next.Action == "update" {
				state = applyPlan(t, p, next)
			}
			must.Equal(t, workerImage(t, d, state.Get("id").(string)), newImage, c.what, "workers run")
			state = expectEmptyPlan(t, drive(t, d, v), state, config)
		}
	})
}

// API v2 returns no template id. After an import, one update records it.
func TestEndpointImportWithTemplate(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		created, config := endpointOfTemplate(t, d, p, map[string]any{"env": map[string]any{"A": "1"}, "args": "-x"}, nil)
		state := importState(t, p, "gpucloud_endpoint", created.Get("id").(string))
		state = apply(t, p, state.Type, state, config, map[api.Version]string{api.V1: "no-op", api.V2: "update"}[v])
		must.Hold(t, state.Get("id") == created.Get("id") && state.Get("image") == nil, "id", state.Get("id"), "image", state.Get("image"))
	})
}

// A plan with another API key and without a refresh changes nothing.
func TestEndpointTemplateUnderAnotherAPIKey(t *testing.T) {
	d, first, second := driveWithTwoKeys(t)
	state, config := endpointOfTemplate(t, d, first, map[string]any{"env": map[string]any{"A": "1"}, "args": "-x"}, nil)
	expectPlan(t, second, state.Type, state, config, "no-op")
	apply(t, second, state.Type, state, withChanges(config, map[string]any{"args": "-y", "env": map[string]any{"B": "2"}}), "update")
}

// An endpoint switches from a template to its own container, to another template, and back.
func TestEndpointChangesItsTemplate(t *testing.T) {
	d, p := deploy(t)
	one, _ := serverlessTemplate(t, d, p, map[string]any{"name": d.Name("one"), "image": "one", "env": map[string]any{"A": "1"}, "ports": []any{"80/http"}, "allowed_cuda_versions": []any{"12.8"}})
	two, _ := serverlessTemplate(t, d, p, map[string]any{"name": d.Name("two"), "image": "two", "args": "-x"})
	gpu := map[string]any{"pools": []any{"ADA_24"}}
	configFor := func(s tfdrive.State) map[string]any {
		return map[string]any{"name": "e", "template_id": s.Get("id"), "gpu": gpu}
	}
	own := map[string]any{"name": "e", "image": "own", "gpu": gpu}
	state := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, configFor(one), "create")
	get := func() api.Endpoint {
		t.Helper()
		return must.Do(d.Client(t, api.V2).Endpoints.Get(t.Context(), state.Get("id").(string)))(t)
	}
	got := get()
	must.Hold(t, len(got.GPU.AllowedCUDAVersions) == 1, "the endpoint lacks the template's CUDA versions", got.GPU)
	state = apply(t, p, state.Type, state, configFor(two), "update")
	got = get()
	must.Hold(t, *got.Container.Image == "two" && len(got.Container.Env) == 0 && len(*got.Container.Ports) == 0 && len(got.GPU.AllowedCUDAVersions) == 0,
		"after following two", got.Container, got.GPU)
	state = apply(t, p, state.Type, state, own, "update")
	got = get()
	must.Hold(t, *got.Container.Image == "own" && *got.Container.Args == "", "with a container of its own", got.Container)
	state = apply(t, p, state.Type, state, configFor(one), "update")
	got = get()
	must.Hold(t, *got.Container.Image == "one" && got.Container.Env["A"] == "1" && len(got.GPU.AllowedCUDAVersions) == 1, "after following one", got.Container, got.GPU)
	shown := state.Get("from_template").(map[string]any)
	must.Hold(t, shown["image"] == "one" && len(shown["allowed_cuda_versions"].([]any)) == 1, "from_template is", shown)
}

// Default ports that a v1 server adds to a template aren't a change, or every run would apply the template again.
func TestEndpointTemplateWithFilledPorts(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		// A template that API v1 creates, without any optional member.
		id := post(t, d, "/v1/templates", fmt.Sprintf(`{"name":%q,"imageName":"i","isServerless":true}`, d.Name("t")))
		config := map[string]any{"name": d.Name("t"), "image": "i", "serverless": true, "mounts": map[string]any{"persistent": map[string]any{"size": 20, "path": "/workspace"}}}
		p := drive(t, d, v)
		template := importState(t, p, "gpucloud_template", id)
		expectState(t, template, map[string]any{"ports": []any{"22/tcp", "8888/http"}})
		t.Cleanup(func() { p.Destroy(template) })
		endpointConfig := map[string]any{"name": "e", "template_id": id}
		state := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, endpointConfig, "create")
		apply(t, p, template.Type, template, config, "no-op")
		apply(t, p, state.Type, state, endpointConfig, "no-op")
		// Ports that a user sets do count.
		next := drive(t, d, v)
		next.Plan(template.Type, template, withChanges(config, map[string]any{"ports": []any{"80/http"}}))
		must.Equal(t, next.Plan(state.Type, state, endpointConfig).Action, "update", "new ports of the template planned to")
	})
}

// On API v1, a plan reverts changes of variables that were made with API v2. If API v1 created the
// endpoint, the missing link to the template shows the change, otherwise the variables do.
func TestDriftOfVariablesOnV1(t *testing.T) {
	for _, created := range []api.Version{api.V1, api.V2} {
		d := acctest.Deploy(t)
		state, config := endpointOfTemplate(t, d, drive(t, d, created), map[string]any{"env": map[string]any{"A": "1"}}, nil)
		v1 := drive(t, d, api.V1)
		state = expectEmptyPlan(t, v1, state, config)
		c := d.Client(t, api.V2)
		edit(t, c.Endpoints, state.Get("id"), func(e *api.Endpoint) { e.Container.Env = map[string]string{"A": "1", "EVIL": "1"} })
		applyRestore(t, v1, state, config)
		got, err := c.Endpoints.Get(t.Context(), state.Get("id").(string))
		must.Hold(t, err == nil && len(got.Container.Env) == 1, "created by API", created, "workers have", got.Container.Env, err)
	}
}

// On API v1, a template sets no CUDA versions for its endpoints. If somebody sets CUDA versions elsewhere, the next apply removes them.
func TestDriftOfCUDAVersionsOnV1(t *testing.T) {
	d := acctest.Deploy(t)
	p := drive(t, d, api.V1)
	state, config := endpointOfTemplate(t, d, p, nil, map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}})
	c := d.Client(t, api.V1)
	edit(t, c.Endpoints, state.Get("id"), func(e *api.Endpoint) { e.GPU.AllowedCUDAVersions = []string{"11.8"} })
	applyRestore(t, p, state, config)
	got := must.Do(c.Endpoints.Get(t.Context(), state.Get("id").(string)))(t)
	must.Hold(t, len(got.GPU.AllowedCUDAVersions) == 0, "workers may have", got.GPU)
}
