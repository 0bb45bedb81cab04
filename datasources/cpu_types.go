package datasources

import (
	"cmp"
	"context"
	"net/url"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

// cpuQuery is the part of a configuration that isn't about which flavors to return.
type cpuQuery struct {
	Product   types.Set   `tfsdk:"product"`
	VCPUCount types.Int64 `tfsdk:"vcpu_count"`
}

var cpuQueryAttributes = map[string]schema.Attribute{
	"product":    productAttribute("`POD`, `SERVERLESS`"),
	"vcpu_count": schema.Int64Attribute{Optional: true, MarkdownDescription: "Availability of machines with this many vCPUs, a power of two from 2. Needs `product`."},
}

func (q *cpuQuery) validate(c diagnostics.Check) {
	eachOf(c, "product", q.Product, "POD", "SERVERLESS")
	if n := q.VCPUCount.ValueInt64(); !q.VCPUCount.IsNull() && !q.VCPUCount.IsUnknown() && (n < 2 || n&(n-1) != 0) {
		c.Error("vcpu_count", "Invalid value of vcpu_count", "Invalid vcpu_count: expected a power of two from 2 up, got %d.", n)
	}
	needsProduct(c, q.Product, map[string]bool{"vcpu_count": !q.VCPUCount.IsNull()})
}

func (q *cpuQuery) values() url.Values {
	query := availabilityQuery(q.Product)
	setInt(query, "vcpuCount", q.VCPUCount)
	return query
}

var cpuTypeAttributes = map[string]schema.Attribute{
	"id":    text("Id of the CPU flavor, such as `cpu3c`."),
	"name":  text("Name."),
	"group": optionalText("Generation."),
	"vcpu": object("vCPUs of a machine.", map[string]schema.Attribute{
		"min": integer("Fewest."), "max": integer("Most."),
	}),
	"ram_gb_per_vcpu": number("Memory of one vCPU in GB."),
	"price": object("Price of one vCPU and hour, in USD.", map[string]schema.Attribute{
		"secure_per_vcpu": number("Of a pod."), "serverless_per_vcpu": number("Of a serverless worker."),
	}),
	"availability": optionalText("`NONE`, `LOW`, `MEDIUM` or `HIGH`; null without `product`."),
	"data_centers": availableIn("the flavor", "each data center that has it; null without `product`"),
}

// cpuType completes an entry: a requested list that the answer lacks becomes empty.
func (q *cpuQuery) cpuType(t api.CPUType) api.CPUType {
	t.DataCenters = listIf(!q.Product.IsNull(), t.DataCenters)
	return t
}

type cpuTypes struct {
	cpuQuery
	Group           types.String `tfsdk:"group"`
	MinAvailability types.String `tfsdk:"min_availability"`
}

type cpuTypesFound struct {
	CPUTypes []api.CPUType `tfsdk:"cpu_types"`
}

// CPUTypes is gpucloud_cpu_types.
var CPUTypes = &kit.DataSource[cpuTypes, cpuTypesFound]{
	Name:    "cpu_types",
	Title:   "CPU types",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The CPU flavors of the catalog, with prices, and with availability if `product` is set. API v2 only.",
		Attributes: with(cpuQueryAttributes, map[string]schema.Attribute{
			"group":            schema.StringAttribute{Optional: true, MarkdownDescription: "Only those of this generation."},
			"min_availability": schema.StringAttribute{Optional: true, MarkdownDescription: minAvailabilityText},
			"cpu_types":        objects("The CPU flavors, ordered by id.", cpuTypeAttributes),
		}),
	},
	Validate: func(c diagnostics.Check, config *cpuTypes) {
		config.validate(c)
		oneOf(c, "min_availability", config.MinAvailability, levels[1:]...)
		needsProduct(c, config.Product, map[string]bool{"min_availability": !config.MinAvailability.IsNull()})
	},
	Read: func(ctx context.Context, c *api.Client, m *cpuTypes) (cpuTypesFound, error) {
		all, err := c.FindCPUTypes(ctx, m.values())
		all = slices.DeleteFunc(all, func(t api.CPUType) bool {
			return !m.Group.IsNull() && t.Group != m.Group.ValueString() ||
				!m.MinAvailability.IsNull() && !atLeast(t.Availability, m.MinAvailability.ValueString())
		})
		slices.SortFunc(all, func(a, b api.CPUType) int { return cmp.Compare(a.ID, b.ID) })
		return cpuTypesFound{convert(all, m.cpuType)}, err
	},
}

type oneCPUType struct {
	cpuQuery
	entry
}

var cpuTypeLookup = kit.Lookup{Title: "CPU type", Plural: "CPU types"}

// CPUType is gpucloud_cpu_type.
var CPUType = &kit.DataSource[oneCPUType, api.CPUType]{
	Name:    "cpu_type",
	Title:   "CPU type",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "A CPU flavor of the catalog, by `id` or exact `name`, with prices, and with availability if `product` is set. API v2 only.",
		Attributes:          with(cpuQueryAttributes, cpuTypeAttributes, keyAttributes("CPU flavor", "cpu3c", "Compute-Optimized")),
	},
	Validate: func(c diagnostics.Check, config *oneCPUType) {
		cpuTypeLookup.Validate(c, config.ID, config.Name)
		config.validate(c)
	},
	Read: func(ctx context.Context, c *api.Client, m *oneCPUType) (api.CPUType, error) {
		got, err := lookUp(ctx, cpuTypeLookup, m.entry, m.values(), c.FindCPUTypes, c.CPUType,
			func(t api.CPUType) api.Named { return api.Named{ID: t.ID, Name: t.Name} })
		return m.cpuType(got), err
	},
}
