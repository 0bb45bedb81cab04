package datasources

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// levels are the levels of availability, lowest first.
var levels = []string{"NONE", "LOW", "MEDIUM", "HIGH"}

// atLeast reports whether a level is minimum or higher. An unknown level is the lowest.
func atLeast(level, minimum string) bool {
	return slices.Index(levels, level) >= slices.Index(levels, minimum)
}

func availableIn(product, place string) schema.ListNestedAttribute {
	return objects("Availability of "+product+" in "+place+".", map[string]schema.Attribute{
		"id": text("Id."), "name": text("Name."), "availability": text("`NONE`, `LOW`, `MEDIUM` or `HIGH`."),
	})
}

func productAttribute(products string) schema.SetAttribute {
	return schema.SetAttribute{Optional: true, ElementType: types.StringType,
		MarkdownDescription: "Products whose availability is returned: " + products + ". Without it, availability is null. If there are several, the lowest availability is returned."}
}

const minAvailabilityText = "Only those with at least this availability: `LOW`, `MEDIUM` or `HIGH`. Needs `product`."

// needsProduct rejects filters of the availability without product. configured reports for each filter
// whether it is set.
func needsProduct(c diagnostics.Check, product types.Set, configured map[string]bool) {
	if !product.IsNull() && (product.IsUnknown() || len(product.Elements()) > 0) {
		return
	}
	for attribute, set := range configured {
		if set {
			c.Error(attribute, "Missing product", "%s filters by availability, which needs product: set product too, or remove %s.", attribute, attribute)
		}
	}
}

// availabilityQuery requests the availability for products. It is empty without products.
func availabilityQuery(product types.Set) url.Values {
	query := url.Values{}
	if products := value.Strings(product); len(products) > 0 {
		query.Set("include", "AVAILABILITY")
		setList(query, "product", product)
	}
	return query
}

// setList sets a parameter to a sorted list, so that the order of the configuration has no
// effect.
func setList(query url.Values, name string, v types.Set) {
	if list := value.Strings(v); len(list) > 0 {
		slices.Sort(list)
		query.Set(name, strings.Join(list, ","))
	}
}

func setInt(query url.Values, name string, v types.Int64) {
	if !v.IsNull() {
		query.Set(name, strconv.FormatInt(v.ValueInt64(), 10))
	}
}

func setText(query url.Values, name string, v types.String) {
	if !v.IsNull() {
		query.Set(name, v.ValueString())
	}
}
