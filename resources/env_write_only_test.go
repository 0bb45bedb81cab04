package resources_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// envOwner is an object with write-only variables, for tests that run on several kinds.
type envOwner struct {
	*testing.T
	deployment *acctest.Deployment
	provider   *tfdrive.Provider
	typeName   string
	minimal    map[string]any // the minimal configuration
	getEnv     func(id string) map[string]string
	setEnv     func(id string, env map[string]string) // changes the variables without Terraform
	state      tfdrive.State
}

func templateOwner(t *testing.T, d *acctest.Deployment, v api.Version) *envOwner {
	t.Helper()
	c := d.Client(t, v)
	return &envOwner{
		T: t, deployment: d, provider: drive(t, d, v), typeName: "gpucloud_template",
		minimal: map[string]any{"name": d.Name("wo"), "image": "i", "serverless": true},
		getEnv:  func(id string) map[string]string { return must.Do(c.Templates.Get(t.Context(), id))(t).Env },
		setEnv: func(id string, env map[string]string) {
			edit(t, c.Templates, id, func(template *api.Template) { template.Env = env })
		},
	}
}

// onEachOwner runs a test on templates and pods of both versions, and on endpoints with and without a template.
func onEachOwner(t *testing.T, test func(t *testing.T, o *envOwner)) {
	t.Helper()
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		c := d.Client(t, v)
		t.Run("template", func(t *testing.T) { test(t, templateOwner(t, d, v)) })
		t.Run("pod", func(t *testing.T) {
			test(t, &envOwner{
				T: t, deployment: d, provider: drive(t, d, v), typeName: "gpucloud_pod",
				minimal: map[string]any{"name": d.Name("wo"), "image": "builtin/echo", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}, "start_ssh": false, "start_jupyter": false},
				getEnv:  func(id string) map[string]string { return must.Do(c.Pods.GetFresh(t.Context(), id))(t).Container.Env },
				setEnv: func(id string, env map[string]string) {
					edit(t, c.Pods.Collection, id, func(p *api.Pod) { p.Container.Env, p.GlobalNetworking = env, nil })
				},
			})
		})
		if v == api.V1 {
			return
		}
		followed := must.Do(c.Templates.Create(t.Context(), api.Template{Name: d.Name("followed"), Image: "i", Disk: 10, Category: "NVIDIA", Serverless: true}))(t)
		if d.Remote {
			t.Cleanup(func() { _ = c.Templates.Delete(t.Context(), followed.ID) })
		}
		for name, minimal := range map[string]map[string]any{
			"endpoint":             {"name": d.Name("wo"), "image": "i"},
			"endpoint of template": {"name": d.Name("wo"), "template_id": followed.ID},
		} {
			t.Run(name, func(t *testing.T) {
				test(t, &envOwner{
					T: t, deployment: d, provider: drive(t, d, v), typeName: "gpucloud_endpoint", minimal: minimal,
					getEnv: func(id string) map[string]string { return must.Do(c.Endpoints.Get(t.Context(), id))(t).Container.Env },
					setEnv: func(id string, env map[string]string) {
						edit(t, c.Endpoints, id, func(e *api.Endpoint) { e.Container.Env = env })
					},
				})
			})
		}
	})
}

type env = map[string]any

// config returns the minimal configuration with env, env_wo and env_wo_version. It omits nil values.
func (o *envOwner) config(plain, writeOnly, version any) map[string]any {
	return withChanges(o.minimal, map[string]any{"env": plain, "env_wo": writeOnly, "env_wo_version": version})
}

// apply applies a configuration: the server has its variables, the state no secrets, and the next plan is empty.
func (o *envOwner) apply(config map[string]any, action string, want map[string]string) {
	o.Helper()
	o.state = apply(o.T, o.provider, o.typeName, o.state, config, action)
	o.expectEnv(want)
}

func (o *envOwner) expectEnv(want map[string]string) {
	o.Helper()
	must.Equal(o, o.getEnv(o.state.Get("id").(string)), want, "the variables on the server")
	o.expectNoSecret(o.state)
}

func (o *envOwner) expectNoSecret(s tfdrive.State) {
	o.Helper()
	must.Hold(o, !s.Contains("secret-"), "the state has a secret", s.Value)
}

