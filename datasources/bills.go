package datasources

import (
	"context"
	"net/url"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

var allBilling = &billing{
	path: "",
	amounts: []string{"totalAmount", "podGpuAmount", "podCpuAmount", "podDiskAmount", "serverlessGpuAmount", "serverlessCpuAmount", "serverlessDiskAmount",
		"serverlessFeeAmount", "storageStandardAmount", "storageHighPerformanceAmount", "endpointAmount", "clusterGpuAmount", "clusterDiskAmount", "clusterNetworkingAmount"},
}

// Billing is gpucloud_billing.
var Billing = &kit.DataSource[bill, billed]{
	Name:     "billing",
	Title:    "bill",
	Version:  api.V2,
	Schema:   allBilling.schema("What everything in the account cost. API v2 only.", nil),
	Validate: allBilling.validate,
	Read: func(ctx context.Context, c *api.Client, m *bill) (billed, error) {
		return allBilling.read(ctx, c, m, url.Values{})
	},
}

var podBilling = &billing{
	path: "/pods", pathV1: "/pods", ids: []string{"podId", "gpuTypeId"}, amounts: []string{"totalAmount", "gpuAmount", "cpuAmount", "diskAmount"},
	counts: []string{"timeBilledMs", "diskSpaceBilledGb"}, grouping: "podId",
}

type podBill struct {
	bill
	PodID     types.String `tfsdk:"pod_id"`
	GPUTypeID types.String `tfsdk:"gpu_type_id"`
	Grouping  types.String `tfsdk:"grouping"`
}

// PodBilling is gpucloud_pod_billing.
var PodBilling = &kit.DataSource[podBill, billed]{
	Name:  "pod_billing",
	Title: "bill of the pods",
	Only:  append(onlyV1("gpu_type_id", "grouping"), onlyV2("last_n")...),
	Schema: podBilling.schema("What pods cost.", map[string]schema.Attribute{
		"pod_id":      filter("Only this pod."),
		"gpu_type_id": filter("Only pods with this GPU type. API v1 only."),
		"grouping":    filter("What the records are by: `podId` (default) or `gpuTypeId`. API v1 only."),
	}),
	Validate: func(c diagnostics.Check, m *podBill) {
		podBilling.validate(c, &m.bill)
		oneOf(c, "grouping", m.Grouping, "podId", "gpuTypeId")
		notEmpty(c, map[string]types.String{"pod_id": m.PodID, "gpu_type_id": m.GPUTypeID})
	},
	Read: func(ctx context.Context, c *api.Client, m *podBill) (billed, error) {
		query := url.Values{}
		setText(query, "podId", m.PodID)
		setText(query, "gpuTypeId", m.GPUTypeID)
		setText(query, "grouping", m.Grouping)
		return podBilling.read(ctx, c, &m.bill, query)
	},
}

var serverlessBilling = &billing{
	path: "/serverless", pathV1: "/endpoints", ids: []string{"serverlessId", "podId", "gpuTypeId"},
	amounts: []string{"totalAmount", "gpuAmount", "cpuAmount", "diskAmount", "feeAmount"},
	counts:  []string{"timeBilledMs", "diskSpaceBilledGb"}, renamed: map[string]string{"endpointId": "serverlessId"}, grouping: "endpointId",
}

type serverlessBill struct {
	bill
	ServerlessID  types.String `tfsdk:"serverless_id"`
	GPUTypeIDs    types.Set    `tfsdk:"gpu_type_ids"`
	DataCenterIDs types.Set    `tfsdk:"data_center_ids"`
	Image         types.String `tfsdk:"image"`
	TemplateID    types.String `tfsdk:"template_id"`
	Grouping      types.String `tfsdk:"grouping"`
}

// ServerlessBilling is gpucloud_serverless_billing.
var ServerlessBilling = &kit.DataSource[serverlessBill, billed]{
	Name:  "serverless_billing",
	Title: "bill of the endpoints",
	Only:  append(onlyV1("gpu_type_ids", "data_center_ids", "image", "template_id", "grouping"), onlyV2("last_n")...),
	Schema: serverlessBilling.schema("What endpoints of the account cost: their workers, while they ran.", map[string]schema.Attribute{
		"serverless_id":   filter("Only this endpoint."),
		"gpu_type_ids":    filterSet("Only endpoints with one of these GPU types. API v1 only."),
		"data_center_ids": filterSet("Only endpoints in one of these data centers. API v1 only."),
		"image":           filter("Only endpoints with this container image. API v1 only."),
		"template_id":     filter("Only endpoints made from this template. API v1 only."),
		"grouping":        filter("What the records are by: `endpointId` (default), `podId`, which is a worker's, or `gpuTypeId`. API v1 only."),
	}),
	Validate: func(c diagnostics.Check, m *serverlessBill) {
		serverlessBilling.validate(c, &m.bill)
		oneOf(c, "grouping", m.Grouping, "endpointId", "podId", "gpuTypeId")
		notEmpty(c, map[string]types.String{"serverless_id": m.ServerlessID, "image": m.Image, "template_id": m.TemplateID})
	},
	Read: func(ctx context.Context, c *api.Client, m *serverlessBill) (billed, error) {
		query := url.Values{}
		setText(query, "serverlessId", m.ServerlessID)
		setText(query, "imageName", m.Image)
		setText(query, "templateId", m.TemplateID)
		setText(query, "grouping", m.Grouping)
		for name, list := range map[string]types.Set{"gpuTypeId": m.GPUTypeIDs, "dataCenterId": m.DataCenterIDs} {
			if ids := value.Strings(list); len(ids) > 0 {
				query[name] = ids
			}
		}
		return serverlessBilling.read(ctx, c, &m.bill, query)
	},
}

var publicEndpointBilling = &billing{path: "/endpoints", amounts: []string{"totalAmount"}}

// PublicEndpointBilling is gpucloud_public_endpoint_billing.
var PublicEndpointBilling = &kit.DataSource[bill, billed]{
	Name:    "public_endpoint_billing",
	Title:   "bill of public endpoints",
	Version: api.V2,
	Schema: publicEndpointBilling.schema("What the use of the operator's public endpoints cost (`/v2/billing/endpoints`). "+
		"The account's own endpoints are in `gpucloud_serverless_billing`. API v2 only.", nil),
	Validate: publicEndpointBilling.validate,
	Read: func(ctx context.Context, c *api.Client, m *bill) (billed, error) {
		return publicEndpointBilling.read(ctx, c, m, url.Values{})
	},
}

var networkVolumeBilling = &billing{
	path: "/network-volumes", pathV1: "/networkvolumes", ids: []string{"networkVolumeId"}, amounts: []string{"totalAmount", "standardAmount", "highPerformanceAmount"},
	counts:  []string{"diskSpaceBilledGb", "highPerformanceDiskSpaceBilledGb"},
	renamed: map[string]string{"highPerformanceStorageAmount": "highPerformanceAmount", "highPerformanceStorageDiskSpaceBilledGb": "highPerformanceDiskSpaceBilledGb"},
}

type networkVolumeBill struct {
	bill
	NetworkVolumeID types.String `tfsdk:"network_volume_id"`
}

// NetworkVolumeBilling is gpucloud_network_volume_billing.
var NetworkVolumeBilling = &kit.DataSource[networkVolumeBill, billed]{
	Name:  "network_volume_billing",
	Title: "bill of the network volumes",
	Only:  onlyV2("last_n", "network_volume_id"),
	Schema: networkVolumeBilling.schema("What network volumes cost; on API v1 all of them together, without their ids.", map[string]schema.Attribute{
		"network_volume_id": filter("Only this volume. API v2 only."),
	}),
	Validate: func(c diagnostics.Check, m *networkVolumeBill) {
		networkVolumeBilling.validate(c, &m.bill)
		notEmpty(c, map[string]types.String{"network_volume_id": m.NetworkVolumeID})
	},
	Read: func(ctx context.Context, c *api.Client, m *networkVolumeBill) (billed, error) {
		query := url.Values{}
		setText(query, "networkVolumeId", m.NetworkVolumeID)
		return networkVolumeBilling.read(ctx, c, &m.bill, query)
	},
}

var clusterBilling = &billing{path: "/clusters", ids: []string{"clusterId"}, amounts: []string{"totalAmount", "gpuAmount", "diskAmount", "networkingAmount"}}

type clusterBill struct {
	bill
	ClusterID types.String `tfsdk:"cluster_id"`
}

// ClusterBilling is gpucloud_cluster_billing.
var ClusterBilling = &kit.DataSource[clusterBill, billed]{
	Name:    "cluster_billing",
	Title:   "bill of the clusters",
	Version: api.V2,
	Schema:  clusterBilling.schema("What clusters cost. API v2 only.", map[string]schema.Attribute{"cluster_id": filter("Only this cluster.")}),
	Validate: func(c diagnostics.Check, m *clusterBill) {
		clusterBilling.validate(c, &m.bill)
		notEmpty(c, map[string]types.String{"cluster_id": m.ClusterID})
	},
	Read: func(ctx context.Context, c *api.Client, m *clusterBill) (billed, error) {
		query := url.Values{}
		setText(query, "clusterId", m.ClusterID)
		return clusterBilling.read(ctx, c, &m.bill, query)
	},
}

func filter(description string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, MarkdownDescription: description}
}

func notEmpty(c diagnostics.Check, values map[string]types.String) {
	for attribute, v := range values {
		kit.NotEmpty(c, attribute, v)
	}
}
