package value_test

import (
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

type object struct {
	Name    string
	Size    int64
	Price   float64
	Tags    []string
	Env     map[string]string
	Enabled *bool
	Other   string // only the object has it
}

type model struct {
	Name    types.String
	Size    types.Int64
	Price   types.Float64
	Tags    types.Set
	Env     types.Map
	Enabled types.Bool
	Title   types.String // only the model has it
}

func set(values ...string) types.Set { return value.StringSet(values) }

func entries(values map[string]attr.Value) types.Map {
	return types.MapValueMust(types.StringType, values)
}

func TestExpandAndFlatten(t *testing.T) {
	known := model{
		Name: types.StringValue("n"), Size: types.Int64Value(3), Price: types.Float64Value(0.5), Tags: set("b", "a"),
		Env: entries(map[string]attr.Value{"K": types.StringValue("v")}), Enabled: types.BoolValue(false), Title: types.StringValue("kept"),
	}
	expanded := object{Name: "n", Size: 3, Price: 0.5, Tags: []string{"a", "b"}, Env: map[string]string{"K": "v"}, Enabled: new(false)}
	var got object
	value.Expand(&known, &got)
	must.Hold(t, reflect.DeepEqual(got, expanded), "expanded to", got, "want", expanded)
	flat := model{Title: types.StringValue("kept")}
	value.Flatten(expanded, &flat)
	must.Hold(t, flat.Tags.Equal(known.Tags) && flat.Env.Equal(known.Env) && flat.Name == known.Name && flat.Size == known.Size && flat.Price.Equal(known.Price) && flat.Enabled == known.Enabled && flat.Title == known.Title,
		"flattened to", flat, "want", known)
	value.Flatten(object{Name: "renamed", Size: 4, Tags: []string{"c"}}, &flat, "Name", "Tags")
	must.Hold(t, flat.Name == known.Name && flat.Tags.Equal(known.Tags) && flat.Size == types.Int64Value(4), "without two fields it flattened to", flat)
}

// Null and unknown values leave fields empty.
func TestExpandWithoutValues(t *testing.T) {
	for name, m := range map[string]model{
		"null": {Tags: types.SetNull(types.StringType), Env: types.MapNull(types.StringType)},
		"unknown": {Name: types.StringUnknown(), Size: types.Int64Unknown(), Price: types.Float64Unknown(), Tags: types.SetUnknown(types.StringType),
			Env: types.MapUnknown(types.StringType), Enabled: types.BoolUnknown()},
	} {
		var got object
		value.Expand(&m, &got)
		must.Hold(t, reflect.DeepEqual(got, object{}), name, "expanded to", got)
	}
}

// A state keeps its form of an empty value, and its value of a field that the answer lacks.
func TestFlattenKeepsForm(t *testing.T) {
	for name, m := range map[string]model{
		"null":  {Tags: types.SetNull(types.StringType), Env: types.MapNull(types.StringType)},
		"empty": {Name: types.StringValue(""), Tags: set(), Env: entries(map[string]attr.Value{}), Enabled: types.BoolValue(true)},
	} {
		got := m
		value.Flatten(object{}, &got)
		must.Hold(t, got.Name == m.Name && got.Tags.Equal(m.Tags) && got.Env.Equal(m.Env) && got.Enabled == m.Enabled, name, "flattened to", got, "want", m)
	}
	unknown := model{Name: types.StringUnknown(), Enabled: types.BoolUnknown(), Tags: types.SetUnknown(types.StringType), Env: types.MapUnknown(types.StringType)}
	value.Flatten(object{}, &unknown)
	must.Hold(t, unknown.Name.IsNull() && unknown.Enabled.IsNull() && unknown.Tags.IsNull() && unknown.Env.IsNull(), "unknown values flattened to", unknown, "want null")
}

func TestNestedAttribute(t *testing.T) {
	type gpu struct {
		MinRAMPerGPU *int64
		IDs          []string
	}
	a := schema.SingleNestedAttribute{Attributes: map[string]schema.Attribute{
		"min_ram_per_gpu": schema.Int64Attribute{}, "ids": schema.ListAttribute{ElementType: types.StringType},
	}}
	for _, want := range []*gpu{nil, {IDs: []string{"b", "a"}}, {MinRAMPerGPU: new(int64(8)), IDs: []string{"a"}}} {
		encoded := value.Object(a, want)
		must.Equal(t, encoded.IsNull(), want == nil, "nullness of", encoded, "made from", want)
		got := value.As[gpu](encoded)
		must.Hold(t, reflect.DeepEqual(got, want), "decoded", got, "want", want)
	}
	got := value.As[gpu](value.Unknown(a.GetType()).(types.Object))
	must.Hold(t, got == nil, "an unknown object is decoded as", got)
}

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
		stored, framework := tfsdk.State{Schema: s}, tfsdk.State{Schema: s, Raw: tftypes.NewValue(s.Type().TerraformType(t.Context()), nil)}
		diags := append(value.Store(t.Context(), &stored, &want), framework.Set(t.Context(), &want)...)
		must.Hold(t, !diags.HasError() && stored.Raw.Equal(framework.Raw), "stored", stored.Raw, "and the framework", framework.Raw, diags)
		var got model
		diags = value.Load(t.Context(), framework, &got)
		must.Hold(t, !diags.HasError() && got.Name == want.Name && got.Tags.Equal(want.Tags) && got.Size == want.Size, "loaded", got, "want", want, diags)
	}
	for _, object := range []any{nil, tftypes.UnknownValue} {
		raw := tftypes.NewValue(s.Type().TerraformType(t.Context()), object)
		must.Hold(t, value.Load(t.Context(), tfsdk.State{Schema: s, Raw: raw}, &model{}).HasError(), raw, "was loaded")
	}
	incomplete := tfsdk.State{Schema: s}
	diags := value.Store(t.Context(), &incomplete, &common{types.StringValue("n")})
	must.Hold(t, diags.HasError(), "a model without size and tags was stored")
}