func (o *envOwner) refresh() {
	o.Helper()
	o.state = refresh(o.T, o.provider, o.state)
	o.expectNoSecret(o.state)
}

func TestEnvWriteOnly(t *testing.T) {
	t.Parallel()
	onEachOwner(t, func(_ *testing.T, o *envOwner) {
		o.apply(o.config(env{"A": "1"}, env{"S": "secret-1", "T": "secret-2"}, 1), "create", map[string]string{"A": "1", "S": "secret-1", "T": "secret-2"})

		// Changed values are sent only with another version.
		o.apply(o.config(env{"A": "1"}, env{"S": "secret-3", "T": "secret-2"}, 1), "no-op", map[string]string{"A": "1", "S": "secret-1", "T": "secret-2"})
		o.apply(o.config(env{"A": "1"}, env{"S": "secret-3", "T": "secret-2"}, 2), "update", map[string]string{"A": "1", "S": "secret-3", "T": "secret-2"})

		// An update of env sends the server's current write-only values back, not the configured ones.
		o.apply(o.config(env{"A": "2"}, env{"S": "secret-4", "T": "secret-4"}, 2), "update", map[string]string{"A": "2", "S": "secret-3", "T": "secret-2"})
		o.apply(o.config(env{"A": "3", "B": ""}, nil, 2), "update", map[string]string{"A": "3", "B": "", "S": "secret-3", "T": "secret-2"})

		// A change of the names is an update, even with the same version.
		o.apply(o.config(env{"A": "3"}, env{"S": "secret-3", "U": "secret-5"}, 2), "update", map[string]string{"A": "3", "S": "secret-3", "U": "secret-5"})
		o.apply(o.config(nil, env{"S": "secret-3", "U": "secret-5"}, 2), "update", map[string]string{"S": "secret-3", "U": "secret-5"})

		// A variable moves from env_wo to env, and back.
		o.apply(o.config(env{"S": "shown"}, env{"U": "secret-5"}, 2), "update", map[string]string{"S": "shown", "U": "secret-5"})
		o.apply(o.config(nil, env{"S": "secret-6", "U": "secret-5"}, 2), "update", map[string]string{"S": "secret-6", "U": "secret-5"})

		// All write-only variables are removed.
		o.apply(o.config(env{"A": "4"}, nil, nil), "update", map[string]string{"A": "4"})
		o.apply(o.config(env{"A": "4"}, env{}, 2), "update", map[string]string{"A": "4"})
	})
}

// Drift of a write-only variable isn't shown in env, and the next apply sends the configured value again.
func TestEnvWriteOnlyDrift(t *testing.T) {
	t.Parallel()
	onEachOwner(t, func(t *testing.T, o *envOwner) {
		config := o.config(env{"A": "1"}, env{"S": "secret-1", "T": "secret-2"}, 1)
		want := map[string]string{"A": "1", "S": "secret-1", "T": "secret-2"}
		o.apply(config, "create", want)
		id := o.state.Get("id").(string)

		o.setEnv(id, map[string]string{"A": "1", "S": "secret-elsewhere", "T": "secret-2"})
		o.refresh()
		o.refresh() // a second read finds the same
		got := o.state.Get("env_wo_keys")
		must.Hold(t, len(got.([]any)) == 1, "env_wo_keys is", got, "although S was changed")
		without := o.provider.Plan(o.typeName, o.state, o.config(env{"A": "1"}, nil, 1))
		must.Hold(t, without.Action == "no-op" && strings.Contains(without.Diagnostics.Warnings(), "was changed or removed elsewhere. This plan doesn't restore it, because env_wo is null. Give env_wo a value to send it again. Terraform passes null for an attribute in ignore_changes."),
			"if env_wo is null, the plan is to", without.Action, "with the warnings", without.Diagnostics.Warnings())
		o.apply(config, "update", want)

		o.setEnv(id, map[string]string{"A": "1", "T": "secret-2"})
		o.refresh()
		o.apply(config, "update", want)

		// If the configuration has no values, the server's values stay.
		o.setEnv(id, map[string]string{"A": "1", "S": "secret-elsewhere"})
		o.refresh()
		o.state = apply(t, o.provider, o.typeName, o.state, o.config(env{"A": "2"}, nil, 1), "update")
		o.expectEnv(map[string]string{"A": "2", "S": "secret-elsewhere"})

		o.setEnv(id, map[string]string{"A": "1", "S": "secret-1", "T": "secret-2", "N": "new"})
		o.refresh()
		o.apply(config, "update", want)
	})
}

