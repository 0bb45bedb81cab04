// Package planrule has what a kind's plan rule gets: a change, whose plan it may edit.
package planrule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Plan is a planned change. A rule reads Config and State and edits Plan.
type Plan[M any] struct {
	diagnostics.Check
	API                 *api.Client
	Version             api.Version // of API
	Templates           *sync.Map   // this run's planned changes of templates, by id
	Catalog             *catalog.Checks
	Config, State, Plan *M // State is nil for a create
	Prior               *M // State, or an empty model for a create
	// CreatedHere reports whether this provider created the object. The state of an imported or
	// moved object contains settings that no configuration requested.
	CreatedHere bool

	run  *diagnostics.Run
	req  *resource.ModifyPlanRequest
	resp *resource.ModifyPlanResponse
}

// New reads a change.
func New[M any](ctx context.Context, c *api.Client, templates *sync.Map, run *diagnostics.Run, req *resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) *Plan[M] {
	p := &Plan[M]{
		Check: diagnostics.Check{Diagnostics: &resp.Diagnostics}, API: c, Version: c.Version, Templates: templates, Config: new(M), Plan: new(M), Prior: new(M),
		run: run, req: req, resp: resp,
	}
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Config), p.Config)...)
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Plan), p.Plan)...)
	if !req.State.Raw.IsNull() {
		p.State = p.Prior
		resp.Diagnostics.Append(value.Load(ctx, req.State, p.State)...)
		created, _ := req.Private.GetKey(ctx, CreatedAtKey)
		p.CreatedHere = created != nil
		if seen, _ := req.Private.GetKey(ctx, SeenKey); string(seen) == NotSeen {
			resp.Diagnostics.AddError("The moved object has not been read", "Its state comes from another provider and has little more than the id, so this plan would replace the object. "+
				"Plan without -refresh=false.")
		}
	}
	return p
}

// NeedsReadByID reports whether the result of a refresh differs from the prior state. Then the object must be read by id,
// because lists may be older than the object. It is false after an import, when everything differs.
func NeedsReadByID(prior, state any, s schema.Schema, volatile []string) bool {
	if name := value.Attribute(prior, "name"); name == nil || name.IsNull() {
		return false
	}
	for attribute := range s.Attributes {
		if !slices.Contains(volatile, attribute) && !value.Attribute(prior, attribute).Equal(value.Attribute(state, attribute)) {
			return true
		}
	}
	return false
}

// Keys of the private state. SeenKey records whether a read has found the object: it is NotSeen
// for a moved object until then. CreatedAtKey has the time of the create: RFC 3339, in quotes.
const (
	CreatedAtKey = "made"
	SeenKey      = "seen"
	NotSeen      = "false"
)

// Fail reports a failed request. A failure of the whole deployment is reported once per run.
func (p *Plan[M]) Fail(attribute, summary string, err error) {
	p.run.Fail(p.Check, attribute, summary, err)
}

// ErrorInPlace rejects an in-place change. If the command has -replace, ErrorInPlace only warns, because the
// change may become a replacement. If the change stays in place, the update rejects it.
func (p *Plan[M]) ErrorInPlace(attribute, summary, format string, args ...any) {
	if CommandReplaces(".") { // each address has a dot
		p.Warn(attribute, summary, format, args...)
		return
	}
	p.Error(attribute, summary, format, args...)
}

// ChangesObject reports whether the object is changed in place or replaced.
func (p *Plan[M]) ChangesObject(ctx context.Context) bool {
	return p.State != nil && !p.planned(ctx).Equal(p.req.State.Raw)
}

// Replace makes a change of the attribute replace the object.
func (p *Plan[M]) Replace(attribute string) {
	p.resp.RequiresReplace.Append(diagnostics.Path(attribute))
}

// protectedKey is a key of the private state: the id of a protected object, in quotes.
const protectedKey = "protected"

