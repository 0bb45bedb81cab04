package resources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/distribution/reference"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	tfpath "github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

// rule is a validator of one known value.
type rule[T any] struct {
	expects string // "a port such as …": after "expected"
	holds   func(T) bool
	show    func(T) string // for the error; nil: the value itself
	secret  bool           // the error does not repeat the value
}

func (r rule[T]) Description(context.Context) string         { return "expected " + r.expects }
func (r rule[T]) MarkdownDescription(context.Context) string { return "expected " + r.expects }

func (r rule[T]) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	r.check(req.Path, req.ConfigValue, req.ConfigValue.ValueString(), &resp.Diagnostics)
}

func (r rule[T]) ValidateInt64(_ context.Context, req validator.Int64Request, resp *validator.Int64Response) {
	r.check(req.Path, req.ConfigValue, req.ConfigValue.ValueInt64(), &resp.Diagnostics)
}

func (r rule[T]) ValidateFloat64(_ context.Context, req validator.Float64Request, resp *validator.Float64Response) {
	r.check(req.Path, req.ConfigValue, req.ConfigValue.ValueFloat64(), &resp.Diagnostics)
}

func (r rule[T]) check(at tfpath.Path, configured attr.Value, value any, diags *diag.Diagnostics) {
	v, ok := value.(T)
	if !ok || configured.IsNull() || configured.IsUnknown() || r.holds(v) {
		return
	}
	got := fmt.Sprint(v)
	switch s, isString := value.(string); {
	case r.secret:
		diags.AddAttributeError(at, "Invalid value of "+diagnostics.Name(at), fmt.Sprintf("Invalid %s: expected %s.", diagnostics.Name(at), r.expects))
		return
	case r.show != nil:
		got = r.show(v)
	case isString:
		got = strconv.Quote(s)
	}
	refuse(at, r.expects, got, diags)
}

func refuse(at tfpath.Path, expects, got string, diags *diag.Diagnostics) {
	diags.AddAttributeError(at, "Invalid value of "+diagnostics.Name(at), fmt.Sprintf("Invalid %s: expected %s, got %s.", diagnostics.Name(at), expects, got))
}

// nonEmpty: an empty string is neither a name nor an id.
var nonEmpty = rule[string]{expects: "at least one character", holds: func(s string) bool { return s != "" }}

// characters bounds the length of a string.
func characters(low, high int) rule[string] {
	count := func(s string) string { return fmt.Sprintf("%d characters", utf8.RuneCountInString(s)) }
	return rule[string]{expects: fmt.Sprintf("%d to %d characters", low, high), show: count, holds: func(s string) bool {
		n := utf8.RuneCountInString(s)
		return low <= n && n <= high
	}}
}

// oneOf takes at least two values.
func oneOf(values ...string) rule[string] {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	last := len(quoted) - 1
	return rule[string]{
		expects: strings.Join(quoted[:last], ", ") + " or " + quoted[last],
		holds:   func(s string) bool { return slices.Contains(values, s) },
	}
}

func between(low, high int64) rule[int64] {
	return rule[int64]{expects: fmt.Sprintf("%d to %d", low, high), holds: func(n int64) bool { return low <= n && n <= high }}
}

// in says the unit of a number.
func (r rule[T]) in(unit string) rule[T] {
	if unit != "" {
		r.expects += " " + unit
	}
	return r
}

func atLeast[T int64 | float64](low T) rule[T] {
	return rule[T]{expects: fmt.Sprint("at least ", low), holds: func(n T) bool { return n >= low }}
}

// notHuge bounds a number for which the API states no maximum. A million is more than any
// cloud has of what is counted, and as a size in GB it is a petabyte.
func notHuge[T int64 | float64]() rule[T] {
	const most = 1_000_000
	return rule[T]{expects: fmt.Sprint("at most ", most), holds: func(n T) bool { return n <= most }}
}

