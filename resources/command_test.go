package resources_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// kindsWithCommand has the kinds that have a start command, with their required attributes.
var kindsWithCommand = map[string]map[string]any{
	"gpucloud_template": {"image": "i"},
	podType:             {"image": "builtin/echo", "gpu": map[string]any{"id": "NVIDIA L4"}},
	endpointType:        {"image": "builtin/echo"},
	clusterType:         clusterConfig(nil),
}

func eachKindWithCommand(t *testing.T, test func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version, typeName string, config map[string]any)) {
	t.Helper()
	for typeName, config := range kindsWithCommand {
		for _, v := range acctest.Versions {
			if v == api.V1 && (typeName == endpointType || typeName == clusterType) {
				continue
			}
			t.Run(typeName+"/"+string(v), func(t *testing.T) {
				t.Parallel()
				d := acctest.Deploy(t)
				test(t, d, drive(t, d, v), v, typeName, withChanges(config, map[string]any{"name": d.Name("c")}))
			})
		}
	}
}

func TestCommandForms(t *testing.T) {
	t.Parallel()
	eachKindWithCommand(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version, typeName string, config map[string]any) {
		expectRefusals(t, d, p, typeName, config, []refusal{
			{map[string]any{"args": "a", "cmd": []any{"a"}}, "cmd", "cmd conflicts with args"},
			{map[string]any{"args": "a", "entrypoint": []any{"a"}}, "entrypoint", "entrypoint conflicts with args"},
			{map[string]any{"args": "", "cmd": []any{}}, "cmd", "cmd conflicts with args"},
			{map[string]any{"cmd": []any{"a", nil}}, "cmd", "an element is null"},
		}...)
		// The first form creates the object. A later form is sent only if it means another command.
		list := map[string]any{"entrypoint": []any{"print"}, "cmd": []any{"two words", ""}}
		state := apply(t, p, typeName, tfdrive.State{}, withChanges(config, list), "create")
		sent := recordMembers(t, d)
		p = drive(t, d, v)
		json := map[string]any{"args": `{ "cmd": ["two words", ""], "entrypoint": ["print"] }`}
		for _, same := range []map[string]any{json, list} {
			state = apply(t, p, typeName, state, withChanges(config, same), "update")
			must.Equal(t, sent(), nil, same, "sent")
		}
		if imported, diags := p.Reconfigure().Import(typeName, state.Get("id").(string)); diags.Err() != nil {
			t.Error(diags)
		} else if got := []any{imported.Get("entrypoint"), imported.Get("cmd"), imported.Get("args")}; !reflect.DeepEqual(got, []any{[]any{"print"}, []any{"two words", ""}, nil}) {
			t.Errorf("imported %v", got)
		}
		change := map[string]string{clusterType: "replace"}[typeName]
		if change == "" {
			change = "update"
		}
		state = apply(t, p, typeName, state, withChanges(config, json), "update")
		state = apply(t, p, typeName, state, withChanges(config, map[string]any{"args": "print 'two words' ''"}), change) // without an entrypoint
		state = apply(t, p, typeName, state, withChanges(config, map[string]any{"cmd": []any{"print", "two words", ""}}), "update")
		state = apply(t, p, typeName, state, withChanges(config, map[string]any{"entrypoint": []any{}, "cmd": []any{}}), change)
		state = apply(t, p, typeName, state, withChanges(config, list), change)
		apply(t, p, typeName, state, config, change)
	})
}

// A command that was changed elsewhere is shown in the form of the configuration, and restored.
func TestCommandDrift(t *testing.T) {
	d := acctest.Deploy(t)
	for _, v := range acctest.Versions {
		p, c := drive(t, d, v), d.Client(t, v)
		for name, own := range map[string]map[string]any{
			"args": {"args": "a 'b c'"}, "JSON": {"args": `{"entrypoint":["e"]}`}, "lists": {"entrypoint": []any{"e"}, "cmd": []any{"c"}}, "cmd": {"cmd": []any{"c"}}, "nothing": {},
			"older": {"docker_entrypoint": []any{"e"}, "args": "c d"},
		} {
			config := withChanges(map[string]any{"image": "i", "name": d.Name(name + string(v))}, own)
			state := apply(t, p, "gpucloud_template", tfdrive.State{}, config, "create")
			for _, drift := range []api.Command{
				{Args: new("drift")}, {Args: new(`{"entrypoint":["drift"],"cmd":["x"]}`)}, {Entrypoint: new([]string{"e"}), Cmd: new([]string{})}, {Entrypoint: new([]string{}), Cmd: new([]string{"drift"})},
			} {
				id := state.Get("id").(string)
				var before startcmd.Command
				edit(t, c.Templates, id, func(template *api.Template) {
					before, _ = template.Meaning()
					template.Command = drift
				})
				if after, _ := drift.Meaning(); before.Equal(after) {
					continue
				}
				state = applyRestore(t, p, state, config)
				if got, err := c.Templates.GetFresh(t.Context(), id); err != nil {
					t.Fatal(err)
				} else if now, _ := got.Meaning(); !now.Equal(before) {
					t.Errorf("%s, %s: %q after %v, want %q", v, name, now, *got.Args, before)
				}
			}
		}
	}
}

