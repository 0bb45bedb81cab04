package value

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

// Misspelt ends what is said of an object without attributes. Terraform converts an object to
// the type of its attribute and drops what that type lacks, so that no provider ever sees
// a misspelt name.
const Misspelt = "Terraform drops a misspelt attribute of an object before the provider sees it: check the names."

// NotEmpty warns of an object without any attribute, where each of them may be left out. It
// may be meant so: a module that hands variables on has such an object where all are null.
var NotEmpty = []validator.Object{notEmpty{}}

type notEmpty struct{}

func (notEmpty) Description(context.Context) string         { return "expected at least one attribute" }
func (notEmpty) MarkdownDescription(context.Context) string { return "expected at least one attribute" }

func (notEmpty) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	members := req.ConfigValue.Attributes()
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() || slices.ContainsFunc(slices.Collect(maps.Values(members)), func(v attr.Value) bool { return !v.IsNull() }) {
		return
	}
	name := diagnostics.Name(req.Path)
	resp.Diagnostics.AddAttributeWarning(req.Path, "No attribute of "+name+" is set", fmt.Sprintf("%s has none of %s, and is as if it were left out. %s",
		name, strings.Join(slices.Sorted(maps.Keys(members)), ", "), Misspelt))
}
