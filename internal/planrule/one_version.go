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
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// OneVersion marks an attribute that only one API version has. On the other version, a data source shows
// null, and a configured value is an error. Except lists values that mean the same as an omission, and are
// accepted. A change from any other value to an omission replaces the object.
type OneVersion struct {
	Version   api.Version
	Attribute string // dotted: "gpu.pools"
	Except    []string
	// HandledByKind means that the kind itself handles the attribute on the other version, because it
	// has another name there or only a create has it.
	HandledByKind bool
}

func (o OneVersion) MissingIn(version api.Version) bool {
	return version != "" && version != o.Version && !o.HandledByKind
}

// Check rejects a configured attribute that the version can't express. An empty version is unknown.
func (o OneVersion) Check(ctx context.Context, c diagnostics.Check, version api.Version, config tfsdk.Config) {
	var v attr.Value
	config.GetAttribute(ctx, diagnostics.Path(o.Attribute), &v)
	if version == "" || version == o.Version || v == nil || v.IsNull() || v.IsUnknown() || o.excepts(v) {
		return
	}
	setting := o.Attribute
	// The error shows the value if the attribute has a fixed set of values: then Except lists some of them.
	if isFreeText := len(o.Except) == 0 || o.Except[0] == ""; !isFreeText && !redact.IsSecret(o.Attribute) {
		switch v.(type) {
		case types.String, types.Bool:
			setting += " = " + v.String()
		}
	}
	c.Error(o.Attribute, fmt.Sprintf("API %s can't express this", version),
		"%s exists in management API %s only. Leave it out, or set api_version = %q in the provider block.",
		setting, o.Version, string(o.Version))
}

func (o OneVersion) excepts(v attr.Value) bool {
	if s, ok := v.(types.String); ok {
		return slices.Contains(o.Except, s.ValueString())
	}
	return v != nil && slices.Contains(o.Except, v.String())
}

// Unchangeable returns the attributes that the plan changes and the version can't change: an
// update would report success without changing them. If the attribute had no value, an unknown
// value doesn't count as a change: it becomes null, or Check rejects it.
func (p *Plan[M]) Unchangeable(ctx context.Context, oneVersion []OneVersion) (attributes []string) {
	for _, o := range oneVersion {
		if !o.MissingIn(p.Version) || !p.Changes(ctx, o.Attribute) {
			continue
		}
		before, after := p.Values(ctx, o.Attribute)
		if (value.Empty(before) || o.excepts(before)) && (value.Empty(after) || o.excepts(after) || after.IsUnknown()) {
			continue
		}
		attributes = append(attributes, o.Attribute)
	}
	return attributes
}

// ReplaceUnchangeable makes a change of an unchangeable attribute replace the object and warns about
// it, unless the plan has errors. loss describes the data that a deletion destroys; it may be nil.
func (p *Plan[M]) ReplaceUnchangeable(ctx context.Context, oneVersion []OneVersion, title string, id func(*M) *types.String, loss func(*M) string) {
	if p.Diagnostics.HasError() {
		return
	}
	for _, attribute := range p.Unchangeable(ctx, oneVersion) {
		version, lost := oneVersion[slices.IndexFunc(oneVersion, func(o OneVersion) bool { return o.Attribute == attribute })].Version, ""
		if loss != nil {
			lost = strings.TrimRight(" "+loss(p.State), " ")
		}
		p.Replace(attribute)
		p.Warn(attribute, fmt.Sprintf("The %s will be replaced", title), "API %s can't change %s of %[3]s %[4]s, so only a replacement applies this change.%[5]s "+
			"To keep the %[3]s, leave %[2]s as it is, apply this change once with api_version = %[6]q, or remove the %[3]s from the state (state rm) and import it.", p.Version, attribute, title, id(p.State).ValueString(), lost, string(version))
	}
}
