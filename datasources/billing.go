package datasources

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// billing is a bill of the API. Its members have the names of API v2, or of v1 if only v1 has them.
type billing struct {
	name, title, description string
	version                  api.Version       // the only version that has it; "" if both have it
	path                     string            // on v2
	pathV1                   string            // "" if API v1 doesn't have it
	ids, amounts             []string          // members of each record
	counts                   []string          // members of each record on API v1
	renamed                  map[string]string // from a member's name on API v1 to its name on v2
	filters                  []billFilter
}

// billFilter is an attribute that filters a bill or, with choices, groups it.
type billFilter struct {
	attribute, parameter, description string
	version                           api.Version // the only version that has it; "" if both have it
	isList                            bool
	choices                           []string // of a grouping; the first is the default, which API v1 needs
}

type billConfig struct {
	StartTime, EndTime, BucketSize                              types.String
	LastN                                                       types.Int64
	PodID, ServerlessID, NetworkVolumeID, ClusterID, TemplateID types.String
	GPUTypeID, Image, Grouping                                  types.String
	GPUTypeIDs, DataCenterIDs                                   types.Set
}

type billResult struct {
	Period  *api.BillPeriod // nil on API v1
	Records types.List
	Totals  types.Object
}

func (b *billing) source() *kit.DataSource[billConfig, billResult] {
	d := &kit.DataSource[billConfig, billResult]{Name: b.name, Title: b.title, Version: b.version, Schema: b.schema(), Validate: b.validate, Read: b.read}
	if b.version == "" {
		d.OneVersionOnly = append(d.OneVersionOnly, planrule.OneVersion{Version: api.V2, Attribute: "last_n"})
	}
	for _, f := range b.filters {
		if f.version != "" {
			d.OneVersionOnly = append(d.OneVersionOnly, planrule.OneVersion{Version: f.version, Attribute: f.attribute})
		}
	}
	return d
}

func (b *billing) schema() schema.Schema {
	onlyV2 := " API v2 only."
	if b.version != "" { // the data source's description says it
		onlyV2 = ""
	}
	records, totals := map[string]schema.Attribute{
		"start_time": schema.StringAttribute{Computed: true, MarkdownDescription: "Start of the bucket, as RFC 3339."},
		"end_time":   schema.StringAttribute{Computed: true, MarkdownDescription: "End of the bucket, exclusive." + onlyV2},
	}, map[string]schema.Attribute{}
	for i, member := range b.ids {
		records[diagnostics.AttributeName(member)] = schema.StringAttribute{Computed: true, MarkdownDescription: describeID(member, i == 0)}
	}
	for _, member := range b.amounts {
		records[diagnostics.AttributeName(member)] = number(describeAmount(member, onlyV2))
		totals[diagnostics.AttributeName(member)] = number(describeAmount(member, onlyV2))
	}
	for _, member := range b.counts {
		records[diagnostics.AttributeName(member)] = integer(describeCount(member))
	}
	filters := map[string]schema.Attribute{}
	for _, f := range b.filters {
		description := f.description
		if f.version != "" {
			description += " API " + string(f.version) + " only."
		}
		switch {
		case f.isList:
			filters[f.attribute] = filterSet(description, rule.Each(rule.NonEmpty)...)
		case f.choices != nil:
			filters[f.attribute] = filter(description, rule.OneOf(f.choices...))
		default:
			filters[f.attribute] = filter(description, rule.NonEmpty)
		}
	}
	return schema.Schema{
		MarkdownDescription: b.description + " With the default period, the records change from plan to plan.",
		Attributes: merge(map[string]schema.Attribute{
			"start_time":  filter("Start of the period, as RFC 3339, rounded down to its bucket; default 30 days ago.", rfc3339),
			"end_time":    filter("End of the period, as RFC 3339, rounded up to its bucket; default now.", rfc3339),
			"last_n":      filterInteger("Number of latest buckets, instead of `start_time` and `end_time`."+onlyV2, positive),
			"bucket_size": filter("Length of a bucket: `hour`, `day` (default), `week`, `month` or `year`.", rule.OneOf("hour", "day", "week", "month", "year")),
			"period": object("Period of the records."+onlyV2, map[string]schema.Attribute{
				"start_time": text("Start of the period, as RFC 3339."), "end_time": text("End of the period, exclusive."), "bucket_size": text("Length of a bucket."),
			}),
			"records": objects("What was billed, ordered by bucket.", records),
			"totals":  object("Sum of each amount over all records.", totals),
		}, filters),
	}
}

