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
	expects string // completes "expected …": "a port such as …"
	holds   func(T) bool
	show    func(T) string // formats the value for the error; nil shows the value itself
	secret  bool           // the error doesn't contain the value

	undescribed
}

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

var nonEmpty = rule[string]{expects: "at least one character", holds: func(s string) bool { return s != "" }}

// characters limits the length of a string.
func characters(low, high int) rule[string] {
	count := func(s string) string { return fmt.Sprintf("%d characters", utf8.RuneCountInString(s)) }
	return rule[string]{expects: fmt.Sprintf("%d to %d characters", low, high), show: count, holds: func(s string) bool {
		n := utf8.RuneCountInString(s)
		return low <= n && n <= high
	}}
}

// oneOf needs at least two values.
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

// in adds the unit of a number to the error.
func (r rule[T]) in(unit string) rule[T] {
	if unit != "" {
		r.expects += " " + unit
	}
	return r
}

func atLeast[T int64 | float64](low T) rule[T] {
	return rule[T]{expects: fmt.Sprint("at least ", low), holds: func(n T) bool { return n >= low }}
}

// notHuge limits a number for which the API documents no maximum. No cloud has a million GPUs or
// workers, and a million GB is a petabyte.
func notHuge[T int64 | float64]() rule[T] {
	const most = 1_000_000
	return rule[T]{expects: fmt.Sprint("at most ", most), holds: func(n T) bool { return n <= most }}
}

// The environment of a process can't contain other names and values.
var (
	variableName  = rule[string]{expects: "a name of at least one character, without = and NUL", holds: func(s string) bool { return s != "" && !strings.ContainsAny(s, "=\x00") }}
	variableValue = rule[string]{expects: "a value without NUL characters", holds: func(s string) bool { return !strings.Contains(s, "\x00") }, secret: true}
)

// imageReference rejects text that no container engine accepts as a reference. It accepts upper
// case, which the grammar forbids in repositories, and leaves the decision to the deployment.
var imageReference = rule[string]{expects: "the reference of a container image, such as ghcr.io/acme/worker:1.2", holds: func(s string) bool {
	_, err := reference.ParseNormalizedNamed(strings.ToLower(s))
	return !errors.Is(err, reference.ErrReferenceInvalidFormat)
}}

// Source: v2 document, BaseCpuConfig.
var powerOfTwo = rule[int64]{expects: "a power of two from 2 up", holds: func(n int64) bool { return n >= 2 && n&(n-1) == 0 }}

// undescribed is a validator or plan modifier without a description, because nothing shows it.
type undescribed struct{}

func (undescribed) Description(context.Context) string         { return "" }
func (undescribed) MarkdownDescription(context.Context) string { return "" }

// noNulls rejects null in a collection: no API accepts it, and Terraform doesn't let a provider
// remove it from a plan.
type noNulls struct{ undescribed }

func (noNulls) ValidateMap(_ context.Context, req validator.MapRequest, resp *validator.MapResponse) {
	for key, v := range req.ConfigValue.Elements() {
		if v.IsNull() {
			resp.Diagnostics.AddAttributeError(req.Path.AtMapKey(key), "Invalid value of "+diagnostics.Name(req.Path),
				fmt.Sprintf("Invalid %s: %q is null. Leave the key out, or give it a value; an empty one is \"\".", diagnostics.Name(req.Path), key))
		}
	}
}

func (noNulls) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	rejectNulls(req.Path, req.ConfigValue.Elements(), &resp.Diagnostics)
}

func (noNulls) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	rejectNulls(req.Path, req.ConfigValue.Elements(), &resp.Diagnostics)
}

func rejectNulls(at tfpath.Path, elements []attr.Value, diags *diag.Diagnostics) {
	if slices.ContainsFunc(elements, attr.Value.IsNull) {
		diags.AddAttributeError(at, "Invalid value of "+diagnostics.Name(at), fmt.Sprintf("Invalid %s: an element is null. Leave it out, for example with compact().", diagnostics.Name(at)))
	}
}

// someElements rejects an empty list or set.
type someElements struct{ undescribed }

func (someElements) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	rejectEmpty(req.Path, req.ConfigValue, len(req.ConfigValue.Elements()), &resp.Diagnostics)
}

func (someElements) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	rejectEmpty(req.Path, req.ConfigValue, len(req.ConfigValue.Elements()), &resp.Diagnostics)
}

func rejectEmpty(at tfpath.Path, configured attr.Value, count int, diags *diag.Diagnostics) {
	if count == 0 && !configured.IsNull() && !configured.IsUnknown() {
		refuse(at, "at least one element", "none", diags)
	}
}

// unique rejects repeated elements of a list. Elements that aren't fully known are skipped,
// because they may become distinct.
type unique struct{ undescribed }

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
