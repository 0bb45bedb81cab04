package mgmt

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route is one operation of the contract. A segment in braces is the path's
// parameter.
type route struct {
	method, path string
	success      int
	handle       func(s *server, c *call) (body any, err error)
}

var routes = []route{
	{"GET", "/v1/templates", 200, (*server).listTemplatesV1},
	{"POST", "/v1/templates", 200, (*server).createTemplateV1},
	{"GET", "/v1/templates/{id}", 200, (*server).getTemplateV1},
	{"PATCH", "/v1/templates/{id}", 200, (*server).updateTemplateV1},
	{"POST", "/v1/templates/{id}/update", 200, (*server).updateTemplateV1},
	{"DELETE", "/v1/templates/{id}", 204, (*server).deleteTemplate},

	{"GET", "/v1/networkvolumes", 200, (*server).listNetworkVolumesV1},
	{"POST", "/v1/networkvolumes", 200, (*server).createNetworkVolumeV1},
	{"GET", "/v1/networkvolumes/{id}", 200, (*server).getNetworkVolumeV1},
	{"PATCH", "/v1/networkvolumes/{id}", 200, (*server).updateNetworkVolumeV1},
	{"POST", "/v1/networkvolumes/{id}/update", 200, (*server).updateNetworkVolumeV1},
	{"DELETE", "/v1/networkvolumes/{id}", 204, (*server).deleteNetworkVolume},

	{"GET", "/v1/containerregistryauth", 200, (*server).listRegistryAuthsV1},
	{"POST", "/v1/containerregistryauth", 200, (*server).createRegistryAuthV1},
	{"GET", "/v1/containerregistryauth/{id}", 200, (*server).getRegistryAuth},
	{"DELETE", "/v1/containerregistryauth/{id}", 204, (*server).deleteRegistryAuth},

	{"GET", "/v1/endpoints", 200, (*server).listEndpointsV1},
	{"POST", "/v1/endpoints", 200, (*server).createEndpointV1},
	{"GET", "/v1/endpoints/{id}", 200, (*server).getEndpointV1},
	{"PATCH", "/v1/endpoints/{id}", 200, (*server).updateEndpointV1},
	{"POST", "/v1/endpoints/{id}/update", 200, (*server).updateEndpointV1},
	{"DELETE", "/v1/endpoints/{id}", 204, (*server).deleteEndpoint},

	{"GET", "/v2/templates", 200, (*server).listTemplatesV2},
	{"POST", "/v2/templates", 201, (*server).createTemplateV2},
	{"GET", "/v2/templates/{id}", 200, (*server).getTemplateV2},
	{"PATCH", "/v2/templates/{id}", 200, (*server).updateTemplateV2},
	{"DELETE", "/v2/templates/{id}", 204, (*server).deleteTemplate},

	{"GET", "/v2/network-volumes", 200, (*server).listNetworkVolumesV2},
	{"POST", "/v2/network-volumes", 201, (*server).createNetworkVolumeV2},
	{"GET", "/v2/network-volumes/{id}", 200, (*server).getNetworkVolumeV2},
	{"PATCH", "/v2/network-volumes/{id}", 200, (*server).updateNetworkVolumeV2},
	{"DELETE", "/v2/network-volumes/{id}", 204, (*server).deleteNetworkVolume},

	{"GET", "/v2/registries", 200, (*server).listRegistryAuthsV2},
	{"POST", "/v2/registries", 201, (*server).createRegistryAuthV2},
	{"GET", "/v2/registries/{id}", 200, (*server).getRegistryAuth},
	{"DELETE", "/v2/registries/{id}", 204, (*server).deleteRegistryAuth},

	{"GET", "/v2/serverless", 200, (*server).listEndpointsV2},
	{"POST", "/v2/serverless", 201, (*server).createEndpointV2},
	{"GET", "/v2/serverless/{id}", 200, (*server).getEndpointV2},
	{"PATCH", "/v2/serverless/{id}", 200, (*server).updateEndpointV2},
	{"DELETE", "/v2/serverless/{id}", 204, (*server).deleteEndpoint},
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

// find looks the operation up and notes the path's parameter. HEAD is GET
// without the body, which net/http leaves out.
func find(c *call) (route, error) {
	method := c.http.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path := c.http.URL.EscapedPath()
	if err := refuseUnserved(method, path); err != nil {
		return route{}, err
	}
	segments := strings.Split(path, "/")
	var allowed []string
	for _, r := range routes {
		ids, ok := match(strings.Split(r.path, "/"), segments)
		if !ok {
			continue
		}
		if r.method == method {
			c.id, c.worker = ids[0], ids[1]
			c.http.Pattern = r.method + " " + r.path // for those who count requests
			return r, nil
		}
		allowed = append(allowed, r.method)
	}
	if allowed == nil {
		return route{}, failf(http.StatusNotFound, "there is nothing at %s", c.http.URL.Path)
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	c.writer.Header().Set("Allow", strings.Join(allowed, ", "))
	return route{}, failf(http.StatusMethodNotAllowed, "%s does not take %s, but %s", c.http.URL.Path, c.http.Method, strings.Join(allowed, ", "))
}

// match answers the values of the path's parameters, of which there are two at
// most.
func match(pattern, segments []string) (ids [2]string, ok bool) {
	if len(pattern) != len(segments) {
		return ids, false
	}
	n := 0
	for i, p := range pattern {
		switch {
		case p == segments[i]:
		case strings.HasPrefix(p, "{") && segments[i] != "":
			unescaped, err := url.PathUnescape(segments[i])
			if err != nil {
				return ids, false
			}
			ids[n] = unescaped
			n++
		default:
			return ids, false
		}
	}
	return ids, true
}
