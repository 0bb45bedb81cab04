package planrule

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Only says that an attribute can be expressed in one API version alone. A
// configured value is an error in the plan of any other version, unless it is
// one of Except: values that mean there what leaving the attribute out means.
// There a change replaces the object, and a data source shows null.
type Only struct {
	Version   api.Version
	Attribute string // dotted: "gpu.pools"
	Except    []string
	// Ruled leaves to the kind what a change means on the other version, and what a
	// data source shows there: the attribute is another one's there, or only a create
	// has it.
	Ruled bool
}

// Beyond tells whether a version has nothing of the attribute.
func (o Only) Beyond(version api.Version) bool {
	return version != "" && version != o.Version && !o.Ruled
}

// CheckVersion refuses an attribute that the version in use can't express.
func (p *Plan[M]) CheckVersion(ctx context.Context, o Only) {
	o.Check(ctx, p.Check, p.Version, p.req.Config)
}

// Check refuses an attribute of a configuration that a version can't express; ""
// is a version that is not known yet.
func (o Only) Check(ctx context.Context, c diagnostics.Check, version api.Version, config tfsdk.Config) {
	var v attr.Value
	config.GetAttribute(ctx, diagnostics.Path(o.Attribute), &v)
	if version == "" || version == o.Version || v == nil || v.IsNull() || v.IsUnknown() || o.excepts(v) {
		return
	}
	what := o.Attribute
	if closed := len(o.Except) > 0 && o.Except[0] != ""; closed && !redact.IsSecret(o.Attribute) {
		switch v.(type) {
		case types.String, types.Bool:
			what += " = " + v.String()
		}
	}
	c.Error(o.Attribute, fmt.Sprintf("API %s can't express this", version),
		"%s exists in management API %s only. Leave it out, or set api_version = %q in the provider block.",
		what, o.Version, string(o.Version))
}

// excepts tells whether a value is one of Except.
func (o Only) excepts(v attr.Value) bool {
	if s, ok := v.(types.String); ok {
		return slices.Contains(o.Except, s.ValueString())
	}
	return v != nil && slices.Contains(o.Except, v.String())
}

// Unreachable are the attributes that the plan changes and the version in use can't:
// an update would say that it did, and the object would stay as it is.
func (p *Plan[M]) Unreachable(ctx context.Context, only []Only) (attributes []string) {
	for _, o := range only {
		if !o.Beyond(p.Version) || !p.Changes(ctx, o.Attribute) {
			continue
		}
		before, after := p.Values(ctx, o.Attribute)
		if (empty(before) || o.excepts(before)) && (empty(after) || o.excepts(after)) {
			continue
		}
		attributes = append(attributes, o.Attribute)
	}
	return attributes
}

// ReplaceUnreachable makes a change that the version in use can't reach replace the
// object, unless the plan is refused, and warns of it. Loss, which may be nil, is what a
// deletion loses.
func (p *Plan[M]) ReplaceUnreachable(ctx context.Context, only []Only, title string, id func(*M) *types.String, loss func(*M) string) {
	if p.Diagnostics.HasError() {
		return
	}
	for _, attribute := range p.Unreachable(ctx, only) {
		version, lost := only[slices.IndexFunc(only, func(o Only) bool { return o.Attribute == attribute })].Version, ""
		if loss != nil {
			lost = strings.TrimRight(" "+loss(p.State), " ")
		}
		p.Replace(attribute)
		p.Warn(attribute, fmt.Sprintf("The %s will be replaced", title), "API %s can't reach %s of %[3]s %[4]s, which has one, so that only a new %[3]s is without.%[5]s "+
			"To keep the %[3]s, apply this change once with api_version = %[6]q.", p.Version, attribute, title, id(p.State).ValueString(), lost, string(version))
	}
}