func (b *billing) validate(c diagnostics.Check, m *billConfig) {
	var times [2]time.Time
	for i, bound := range []struct {
		attribute string
		value     types.String
	}{{"start_time", m.StartTime}, {"end_time", m.EndTime}} {
		if !value.IsSet(bound.value) {
			continue
		}
		if value.IsSet(m.LastN) {
			c.Error(bound.attribute, "Two periods", "%s conflicts with last_n: set one of them.", bound.attribute)
		}
		times[i], _ = time.Parse(time.RFC3339, bound.value.ValueString()) // can't fail: the attribute's validator has checked it
	}
	if !times[0].IsZero() && !times[1].IsZero() && !times[0].Before(times[1]) {
		c.Error("end_time", "Invalid value of end_time", "Invalid end_time: expected a time after start_time, got %s and %s.", m.StartTime.ValueString(), m.EndTime.ValueString())
	}
}

// read requests the bill with the parameters of the client's version.
func (b *billing) read(ctx context.Context, c *api.Client, m *billConfig) (out billResult, err error) {
	query := url.Values{}
	setText(query, "startTime", m.StartTime)
	setText(query, "endTime", m.EndTime)
	setInt(query, "lastN", m.LastN)
	setText(query, "bucketSize", m.BucketSize)
	for _, f := range b.filters {
		text, _ := value.Attribute(m, f.attribute).(types.String) // null for a list
		setText(query, f.parameter, text)
		if list, ok := value.Attribute(m, f.attribute).(types.Set); ok && len(list.Elements()) > 0 {
			query[f.parameter] = value.Strings(list)
		}
		if f.choices != nil && c.Version == api.V1 && !query.Has(f.parameter) {
			query.Set(f.parameter, f.choices[0])
		}
	}
	path := b.path
	if c.Version == api.V1 {
		path = b.pathV1
		for v1Name, member := range b.renamed {
			if v, ok := query[member]; ok {
				query[v1Name] = v
				delete(query, member)
			}
		}
	}
	got, err := c.Bill(ctx, path, query)
	if err != nil {
		return out, err
	}
	if got.Period != (api.BillPeriod{}) {
		out.Period = &got.Period
	}
	out.Records, out.Totals = b.flatten(got)
	return out, nil
}

func (b *billing) flatten(got api.Bill) (list types.List, totals types.Object) {
	attributes := b.schema().Attributes
	element := attributes["records"].GetType().(types.ListType).ElemType.(types.ObjectType)
	records := make([]attr.Value, len(got.Records))
	for i, r := range got.Records {
		for v1Name, member := range b.renamed {
			rename(r.IDs, v1Name, member)
			rename(r.Amounts, v1Name, member)
			rename(r.Counts, v1Name, member)
		}
		members := map[string]attr.Value{
			"start_time": types.StringValue(r.StartTime), "end_time": value.KeepString(types.StringNull(), r.EndTime),
		}
		for _, id := range b.ids {
			members[diagnostics.AttributeName(id)] = value.KeepString(types.StringNull(), r.IDs[id])
		}
		for _, amount := range b.amounts {
			members[diagnostics.AttributeName(amount)] = value.Number(r.Amounts[amount])
		}
		for _, count := range b.counts {
			members[diagnostics.AttributeName(count)] = types.Int64Null()
			if n, ok := r.Counts[count]; ok {
				members[diagnostics.AttributeName(count)] = types.Int64Value(n)
			}
		}
		records[i] = types.ObjectValueMust(element.AttrTypes, members)
	}
	sums := map[string]attr.Value{}
	for v1Name, member := range b.renamed {
		rename(got.Totals, v1Name, member)
	}
	for _, amount := range b.amounts {
		sums[diagnostics.AttributeName(amount)] = value.Number(got.Totals[amount])
	}
	return types.ListValueMust(element, records), types.ObjectValueMust(attributes["totals"].GetType().(types.ObjectType).AttrTypes, sums)
}

func rename[V string | json.Number | int64](members map[string]V, v1Name, name string) {
	if v, ok := members[v1Name]; ok {
		delete(members, v1Name)
		members[name] = v
	}
}

// words splits a member's name for its description: "gpuAmount" becomes "GPU".
func words(member, ending string) string {
	text := strings.ReplaceAll(strings.TrimSuffix(diagnostics.AttributeName(member), ending), "_", " ")
	for _, short := range []string{"gpu", "cpu"} {
		text = strings.ReplaceAll(text, short, strings.ToUpper(short))
	}
	return text
}

func describeAmount(member, onlyV2 string) string {
	switch member {
	case "totalAmount":
		return "Total, in USD."
	case "endpointAmount":
		return "Public endpoints, in USD."
	case "highPerformanceAmount": // both versions have it
		onlyV2 = ""
	}
	text := strings.TrimPrefix(words(member, "_amount"), "storage ")
	if text == "standard" || text == "high performance" {
		text += " storage"
	}
	if strings.HasSuffix(text, "fee") {
		text += ", deprecated and always 0"
	}
	return strings.ToUpper(text[:1]) + text[1:] + ", in USD." + onlyV2
}

func describeID(member string, first bool) string {
	text := "Id of the " + strings.Replace(words(member, "_id"), "serverless", "endpoint", 1) + "."
	if member == "networkVolumeId" {
		return text + " API v2 only."
	}
	if !first { // a pod is a worker here
		text = strings.Replace(text, "pod", "worker", 1) + " API v1 only, if grouped by it."
	}
	return text
}