// ProtectedIDIfReplaced returns the id of the object that the plan replaces, if the object is protected. protectedID
// is the id of the state's object, or "" if that isn't protected. The CLI plans each replacement twice, even one
// that it forces (-replace, replace_triggered_by): the second plan is a create with the first plan's private state.
func (p *Plan[M]) ProtectedIDIfReplaced(ctx context.Context, protectedID string) string {
	if p.State == nil {
		id, _ := p.req.Private.GetKey(ctx, protectedKey)
		return strings.Trim(string(id), `"`)
	}
	var id []byte
	if protectedID != "" {
		id = strconv.AppendQuote(nil, protectedID)
	}
	p.resp.Diagnostics.Append(p.resp.Private.SetKey(ctx, protectedKey, id)...)
	if len(p.resp.RequiresReplace) == 0 {
		return ""
	}
	return protectedID
}

// Changes reports whether an attribute's planned value differs from the state's, or may differ
// because it is unknown. It is false for a create.
func (p *Plan[M]) Changes(ctx context.Context, attribute string) bool {
	if p.State == nil {
		return false
	}
	before, after := p.Values(ctx, attribute)
	return before == nil || after == nil || !after.Equal(before)
}

// Values returns an attribute's values in the state and in the current plan.
func (p *Plan[M]) Values(ctx context.Context, attribute string) (before, after attr.Value) {
	p.req.State.GetAttribute(ctx, diagnostics.Path(attribute), &before)
	return before, p.value(ctx, attribute)
}

// value returns an attribute's value in the plan; a member of a null or unknown object is null.
func (p *Plan[M]) value(ctx context.Context, attribute string) (v attr.Value) {
	root, nested, isNested := strings.Cut(attribute, ".")
	v = value.Attribute(p.Plan, root)
	for isNested {
		var name string
		name, nested, isNested = strings.Cut(nested, ".")
		object, ok := v.(types.Object)
		if !ok {
			return nil
		}
		if v, ok = object.Attributes()[name]; ok {
			continue
		}
		typ := object.AttributeTypes(ctx)[name]
		if typ == nil {
			return nil
		}
		v = value.Null(typ)
	}
	return v
}

// KeepOmitted plans the values of optional attributes that no update can clear. If the configuration omits one, an
// object that this provider didn't create keeps its value, because the server may have chosen it.
func (p *Plan[M]) KeepOmitted(attributes ...string) {
	for _, a := range attributes {
		configured := value.Attribute(p.Config, a)
		switch {
		case !configured.IsNull():
		case p.State != nil && !p.CreatedHere:
			value.SetAttribute(p.Plan, a, value.Attribute(p.State, a))
		default:
			value.SetAttribute(p.Plan, a, configured)
		}
	}
}

// SettleUnknowns makes the volatile attributes, which the server may change with any update,
// unknown if the plan changes another attribute. Otherwise they keep the values of the state. It
// must run after all rules, because the framework decides about unknown values before them.
func (p *Plan[M]) SettleUnknowns(volatile []string) {
	if p.State == nil || p.Diagnostics.HasError() {
		return
	}
	settle := func(unknown bool) tftypes.Value {
		plan, err := tftypes.Transform(p.resp.Plan.Raw, func(at *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
			switch {
			case !slices.Contains(volatile, dottedPath(at)):
				return v, nil
			case unknown:
				return tftypes.NewValue(v.Type(), tftypes.UnknownValue), nil
			}
			before, _, err := tftypes.WalkAttributePath(p.req.State.Raw, at)
			if old, ok := before.(tftypes.Value); err == nil && ok {
				return old, nil
			}
			return v, nil
		})
		if err != nil {
			return p.resp.Plan.Raw
		}
		return plan
	}
	if p.resp.Plan.Raw = settle(false); !p.resp.Plan.Raw.Equal(p.req.State.Raw) {
		p.resp.Plan.Raw = settle(true)
	}
}

// dottedPath formats a path that consists only of attributes. For an element's path it returns "".
func dottedPath(at *tftypes.AttributePath) string {
	var names []string
	for _, step := range at.Steps() {
		name, ok := step.(tftypes.AttributeName)
		if !ok {
			return ""
		}
		names = append(names, string(name))
	}
	return strings.Join(names, ".")
}

// Known reports whether all these planned attributes are fully known.
func (p *Plan[M]) Known(ctx context.Context, attributes ...string) bool {
	return !slices.ContainsFunc(attributes, func(a string) bool {
		v := p.value(ctx, a)
		return v == nil || !Known(ctx, v)
	})
}

// Known reports whether all values are fully known.
func Known(ctx context.Context, values ...attr.Value) bool {
	return !slices.ContainsFunc(values, func(value attr.Value) bool {
		v, err := value.ToTerraformValue(ctx)
		return err != nil || !v.IsFullyKnown()
	})
}