// driveWithTwoKeys returns a deployment and a provider for each of its two API keys.
func driveWithTwoKeys(t *testing.T) (d *acctest.Deployment, first, second *tfdrive.Provider) {
	t.Helper()
	dir := t.TempDir()
	other := must.Do(apikey.FileIn(dir).Add(apikey.Key{Name: "other"}))(t)
	t.Setenv("GPUCLOUD_BASE_URL", "") // a remote deployment has only one key
	d = acctest.DeployWith(t, func(c *jobrunner.Config) { c.KeyDir = dir })
	return d, drive(t, d, api.V2), driveWith(t, d, api.V2, map[string]any{"api_key": other})
}

// With another API key, the provider can't detect a change made elsewhere, and the plan warns. An
// apply that sends no value keeps the digests, so the first key still detects the change.
func TestEnvWriteOnlyUnderAnotherAPIKey(t *testing.T) {
	d, first, second := driveWithTwoKeys(t)
	o := templateOwner(t, d, api.V2)
	const (
		incomparable = "Write-only variables can't be compared"
		elsewhere    = "was changed or removed elsewhere"
	)
	plan := func(p *tfdrive.Provider, config map[string]any, action string, says ...string) tfdrive.PlannedChange {
		t.Helper()
		planned := p.Plan(o.typeName, refresh(t, p, o.state), config)
		warnings := planned.Diagnostics.Warnings()
		must.Hold(t, planned.Diagnostics.Err() == nil && planned.Action == action, "planned to", planned.Action, "expected", action, planned.Diagnostics)
		for _, text := range []string{incomparable, elsewhere} {
			must.Equal(t, strings.Contains(warnings, text), slices.Contains(says, text), "whether a warning says", text, "in", warnings)
		}
		return planned
	}
	update := func(p *tfdrive.Provider, config map[string]any, says ...string) {
		t.Helper()
		o.state = tfdrive.Do(p.Apply(plan(p, config, "update", says...)))(t)
	}
	withValues := o.config(env{"A": "1"}, env{"S": "secret-1", "T": "secret-2"}, 1)
	withoutValues := func(a string) map[string]any { return o.config(env{"A": a}, nil, 1) }
	o.apply(withValues, "create", map[string]string{"A": "1", "S": "secret-1", "T": "secret-2"})
	id := o.state.Get("id").(string)
	plan(first, withoutValues("1"), "no-op")
	plan(second, withoutValues("1"), "no-op", incomparable)
	plan(second, withValues, "no-op", incomparable)

	o.setEnv(id, map[string]string{"A": "1", "S": "secret-elsewhere", "T": "secret-2"})
	plan(second, withoutValues("1"), "no-op", incomparable)
	update(second, withoutValues("2"), incomparable)
	o.expectEnv(map[string]string{"A": "2", "S": "secret-elsewhere", "T": "secret-2"})
	plan(first, withoutValues("2"), "no-op", elsewhere)

	// Any key detects a removed variable.
	o.setEnv(id, map[string]string{"A": "2", "S": "secret-elsewhere"})
	plan(second, withoutValues("2"), "no-op", incomparable, elsewhere)

	// After the second key has sent the values, only this key can compare them.
	update(second, o.config(env{"A": "2"}, env{"S": "secret-3", "T": "secret-4"}, 2))
	o.expectEnv(map[string]string{"A": "2", "S": "secret-3", "T": "secret-4"})
	plan(second, o.config(env{"A": "2"}, nil, 2), "no-op")
	plan(first, o.config(env{"A": "2"}, nil, 2), "no-op", incomparable)
}