// A pod or an endpoint that sets a part of the command gets the other part from its template. An
// endpoint also follows later changes of the template.
func TestPartialCommandWithTemplate(t *testing.T) {
	d := acctest.Deploy(t)
	p, c := drive(t, d, api.V2), d.Client(t, api.V2)
	command := func(typeName, id string) any {
		if typeName == podType {
			got, err := c.Pods.GetFresh(t.Context(), id)
			return []any{*got.Container.Entrypoint, *got.Container.Cmd, err}
		}
		got, err := c.Endpoints.GetFresh(t.Context(), id)
		return []any{*got.Container.Entrypoint, *got.Container.Cmd, err}
	}
	for typeName, config := range map[string]map[string]any{podType: {"gpu": map[string]any{"id": "NVIDIA L4"}}, endpointType: {}} {
		templateConfig := map[string]any{"name": d.Name("t-" + typeName), "image": "builtin/echo", "serverless": typeName == endpointType, "entrypoint": []any{"e"}, "cmd": []any{"c", "d"}}
		template := apply(t, p, "gpucloud_template", tfdrive.State{}, templateConfig, "create")
		config = withChanges(config, map[string]any{"name": "n", "template_id": template.Get("id")})
		state := apply(t, p, typeName, tfdrive.State{}, withChanges(config, map[string]any{"cmd": []any{"mine"}}), "create")
		for _, step := range []struct {
			own             map[string]any
			entrypoint, cmd []string
			args            any // of from_template
		}{
			{map[string]any{"entrypoint": []any{"f"}}, []string{"f"}, []string{"c", "d"}, "c d"},
			{nil, []string{"e"}, []string{"c", "d"}, `{"entrypoint":["e"],"cmd":["c","d"]}`},
			{map[string]any{"cmd": []any{}}, []string{"e"}, []string{}, `{"entrypoint":["e"],"cmd":[]}`},
			{map[string]any{"args": "x"}, []string{}, []string{"x"}, nil},
			{map[string]any{"cmd": []any{"mine"}}, []string{"e"}, []string{"mine"}, `{"entrypoint":["e"],"cmd":[]}`},
		} {
			state = apply(t, p, typeName, state, withChanges(config, step.own), "update")
			expectState(t, state, map[string]any{"from_template.args": step.args})
			must.Equal[any](t, command(typeName, state.Get("id").(string)), []any{step.entrypoint, step.cmd, nil}, typeName, step.own)
		}
		apply(t, p, "gpucloud_template", template, withChanges(templateConfig, map[string]any{"entrypoint": []any{"new"}}), "update")
		if typeName == endpointType {
			state = applyRestore(t, p, state, withChanges(config, map[string]any{"cmd": []any{"mine"}}))
			must.Equal[any](t, command(typeName, state.Get("id").(string)), []any{[]string{"new"}, []string{"mine"}, nil}, "after the template's change")
		}
	}
}

// eachNumber calls f for each numeric attribute, with its path and a function that returns a
// configuration with a value of the attribute.
func eachNumber(attributes []*tfprotov6.SchemaAttribute, path string, wrap func(any) map[string]any, f func(path string, config func(any) map[string]any)) {
	for _, a := range attributes {
		config := func(v any) map[string]any { return wrap(map[string]any{a.Name: v}) }
		switch {
		case !a.Optional && !a.Required:
		case a.NestedType != nil && a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeList:
			eachNumber(a.NestedType.Attributes, path+a.Name+"[0].", func(v any) map[string]any { return config([]any{v}) }, f)
		case a.NestedType != nil:
			eachNumber(a.NestedType.Attributes, path+a.Name+".", config, f)
		case a.Type.Is(tftypes.Number):
			f(path+a.Name, config)
		}
	}
}

