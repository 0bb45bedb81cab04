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
)

// rule is a validator of one known value.
type rule[T any] struct {
	says  string
	holds func(T) bool
}

func (r rule[T]) Description(context.Context) string         { return r.says }
func (r rule[T]) MarkdownDescription(context.Context) string { return r.says }

func (r rule[T]) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if v, ok := any(req.ConfigValue.ValueString()).(T); ok && !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() && !r.holds(v) {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid value", fmt.Sprintf("%q: %s.", req.ConfigValue.ValueString(), r.says))
	}
}

func (r rule[T]) ValidateInt64(_ context.Context, req validator.Int64Request, resp *validator.Int64Response) {
	if v, ok := any(req.ConfigValue.ValueInt64()).(T); ok && !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() && !r.holds(v) {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid value", fmt.Sprintf("%d: %s.", req.ConfigValue.ValueInt64(), r.says))
	}
}

// portRule: description, Template, ports.
var portRule = rule[string]{"a port is <number>/<protocol> with a number from 1 to 65535 and the protocol http or tcp, such as 8000/http", func(s string) bool {
	number, protocol, _ := strings.Cut(s, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == number && (protocol == "http" || protocol == "tcp")
}}

var absolutePath = rule[string]{"a mount path is absolute, such as /workspace", path.IsAbs}

// powerOfTwo: v2 document, BaseCpuConfig.
var powerOfTwo = rule[int64]{"a vCPU count is a power of two from 2 up", func(n int64) bool { return n >= 2 && n&(n-1) == 0 }}

var cudaVersion = stringvalidator.RegexMatches(regexp.MustCompile(`^\d+\.\d+$`), "a CUDA version is major.minor, such as 12.8")

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
			resp.Diagnostics.AddAttributeError(req.Path.AtMapKey(key), "Null is no value",
				fmt.Sprintf("%q is null. Leave the key out, or give it a value; an empty one is \"\".", key))
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
		diags.AddAttributeError(at, "Null is no value", "An element is null. Leave it out, for example with compact().")
	}
}
