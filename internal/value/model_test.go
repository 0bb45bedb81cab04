package value_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

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
		if diags := append(value.Store(t.Context(), &own, &want), framework.Set(t.Context(), &want)...); diags.HasError() || !own.Raw.Equal(framework.Raw) {
			t.Errorf("stored\n%s\nexpected\n%s %v", own.Raw, framework.Raw, diags)
		}
		var got model
		if diags := value.Load(t.Context(), framework, &got); diags.HasError() || got.Name != want.Name || !got.Tags.Equal(want.Tags) || got.Size != want.Size {
			t.Errorf("loaded %v, expected %v %v", got, want, diags)
		}
	}
	for _, whole := range []any{nil, tftypes.UnknownValue} {
		raw := tftypes.NewValue(s.Type().TerraformType(t.Context()), whole)
		if diags := value.Load(t.Context(), tfsdk.State{Schema: s, Raw: raw}, &model{}); !diags.HasError() {
			t.Errorf("%s was loaded", raw)
		}
	}
	incomplete := tfsdk.State{Schema: s}
	if diags := value.Store(t.Context(), &incomplete, &common{types.StringValue("n")}); !diags.HasError() {
		t.Error("a model without size and tags was stored")
	}
}
