package resources_test

import (
	"cmp"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

func eachKindWithCommand(t *testing.T, test func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version, typeName string, config map[string]any)) {
	t.Helper()
	for _, typeName := range []string{"gpucloud_template", podType, endpointType, clusterType} {
		for _, v := range acctest.Versions {
			if v == api.V1 && (typeName == endpointType || typeName == clusterType) {
				continue
			}
			t.Run(typeName+"/"+string(v), func(t *testing.T) {
				t.Parallel()
				d := acctest.Deploy(t)
				p := drive(t, d, v)
				test(t, d, p, v, typeName, newConfig(t, p, typeName, d.Name("c"), map[string]any{"image": "builtin/echo"}))
			})
		}
	}
}

func TestCommandForms(t *testing.T) {
	t.Parallel()
	eachKindWithCommand(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version, typeName string, config map[string]any) {
		expectRejections(t, d, p, typeName, config, []rejection{
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
		expectState(t, importState(t, p.Reconfigure(), typeName, state.Get("id").(string)), withChanges(list, map[string]any{"args": nil}))
		change := cmp.Or(map[string]string{clusterType: "replace"}[typeName], "update")
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
				now, _ := must.Do(c.Templates.GetFresh(t.Context(), id))(t).Meaning()
				must.Hold(t, now.Equal(before), v, name, "the command is", now, "after the drift", drift, "expected", before)
			}
		}
	}
}

// A pod or endpoint gets the part of the command that it doesn't set from its template. An endpoint follows changes.
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
			for _, form := range []string{"args", "entrypoint", "cmd"} { // unknown in the plan
				planned := p.Plan(typeName, state, withChanges(config, map[string]any{form: tfdrive.Unknown}))
				p.Resolve(planned, withChanges(config, map[string]any{form: step.own[form]}))
			}
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