func describeCount(member string) string {
	unit := "time that was billed, in milliseconds"
	switch member {
	case "diskSpaceBilledGb":
		unit = "disk space that was billed, in GB"
	case "highPerformanceDiskSpaceBilledGb":
		unit = "high-performance disk space that was billed, in GB"
	}
	return strings.ToUpper(unit[:1]) + unit[1:] + ". API v1 only."
}

var Billing = (&billing{
	name: "billing", title: "bill", description: "What everything in the account cost. API v2 only.", version: api.V2,
	amounts: []string{"totalAmount", "podGpuAmount", "podCpuAmount", "podDiskAmount", "serverlessGpuAmount", "serverlessCpuAmount", "serverlessDiskAmount",
		"serverlessFeeAmount", "storageStandardAmount", "storageHighPerformanceAmount", "endpointAmount", "clusterGpuAmount", "clusterDiskAmount", "clusterNetworkingAmount"},
}).source()

var PodBilling = (&billing{
	name: "pod_billing", title: "bill of the pods", description: "What pods cost.",
	path: "/pods", pathV1: "/pods", ids: []string{"podId", "gpuTypeId"}, amounts: []string{"totalAmount", "gpuAmount", "cpuAmount", "diskAmount"},
	counts: []string{"timeBilledMs", "diskSpaceBilledGb"},
	filters: []billFilter{
		{attribute: "pod_id", parameter: "podId", description: "Only this pod."},
		{attribute: "gpu_type_id", parameter: "gpuTypeId", description: "Only pods with this GPU type.", version: api.V1},
		{attribute: "grouping", parameter: "grouping", description: "Groups the records by `podId` (default) or `gpuTypeId`.", version: api.V1, choices: []string{"podId", "gpuTypeId"}},
	},
}).source()

var ServerlessBilling = (&billing{
	name: "serverless_billing", title: "bill of the endpoints", description: "What the workers of the account's endpoints cost.",
	path: "/serverless", pathV1: "/endpoints", ids: []string{"serverlessId", "podId", "gpuTypeId"},
	amounts: []string{"totalAmount", "gpuAmount", "cpuAmount", "diskAmount", "feeAmount"},
	counts:  []string{"timeBilledMs", "diskSpaceBilledGb"}, renamed: map[string]string{"endpointId": "serverlessId"},
	filters: []billFilter{
		{attribute: "serverless_id", parameter: "serverlessId", description: "Only this endpoint."},
		{attribute: "gpu_type_ids", parameter: "gpuTypeId", description: "Only endpoints with one of these GPU types.", version: api.V1, isList: true},
		{attribute: "data_center_ids", parameter: "dataCenterId", description: "Only endpoints in one of these data centers.", version: api.V1, isList: true},
		{attribute: "image", parameter: "imageName", description: "Only endpoints with this container image.", version: api.V1},
		{attribute: "template_id", parameter: "templateId", description: "Only endpoints made from this template.", version: api.V1},
		{attribute: "grouping", parameter: "grouping", description: "Groups the records by `endpointId` (default), `podId` (a worker) or `gpuTypeId`.", version: api.V1,
			choices: []string{"endpointId", "podId", "gpuTypeId"}},
	},
}).source()

var PublicEndpointBilling = (&billing{
	name: "public_endpoint_billing", title: "bill of public endpoints", version: api.V2,
	description: "What RunPod's public endpoints cost (`/v2/billing/endpoints`). The account's own endpoints are in `gpucloud_serverless_billing`. API v2 only.",
	path:        "/endpoints", amounts: []string{"totalAmount"},
}).source()

var NetworkVolumeBilling = (&billing{
	name: "network_volume_billing", title: "bill of the network volumes", description: "What network volumes cost; on API v1 all of them together, without their ids.",
	path: "/network-volumes", pathV1: "/networkvolumes", ids: []string{"networkVolumeId"}, amounts: []string{"totalAmount", "standardAmount", "highPerformanceAmount"},
	counts:  []string{"diskSpaceBilledGb", "highPerformanceDiskSpaceBilledGb"},
	renamed: map[string]string{"highPerformanceStorageAmount": "highPerformanceAmount", "highPerformanceStorageDiskSpaceBilledGb": "highPerformanceDiskSpaceBilledGb"},
	filters: []billFilter{{attribute: "network_volume_id", parameter: "networkVolumeId", description: "Only this volume.", version: api.V2}},
}).source()

var ClusterBilling = (&billing{
	name: "cluster_billing", title: "bill of the clusters", description: "What clusters cost. API v2 only.", version: api.V2,
	path: "/clusters", ids: []string{"clusterId"}, amounts: []string{"totalAmount", "gpuAmount", "diskAmount", "networkingAmount"},
	filters: []billFilter{{attribute: "cluster_id", parameter: "clusterId", description: "Only this cluster."}},
}).source()
