package datasources

import (
	"net/url"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

const (
	gpuAvailability = "GPU_AVAILABILITY"
	cpuAvailability = "CPU_AVAILABILITY"
)

var (
	regions     = []string{"NORTH_AMERICA", "SOUTH_AMERICA", "EUROPE", "ASIA", "MIDDLE_EAST", "AFRICA", "OCEANIA", "ANTARCTICA", "UNKNOWN"}
	volumeTypes = []string{"STANDARD", "HIGH_PERFORMANCE"}
	compliances = []string{"GDPR", "ISO_IEC_27001", "ISO_14001", "PCI_DSS", "HITRUST", "SOC_1_TYPE_2", "SOC_2_TYPE_2", "SOC_3_TYPE_2", "ITAR", "FISMA_HIGH", "HIPAA", "RENEWABLE"}
)

var dataCenterAttributes = map[string]schema.Attribute{
	"id":                   text("Id of the data center, such as `EU-RO-1`."),
	"name":                 text("Name of the data center."),
	"region":               text("Part of the world, such as `EUROPE`."),
	"global_network":       boolean("Whether the data center supports the global network."),
	"network_volume_types": texts("Storage tiers of network volumes in the data center; empty if it offers none."),
	"compliance":           texts("Certifications, such as `GDPR`."),
	"gpu_availability":     availableIn("each GPU type", "the data center; null unless `include` has `GPU_AVAILABILITY`", "GPU type"),
	"cpu_availability":     availableIn("each CPU flavor", "the data center; null unless `include` has `CPU_AVAILABILITY`", "CPU flavor"),
}

var includeAttribute = filterSet("What to return in addition: `GPU_AVAILABILITY`, `CPU_AVAILABILITY`.", rule.Each(rule.OneOf(gpuAvailability, cpuAvailability))...)

// dataCenterQuery configures the data source of one data center. dataCenters adds filters.
type dataCenterQuery struct {
	Include types.Set
	entryKey
}

type dataCenters struct {
	dataCenterQuery
	Regions, NetworkVolumeTypes, Compliance types.Set
	GlobalNetwork                           types.Bool
}

type dataCenterList struct{ DataCenters []api.DataCenter }

func (*dataCenterQuery) validate(diagnostics.Check) {}

// complete replaces requested lists that the response lacks with empty ones.
func (m *dataCenterQuery) complete(d api.DataCenter) api.DataCenter {
	requested := value.Strings(m.Include)
	d.NetworkVolumeTypes, d.Compliance = emptyIfNil(d.NetworkVolumeTypes), emptyIfNil(d.Compliance)
	d.GPUAvailability = listIf(slices.Contains(requested, gpuAvailability), d.GPUAvailability)
	d.CPUAvailability = listIf(slices.Contains(requested, cpuAvailability), d.CPUAvailability)
	return d
}

func (m *dataCenterQuery) values() url.Values {
	query := url.Values{}
	setList(query, "include", m.Include)
	return query
}

func (m *dataCenters) values() url.Values {
	query := m.dataCenterQuery.values()
	setList(query, "regions", m.Regions)
	setList(query, "networkVolumeTypes", m.NetworkVolumeTypes)
	setList(query, "compliance", m.Compliance)
	if !m.GlobalNetwork.IsNull() {
		query.Set("globalNetwork", m.GlobalNetwork.String())
	}
	return query
}

var DataCenters = catalogEntries("data centers", "The data centers of the catalog that pass all filters, and what is available there. API v2 only.",
	map[string]schema.Attribute{
		"include":              includeAttribute,
		"regions":              filterSet("Lists only data centers in one of these parts of the world, such as `EUROPE`.", rule.Each(rule.OneOf(regions...))...),
		"network_volume_types": filterSet("Lists only data centers that have every storage tier given here. Each is `STANDARD` or `HIGH_PERFORMANCE`.", rule.Each(rule.OneOf(volumeTypes...))...),
		"compliance":           filterSet("Lists only data centers that have every certification given here, such as `GDPR`.", rule.Each(rule.OneOf(compliances...))...),
		"global_network":       schema.BoolAttribute{Optional: true, MarkdownDescription: "If true, lists only data centers that support the global network; if false, only the others."},
		"data_centers":         objects("The data centers, ordered by id.", dataCenterAttributes),
	},
	allDataCenters, func(all []api.DataCenter) dataCenterList { return dataCenterList{all} },
	func(*dataCenters, api.DataCenter) bool { return true }) // the API filters

var DataCenter = catalogEntry[dataCenterQuery]("data center", "A data center of the catalog, by `id` or exact `name`, and what is available there. API v2 only.",
	merge(dataCenterAttributes, map[string]schema.Attribute{"include": includeAttribute}, keyAttributes("data center", "EU-RO-1", "EU Romania 1")),
	allDataCenters)

func allDataCenters(c *api.Client) *api.CatalogList[api.DataCenter] { return c.DataCenters }
