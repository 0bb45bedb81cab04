package mgmt

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httproute"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

type operation struct {
	success int
	handle  handler
}

// routes are the served operations. HEAD is GET without the body, which net/http omits.
var routes = func() (t httproute.Table[operation]) {
	t.HeadAsGet = true
	for _, o := range operations {
		t.Add(o.method, o.path, operation{o.success, o.handle})
	}
	for _, o := range contract.UnservedOperations {
		if o.API == contract.V2 {
			t.Add(o.Method, "/v2"+o.Path, operation{handle: handler{serve: refuseUnserved}})
		}
	}
	return t
}()

var operations = []struct {
	method, path string
	success      int
	handle       handler
}{
	{"GET", "/v1/openapi.json", 200, withoutKey(withMedia("application/json", plainHandler((*call).openAPIV1)))},
	{"GET", "/v1/docs", 200, withoutKey(withMedia("text/html", plainHandler((*call).docsV1)))},
	{"GET", "/v2/openapi.json", 200, withMedia("application/json", plainHandler((*call).openAPIV2))},

	{"GET", "/v1/templates", 200, queryHandler(templateIncludes.read, (*call).listTemplatesV1)},
	{"POST", "/v1/templates", 200, bodyHandler(contract.Create, createTemplate[templateBodyV1](templateDefaultsV1), ignoreCall(newTemplateV1))},
	{"GET", "/v1/templates/{id}", 200, queryHandler(templateIncludes.read, (*call).getTemplateV1)},
	{"PATCH", "/v1/templates/{id}", 200, bodyHandler(contract.Update, updateTemplate[templateBodyV1], ignoreCall(newTemplateV1))},
	{"POST", "/v1/templates/{id}/update", 200, bodyHandler(contract.Update, updateTemplate[templateBodyV1], ignoreCall(newTemplateV1))},
	{"DELETE", "/v1/templates/{id}", 204, deleteHandler[store.Template]()},

	{"GET", "/v1/networkvolumes", 200, listHandler(convert[store.NetworkVolume, networkVolumeV1])},
	{"POST", "/v1/networkvolumes", 200, bodyHandler(contract.Create, createNetworkVolume[networkVolumeBodyV1], ignoreCall(convert[store.NetworkVolume, networkVolumeV1]))},
	{"GET", "/v1/networkvolumes/{id}", 200, readHandler(ignoreCall(convert[store.NetworkVolume, networkVolumeV1]))},
	{"PATCH", "/v1/networkvolumes/{id}", 200, bodyHandler(contract.Update, updateNetworkVolume[networkVolumeBodyV1], ignoreCall(convert[store.NetworkVolume, networkVolumeV1]))},
	{"POST", "/v1/networkvolumes/{id}/update", 200, bodyHandler(contract.Update, updateNetworkVolume[networkVolumeBodyV1], ignoreCall(convert[store.NetworkVolume, networkVolumeV1]))},
	{"DELETE", "/v1/networkvolumes/{id}", 204, deleteHandler[store.NetworkVolume]()},

	{"GET", "/v1/containerregistryauth", 200, listHandler(convert[store.RegistryAuth, registryAuth])},
	{"POST", "/v1/containerregistryauth", 200, bodyHandler(contract.Create, createRegistryAuth[registryAuthBodyV1], ignoreCall(convert[store.RegistryAuth, registryAuth]))},
	{"GET", "/v1/containerregistryauth/{id}", 200, readHandler(ignoreCall(convert[store.RegistryAuth, registryAuth]))},
	{"DELETE", "/v1/containerregistryauth/{id}", 204, deleteHandler[store.RegistryAuth]()},

	{"GET", "/v1/endpoints", 200, queryHandler(endpointIncludes.read, (*call).listEndpointsV1)},
	{"POST", "/v1/endpoints", 200, bodyHandler(contract.Create, createEndpoint[endpointBodyV1](endpointDefaultsV1), (*call).newEndpointV1)},
	{"GET", "/v1/endpoints/{id}", 200, queryHandler(endpointIncludes.read, (*call).getEndpointV1)},
	{"PATCH", "/v1/endpoints/{id}", 200, bodyHandler(contract.Update, updateEndpoint[endpointBodyV1], (*call).newEndpointV1)},
	{"POST", "/v1/endpoints/{id}/update", 200, bodyHandler(contract.Update, updateEndpoint[endpointBodyV1], (*call).newEndpointV1)},
	{"DELETE", "/v1/endpoints/{id}", 204, deleteHandler[store.Endpoint]()},

	{"GET", "/v1/pods", 200, queryHandler(readPodsQueryV1, (*call).listPodsV1)},
	{"POST", "/v1/pods", 201, bodyHandler(contract.Create, createPod[podBodyV1], (*call).newPodV1)},
	{"GET", "/v1/pods/{id}", 200, queryHandler(podIncludes.read, (*call).getPodV1)},
	{"PATCH", "/v1/pods/{id}", 200, bodyHandler(contract.Update, updatePod[podBodyV1], (*call).newPodV1)},
	{"POST", "/v1/pods/{id}/update", 200, bodyHandler(contract.Update, updatePod[podBodyV1], (*call).newPodV1)},
	{"DELETE", "/v1/pods/{id}", 204, deleteHandler[store.Pod]()},
	{"POST", "/v1/pods/{id}/start", 200, podActionHandlerV1(pod.Start)},
	{"POST", "/v1/pods/{id}/stop", 200, podActionHandlerV1(pod.Stop)},
	{"POST", "/v1/pods/{id}/reset", 200, podActionHandlerV1(pod.Reset)},
	{"POST", "/v1/pods/{id}/restart", 200, podActionHandlerV1(pod.Restart)},

	{"GET", "/v2/pods", 200, pageHandler("pods", readPodsQuery, (*call).listPodsV2)},
	{"POST", "/v2/pods", 201, withMaxBody(contract.MaxPodBody, bodyHandler(contract.Create, createPod[podBodyV2], (*call).newPodV2))},
	{"GET", "/v2/pods/{id}", 200, readHandler((*call).newPodV2)},
	{"PATCH", "/v2/pods/{id}", 200, withConflict(bodyHandler(contract.Update, updatePod[podBodyV2], (*call).newPodV2))},
	{"DELETE", "/v2/pods/{id}", 204, withConflict(deleteHandler[store.Pod]())},
	{"POST", "/v2/pods/{id}/action", 200, withConflict(withEmptyAnswer[podV2](bodyHandler(contract.Create, performPodActionV2, ignoreCall(identity[any]))))},
	{"GET", "/v2/pods/{id}/logs", 200, withMedia(eventStream, queryHandler(readLogQuery, (*call).podLogsV2))},

	{"GET", "/v2/clusters", 200, memberHandler("clusters", plainHandler((*call).listClustersV2))},
	{"POST", "/v2/clusters", 201, bodyHandler(contract.Create, createClusterV2, ignoreCall(identity[clusterV2]))},
	{"GET", "/v2/clusters/{id}", 200, plainHandler((*call).getClusterV2)},
	{"PATCH", "/v2/clusters/{id}", 200, bodyHandler(contract.Update, updateClusterV2, ignoreCall(identity[clusterV2]))},
	{"DELETE", "/v2/clusters/{id}", 204, deleteHandler[store.Cluster]()},
	{"GET", "/v2/clusters/{id}/pods", 200, memberHandler("pods", plainHandler((*call).listClusterPodsV2))},

	{"GET", "/v2/templates", 200, pageHandler("templates", readPageQuery, readRecords(ignoreCall(newTemplateV2)))},
	{"POST", "/v2/templates", 201, bodyHandler(contract.Create, createTemplate[templateBodyV2](templateDefaultsV2), ignoreCall(newTemplateV2))},
	{"GET", "/v2/templates/{id}", 200, readHandler(ignoreCall(newTemplateV2))},
	{"PATCH", "/v2/templates/{id}", 200, bodyHandler(contract.Update, updateTemplate[templateBodyV2], ignoreCall(newTemplateV2))},
	{"DELETE", "/v2/templates/{id}", 204, deleteHandler[store.Template]()},

	{"GET", "/v2/network-volumes", 200, memberHandler("networkVolumes", listHandler(convert[store.NetworkVolume, networkVolumeV2]))},
	{"POST", "/v2/network-volumes", 201, bodyHandler(contract.Create, createNetworkVolume[networkVolumeBodyV2], ignoreCall(convert[store.NetworkVolume, networkVolumeV2]))},
	{"GET", "/v2/network-volumes/{id}", 200, readHandler(ignoreCall(convert[store.NetworkVolume, networkVolumeV2]))},
	{"PATCH", "/v2/network-volumes/{id}", 200, bodyHandler(contract.Update, updateNetworkVolume[networkVolumeBodyV2], ignoreCall(convert[store.NetworkVolume, networkVolumeV2]))},
	{"DELETE", "/v2/network-volumes/{id}", 204, deleteHandler[store.NetworkVolume]()},

	{"GET", "/v2/global-volumes", 200, pageHandler("globalVolumes", readPageQuery, readRecords(ignoreCall(convert[store.GlobalVolume, globalVolumeV2])))},
	{"POST", "/v2/global-volumes", 201, bodyHandler(contract.Create, createGlobalVolumeV2, ignoreCall(convert[store.GlobalVolume, globalVolumeV2]))},
	{"GET", "/v2/global-volumes/{id}", 200, readHandler(ignoreCall(convert[store.GlobalVolume, globalVolumeV2]))},
	{"PATCH", "/v2/global-volumes/{id}", 200, bodyHandler(contract.Update, updateGlobalVolumeV2, ignoreCall(convert[store.GlobalVolume, globalVolumeV2]))},
	{"DELETE", "/v2/global-volumes/{id}", 204, deleteHandler[store.GlobalVolume]()},

	{"GET", "/v2/registries", 200, memberHandler("registries", listHandler(convert[store.RegistryAuth, registryAuth]))},
	{"POST", "/v2/registries", 201, bodyHandler(contract.Create, createRegistryAuth[registryAuthBodyV2], ignoreCall(convert[store.RegistryAuth, registryAuth]))},
	{"GET", "/v2/registries/{id}", 200, readHandler(ignoreCall(convert[store.RegistryAuth, registryAuth]))},
	{"DELETE", "/v2/registries/{id}", 204, deleteHandler[store.RegistryAuth]()},

	{"GET", "/v2/registries/delegations", 200, memberHandler("delegations", listHandler(newDelegationV2))},
	{"POST", "/v2/registries/delegations", 201, bodyHandler(contract.Create, createDelegationV2, ignoreCall(newDelegationV2))},
	{"DELETE", "/v2/registries/delegations/{id}", 204, deleteHandler[store.Delegation]()},

	{"GET", "/v2/serverless", 200, pageHandler("endpoints", readPageQuery, readRecords((*call).newEndpointV2))},
	{"POST", "/v2/serverless", 201, bodyHandler(contract.Create, createEndpoint[endpointBodyV2](endpointDefaultsV2), (*call).newEndpointV2)},
	{"GET", "/v2/serverless/{id}", 200, readHandler((*call).newEndpointV2)},
	{"PATCH", "/v2/serverless/{id}", 200, bodyHandler(contract.Update, updateEndpoint[endpointBodyV2], (*call).newEndpointV2)},
	{"DELETE", "/v2/serverless/{id}", 204, deleteHandler[store.Endpoint]()},
	{"GET", "/v2/serverless/{id}/releases", 200, queryHandler(readPageQuery, (*call).listReleasesV2)},
	{"GET", "/v2/serverless/{id}/builds", 200, pageHandler("builds", readBuildsQuery, (*call).listBuildsV2)},
	{"GET", "/v2/serverless/{id}/builds/{buildId}", 200, plainHandler((*call).getBuildV2)},
	{"GET", "/v2/serverless/{id}/workers", 200, plainHandler((*call).listWorkersV2)},
	{"GET", "/v2/serverless/{id}/workers/{workerId}/logs", 200, withMedia(eventStream, queryHandler(readLogQuery, (*call).workerLogsV2))},

	{"GET", "/v2/account/ssh-keys", 200, plainHandler((*call).getSSHKeys)},
	{"PUT", "/v2/account/ssh-keys", 200, bodyHandler(contract.Update, replaceSSHKeys, ignoreCall(identity[sshKeysV2]))},

	{"GET", "/v2/account/secrets", 200, memberHandler("secrets", queryHandler(readSecretName, (*call).listSecretsV2))},
	{"POST", "/v2/account/secrets", 201, withConflict(bodyHandler(contract.Create, createSecretV2, ignoreCall(convert[store.Secret, secretV2])))},
	{"GET", "/v2/account/secrets/{id}", 200, readHandler(ignoreCall(convert[store.Secret, secretV2]))},
	{"PATCH", "/v2/account/secrets/{id}", 200, bodyHandler(contract.Update, updateSecretV2, ignoreCall(convert[store.Secret, secretV2]))},
	{"DELETE", "/v2/account/secrets/{id}", 204, deleteHandler[store.Secret]()},

	{"GET", "/v2/catalog/templates", 200, memberHandler("templates", queryHandler(readTemplateSource, (*call).listCatalogTemplates))},
	{"GET", "/v2/catalog/gpus", 200, memberHandler("gpus", queryHandler(readGPUQuery, (*call).listGPUTypes))},
	{"GET", "/v2/catalog/gpus/{id}", 200, queryHandler(readGPUQuery, (*call).getGPUType)},
	{"GET", "/v2/catalog/cpus", 200, memberHandler("cpus", queryHandler(readCPUQuery, (*call).listCPUTypes))},
	{"GET", "/v2/catalog/cpus/{id}", 200, queryHandler(readCPUQuery, (*call).getCPUType)},
	{"GET", "/v2/catalog/datacenters", 200, memberHandler("dataCenters", queryHandler(readDataCentersQuery, (*call).listDataCenters))},
	{"GET", "/v2/catalog/datacenters/{id}", 200, queryHandler(readDataCenterInclude, (*call).getDataCenter)},

	{"GET", "/v1/billing/pods", 200, billingV1("billing", billing.Pod, readPodBillingV1)},
	{"GET", "/v1/billing/endpoints", 200, billingV1("billing", billing.Worker, readEndpointBillingV1)},
	{"GET", "/v1/billing/networkvolumes", 200, billingV1("networkVolumeBilling", billing.Volume, readVolumeBillingV1)},

	{"GET", "/v2/billing", 200, billingV2("billing", "", "", billedKinds...)},
	{"GET", "/v2/billing/pods", 200, billingV2("podBilling", "podId", "uniquePodCount", billing.Pod)},
	{"GET", "/v2/billing/serverless", 200, billingV2("serverlessBilling", "serverlessId", "uniqueServerlessCount", billing.Worker)},
	{"GET", "/v2/billing/endpoints", 200, billingV2("endpointBilling", "", "")},
	{"GET", "/v2/billing/network-volumes", 200, billingV2("networkVolumeBilling", "networkVolumeId", "uniqueNetworkVolumeCount", billing.Volume)},
	{"GET", "/v2/billing/clusters", 200, billingV2("clusterBilling", "clusterId", "uniqueClusterCount", billing.Cluster)},
}

func refuseUnserved(c *call) (any, error) {
	return nil, httpanswer.Refuse(http.StatusNotImplemented, "RunPod has %s, and the jobrunner doesn't serve it (docs/reference/fidelity.md)", c.http.Pattern)
}

// findOperation looks up the operation and its pattern, and stores the path's parameters in c.
func findOperation(c *call) (op operation, pattern string, err error) {
	r := c.http
	path, escaped := r.URL.Path, strings.Contains(strings.ToUpper(r.URL.RawPath), "%2F")
	if escaped { // an escaped slash is part of a value
		path = r.URL.EscapedPath()
	}
	match := routes.Find(r.Method, path)
	for i, value := range match.Values {
		if escaped {
			match.Values[i], _ = url.PathUnescape(value) // never fails: net/url has unescaped the path
		}
	}
	switch {
	case match.Allow == nil:
		return op, "", httpanswer.Refuse(http.StatusNotFound, "there is nothing at %s", r.URL.Path)
	case match.Pattern == "":
		return op, "", httpanswer.NotAllowed(r, match.Allow...)
	}
	c.id, c.subID = match.Values[0], match.Values[1]
	return match.Operation, match.Pattern, nil
}