// A plan checks the bounds of every number, even if the API documents none.
func TestNumbersHaveBounds(t *testing.T) {
	_, p := deploy(t)
	count := 0
	for _, typeName := range p.Types() {
		unwrapped := func(v any) map[string]any { return v.(map[string]any) }
		eachNumber(p.Schema(typeName).Block.Attributes, "", unwrapped, func(path string, config func(any) map[string]any) {
			if strings.HasSuffix(path, "_version") || path == "max_hourly_cost" { // any number is valid
				return
			}
			count++
			for _, huge := range []float64{1_000_001, 1e9, 1e12, 1e18, 1e30} {
				if path == "timeout" && huge < 1e9 { // milliseconds
					continue
				}
				must.ErrorContains(t, p.Plan(typeName, tfdrive.State{}, config(huge)).Diagnostics.Err(), "Invalid "+path+": expected ")
			}
			must.ErrorContains(t, p.Plan(typeName, tfdrive.State{}, config(-1)).Diagnostics.Err(), "Invalid "+path+": expected ")
		})
	}
	must.Hold(t, count >= 25, "found", count, "numbers")
}

// The plan of every kind rejects a text that no container engine accepts as an image reference.
// The deployment decides about the others.
func TestImageReferences(t *testing.T) {
	d, p := deploy(t)
	kinds := map[string]map[string]any{
		endpointType:        {"name": "e"},
		podType:             {"name": "p", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}},
		clusterType:         {"name": "c", "type": "TRAINING", "compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 2}},
		"gpucloud_template": {"name": d.Name("t")},
	}
	for kind, config := range kinds {
		for _, image := range []string{"my image:1", " worker:1", "worker:1\n", "worker:", "https://ghcr.io/acme/worker", "worker@sha256:12", "a//b"} {
			expectRefusal(t, d, p, tfdrive.State{}, kind, withChanges(config, map[string]any{"image": image}), "image", "Invalid image: expected the reference of a container image, such as ghcr.io/acme/worker:1.2, got ")
		}
		for _, image := range []string{
			"nginx", "ghcr.io/acme/worker:1.2", "localhost:5000/a/b/c_d__e-f.g:Tag_1.x-y", "registry.example.com:443/Team/App:V1", "10.0.0.1:5000/x",
			"worker@sha256:" + strings.Repeat("0", 64), "ghcr.io/a/b:1@sha256:" + strings.Repeat("aF", 32), "[::1]:5000/x", strings.Repeat("a", 64), "a/" + strings.Repeat("b", 300),
		} {
			must.Succeed(t, p.Plan(kind, tfdrive.State{}, withChanges(config, map[string]any{"image": image})).Diagnostics.Err(), kind, image, "is refused")
		}
	}
}

// Terraform drops a misspelled attribute of an object. If the object is then empty, the plan
// warns. It isn't an error, because a module may set all attributes of an object to null.
func TestMisspelledAttributesOfObjects(t *testing.T) {
	d := acctest.Deploy(t)
	w := d.Workspace(t, must.Do(tfcli.Default(t.Context()))(t), api.V2)
	config := ""
	for i, attribute := range []string{"workers = { maximum = 50 }", "scaling = { delay = 9 }", "wait_for = { wroker = true }", `timeouts = { creates = "1h" }`} {
		config += strings.Replace(endpointWith(attribute), `"x"`, fmt.Sprintf("%q", fmt.Sprint("x", i)), 1)
	}
	w.Write("main.tf", config)
	plan := unwrap(w.MustRun("plan"))
	must.Hold(t, strings.Count(plan, "drops a misspelled attribute") == 4 && strings.Contains(plan, "4 to add"), "expected 4 warnings about misspelled attributes and 4 to add, got", plan)

	// This holds for every object whose attributes are all optional.
	p := drive(t, d, api.V2)
	found := 0
	for _, kind := range p.Types() {
		for _, a := range p.Schema(kind).Block.Attributes {
			if a.NestedType == nil || a.NestedType.Nesting != tfprotov6.SchemaObjectNestingModeSingle || !a.Optional ||
				slices.ContainsFunc(a.NestedType.Attributes, func(m *tfprotov6.SchemaAttribute) bool { return m.Required }) {
				continue
			}
			found++
			diags := p.Plan(kind, tfdrive.State{}, map[string]any{a.Name: map[string]any{}}).Diagnostics
			must.Hold(t, strings.Contains(diags.String(), "drops a misspelled attribute"), kind, "no warning about an empty", a.Name, diags)
		}
	}
	must.Hold(t, found >= 10, found, "objects are tested")
}
