package resources

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// A configuration has the start command of a container as args (one string) or as the lists
// entrypoint and cmd. Templates and pods also have docker_entrypoint, an older name of
// entrypoint that is allowed with args.

func argsAttribute(m members, more ...string) schema.StringAttribute {
	return m.text("args", "Start command as one string, with blanks quoted as in a shell. Conflicts with `entrypoint` and `cmd`.", more...)
}

func entrypointAttribute(m members, more ...string) schema.ListAttribute {
	return m.words("entrypoint", "Entrypoint, a list of words; default: the image's. If set without `cmd`, the image's cmd isn't used.", more...)
}

func cmdAttribute(m members, more ...string) schema.ListAttribute {
	return m.words("cmd", "Arguments of the entrypoint, a list of words; default: the image's.", more...)
}

func dockerEntrypointAttribute(m members) schema.ListAttribute {
	a := m.words("entrypoint", "Older name of `entrypoint` that doesn't conflict with `args`.")
	a.DeprecationMessage = "Use entrypoint, and cmd instead of args."
	return a
}

func (m members) words(path, text string, more ...string) schema.ListAttribute {
	return schema.ListAttribute{
		ElementType: types.StringType, Optional: true,
		MarkdownDescription: describe(m.setting(path), text, more), Validators: []validator.List{rule.NoNulls{}},
	}
}

type command struct {
	args                              *types.String
	entrypoint, cmd, dockerEntrypoint *types.List
}

// isUnknown reports whether a part is unknown until apply.
func (f command) isUnknown() bool {
	return f.args.IsUnknown() || !allKnown(*f.entrypoint) || !allKnown(*f.cmd) || !allKnown(*f.dockerEntrypoint)
}

func allKnown(l types.List) bool {
	for _, e := range l.Elements() {
		if e.IsUnknown() {
			return false
		}
	}
	return !l.IsUnknown()
}

// check rejects a configuration with two forms of the command.
func (f command) check(c diagnostics.Check) {
	for attribute, list := range map[string]types.List{"entrypoint": *f.entrypoint, "cmd": *f.cmd} {
		for other, v := range map[string]attr.Value{"args": *f.args, "docker_entrypoint": *f.dockerEntrypoint} {
			if value.IsSet(list) && value.IsSet(v) {
				c.Error(attribute, "Two start commands", "%s conflicts with %s: remove %[2]s, and set entrypoint and cmd alone.", attribute, other)
			}
		}
	}
	if _, isJSON := startcmd.ParseJSON(f.args.ValueString()); isJSON && value.IsSet(*f.dockerEntrypoint) {
		c.Error("docker_entrypoint", "Two start commands", "docker_entrypoint conflicts with args in the JSON form: remove docker_entrypoint.")
	}
}

// checkVersion rejects args that can't be split into a list, if API v1 is used or docker_entrypoint is set.
func (f command) checkVersion(c diagnostics.Check, v api.Version) {
	_, err := startcmd.Parse(f.args.ValueString())
	switch {
	case err == nil:
	case v == api.V1:
		c.Error("args", "API v1 can't express these arguments", "API v1 takes a list of arguments, but %s. Fix the quotes, or set api_version = %q.", err, string(api.V2))
	case len(f.dockerEntrypoint.Elements()) > 0:
		c.Error("args", "Arguments that can't be split", "With docker_entrypoint, args are sent as a list, but %s. Fix the quotes.", err)
	}
}

// expand returns the command of the model. If the object has a template, omitted parts are nil
// and inherited from it; otherwise they are empty.
func (f command) expand(hasTemplate bool) (c api.Command) {
	list := func(l types.List) *[]string {
		if l.IsNull() && hasTemplate {
			return nil
		}
		return new(append([]string{}, value.Strings(l)...))
	}
	switch {
	case !f.dockerEntrypoint.IsNull() && (hasTemplate || len(f.dockerEntrypoint.Elements()) > 0):
		c.Entrypoint = list(*f.dockerEntrypoint)
		if !hasTemplate || !f.args.IsNull() {
			c.Cmd = new(append([]string{}, parseArgs(*f.args).Cmd...))
		}
	case !f.entrypoint.IsNull() || !f.cmd.IsNull():
		c.Entrypoint, c.Cmd = list(*f.entrypoint), list(*f.cmd)
	case !hasTemplate || !f.args.IsNull():
		c.Args = new(f.args.ValueString())
	}
	return c
}

