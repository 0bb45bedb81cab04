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

// Misspelt ends a message about an object without attributes. Terraform drops unknown
// attributes during conversion, so a provider never sees a misspelled name.
const Misspelt = "Terraform drops a misspelt attribute of an object before the provider sees it: check the names."

// NotEmpty warns about an object without attributes. This may be intended: a module that passes
// variables on has such an object if all are null.
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