// variableName and variableValue: what the environment of a process can hold.
var (
	variableName  = rule[string]{expects: "a name of at least one character, without = and NUL", holds: func(s string) bool { return s != "" && !strings.ContainsAny(s, "=\x00") }}
	variableValue = rule[string]{expects: "a value without NUL characters", holds: func(s string) bool { return !strings.Contains(s, "\x00") }, secret: true}
)

// imageReference refuses what no container engine takes for a reference. Capitals, of
// which the grammar has none in a repository, are left to the deployment.
var imageReference = rule[string]{expects: "the reference of a container image, such as ghcr.io/acme/worker:1.2", holds: func(s string) bool {
	_, err := reference.ParseNormalizedNamed(strings.ToLower(s))
	return !errors.Is(err, reference.ErrReferenceInvalidFormat)
}}

// powerOfTwo: v2 document, BaseCpuConfig.
var powerOfTwo = rule[int64]{expects: "a power of two from 2 up", holds: func(n int64) bool { return n >= 2 && n&(n-1) == 0 }}

// noNulls refuses null in a collection: no API has it, and Terraform doesn't
// let a provider plan the collection without.
type noNulls struct{}

func (noNulls) Description(context.Context) string         { return "no element may be null" }
func (noNulls) MarkdownDescription(context.Context) string { return "no element may be null" }

func (noNulls) ValidateMap(_ context.Context, req validator.MapRequest, resp *validator.MapResponse) {
	for key, v := range req.ConfigValue.Elements() {
		if v.IsNull() {
			resp.Diagnostics.AddAttributeError(req.Path.AtMapKey(key), "Invalid value of "+diagnostics.Name(req.Path),
				fmt.Sprintf("Invalid %s: %q is null. Leave the key out, or give it a value; an empty one is \"\".", diagnostics.Name(req.Path), key))
		}
	}
}

func (noNulls) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	elementNull(req.Path, req.ConfigValue.Elements(), &resp.Diagnostics)
}

func (noNulls) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	elementNull(req.Path, req.ConfigValue.Elements(), &resp.Diagnostics)
}

func elementNull(at tfpath.Path, elements []attr.Value, diags *diag.Diagnostics) {
	if slices.ContainsFunc(elements, attr.Value.IsNull) {
		diags.AddAttributeError(at, "Invalid value of "+diagnostics.Name(at), fmt.Sprintf("Invalid %s: an element is null. Leave it out, for example with compact().", diagnostics.Name(at)))
	}
}

// someElements refuses a list or set that is empty.
type someElements struct{}

func (someElements) Description(context.Context) string { return "expected at least one element" }
func (someElements) MarkdownDescription(context.Context) string {
	return "expected at least one element"
}

func (someElements) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	noElements(req.Path, req.ConfigValue, len(req.ConfigValue.Elements()), &resp.Diagnostics)
}

func (someElements) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	noElements(req.Path, req.ConfigValue, len(req.ConfigValue.Elements()), &resp.Diagnostics)
}

func noElements(at tfpath.Path, configured attr.Value, count int, diags *diag.Diagnostics) {
	if count == 0 && !configured.IsNull() && !configured.IsUnknown() {
		refuse(at, "at least one element", "none", diags)
	}
}

// unique refuses a list that has an element more than once. An element that is
// not wholly known may turn out to be another one.
type unique struct{}

func (unique) Description(context.Context) string { return "expected no element more than once" }
func (unique) MarkdownDescription(context.Context) string {
	return "expected no element more than once"
}

func (unique) ValidateList(ctx context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	seen := map[string]int{}
	for _, e := range req.ConfigValue.Elements() {
		if v, err := e.ToTerraformValue(ctx); err != nil || e.IsNull() || !v.IsFullyKnown() {
			continue
		}
		if seen[e.String()]++; seen[e.String()] == 2 {
			refuse(req.Path, "each element once", e.String()+" more than once", &resp.Diagnostics)
		}
	}
}