func TestEnvWriteOnlyRejections(t *testing.T) {
	onEachOwner(t, func(t *testing.T, o *envOwner) {
		expectRejections(t, o.deployment, o.provider, o.typeName, nil, []rejection{
			{o.config(env{"A": "1"}, env{"A": "secret-1"}, 1), "env_wo", `The variable "A" is in env and in env_wo`},
			{o.config(nil, env{"A": "secret-1"}, nil), "env_wo_version", "env_wo needs env_wo_version"},
			{o.config(nil, nil, 1), "env_wo", "Give env_wo a value for this run, or undo the change of env_wo_version. Terraform passes null for an attribute in ignore_changes."},
			{o.config(nil, env{"A=B": "secret-1"}, 1), "env_wo.A=B", "expected a name"},
			{o.config(nil, env{"A": "secret-\x00"}, 1), "env_wo.A", "without NUL characters."},
			{o.config(nil, env{"A": nil}, 1), "env_wo.A", `"A" is null`},
		}...)
		o.apply(o.config(nil, env{"A": "secret-1"}, 1), "create", map[string]string{"A": "secret-1"})
		expectRejection(t, o.deployment, o.provider, o.state, o.typeName, o.config(nil, nil, 2), "env_wo", "Give env_wo a value for this run")
		expectRejection(t, o.deployment, o.provider, o.state, o.typeName, o.config(nil, nil, 0), "env_wo_version", "env_wo_version goes from 1 to 0")
	})
}

// The apply sends values that are unknown in the plan.
func TestEnvWriteOnlyUnknown(t *testing.T) {
	onEachOwner(t, func(t *testing.T, o *envOwner) {
		known := o.config(nil, env{"S": "secret-1"}, 1)
		for _, unknown := range []any{tfdrive.Unknown, env{"S": tfdrive.Unknown}} {
			o.state = tfdrive.State{}
			planned := o.provider.Plan(o.typeName, o.state, withChanges(known, map[string]any{"name": o.deployment.Name("unknown"), "env_wo": unknown}))
			must.Succeed(t, planned.Diagnostics.Err())
			planned = o.provider.Resolve(planned, withChanges(known, map[string]any{"name": o.deployment.Name("unknown")}))
			o.state = tfdrive.Do(o.provider.Apply(planned))(t)
			o.expectEnv(map[string]string{"S": "secret-1"})
			must.Succeed(t, o.provider.Destroy(o.state).Err())
		}
	})
}

// An import can't distinguish write-only variables. The first apply removes them from the state.
func TestEnvWriteOnlyImport(t *testing.T) {
	onEachOwner(t, func(t *testing.T, o *envOwner) {
		config := o.config(env{"A": "1"}, env{"S": "secret-1"}, 1)
		want := map[string]string{"A": "1", "S": "secret-1"}
		o.apply(config, "create", want)
		imported := importState(t, o.provider, o.typeName, o.state.Get("id").(string))
		if o.minimal["template_id"] != nil { // an import finds no link to a template
			return
		}
		o.state = imported
		o.apply(config, "update", want)
	})
}