// flatten copies a response into the model: everything, or only the parts that the model sets. The model
// keeps its form of the command. A model without a command gets entrypoint and cmd if the response's args
// have the JSON form, or else args.
func (f command) flatten(got api.Command, everything bool) {
	if got.Args == nil || got.Entrypoint == nil || got.Cmd == nil {
		return
	}
	_, isJSON := startcmd.ParseJSON(*got.Args)
	switch {
	case !f.dockerEntrypoint.IsNull():
		*f.dockerEntrypoint = value.KeepList(*f.dockerEntrypoint, *got.Entrypoint)
		if everything || !f.args.IsNull() {
			*f.args = keepArgs(*f.args, value.KeepString(*f.args, startcmd.Join(*got.Cmd)))
		}
	case !f.args.IsNull():
		*f.args = keepArgs(*f.args, value.KeepString(*f.args, *got.Args))
	case !f.entrypoint.IsNull() || !f.cmd.IsNull() || everything && isJSON:
		if everything || !f.entrypoint.IsNull() {
			*f.entrypoint = value.KeepList(*f.entrypoint, *got.Entrypoint)
		}
		if everything || !f.cmd.IsNull() {
			*f.cmd = value.KeepList(*f.cmd, *got.Cmd)
		}
	case everything:
		*f.args = value.KeepString(*f.args, *got.Args)
	}
}

// complete sets the forms that flatten left out, because a data source shows all of them.
func (f command) complete() {
	full := f.expand(false)
	words, _ := full.Meaning() // text that can't be split is one word
	none := types.ListNull(types.StringType)
	*f.entrypoint, *f.cmd = value.KeepList(none, words.Entrypoint), value.KeepList(none, words.Cmd)
	*f.dockerEntrypoint = *f.entrypoint
	if full.Args == nil {
		*f.args = value.KeepString(types.StringNull(), words.JSON())
	}
}

// ownParts reports which parts of the command the model sets itself.
func (f command) ownParts() (entrypoint, cmd bool) {
	return !f.args.IsNull() || !f.entrypoint.IsNull() || !f.dockerEntrypoint.IsNull(), !f.args.IsNull() || !f.cmd.IsNull()
}

// setsSameParts reports whether the model sets the same parts as another model.
func (f command) setsSameParts(other command) bool {
	entrypoint, cmd := f.ownParts()
	otherEntrypoint, otherCmd := other.ownParts()
	return entrypoint == otherEntrypoint && cmd == otherCmd
}

// partsOfTemplate returns the parts that the model leaves to the template.
func (f command) partsOfTemplate(template startcmd.Command) startcmd.Command {
	entrypoint, cmd := f.ownParts()
	if entrypoint {
		template.Entrypoint = nil
	}
	if cmd {
		template.Cmd = nil
	}
	return template
}

var commandAttributes = []string{"args", "entrypoint", "cmd", "docker_entrypoint"}

// equals reports whether two commands are known and have the same meaning.
func (f command) equals(other command) bool {
	a, err := f.expand(false).Meaning()
	b, otherErr := other.expand(false).Meaning()
	return err == nil && otherErr == nil && !f.isUnknown() && !other.isUnknown() && a.Equal(b)
}

// keep keeps the state's args if the planned ones mean the same.
func (f command) keep(state command) {
	if !f.args.IsNull() {
		*f.args = keepArgs(*state.args, *f.args)
	}
}

// keepArgs returns prior if it has the same meaning as got: API v1 returns lists, so that got may be
// quoted differently. White space alone counts as no args.
func keepArgs(prior, got types.String) types.String {
	known := !prior.IsNull() && !prior.IsUnknown() && !got.IsUnknown()
	if known && parseArgs(prior).Equal(parseArgs(got)) {
		return prior
	}
	return got
}

func parseArgs(args types.String) startcmd.Command {
	command, _ := startcmd.Parse(args.ValueString()) // text that can't be split is one word
	return command
}
