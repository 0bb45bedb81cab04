package datasources

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// textOrNull is the type of an attribute that is null if the text is empty.
type textOrNull struct{ basetypes.StringType }

func (t textOrNull) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	if in.Equal(tftypes.NewValue(tftypes.String, "")) {
		in = tftypes.NewValue(tftypes.String, nil)
	}
	return t.StringType.ValueFromTerraform(ctx, in)
}

// Equal is also true of the plain type, which the values have.
func (t textOrNull) Equal(o attr.Type) bool {
	_, same := o.(textOrNull)
	return same || t.StringType.Equal(o)
}

// decimal is the type of an attribute that is set to the text of a json.Number, of which it
// keeps all digits.
type decimal struct{ basetypes.NumberType }

func (t decimal) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	if !in.Type().Is(tftypes.String) {
		return t.NumberType.ValueFromTerraform(ctx, in)
	}
	var text string
	err := in.As(&text)
	return value.Number(json.Number(text)), err
}

// Equal is also true of the plain type, which the values have.
func (t decimal) Equal(o attr.Type) bool {
	_, same := o.(decimal)
	return same || t.NumberType.Equal(o)
}