func (p *Plan[M]) planned(ctx context.Context) tftypes.Value {
	plan := tfsdk.State(p.resp.Plan)
	value.Store(ctx, &plan, p.Plan)
	return plan.Raw
}

// The provider is a child process of the CLI. Before a destroy, the CLI plans the configuration as usual,
// to refresh the state, and an error in that plan ends the command. It plans -replace as an update first.
// The protocol doesn't tell which command runs; the arguments of the parent process do.

// CommandDestroys reports whether the command deletes everything: terraform destroy, or -destroy.
// It is false if the arguments can't be read.
func CommandDestroys() bool { return command().destroys }

// CommandReplaces reports whether the command has -replace with an address that contains part.
func CommandReplaces(part string) bool { return strings.Contains(command().replaces, part) }

type options struct {
	destroys bool
	replaces string // addresses
}

var command = sync.OnceValue(func() options {
	arguments, err := parentArguments()
	if err != nil {
		return options{}
	}
	return parse(arguments, os.Getenv)
})

// parse parses the arguments of a process (the program's name first) and the variables that extend them.
func parse(arguments []string, env func(string) string) (o options) {
	subcommand := ""
	for _, a := range arguments[min(1, len(arguments)):] {
		if !strings.HasPrefix(a, "-") {
			subcommand = a
			break
		}
	}
	o.destroys = subcommand == "destroy"
	if subcommand != "plan" && subcommand != "apply" && !o.destroys {
		return options{}
	}
	extra, _ := startcmd.Parse(env("TF_CLI_ARGS_"+subcommand) + " " + env("TF_CLI_ARGS")) // the CLI rejects text that can't be split
	all := append(extra.Cmd, arguments...)                                                // the last value of an option wins
	for i, a := range all {
		option, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		switch {
		case !strings.HasPrefix(a, "-"):
		case option == "destroy" && subcommand != "destroy":
			enabled, err := strconv.ParseBool(value)
			o.destroys = !hasValue || err == nil && enabled
		case option == "replace":
			o.replaces += " " + cmp.Or(value, append(all[i+1:], "")[0])
		}
	}
	return o
}

// deploymentKey is the private state's key for the deployment where the object was last seen.
const deploymentKey = "deployment"

// Private is the private state of an object, which Terraform stores and doesn't show.
type Private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// GetKey reads a key of the private state. It returns nil if the key doesn't exist.
func GetKey(ctx context.Context, p Private, key string, diags *diag.Diagnostics) []byte {
	text, failure := p.GetKey(ctx, key)
	diags.Append(failure...)
	return text
}

func WarnOfUnreadable(diags *diag.Diagnostics, subject string, err error, effect string) {
	diags.AddWarning("A part of the state can't be read", fmt.Sprintf("The private state about %s can't be read: %s. %s", subject, err, effect))
}

// RecordDeployment records the deployment where an object was seen.
func RecordDeployment(ctx context.Context, p Private, c *api.Client) diag.Diagnostics {
	address, _ := json.Marshal(c.BaseURL()) // can't fail: a string
	return p.SetKey(ctx, deploymentKey, address)
}

// WarnOfAnotherDeployment warns about a missing object that was last seen at another address. Without the
// warning, environment variables that select a wrong deployment would empty the state silently.
func WarnOfAnotherDeployment(ctx context.Context, p Private, c *api.Client, title, id string) (diags diag.Diagnostics) {
	text := GetKey(ctx, p, deploymentKey, &diags)
	var address string
	if err := json.Unmarshal(text, &address); text != nil && err != nil {
		WarnOfUnreadable(&diags, "the deployment of "+id, err, "The provider can't tell whether the object was deleted, or is in another deployment.")
	}
	if address != "" && !api.SameDeployment(address, c.BaseURL()) {
		diags.AddWarning("Another deployment than before", fmt.Sprintf("The %s %s was seen at %s. The provider's address is %s now, where the object doesn't exist. The refresh treats it as deleted and removes it from the state. "+
			"If this is a mistake, don't apply. Set base_url or GPUCLOUD_BASE_URL to the former address, or service to the former service.", title, id, address, c.BaseURL()))
	}
	return diags
}
