package contract

// All operations may return the failures of the service description (sections Errors and
// Authentication). The v1 document lists only some of them.
var operationsV1 = operations(V1, []int{401, 403, 429, 500},
	op("GET", "/openapi.json", "", 200, "v1 document: GetOpenAPI"),
	op("GET", "/docs", "", 200, "v1 document: GetDocs", fails(400)),

	op("POST", "/pods", "pod", 201, "v1 document: CreatePod", fails(400)),
	op("GET", "/pods", "pod", 200, "v1 document: ListPods", query("computeType", "cpuFlavorId", "dataCenterId", "desiredStatus", "endpointId", "gpuTypeId", "id", "imageName", "includeMachine", "includeNetworkVolume", "includeSavingsPlans", "includeTemplate", "includeWorkers", "name", "networkVolumeId", "templateId"), fails(400, 404), opNote("a bare array")),
	op("GET", "/pods/{podId}", "pod", 200, "v1 document: GetPod", query("includeMachine", "includeNetworkVolume", "includeSavingsPlans", "includeTemplate", "includeWorkers"), fails(400, 404)),
	op("PATCH", "/pods/{podId}", "pod", 200, "v1 document: UpdatePod", fails(400, 404)),
	op("DELETE", "/pods/{podId}", "pod", 204, "v1 document: DeletePod", fails(400), opNote("400 for an unknown id")),
	op("POST", "/pods/{podId}/update", "pod", 200, "v1 document: UpdatePod", fails(400, 404)),
	op("POST", "/pods/{podId}/start", "pod", 200, "v1 document: StartPod", fails(400)),
	op("POST", "/pods/{podId}/stop", "pod", 200, "v1 document: StopPod", fails(400)),
	op("POST", "/pods/{podId}/reset", "pod", 200, "v1 document: ResetPod", fails(400), opNote("v2 has no such operation")),
	op("POST", "/pods/{podId}/restart", "pod", 200, "v1 document: RestartPod", fails(400), opNote("the document lists no success; 200 like the other actions")),

	op("POST", "/endpoints", "endpoint", 200, "service description: Endpoints, section A", orStatus(201), fails(400)),
	op("GET", "/endpoints", "endpoint", 200, "v1 document: ListEndpoints", query("includeTemplate", "includeWorkers"), fails(400, 404), opNote("a bare array")),
	op("GET", "/endpoints/{endpointId}", "endpoint", 200, "v1 document: GetEndpoint", query("includeTemplate", "includeWorkers"), fails(400, 404)),
	op("PATCH", "/endpoints/{endpointId}", "endpoint", 200, "v1 document: UpdateEndpoint", fails(400, 404)),
	op("DELETE", "/endpoints/{endpointId}", "endpoint", 204, "v1 document: DeleteEndpoint", fails(400), opNote("400 for an unknown id")),
	op("POST", "/endpoints/{endpointId}/update", "endpoint", 200, "v1 document: UpdateEndpoint", fails(400, 404)),

	op("POST", "/templates", "template", 200, "service description: Endpoints, section A", orStatus(201), fails(400)),
	op("GET", "/templates", "template", 200, "v1 document: ListTemplates", query("includeEndpointBoundTemplates", "includePublicTemplates", "includeRunpodTemplates"), fails(400, 404), opNote("a bare array; templates bound to an endpoint only with includeEndpointBoundTemplates=true")),
	op("GET", "/templates/{templateId}", "template", 200, "v1 document: GetTemplate", query("includeEndpointBoundTemplates", "includePublicTemplates", "includeRunpodTemplates"), fails(400, 404), opNote("templates bound to an endpoint only with includeEndpointBoundTemplates=true")),
	op("PATCH", "/templates/{templateId}", "template", 200, "v1 document: UpdateTemplate", fails(400, 404)),
	op("DELETE", "/templates/{templateId}", "template", 204, "v1 document: DeleteTemplate", fails(400), opNote("400 for an unknown id, and while a pod, a cluster or a linked endpoint uses it")),
	op("POST", "/templates/{templateId}/update", "template", 200, "v1 document: UpdateTemplate", fails(400, 404)),

	op("POST", "/networkvolumes", "networkVolume", 200, "v1 document: CreateNetworkVolume", orStatus(201), fails(400)),
	op("GET", "/networkvolumes", "networkVolume", 200, "v1 document: ListNetworkVolumes", fails(400, 404), opNote("a bare array")),
	op("GET", "/networkvolumes/{networkVolumeId}", "networkVolume", 200, "v1 document: GetNetworkVolume", fails(400, 404)),
	op("PATCH", "/networkvolumes/{networkVolumeId}", "networkVolume", 200, "v1 document: UpdateNetworkVolume", fails(400, 404), opNote("400 for a size that does not exceed the current one")),
	op("DELETE", "/networkvolumes/{networkVolumeId}", "networkVolume", 204, "v1 document: DeleteNetworkVolume", fails(400), opNote("400 for an unknown id")),
	op("POST", "/networkvolumes/{networkVolumeId}/update", "networkVolume", 200, "service description: Endpoints, section A", fails(400, 404), opNote("400 for a size that does not exceed the current one")),

	op("POST", "/containerregistryauth", "registryAuth", 200, "v1 document: CreateContainerRegistryAuth", orStatus(201), fails(400)),
	op("GET", "/containerregistryauth", "registryAuth", 200, "service description: Endpoints, section A", fails(400, 404), opNote("a bare array")),
	op("GET", "/containerregistryauth/{containerRegistryAuthId}", "registryAuth", 200, "v1 document: GetContainerRegistryAuth", fails(400, 404)),
	op("DELETE", "/containerregistryauth/{containerRegistryAuthId}", "registryAuth", 204, "service description: Endpoints, section A", fails(400), opNote("400 for an unknown id")),

	op("GET", "/billing/pods", "billing", 200, "v1 document: PodBilling", query("bucketSize", "endTime", "gpuTypeId", "grouping", "podId", "startTime"), fails(400), opNote("a bare array")),
	op("GET", "/billing/endpoints", "billing", 200, "v1 document: EndpointBilling", query("bucketSize", "dataCenterId", "endpointId", "endTime", "gpuTypeId", "grouping", "imageName", "startTime", "templateId"), fails(400), opNote("a bare array")),
	op("GET", "/billing/networkvolumes", "networkVolumeBilling", 200, "v1 document: NetworkVolumeBilling", query("bucketSize", "endTime", "startTime"), fails(400), opNote("a bare array")),
)
