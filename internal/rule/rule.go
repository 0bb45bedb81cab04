// Package rule provides validators of attributes. Their errors say what they expect.
package rule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/distribution/reference"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	tfpath "github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

// Validator checks one known value.
type Validator[T any] struct {
	Expects string // completes "expected …": "a port such as …"
	Holds   func(T) bool
	Show    func(T) string // formats the value for the error; nil shows the value itself
	Secret  bool           // the error doesn't contain the value
	oneOf   bool

	Undescribed
}

func (r Validator[T]) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	r.check(req.Path, req.ConfigValue, req.ConfigValue.ValueString(), &resp.Diagnostics)
}

func (r Validator[T]) ValidateInt64(_ context.Context, req validator.Int64Request, resp *validator.Int64Response) {
	r.check(req.Path, req.ConfigValue, req.ConfigValue.ValueInt64(), &resp.Diagnostics)
}

func (r Validator[T]) ValidateFloat64(_ context.Context, req validator.Float64Request, resp *validator.Float64Response) {
	r.check(req.Path, req.ConfigValue, req.ConfigValue.ValueFloat64(), &resp.Diagnostics)
}

func (r Validator[T]) check(at tfpath.Path, configured attr.Value, value any, diags *diag.Diagnostics) {
	v, ok := value.(T)
	if !ok || configured.IsNull() || configured.IsUnknown() || r.Holds(v) {
		return
	}
	got := fmt.Sprint(v)
	switch s, isString := value.(string); {
	case r.Secret:
		diags.AddAttributeError(at, "Invalid value of "+diagnostics.Name(at), fmt.Sprintf("Invalid %s: expected %s.", diagnostics.Name(at), r.Expects))
		return
	case r.Show != nil:
		got = r.Show(v)
	case isString:
		got = strconv.Quote(s)
	}
	Reject(at, r.Expects, got, diags)
}

func Reject(at tfpath.Path, expects, got string, diags *diag.Diagnostics) {
	diags.AddAttributeError(at, "Invalid value of "+diagnostics.Name(at), fmt.Sprintf("Invalid %s: expected %s, got %s.", diagnostics.Name(at), expects, got))
}

var NonEmpty = Validator[string]{Expects: "at least one character", Holds: func(s string) bool { return s != "" }}

var ID = Validator[string]{Expects: "1 to 128 letters, digits, - and _", Holds: api.ValidID}

// Each returns validators of a set's elements.
func Each(r Validator[string]) []validator.Set {
	return []validator.Set{NoNulls{}, setvalidator.ValueStringsAre(r)}
}

// Characters limits the length of a string. If low is 0, another rule rejects an empty string,
// so the error says 1.
func Characters(low, high int) Validator[string] {
	count := func(s string) string { return fmt.Sprintf("%d characters", utf8.RuneCountInString(s)) }
	return Validator[string]{Expects: fmt.Sprintf("%d to %d characters", max(low, 1), high), Show: count, Holds: func(s string) bool {
		n := utf8.RuneCountInString(s)
		return low <= n && n <= high
	}}
}

func OneOf(values ...string) Validator[string] {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	last := len(quoted) - 1
	return Validator[string]{
		Expects: strings.TrimPrefix(strings.Join(quoted[:last], ", ")+" or "+quoted[last], " or "),
		Holds:   func(s string) bool { return slices.Contains(values, s) },
		oneOf:   true,
	}
}

func IsOneOf(v validator.String) bool { r, ok := v.(Validator[string]); return ok && r.oneOf }

func Between(low, high int64) Validator[int64] {
	return Validator[int64]{Expects: fmt.Sprintf("%d to %d", low, high), Holds: func(n int64) bool { return low <= n && n <= high }}
}

// WithUnit adds the unit of a number to the error.
func (r Validator[T]) WithUnit(unit string) Validator[T] {
	if unit != "" {
		r.Expects += " " + unit
	}
	return r
}

func AtLeast[T int64 | float64](low T) Validator[T] {
	return Validator[T]{Expects: fmt.Sprint("at least ", low), Holds: func(n T) bool { return n >= low }}
}

// NotHuge limits a number for which the API documents no maximum. No cloud has a million GPUs or
// workers, and a million GB is a petabyte.
func NotHuge[T int64 | float64]() Validator[T] {
	const most = 1_000_000
	return Validator[T]{Expects: fmt.Sprint("at most ", most), Holds: func(n T) bool { return n <= most }}
}

// The environment of a process can't contain other names and values.
var (
	VariableName  = Validator[string]{Expects: "a name of at least one character, without = and NUL", Holds: func(s string) bool { return s != "" && !strings.ContainsAny(s, "=\x00") }}
	VariableValue = Validator[string]{Expects: "a value without NUL characters", Holds: func(s string) bool { return !strings.Contains(s, "\x00") }, Secret: true}
)

