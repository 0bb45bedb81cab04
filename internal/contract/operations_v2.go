package contract

// All operations may return the failures of the service description (sections Errors and
// Authentication). The v2 document's default response covers all other failures.
var operationsV2 = operations(V2, []int{401, 403, 429, 500},
	op("GET", "/openapi.json", "", 200, "service description: Versioning 3"),

	op("GET", "/account/ssh-keys", "sshKeys", 200, "v2 document: GetSshKeys"),
	op("PUT", "/account/ssh-keys", "sshKeys", 200, "v2 document: UpdateSshKeys", fails(422)),

	op("GET", "/account/secrets", "secret", 200, documentOfSecrets, query("name"), opNote("object with the list secrets; `name` matches the whole name, ignoring case")),
	op("POST", "/account/secrets", "secret", 201, documentOfSecrets, fails(400, 409, 422), opNote("409 if the name is taken")),
	op("GET", "/account/secrets/{id}", "secret", 200, documentOfSecrets, fails(404)),
	op("PATCH", "/account/secrets/{id}", "secret", 200, documentOfSecrets, fails(400, 404, 422), opNote("422 for an empty body")),
	op("DELETE", "/account/secrets/{id}", "secret", 204, documentOfSecrets, fails(404)),

	op("GET", "/pods", "pod", 200, "v2 document: ListPods", query("includeClusterPods", "cursor", "limit"), fails(422), opNote(pages("pods"))),
	op("POST", "/pods", "pod", 201, "v2 document: CreatePod", fails(400, 404, 413, 422), opNote("413 above 102400 bytes: checked before authentication, and again with the template's settings")),
	op("GET", "/pods/{id}", "pod", 200, "v2 document: GetPod", fails(404)),
	op("PATCH", "/pods/{id}", "pod", 200, "v2 document: UpdatePod", fails(400, 404, 409, 422)),
	op("DELETE", "/pods/{id}", "pod", 204, "v2 document: DeletePod", fails(404, 409)),
	op("GET", "/pods/{id}/logs", "logLine", 200, "v2 document: GetPodLogs", query("source", "tail", "since"), fails(404), opNote("Last-Event-ID header to resume")),
	op("POST", "/pods/{id}/action", "pod", 200, "v2 document: PodAction", orStatus(204), fails(400, 404, 409, 422), opNote("body {action}: start, stop, restart or terminate")),

	op("GET", "/clusters", "cluster", 200, "v2 document: ListClusters", opNote("object with the list clusters")),
	op("POST", "/clusters", "cluster", 201, "v2 document: CreateCluster", fails(400, 404, 422)),
	op("GET", "/clusters/{id}", "cluster", 200, "v2 document: GetCluster", fails(404)),
	op("PATCH", "/clusters/{id}", "cluster", 200, "v2 document: UpdateCluster", fails(400, 404, 422)),
	op("DELETE", "/clusters/{id}", "cluster", 204, "v2 document: DeleteCluster", fails(404)),
	op("GET", "/clusters/{id}/pods", "pod", 200, "v2 document: ListClusterPods", fails(404), opNote("object with the list pods")),

	op("GET", "/serverless", "endpoint", 200, "v2 document: ListEndpoints", query("cursor", "limit"), fails(422), opNote(pages("endpoints"))),
	op("POST", "/serverless", "endpoint", 201, "v2 document: CreateEndpoint", fails(400, 404, 422)),
	op("GET", "/serverless/{id}", "endpoint", 200, "v2 document: GetEndpoint", fails(404)),
	op("PATCH", "/serverless/{id}", "endpoint", 200, "v2 document: UpdateEndpoint", fails(400, 404, 422)),
	op("DELETE", "/serverless/{id}", "endpoint", 204, "v2 document: DeleteEndpoint", fails(404), opNote("ends its jobs; never deletes a user's template")),
	op("GET", "/serverless/{id}/workers", "worker", 200, "v2 document: ListEndpointWorkers", fails(404), opNote("object with the list workers, and counts")),
	op("GET", "/serverless/{id}/builds", "build", 200, documentOfBuilds, query("cursor", "limit"), fails(404, 422), opNote("pages of builds, newest first: `limit` is 1 to 100, 100 by default")),
	op("GET", "/serverless/{id}/builds/{buildId}", "build", 200, documentOfBuilds, fails(404)),
	op("GET", "/serverless/{id}/releases", "release", 200, "v2 document: ListEndpointReleases", query("cursor", "limit"), fails(404, 422), opNote(pages("releases"))),
	op("GET", "/serverless/{id}/workers/{workerId}/logs", "logLine", 200, "v2 document: GetWorkerLogs", query("source", "tail", "since"), fails(404), opNote("Last-Event-ID header to resume")),

	op("GET", "/templates", "template", 200, "v2 document: ListTemplates", query("cursor", "limit"), fails(422), opNote(pages("templates"))),
	op("POST", "/templates", "template", 201, "v2 document: CreateTemplate", fails(400, 422)),
	op("GET", "/templates/{id}", "template", 200, "v2 document: GetTemplate", fails(404)),
	op("PATCH", "/templates/{id}", "template", 200, "v2 document: UpdateTemplate", fails(400, 404, 422)),
	op("DELETE", "/templates/{id}", "template", 204, "v2 document: DeleteTemplate", fails(400, 404), opNote("400 while a pod, a cluster or a linked endpoint uses it")),

	op("GET", "/network-volumes", "networkVolume", 200, "v2 document: ListNetworkVolumes", opNote("object with the list networkVolumes")),
	op("POST", "/network-volumes", "networkVolume", 201, "v2 document: CreateNetworkVolume", fails(400, 422)),
	op("GET", "/network-volumes/{id}", "networkVolume", 200, "v2 document: GetNetworkVolume", fails(404)),
	op("PATCH", "/network-volumes/{id}", "networkVolume", 200, "v2 document: UpdateNetworkVolume", fails(400, 404, 422), opNote("400 for a size that does not exceed the current one; 422 for an empty body")),
	op("DELETE", "/network-volumes/{id}", "networkVolume", 204, "v2 document: DeleteNetworkVolume", fails(404)),

	op("GET", "/global-volumes", "globalVolume", 200, documentOfGlobalVolumes, query("cursor", "limit"), fails(422), opNote(pages("globalVolumes"))),
	op("POST", "/global-volumes", "globalVolume", 201, documentOfGlobalVolumes, fails(400, 422)),
	op("GET", "/global-volumes/{id}", "globalVolume", 200, documentOfGlobalVolumes, fails(404)),
	op("PATCH", "/global-volumes/{id}", "globalVolume", 200, documentOfGlobalVolumes, fails(400, 404, 422), opNote("422 for an empty body")),
	op("DELETE", "/global-volumes/{id}", "globalVolume", 204, documentOfGlobalVolumes, fails(404)),

	op("GET", "/registries", "registryAuth", 200, "v2 document: ListRegistries", opNote("object with the list registries")),
	op("POST", "/registries", "registryAuth", 201, "v2 document: CreateRegistry", fails(400, 422)),
	op("GET", "/registries/{id}", "registryAuth", 200, "v2 document: GetRegistry", fails(404)),
	op("DELETE", "/registries/{id}", "registryAuth", 204, "v2 document: DeleteRegistry", fails(400, 404), opNote("400 while a pod uses it; templates that name it lose the reference")),
	op("GET", "/registries/delegations", "delegation", 200, "v2 document: ListDelegations", opNote("object with the list delegations")),
	op("POST", "/registries/delegations", "delegation", 201, "v2 document: CreateDelegation", fails(422)),
	op("DELETE", "/registries/delegations/{id}", "delegation", 204, "v2 document: RevokeDelegation", fails(404)),

	op("GET", "/catalog/gpus", "gpuType", 200, "v2 document: ListGpuTypes", query("include", "product", "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion"), fails(400, 422), opNote("object with the list gpus")),
	op("GET", "/catalog/gpus/{id}", "gpuType", 200, "v2 document: GetGpuType", query("include", "product", "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion"), fails(400, 404, 422)),
	op("GET", "/catalog/cpus", "cpuType", 200, "v2 document: ListCpuTypes", query("include", "product", "vcpuCount"), fails(400, 422), opNote("object with the list cpus")),
	op("GET", "/catalog/cpus/{id}", "cpuType", 200, "v2 document: GetCpuType", query("include", "product", "vcpuCount"), fails(400, 404, 422)),
	op("GET", "/catalog/datacenters", "dataCenter", 200, "v2 document: ListDataCenters", query("include", "regions", "networkVolumeTypes", "compliance", "globalNetwork"), opNote("object with the list dataCenters")),
	op("GET", "/catalog/datacenters/{id}", "dataCenter", 200, "v2 document: GetDataCenter", query("include"), fails(404)),
	op("GET", "/catalog/templates", "template", 200, "v2 document: ListPublicTemplates", query("source"), opNote("public templates, at most 100; `source` is official (default), verified or community")),

	op("GET", "/billing", "billing", 200, "v2 document: ListBilling", query("startTime", "endTime", "bucketSize", "lastN"), fails(400, 422)),
	op("GET", "/billing/pods", "podBilling", 200, "v2 document: ListPodBilling", query("startTime", "endTime", "bucketSize", "lastN", "podId"), fails(400, 422)),
	op("GET", "/billing/serverless", "serverlessBilling", 200, "v2 document: ListServerlessBilling", query("startTime", "endTime", "bucketSize", "lastN", "serverlessId"), fails(400, 422)),
	op("GET", "/billing/endpoints", "endpointBilling", 200, "v2 document: ListEndpointBilling", query("startTime", "endTime", "bucketSize", "lastN"), fails(400, 422), opNote("public endpoints, not the old serverless billing")),
	op("GET", "/billing/network-volumes", "networkVolumeBilling", 200, "v2 document: ListNetworkVolumeBilling", query("startTime", "endTime", "bucketSize", "lastN", "networkVolumeId"), fails(400, 422)),
	op("GET", "/billing/clusters", "clusterBilling", 200, "v2 document: ListClusterBilling", query("startTime", "endTime", "bucketSize", "lastN", "clusterId"), fails(400, 422)),
)

