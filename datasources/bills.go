package datasources

import "github.com/gpucloud/terraform-provider-gpucloud/internal/api"

// Billing is gpucloud_billing.
var Billing = (&billing{
	name: "billing", title: "bill", about: "What everything in the account cost. API v2 only.", version: api.V2,
	path: "",
	amounts: []string{"totalAmount", "podGpuAmount", "podCpuAmount", "podDiskAmount", "serverlessGpuAmount", "serverlessCpuAmount", "serverlessDiskAmount",
		"serverlessFeeAmount", "storageStandardAmount", "storageHighPerformanceAmount", "endpointAmount", "clusterGpuAmount", "clusterDiskAmount", "clusterNetworkingAmount"},
}).source()

// PodBilling is gpucloud_pod_billing.
var PodBilling = (&billing{
	name: "pod_billing", title: "bill of the pods", about: "What pods cost.",
	path: "/pods", pathV1: "/pods", ids: []string{"podId", "gpuTypeId"}, amounts: []string{"totalAmount", "gpuAmount", "cpuAmount", "diskAmount"},
	counts: []string{"timeBilledMs", "diskSpaceBilledGb"},
	filters: []billFilter{
		{attribute: "pod_id", parameter: "podId", about: "Only this pod."},
		{attribute: "gpu_type_id", parameter: "gpuTypeId", about: "Only pods with this GPU type.", only: api.V1},
		{attribute: "grouping", parameter: "grouping", about: "Groups the records by `podId` (default) or `gpuTypeId`.", only: api.V1, choices: []string{"podId", "gpuTypeId"}},
	},
}).source()

// ServerlessBilling is gpucloud_serverless_billing.
var ServerlessBilling = (&billing{
	name: "serverless_billing", title: "bill of the endpoints", about: "What endpoints of the account cost: their workers, while they ran.",
	path: "/serverless", pathV1: "/endpoints", ids: []string{"serverlessId", "podId", "gpuTypeId"},
	amounts: []string{"totalAmount", "gpuAmount", "cpuAmount", "diskAmount", "feeAmount"},
	counts:  []string{"timeBilledMs", "diskSpaceBilledGb"}, renamed: map[string]string{"endpointId": "serverlessId"},
	filters: []billFilter{
		{attribute: "serverless_id", parameter: "serverlessId", about: "Only this endpoint."},
		{attribute: "gpu_type_ids", parameter: "gpuTypeId", about: "Only endpoints with one of these GPU types.", only: api.V1, list: true},
		{attribute: "data_center_ids", parameter: "dataCenterId", about: "Only endpoints in one of these data centers.", only: api.V1, list: true},
		{attribute: "image", parameter: "imageName", about: "Only endpoints with this container image.", only: api.V1},
		{attribute: "template_id", parameter: "templateId", about: "Only endpoints made from this template.", only: api.V1},
		{attribute: "grouping", parameter: "grouping", about: "Groups the records by `endpointId` (default), `podId` (a worker) or `gpuTypeId`.", only: api.V1,
			choices: []string{"endpointId", "podId", "gpuTypeId"}},
	},
}).source()

// PublicEndpointBilling is gpucloud_public_endpoint_billing.
var PublicEndpointBilling = (&billing{
	name: "public_endpoint_billing", title: "bill of public endpoints", version: api.V2,
	about: "What the use of the operator's public endpoints cost (`/v2/billing/endpoints`). The account's own endpoints are in `gpucloud_serverless_billing`. API v2 only.",
	path:  "/endpoints", amounts: []string{"totalAmount"},
}).source()

// NetworkVolumeBilling is gpucloud_network_volume_billing.
var NetworkVolumeBilling = (&billing{
	name: "network_volume_billing", title: "bill of the network volumes", about: "What network volumes cost; on API v1 all of them together, without their ids.",
	path: "/network-volumes", pathV1: "/networkvolumes", ids: []string{"networkVolumeId"}, amounts: []string{"totalAmount", "standardAmount", "highPerformanceAmount"},
	counts:  []string{"diskSpaceBilledGb", "highPerformanceDiskSpaceBilledGb"},
	renamed: map[string]string{"highPerformanceStorageAmount": "highPerformanceAmount", "highPerformanceStorageDiskSpaceBilledGb": "highPerformanceDiskSpaceBilledGb"},
	filters: []billFilter{{attribute: "network_volume_id", parameter: "networkVolumeId", about: "Only this volume.", only: api.V2}},
}).source()

// ClusterBilling is gpucloud_cluster_billing.
var ClusterBilling = (&billing{
	name: "cluster_billing", title: "bill of the clusters", about: "What clusters cost. API v2 only.", version: api.V2,
	path: "/clusters", ids: []string{"clusterId"}, amounts: []string{"totalAmount", "gpuAmount", "diskAmount", "networkingAmount"},
	filters: []billFilter{{attribute: "cluster_id", parameter: "clusterId", about: "Only this cluster."}},
}).source()