// ImageReference rejects text that no container engine accepts as a reference. It accepts upper
// case, which the grammar forbids in repositories, and leaves the decision to the deployment.
var ImageReference = Validator[string]{Expects: "the reference of a container image, such as ghcr.io/acme/worker:1.2", Holds: func(s string) bool {
	_, err := reference.ParseNormalizedNamed(strings.ToLower(s))
	return !errors.Is(err, reference.ErrReferenceInvalidFormat)
}}

// PowerOfTwo is the rule of vCPU counts (v2 document, BaseCpuConfig).
var PowerOfTwo = Validator[int64]{Expects: "a power of two from 2 up", Holds: func(n int64) bool { return n >= 2 && n&(n-1) == 0 }}

// Undescribed is a validator or plan modifier without a description, because nothing shows it.
type Undescribed struct{}

func (Undescribed) Description(context.Context) string         { return "" }
func (Undescribed) MarkdownDescription(context.Context) string { return "" }

// NoNulls rejects null in a collection: no API accepts it, and a provider can't remove it from a plan.
type NoNulls struct{ Undescribed }

func (NoNulls) ValidateMap(_ context.Context, req validator.MapRequest, resp *validator.MapResponse) {
	for key, v := range req.ConfigValue.Elements() {
		if v.IsNull() {
			resp.Diagnostics.AddAttributeError(req.Path.AtMapKey(key), "Invalid value of "+diagnostics.Name(req.Path),
				fmt.Sprintf("Invalid %s: %q is null. Leave the key out, or give it a value; an empty one is \"\".", diagnostics.Name(req.Path), key))
		}
	}
}

func (NoNulls) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	rejectNulls(req.Path, req.ConfigValue.Elements(), &resp.Diagnostics)
}

func (NoNulls) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	rejectNulls(req.Path, req.ConfigValue.Elements(), &resp.Diagnostics)
}

func rejectNulls(at tfpath.Path, elements []attr.Value, diags *diag.Diagnostics) {
	if slices.ContainsFunc(elements, attr.Value.IsNull) {
		diags.AddAttributeError(at, "Invalid value of "+diagnostics.Name(at), fmt.Sprintf("Invalid %s: an element is null. Leave it out, for example with compact().", diagnostics.Name(at)))
	}
}

// SomeElements rejects an empty list or set.
type SomeElements struct{ Undescribed }

func (SomeElements) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	rejectEmpty(req.Path, req.ConfigValue, len(req.ConfigValue.Elements()), &resp.Diagnostics)
}

func (SomeElements) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	rejectEmpty(req.Path, req.ConfigValue, len(req.ConfigValue.Elements()), &resp.Diagnostics)
}

func rejectEmpty(at tfpath.Path, configured attr.Value, count int, diags *diag.Diagnostics) {
	if count == 0 && !configured.IsNull() && !configured.IsUnknown() {
		Reject(at, "at least one element", "none", diags)
	}
}

// OneElement requires exactly one element of a list.
type OneElement struct{ Undescribed }

func (OneElement) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if n := len(req.ConfigValue.Elements()); n != 1 && !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() {
		Reject(req.Path, "exactly one element", fmt.Sprint(n), &resp.Diagnostics)
	}
}

// Unique rejects repeated elements of a list, except unknown ones, which may become distinct.
type Unique struct{ Undescribed }

func (Unique) ValidateList(ctx context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	seen := map[string]int{}
	for _, e := range req.ConfigValue.Elements() {
		if v, err := e.ToTerraformValue(ctx); err != nil || e.IsNull() || !v.IsFullyKnown() {
			continue
		}
		if seen[e.String()]++; seen[e.String()] == 2 {
			Reject(req.Path, "each element once", e.String()+" more than once", &resp.Diagnostics)
		}
	}
}

// MisspelledHint is a hint in messages about an object without attributes.
const MisspelledHint = "Terraform drops a misspelled attribute of an object before the provider sees it: check the names."

// SomeAttribute warns about an object without attributes. This may be intended: a module that passes
// variables on has such an object if all are null.
var SomeAttribute = []validator.Object{someAttribute{}}

type someAttribute struct{ Undescribed }

func (someAttribute) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	members := req.ConfigValue.Attributes()
	isSet := func(name string) bool { return !members[name].IsNull() }
	names := slices.Sorted(maps.Keys(members))
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() || slices.ContainsFunc(names, isSet) {
		return
	}
	name := diagnostics.Name(req.Path)
	resp.Diagnostics.AddAttributeWarning(req.Path, "No attribute of "+name+" is set",
		fmt.Sprintf("%s has none of %s, so it is treated as omitted. %s", name, strings.Join(names, ", "), MisspelledHint))
}
