package mgmt

import (
	"net/http"
	"net/url"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httproute"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// operation is one of the contract.
type operation struct {
	success int
	handle  handler
}

// routes are the operations that the jobrunner serves. HEAD is GET without the
// body, which net/http leaves out.
var routes = func() (t httproute.Table[operation]) {
	t.HeadAsGet = true
	for _, o := range operations {
		t.Add(o.method, o.path, operation{o.success, o.handle})
	}
	return t
}()

var operations = []struct {
	method, path string
	success      int
	handle       handler
}{
	{"GET", "/v1/templates", 200, (*server).listTemplatesV1},
	{"POST", "/v1/templates", 200, writes(creating, createTemplateV1, newTemplateV1)},
	{"GET", "/v1/templates/{id}", 200, (*server).getTemplateV1},
	{"PATCH", "/v1/templates/{id}", 200, writes(updating, updateTemplateV1, newTemplateV1)},
	{"POST", "/v1/templates/{id}/update", 200, writes(updating, updateTemplateV1, newTemplateV1)},
	{"DELETE", "/v1/templates/{id}", 204, deletes((*store.Store).DeleteTemplate)},

	{"GET", "/v1/networkvolumes", 200, lists((*store.Store).NetworkVolumes, newNetworkVolumeV1, "")},
	{"POST", "/v1/networkvolumes", 200, writes(creating, createNetworkVolumeV1, newNetworkVolumeV1)},
	{"GET", "/v1/networkvolumes/{id}", 200, reads((*store.Store).NetworkVolume, newNetworkVolumeV1)},
	{"PATCH", "/v1/networkvolumes/{id}", 200, writes(updating, updateNetworkVolumeV1, newNetworkVolumeV1)},
	{"POST", "/v1/networkvolumes/{id}/update", 200, writes(updating, updateNetworkVolumeV1, newNetworkVolumeV1)},
	{"DELETE", "/v1/networkvolumes/{id}", 204, deletes((*store.Store).DeleteNetworkVolume)},

	{"GET", "/v1/containerregistryauth", 200, lists((*store.Store).RegistryAuths, newRegistryAuth, "")},
	{"POST", "/v1/containerregistryauth", 200, writes(creating, createRegistryAuthV1, newRegistryAuth)},
	{"GET", "/v1/containerregistryauth/{id}", 200, reads((*store.Store).RegistryAuth, newRegistryAuth)},
	{"DELETE", "/v1/containerregistryauth/{id}", 204, deletes((*store.Store).DeleteRegistryAuth)},

	{"GET", "/v1/endpoints", 200, (*server).listEndpointsV1},
	{"POST", "/v1/endpoints", 200, writes(creating, createEndpointV1, newEndpointV1)},
	{"GET", "/v1/endpoints/{id}", 200, (*server).getEndpointV1},
	{"PATCH", "/v1/endpoints/{id}", 200, writes(updating, updateEndpointV1, newEndpointV1)},
	{"POST", "/v1/endpoints/{id}/update", 200, writes(updating, updateEndpointV1, newEndpointV1)},
	{"DELETE", "/v1/endpoints/{id}", 204, deletes((*store.Store).DeleteEndpoint)},

	{"GET", "/v2/templates", 200, lists((*store.Store).Templates, newTemplateV2, "templates")},
	{"POST", "/v2/templates", 201, writes(creating, createTemplateV2, newTemplateV2)},
	{"GET", "/v2/templates/{id}", 200, reads((*store.Store).Template, newTemplateV2)},
	{"PATCH", "/v2/templates/{id}", 200, writes(updating, updateTemplateV2, newTemplateV2)},
	{"DELETE", "/v2/templates/{id}", 204, deletes((*store.Store).DeleteTemplate)},

	{"GET", "/v2/network-volumes", 200, lists((*store.Store).NetworkVolumes, newNetworkVolumeV2, "networkVolumes")},
	{"POST", "/v2/network-volumes", 201, writes(creating, createNetworkVolumeV2, newNetworkVolumeV2)},
	{"GET", "/v2/network-volumes/{id}", 200, reads((*store.Store).NetworkVolume, newNetworkVolumeV2)},
	{"PATCH", "/v2/network-volumes/{id}", 200, writes(updating, updateNetworkVolumeV2, newNetworkVolumeV2)},
	{"DELETE", "/v2/network-volumes/{id}", 204, deletes((*store.Store).DeleteNetworkVolume)},

	{"GET", "/v2/registries", 200, lists((*store.Store).RegistryAuths, newRegistryAuth, "registries")},
	{"POST", "/v2/registries", 201, writes(creating, createRegistryAuthV2, newRegistryAuth)},
	{"GET", "/v2/registries/{id}", 200, reads((*store.Store).RegistryAuth, newRegistryAuth)},
	{"DELETE", "/v2/registries/{id}", 204, deletes((*store.Store).DeleteRegistryAuth)},

	{"GET", "/v2/registries/delegations", 200, lists((*store.Store).Delegations, newDelegationV2, "delegations")},
	{"POST", "/v2/registries/delegations", 201, writes(creating, createDelegationV2, newDelegationV2)},
	{"DELETE", "/v2/registries/delegations/{id}", 204, deletes((*store.Store).DeleteDelegation)},

	{"GET", "/v2/serverless", 200, (*server).listEndpointsV2},
	{"POST", "/v2/serverless", 201, (*server).createEndpointV2},
	{"GET", "/v2/serverless/{id}", 200, (*server).getEndpointV2},
	{"PATCH", "/v2/serverless/{id}", 200, (*server).updateEndpointV2},
	{"DELETE", "/v2/serverless/{id}", 204, deletes((*store.Store).DeleteEndpoint)},
	{"GET", "/v2/serverless/{id}/releases", 200, (*server).listReleasesV2},
	{"GET", "/v2/serverless/{id}/workers", 200, (*server).listWorkersV2},
	{"GET", "/v2/serverless/{id}/workers/{workerId}/logs", 200, (*server).workerLogsV2},

	{"GET", "/v2/catalog/gpus", 200, (*server).listGPUTypes},
	{"GET", "/v2/catalog/gpus/{id}", 200, (*server).getGPUType},
	{"GET", "/v2/catalog/cpus", 200, (*server).listCPUTypes},
	{"GET", "/v2/catalog/cpus/{id}", 200, (*server).getCPUType},
	{"GET", "/v2/catalog/datacenters", 200, (*server).listDataCenters},
	{"GET", "/v2/catalog/datacenters/{id}", 200, (*server).getDataCenter},
}

// find looks the operation up and notes the path's parameters.
func find(c *call) (operation, error) {
	r := c.http
	path := r.URL.EscapedPath()
	if err := refuseUnserved(r.Method, path); err != nil {
		return operation{}, err
	}
	found := routes.Find(r.Method, path)
	for i, value := range found.Values {
		unescaped, err := url.PathUnescape(value)
		if err != nil {
			found.Allow = nil
		}
		found.Values[i] = unescaped
	}
	switch {
	case found.Allow == nil:
		return operation{}, httpanswer.Refuse(http.StatusNotFound, "there is nothing at %s", r.URL.Path)
	case found.Pattern == "":
		return operation{}, httpanswer.NotAllowed(r, found.Allow...)
	}
	c.id, c.worker = found.Values[0], found.Values[1]
	r.Pattern = found.Pattern
	return found.Does, nil
}
