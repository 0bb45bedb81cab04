package resources

import (
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Templates, endpoints and pods have env_wo for values that neither the state nor a plan contains.
// The API has one environment and returns it in full, so the provider remembers which variables
// are write-only: env_wo_keys has their names, and the private state a digest of each value. A
// read removes these variables from env. If the server lacks one or has another value, the read
// removes it from env_wo_keys, so that the next plan adds it again.
//
// Digests depend on the API key, so digests of another key can't be compared. They don't change
// until values are sent: recomputing them from the server's values would hide a change made
// elsewhere.
//
// A kind with env_wo embeds container in its model, adds the three attributes to its schema, has an
// envDigests in its private state, and calls
//
//   - validate in its Validate, and planContainer in its plan rule;
//   - withWriteOnly to make the environment of a request;
//   - setWriteOnlyEnv, and then recordResponse, in Create and Update;
//   - dropChanged in Read, and withoutWriteOnly to copy the environment of a response.

// writeOnlyEnv is the part of a model with the write-only variables.
type writeOnlyEnv struct {
	EnvWO        types.Map // null except in a configuration
	EnvWOVersion types.Int64
	EnvWOKeys    types.Set

	values            map[string]string // for a request
	keepsServerValues bool              // the request sends the server's values back, not the configuration's
}

// envDigests is the part of the private state about write-only variables.
type envDigests struct {
	Key    string            // identifies the API key of the digests
	Values map[string]string // by name
}

func envWOAttribute(m members, more string) schema.MapAttribute {
	return schema.MapAttribute{
		ElementType:         types.StringType,
		Optional:            true,
		Sensitive:           true,
		WriteOnly:           true,
		MarkdownDescription: describe(m.setting("env"), "Secret environment variables, which neither the state nor a plan contains. They are sent if `env_wo_version` or a name changes, or if somebody changed a value elsewhere. In any other run, `env_wo` may be null. A variable can't be in both `env` and `env_wo`. After an import, the state's `env` contains all variables, also secret ones, until the first apply ([secrets](../guides/secrets.md))."+more, nil),
		Validators:          []validator.Map{rule.NoNulls{}, mapvalidator.KeysAre(rule.VariableName), mapvalidator.ValueStringsAre(rule.VariableValue)},
	}
}

func checkWriteOnlyVersion(c diagnostics.Check, attribute string, v attr.Value, version types.Int64) {
	if value.IsSet(v) && version.IsNull() {
		c.Error(attribute+"_version", "Missing "+attribute+"_version", "%[1]s needs %[1]s_version, such as 1: the state keeps the version, and a change of it sends %[1]s again.", attribute)
	}
}

func (m *writeOnlyEnv) validate(c diagnostics.Check, env types.Map) {
	checkWriteOnlyVersion(c, "env_wo", m.EnvWO, m.EnvWOVersion)
	for _, name := range slices.Sorted(maps.Keys(m.EnvWO.Elements())) {
		if _, duplicate := env.Elements()[name]; duplicate {
			c.Error("env_wo", "A variable in env and in env_wo", "The variable %q is in env and in env_wo. Remove it from one of them.", name)
		}
	}
}

const ignoreChangesHint = " Terraform passes null for an attribute in ignore_changes."

// planContainer plans the start command and the names of the write-only variables. parts returns
// the container of a model and its digests.
func planContainer[M any](p *planrule.Plan[M], parts func(*M) (*container, *envDigests)) {
	config, _ := parts(p.Config)
	plan, digests := parts(p.Plan)
	config.validate(p.Check) // more values may be known now
	state, priorDigests := parts(p.Prior)
	plan.command().keep(state.command())
	switch {
	case config.EnvWO.IsUnknown(), config.EnvWO.IsNull() && config.EnvWOVersion.IsUnknown():
		plan.EnvWOKeys = types.SetUnknown(types.StringType)
	case !config.EnvWO.IsNull():
		plan.EnvWOKeys, plan.values = config.names(), value.StringMap(config.EnvWO)
	case config.EnvWOVersion.IsNull():
		plan.EnvWOKeys = types.SetNull(types.StringType)
	case p.State != nil && config.EnvWOVersion.ValueInt64() < state.EnvWOVersion.ValueInt64():
		p.Error("env_wo_version", "Missing env_wo", "env_wo_version goes from %d to %d, which sends env_wo, but env_wo is null. Keep %[1]d to send nothing, or give env_wo a value for this run."+ignoreChangesHint, state.EnvWOVersion.ValueInt64(), config.EnvWOVersion.ValueInt64())
	case !state.EnvWOVersion.Equal(config.EnvWOVersion):
		p.Error("env_wo", "Missing env_wo", "A new or raised env_wo_version sends env_wo, but env_wo is null. Give env_wo a value for this run, or undo the change of env_wo_version."+ignoreChangesHint)
	default:
		plan.EnvWOKeys = state.EnvWOKeys
		if state.changedElsewhere(*priorDigests) {
			p.Warn("env_wo", "Write-only variables were changed elsewhere", "A variable of env_wo was changed or removed elsewhere. This plan doesn't restore it, because env_wo is null. Give env_wo a value to send it again."+ignoreChangesHint)
		}
	}
	if p.State == nil || plan.sends(&state.writeOnlyEnv) {
		return
	}
	*digests = *priorDigests // an update sends the server's values back, even changed ones, and keeps their digests
	if priorDigests.usesAnotherKey(p.API, &state.writeOnlyEnv) {
		p.Warn("env_wo", "Write-only variables can't be compared", "The values of env_wo were sent with another API key, or an interrupted apply lost their digests. Only a plan with that key can detect changes made elsewhere. Plan with that key, or raise env_wo_version and give env_wo a value, which sends it again and lets this key compare it.")
	}
}

func (m *writeOnlyEnv) names() types.Set {
	return value.KeepSet(types.SetNull(types.StringType), slices.Sorted(maps.Keys(m.EnvWO.Elements())))
}

// sends reports whether a plan sends the values of the configuration.
func (m *writeOnlyEnv) sends(state *writeOnlyEnv) bool {
	return !m.EnvWOVersion.Equal(state.EnvWOVersion) || !m.EnvWOKeys.Equal(state.EnvWOKeys)
}

// setWriteOnlyEnv sets the values for a request. state is nil for a create. Because an environment is
// written as a whole, an update that doesn't send the configuration's values sends
// the values of serverEnv back.
func (m *writeOnlyEnv) setWriteOnlyEnv(config, state *writeOnlyEnv, d envDigests, serverEnv map[string]string) {
	if m.EnvWOKeys.IsUnknown() {
		m.EnvWOKeys = config.names()
	}
	m.values = value.StringMap(config.EnvWO)
	if state == nil || m.sends(state) {
		return
	}
	m.keepsServerValues = true
	for name := range state.writeOnlyNames(d) {
		if v, ok := serverEnv[name]; ok {
			m.values[name] = v
		}
	}
}

// changedElsewhere reports whether a read found a variable missing, or not as last sent.
func (m *writeOnlyEnv) changedElsewhere(d envDigests) bool {
	return len(m.writeOnlyNames(d)) > len(m.EnvWOKeys.Elements())
}

// withWriteOnly adds the write-only variables to env, and returns env.
func (m *writeOnlyEnv) withWriteOnly(env map[string]string) map[string]string {
	maps.Copy(env, m.values)
	return env
}

// recordResponse stores digests of the sent values, unless the request sent the server's back, and
// compares them with the response.
func (d *envDigests) recordResponse(c *api.Client, m *writeOnlyEnv, got map[string]string) {
	switch {
	case m.keepsServerValues:
	case len(m.values) == 0:
		*d = envDigests{}
	default:
		*d = envDigests{Key: c.Digest(""), Values: digests(c, m.values)}
	}
	d.dropChanged(c, m, got)
}

// usesAnotherKey reports whether there are digests that this API key can't compare.
func (d *envDigests) usesAnotherKey(c *api.Client, m *writeOnlyEnv) bool {
	return len(m.writeOnlyNames(*d)) > 0 && d.Key != c.Digest("")
}

// dropChanged removes variables from EnvWOKeys if the server lacks them or has other values. With
// another API key it only detects removed variables.
func (d *envDigests) dropChanged(c *api.Client, m *writeOnlyEnv, got map[string]string) {
	have, canCompare := digests(c, got), !d.usesAnotherKey(c, m)
	var unchanged []string
	for _, name := range value.Strings(m.EnvWOKeys) {
		if digest, ok := have[name]; ok && (digest == d.Values[name] || !canCompare) {
			unchanged = append(unchanged, name)
		}
	}
	m.EnvWOKeys = value.KeepSet(m.EnvWOKeys, unchanged)
}

// withoutWriteOnly returns the server's environment without the write-only variables.
func (m *writeOnlyEnv) withoutWriteOnly(d envDigests, got map[string]string) map[string]string {
	return withoutKeys(got, m.writeOnlyNames(d))
}

// writeOnlyNames returns the names of the write-only variables, including those for which the server has
// another value.
func (m *writeOnlyEnv) writeOnlyNames(d envDigests) map[string]bool {
	names := map[string]bool{}
	for _, name := range value.Strings(m.EnvWOKeys) {
		names[name] = true
	}
	for name := range d.Values {
		names[name] = true
	}
	return names
}
