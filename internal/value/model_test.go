package value_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Load and Store convert a model as the framework does.
func TestModels(t *testing.T) {
	type common struct {
		Name types.String `tfsdk:"name"`
	}
	type model struct {
		common
		Tags    types.Set   `tfsdk:"tags"`
		Size    types.Int64 `tfsdk:"size"`
		Private int         `tfsdk:"-"`
	}
	s := schema.Schema{Attributes: map[string]schema.Attribute{
		"name": schema.StringAttribute{}, "size": schema.Int64Attribute{}, "tags": schema.SetAttribute{ElementType: types.StringType},
	}}
	for _, want := range []model{
		{common{types.StringValue("n")}, value.StringSet([]string{"a", "b"}), types.Int64Value(3), 0},
		{common{types.StringUnknown()}, types.SetNull(types.StringType), types.Int64Null(), 0},
	} {
		own, framework := tfsdk.State{Schema: s}, tfsdk.State{Schema: s, Raw: tftypes.NewValue(s.Type().TerraformType(t.Context()), nil)}
		diags := append(value.Store(t.Context(), &own, &want), framework.Set(t.Context(), &want)...)
		must.Hold(t, !diags.HasError() && own.Raw.Equal(framework.Raw), "stored", own.Raw, framework.Raw, diags)
		var got model
		diags = value.Load(t.Context(), framework, &got)
		must.Hold(t, !diags.HasError() && got.Name == want.Name && got.Tags.Equal(want.Tags) && got.Size == want.Size, "loaded", got, want, diags)
	}
	for _, whole := range []any{nil, tftypes.UnknownValue} {
		raw := tftypes.NewValue(s.Type().TerraformType(t.Context()), whole)
		diags := value.Load(t.Context(), tfsdk.State{Schema: s, Raw: raw}, &model{})
		must.Hold(t, diags.HasError(), raw, "was loaded")
	}
	incomplete := tfsdk.State{Schema: s}
	diags := value.Store(t.Context(), &incomplete, &common{types.StringValue("n")})
	must.Hold(t, diags.HasError(), "a model without size and tags was stored")
}