func pages(list string) string {
	return "pages of " + list + ", newest first: `limit` is 1 to 1000, 1000 by default"
}

// UnservedOperation is an operation of RunPod that the jobrunner answers with 501.
type UnservedOperation struct {
	API          API
	Method, Path string // below the API's base path
	Guess        bool   // the path is a guess: RunPod's pages don't print it
	Source       string
}

// UnservedOperations lists RunPod's operations that the jobrunner doesn't serve.
var UnservedOperations = []UnservedOperation{
	{V2, "GET", "/account", true, "page of November 2026: account/get-your-account"},
	{V2, "GET", "/account/limits", true, "page of 18 November 2026: account/get-account-limits"},
	{V2, "GET", "/billing/balance", true, "page of 18 November 2026: billing/get-the-account-balance"},
	{V2, "GET", "/organization", true, "page of November 2026: organization/get-your-current-organization"},
	{V2, "GET", "/organization/invites", true, "page of November 2026: organization/list-pending-organization-invites"},
	{V2, "GET", "/organization/invites/{id}", true, "page of November 2026: organization/get-a-pending-organization-invite"},
	{V2, "GET", "/organization/users", false, "page of November 2026: organization/list-organization-members"},
	{V2, "GET", "/organization/users/{id}", false, "page of 27 October 2026: organization/get-an-organization-member"},
	{V2, "DELETE", "/organization/users/{id}", false, "page of 3 November 2026: organization/remove-an-organization-member"},
	{V2, "GET", "/serverless/{id}/builds/{buildId}/logs", false, "text of the v2 document of September 2026: listServerlessBuilds"},
}
