package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Table has a function for each source that reads a model's values, except the id, from a
// state.
type Table[M any] map[Source]func(from *State, m *M)

// Move returns the model of a moved block's source, or nil after an error.
func (t Table[M]) Move(ctx context.Context, kind string, req resource.MoveStateRequest, resp *resource.MoveStateResponse) *M {
	from, err := read(kind, req.SourceProviderAddress, req.SourceTypeName, req.SourceRawState.JSON)
	if from == nil && err == nil {
		err = fmt.Errorf("a gpucloud_%s can't take over a %s of %s. It takes over %s. Correct or remove the moved block. "+
			"Without it, the plan deletes the old object, unless a removed block with destroy = false keeps it", kind, req.SourceTypeName, req.SourceProviderAddress, sourcesOf(kind))
	}
	m := new(M)
	if err == nil {
		resp.Diagnostics.Append(resp.TargetState.SetAttribute(ctx, path.Root("id"), from.ID)...)
		resp.Diagnostics.Append(value.Load(ctx, resp.TargetState, m)...)
		if fill := t[from.Source]; fill != nil {
			fill(from, m)
		}
	}
	if err != nil {
		resp.Diagnostics.AddError("The state can't be moved", err.Error())
	}
	resp.Diagnostics.Append(resp.TargetPrivate.SetKey(ctx, planrule.SeenKey, []byte(planrule.NotSeen))...)
	if resp.Diagnostics.HasError() {
		return nil
	}
	return m
}

// sourcesOf lists the types that a kind takes over.
func sourcesOf(kind string) string {
	var types []string
	for _, o := range Origins {
		if name := o.Type + " of " + o.Provider; o.Kind == kind && !slices.Contains(types, name) {
			types = append(types, name)
		}
	}
	if types == nil {
		return "no other type"
	}
	return strings.Join(types, ", ")
}
