package resources

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	tfpath "github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

// rule is a validator of one known value.
type rule[T any] struct {
	expects string // "a port such as …": after "expected"
	holds   func(T) bool
	secret  bool // the error does not repeat the value
}

func (r rule[T]) Description(context.Context) string         { return "expected " + r.expects }
func (r rule[T]) MarkdownDescription(context.Context) string { return "expected " + r.expects }

func (r rule[T]) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if v, ok := any(req.ConfigValue.ValueString()).(T); ok && !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() && !r.holds(v) {
		r.refuse(req.Path, strconv.Quote(req.ConfigValue.ValueString()), &resp.Diagnostics)
	}
}

func (r rule[T]) ValidateInt64(_ context.Context, req validator.Int64Request, resp *validator.Int64Response) {
	if v, ok := any(req.ConfigValue.ValueInt64()).(T); ok && !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() && !r.holds(v) {
		r.refuse(req.Path, strconv.FormatInt(req.ConfigValue.ValueInt64(), 10), &resp.Diagnostics)
	}
}

func (r rule[T]) refuse(at tfpath.Path, got string, diags *diag.Diagnostics) {
	text := fmt.Sprintf("Invalid %s: expected %s, got %s.", kit.Name(at), r.expects, got)
	if r.secret {
		text = fmt.Sprintf("Invalid %s: expected %s.", kit.Name(at), r.expects)
	}
	diags.AddAttributeError(at, "Invalid value of "+kit.Name(at), text)
}

// portRule: description, Template, ports.
var portRule = rule[string]{expects: "<number>/<protocol> with a number from 1 to 65535 and the protocol http or tcp, such as 8000/http", holds: func(s string) bool {
	number, protocol, _ := strings.Cut(s, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == number && (protocol == "http" || protocol == "tcp")
}}

// variableName and variableValue: what the environment of a process can hold.
var (
	variableName  = rule[string]{expects: "a name of at least one character, without = and NUL", holds: func(s string) bool { return s != "" && !strings.ContainsAny(s, "=\x00") }}
	variableValue = rule[string]{expects: "a value without NUL characters", holds: func(s string) bool { return !strings.Contains(s, "\x00") }, secret: true}
)

var absolutePath = rule[string]{expects: "an absolute path, such as /workspace", holds: path.IsAbs}

// powerOfTwo: v2 document, BaseCpuConfig.
var powerOfTwo = rule[int64]{expects: "a power of two from 2 up", holds: func(n int64) bool { return n >= 2 && n&(n-1) == 0 }}

var cudaVersion = rule[string]{expects: "a CUDA version as major.minor, such as 12.8", holds: regexp.MustCompile(`^\d+\.\d+$`).MatchString}

// someStrings are for sets of ids.
var someStrings = []validator.Set{noNulls{}, setvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1))}

// noNulls refuses null in a collection: no API has it, and Terraform doesn't
// let a provider plan the collection without.
type noNulls struct{}

func (noNulls) Description(context.Context) string         { return "no element may be null" }
func (noNulls) MarkdownDescription(context.Context) string { return "no element may be null" }

func (noNulls) ValidateMap(_ context.Context, req validator.MapRequest, resp *validator.MapResponse) {
	for key, v := range req.ConfigValue.Elements() {
		if v.IsNull() {
			resp.Diagnostics.AddAttributeError(req.Path.AtMapKey(key), "Invalid value of "+kit.Name(req.Path),
				fmt.Sprintf("Invalid %s: %q is null. Leave the key out, or give it a value; an empty one is \"\".", kit.Name(req.Path), key))
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
		diags.AddAttributeError(at, "Invalid value of "+kit.Name(at), fmt.Sprintf("Invalid %s: an element is null. Leave it out, for example with compact().", kit.Name(at)))
	}
}
