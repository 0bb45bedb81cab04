package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Attributes are a state's attributes. The methods return zero or null for an absent, null or mistyped attribute.
type Attributes map[string]any

func decode(text []byte) (a Attributes, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		return nil, err
	}
	if a == nil {
		return nil, errors.New("null")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after its end")
	}
	return a, nil
}

func (a Attributes) Text(name string) string {
	s, _ := a[name].(string)
	return s
}

func (a Attributes) Bool(name string) types.Bool {
	if b, ok := a[name].(bool); ok {
		return types.BoolValue(b)
	}
	return types.BoolNull()
}

// Int returns a whole number. 5.0 is one, too.
func (a Attributes) Int(name string) (whole int64, ok bool) {
	n, ok := a[name].(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	whole = int64(f)
	return whole, err == nil && float64(whole) == f
}

func (a Attributes) Texts(name string) (out []string) {
	list, _ := a[name].([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func (a Attributes) Map(name string) map[string]string {
	members, _ := a[name].(map[string]any)
	out := map[string]string{}
	for key, v := range members {
		if s, ok := v.(string); ok {
			out[key] = s
		}
	}
	return out
}

// Object returns a nested object, or nil.
func (a Attributes) Object(name string) Attributes {
	members, _ := a[name].(map[string]any)
	return members
}

func (a Attributes) Objects(name string) (out []Attributes) {
	list, _ := a[name].([]any)
	for _, e := range list {
		if members, ok := e.(map[string]any); ok {
			out = append(out, members)
		}
	}
	return out
}

// Table maps each source to the function that fills a model from the source's state, except the id.
type Table[M any] map[Source]func(state *State, m *M)

// Move returns the model of a moved block's source, or nil after an error.
func (t Table[M]) Move(ctx context.Context, kind string, req resource.MoveStateRequest, resp *resource.MoveStateResponse) *M {
	state, err := readState(kind, req.SourceProviderAddress, req.SourceTypeName, req.SourceRawState.JSON)
	if state == nil && err == nil {
		err = fmt.Errorf("a gpucloud_%s can't take over a %s of %s. It takes over %s. Correct or remove the moved block. "+
			"Without it, the plan deletes the old object, unless a removed block with destroy = false keeps it", kind, req.SourceTypeName, req.SourceProviderAddress, sourcesOf(kind))
	}
	m := new(M)
	if err == nil {
		resp.Diagnostics.Append(resp.TargetState.SetAttribute(ctx, path.Root("id"), state.ID)...)
		resp.Diagnostics.Append(value.Load(ctx, resp.TargetState, m)...)
		if fill := t[state.Source]; fill != nil {
			fill(state, m)
		}
	}
	if err != nil {
		resp.Diagnostics.AddError("The state can't be moved", err.Error())
	}
	// The provider hasn't read the object yet.
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