// An endpoint follows the write-only variables of its template. Its own variables override them.
func TestEndpointFollowsWriteOnlyVariables(t *testing.T) {
	d := acctest.Deploy(t)
	p, c := drive(t, d, api.V2), d.Client(t, api.V2)
	template := map[string]any{"name": d.Name("wo"), "image": "i", "serverless": true, "env": env{"A": "1"}, "env_wo": env{"S": "secret-1", "T": "secret-2"}, "env_wo_version": 1, "args": "--token hidden"}
	followed := apply(t, p, "gpucloud_template", tfdrive.State{}, template, "create")
	config := map[string]any{"name": d.Name("wo"), "template_id": followed.Get("id"), "args": "own", "env_wo": env{"T": "secret-own"}, "env_wo_version": 1}
	e := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, config, "create")
	expectEnv := func(want map[string]string) {
		t.Helper()
		got, err := c.Endpoints.Get(t.Context(), e.Get("id").(string))
		must.Hold(t, err == nil && maps.Equal(got.Container.Env, want), "the endpoint has", got.Container.Env, "expected", want, err)
		must.Hold(t, !e.Contains("secret-") && !e.Contains("hidden") && !followed.Contains("secret-"), "the state has a secret")
	}
	expectEnv(map[string]string{"A": "1", "S": "secret-1", "T": "secret-own"})
	shown := e.Get("from_template.env").(map[string]any)
	must.Hold(t, len(shown) == 2, "from_template.env is", shown, "expected A and S")
	applyBoth := func(template map[string]any, want map[string]string) {
		t.Helper()
		p.Reconfigure()
		planned := p.Plan("gpucloud_template", followed, template)
		update := p.Plan("gpucloud_endpoint", e, config)
		must.Require(t, planned.Action == "update" && update.Action == "update",
			"the template is planned to", planned.Action, "the endpoint to", update.Action)
		p.Reconfigure()
		followed = tfdrive.Do(p.Apply(planned))(t)
		e = tfdrive.Do(p.Apply(update))(t)
		followed = expectEmptyPlan(t, p, followed, template)
		e = expectEmptyPlan(t, p, e, config)
		expectEnv(want)
	}
	template = withChanges(template, map[string]any{"env_wo": env{"S": "secret-3", "T": "secret-3"}, "env_wo_version": 2})
	applyBoth(template, map[string]string{"A": "1", "S": "secret-3", "T": "secret-own"})
	template = withChanges(template, map[string]any{"env_wo": nil, "image": "j"}) // the configuration has no values
	applyBoth(template, map[string]string{"A": "1", "S": "secret-3", "T": "secret-own"})
	template = withChanges(template, map[string]any{"env_wo_version": nil, "env": env{"A": "2"}})
	applyBoth(template, map[string]string{"A": "2", "T": "secret-own"})
}

// A variable of env_wo hides the template's. The update that removes it from env_wo restores the template's.
func TestWriteOnlyVariableHidesTheTemplates(t *testing.T) {
	for typeName, more := range map[string]map[string]any{
		"gpucloud_endpoint": {},
		"gpucloud_pod":      {"cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}},
	} {
		t.Run(typeName, func(t *testing.T) {
			d, p := deploy(t)
			template := map[string]any{"name": d.Name("hidden"), "image": "builtin/echo", "serverless": typeName == "gpucloud_endpoint", "env": env{"S": "theirs", "T": "theirs"}}
			templateID := apply(t, p, "gpucloud_template", tfdrive.State{}, template, "create").Get("id")
			config := withChanges(more, map[string]any{"name": d.Name("hides"), "template_id": templateID, "env_wo": env{"S": "secret-1", "T": "secret-2"}, "env_wo_version": 1})
			state := apply(t, p, typeName, tfdrive.State{}, config, "create")
			expectEnv := func(names int) {
				t.Helper()
				got, _ := state.Get("from_template.env").(map[string]any)
				must.Hold(t, len(got) == names, "from_template.env is", got, "expected", names, "variables")
			}
			expectEnv(0)
			state = apply(t, p, typeName, state, withChanges(config, map[string]any{"env_wo": env{"T": "secret-2"}}), "update")
			expectEnv(1)
			state = apply(t, p, typeName, state, withChanges(config, map[string]any{"env_wo": nil, "env_wo_version": nil}), "update")
			expectEnv(2)
		})
	}
}

// Moving a variable from env to env_wo with the same value doesn't replace the container.
func TestVariableBecomesWriteOnly(t *testing.T) {
	_, p := deploy(t)
	config := cpuPod(withChanges(waitFor(map[string]any{"running": true}, "5m"), map[string]any{"env": map[string]any{"A": "a", "B": "b"}}))
	state := apply(t, p, podType, tfdrive.State{}, config, "create")
	for value, warns := range map[string]bool{"b": false, "c": true} {
		for _, env := range []map[string]any{{"A": "a"}, nil} {
			written := map[string]any{"A": "a", "B": value}
			changed := withChanges(config, map[string]any{"env": nil, "env_wo": written, "env_wo_version": 1})
			if env != nil {
				delete(written, "A")
				changed["env"] = env
			}
			planned := p.Plan(podType, state, changed)
			got := strings.Contains(planned.Diagnostics.Warnings(), "The container of the pod will be replaced")
			must.Hold(t, got == warns && planned.Action == "update", "B", value, "planned to", planned.Action, planned.Diagnostics)
		}
	}
}
