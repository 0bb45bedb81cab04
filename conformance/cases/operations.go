package cases

import (
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// api is one of the three APIs of the contract.
type api string

const (
	jobAPI api = "jobs"
	v1API  api = "v1"
	v2API  api = "v2"
)

type operationEffect int

const (
	effectRead   operationEffect = iota
	effectCreate                 // of an object or a job
	effectUpdate                 // of the object of the path
	effectDelete                 // of the object of the path, or of the jobs in the queue
)

// contractOperation is a method and a path. {id} is an object's id, {worker} a worker's.
type contractOperation struct {
	api    api
	method string
	path   string
	kind   string // of the object that the operation uses, creates or lists
	effect operationEffect
	// body returns a valid body in which every free text contains the word.
	body func(c *suite.C, o *realObjects, word string) suite.M
	// described says that the service description has the operation. A deployment may lack other operations.
	described bool
}

// contract has the operations over which the cases about keys, methods, absent objects and refusals iterate.
// Others, such as the creation of clusters, have cases of their own.
var (
	contract             = slices.Concat(jobOperations, managementOperations)
	managementOperations = slices.Concat(operationsOfV1, operationsOfV2)
)

// Operations returns all operations in the form "v1 GET /templates/{id}".
func Operations() (list []string) {
	for _, op := range contract {
		list = append(list, string(op.api)+" "+op.method+" "+op.path)
	}
	return list
}

// jobOperations are the operations below /v2/{endpoint_id}.
var jobOperations = []contractOperation{
	{jobAPI, "POST", "/run", "job", effectCreate, echoBody, true},
	{jobAPI, "POST", "/runsync", "job", effectCreate, echoBody, true},
	{jobAPI, "GET", "/status/{id}", "job", effectRead, nil, true},
	{jobAPI, "GET", "/stream/{id}", "job", effectRead, nil, true},
	{jobAPI, "POST", "/cancel/{id}", "job", effectUpdate, nil, true},
	{jobAPI, "POST", "/retry/{id}", "job", effectUpdate, nil, true},
	{jobAPI, "POST", "/purge-queue", "queue", effectDelete, nil, true},
	{jobAPI, "GET", "/health", "queue", effectRead, nil, true},
	{jobAPI, "POST", "/openai/v1/completions", "job", effectCreate, echoBody, true},
	{jobAPI, "GET", "/requests", "queue", effectRead, nil, true},
}

// operationsOfV1 are the operations of version 1 of the management API. The description has few of them.
var operationsOfV1 = []contractOperation{
	{v1API, "GET", "/templates", "template", effectRead, nil, false},
	{v1API, "POST", "/templates", "template", effectCreate, templateBodyV1, true},
	{v1API, "GET", "/templates/{id}", "template", effectRead, nil, false},
	{v1API, "PATCH", "/templates/{id}", "template", effectUpdate, templateUpdateBody, false},
	{v1API, "POST", "/templates/{id}/update", "template", effectUpdate, templateUpdateBody, false},
	{v1API, "DELETE", "/templates/{id}", "template", effectDelete, nil, false},

	{v1API, "GET", "/networkvolumes", "volume", effectRead, nil, false},
	{v1API, "POST", "/networkvolumes", "volume", effectCreate, volumeBody, false},
	{v1API, "GET", "/networkvolumes/{id}", "volume", effectRead, nil, false},
	{v1API, "PATCH", "/networkvolumes/{id}", "volume", effectUpdate, volumeUpdateBody, false},
	{v1API, "POST", "/networkvolumes/{id}/update", "volume", effectUpdate, volumeUpdateBody, true},
	{v1API, "DELETE", "/networkvolumes/{id}", "volume", effectDelete, nil, false},

	{v1API, "GET", "/containerregistryauth", "registry", effectRead, nil, true},
	{v1API, "POST", "/containerregistryauth", "registry", effectCreate, registryAuthBody, false},
	{v1API, "GET", "/containerregistryauth/{id}", "registry", effectRead, nil, false},
	{v1API, "DELETE", "/containerregistryauth/{id}", "registry", effectDelete, nil, true},

	{v1API, "GET", "/endpoints", "endpoint", effectRead, nil, false},
	{v1API, "POST", "/endpoints", "endpoint", effectCreate, endpointBodyV1, true},
	{v1API, "GET", "/endpoints/{id}", "endpoint", effectRead, nil, false},
	{v1API, "PATCH", "/endpoints/{id}", "endpoint", effectUpdate, renameBody, false},
	{v1API, "POST", "/endpoints/{id}/update", "endpoint", effectUpdate, renameBody, false},
	{v1API, "DELETE", "/endpoints/{id}", "endpoint", effectDelete, nil, false},

	{v1API, "GET", "/pods", "pod", effectRead, nil, false},
	{v1API, "GET", "/pods/{id}", "pod", effectRead, nil, false},
	{v1API, "DELETE", "/pods/{id}", "pod", effectDelete, nil, false},
	{v1API, "GET", "/billing/pods", "billing", effectRead, nil, false},
	{v1API, "GET", "/billing/endpoints", "billing", effectRead, nil, false},
	{v1API, "GET", "/billing/networkvolumes", "billing", effectRead, nil, false},
}

// operationsOfV2 are operations of version 2, from its document at /openapi.json.
var operationsOfV2 = []contractOperation{
	{v2API, "GET", "/templates", "template", effectRead, nil, true},
	{v2API, "POST", "/templates", "template", effectCreate, templateBodyV2, true},
	{v2API, "GET", "/templates/{id}", "template", effectRead, nil, true},
	{v2API, "PATCH", "/templates/{id}", "template", effectUpdate, templateUpdateBody, true},
	{v2API, "DELETE", "/templates/{id}", "template", effectDelete, nil, true},

	{v2API, "GET", "/network-volumes", "volume", effectRead, nil, true},
	{v2API, "POST", "/network-volumes", "volume", effectCreate, volumeBody, true},
	{v2API, "GET", "/network-volumes/{id}", "volume", effectRead, nil, true},
	{v2API, "PATCH", "/network-volumes/{id}", "volume", effectUpdate, volumeUpdateBody, true},
	{v2API, "DELETE", "/network-volumes/{id}", "volume", effectDelete, nil, true},

	{v2API, "GET", "/registries", "registry", effectRead, nil, true},
	{v2API, "POST", "/registries", "registry", effectCreate, registryAuthBody, true},
	{v2API, "GET", "/registries/{id}", "registry", effectRead, nil, true},
	{v2API, "DELETE", "/registries/{id}", "registry", effectDelete, nil, true},

	{v2API, "GET", "/serverless", "endpoint", effectRead, nil, true},
	{v2API, "POST", "/serverless", "endpoint", effectCreate, endpointBodyV2, true},
	{v2API, "GET", "/serverless/{id}", "endpoint", effectRead, nil, true},
	{v2API, "PATCH", "/serverless/{id}", "endpoint", effectUpdate, renameBody, true},
	{v2API, "DELETE", "/serverless/{id}", "endpoint", effectDelete, nil, true},
	{v2API, "GET", "/serverless/{id}/workers", "endpoint", effectRead, nil, true},
	{v2API, "GET", "/serverless/{id}/releases", "endpoint", effectRead, nil, true},
	{v2API, "GET", "/serverless/{id}/workers/{worker}/logs", "endpoint", effectRead, nil, true},

	{v2API, "GET", "/catalog/gpus", "gpu", effectRead, nil, true},
	{v2API, "GET", "/catalog/gpus/{id}", "gpu", effectRead, nil, true},
	{v2API, "GET", "/catalog/cpus", "cpu", effectRead, nil, true},
	{v2API, "GET", "/catalog/cpus/{id}", "cpu", effectRead, nil, true},
	{v2API, "GET", "/catalog/datacenters", "datacenter", effectRead, nil, true},
	{v2API, "GET", "/catalog/datacenters/{id}", "datacenter", effectRead, nil, true},

	{v2API, "GET", "/pods", "pod", effectRead, nil, true},
	{v2API, "GET", "/pods/{id}", "pod", effectRead, nil, true},
	{v2API, "PATCH", "/pods/{id}", "pod", effectUpdate, renameBody, true},
	{v2API, "DELETE", "/pods/{id}", "pod", effectDelete, nil, true},
	{v2API, "GET", "/pods/{id}/logs", "pod", effectRead, nil, true},
	{v2API, "POST", "/pods/{id}/action", "pod", effectUpdate, func(*suite.C, *realObjects, string) suite.M { return suite.M{"action": "start"} }, true},

	{v2API, "GET", "/clusters", "cluster", effectRead, nil, true},
	{v2API, "GET", "/clusters/{id}", "cluster", effectRead, nil, true},
	{v2API, "DELETE", "/clusters/{id}", "cluster", effectDelete, nil, true},

	{v2API, "GET", "/registries/delegations", "delegation", effectRead, nil, true},
	{v2API, "POST", "/registries/delegations", "delegation", effectCreate, delegationBody, true},
	{v2API, "DELETE", "/registries/delegations/{id}", "delegation", effectDelete, nil, true},

	{v2API, "GET", "/billing", "billing", effectRead, nil, true},
	{v2API, "GET", "/billing/pods", "billing", effectRead, nil, true},
	{v2API, "GET", "/billing/serverless", "billing", effectRead, nil, true},
	{v2API, "GET", "/billing/endpoints", "billing", effectRead, nil, true},
	{v2API, "GET", "/billing/network-volumes", "billing", effectRead, nil, true},
}

func echoBody(_ *suite.C, _ *realObjects, word string) suite.M {
	return suite.Submission(suite.Echo(suite.M{"word": word}))
}

func templateBodyV1(c *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "imageName": c.Image(), "readme": word, "env": suite.M{"WORD": word}, "containerDiskInGb": 7, "isServerless": false}
}

func templateBodyV2(c *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "image": c.Image(), "env": suite.M{"WORD": word}, "disk": 7, "public": false}
}

func templateUpdateBody(_ *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "env": suite.M{"WORD": word}}
}

func volumeBody(_ *suite.C, o *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "size": sizeOfVolume, map[api]string{v1API: "dataCenterId", v2API: "dataCenter"}[o.api]: o.dataCenter}
}

// sizeOfVolume is the size of new volumes in GB.
const sizeOfVolume = 10

func volumeUpdateBody(_ *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "size": sizeOfVolume + 1}
}

func registryAuthBody(c *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "username": "user", "password": c.Secret("PASSWORD")}
}

func endpointBodyV1(c *suite.C, o *realObjects, word string) suite.M {
	return c.EndpointBody("v1", suite.M{"name": "conf-" + word, "templateId": o.ids["serverless template"], "workersMin": 0, "workersMax": 0})
}

func endpointBodyV2(c *suite.C, _ *realObjects, word string) suite.M {
	return c.EndpointBody("v2", suite.M{
		"name": "conf-" + word, "type": "QUEUE", "image": c.Image(), "env": suite.M{"WORD": word},
		"workers": suite.M{"min": 0, "max": 0}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 1},
	})
}

func renameBody(_ *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word}
}

// String returns a form such as "GET /v2/templates/{id}", or "GET /status/{id}" for the job API.
func (op contractOperation) String() string {
	if op.api == jobAPI {
		return op.method + " " + op.path
	}
	return op.method + " /" + string(op.api) + op.path
}

func (op contractOperation) takesID() bool { return strings.Contains(op.path, "{id}") }

func (op contractOperation) pathFor(id string) string {
	return strings.NewReplacer("{id}", suite.PathSegment(id), "{worker}", "worker").Replace(op.path)
}

// send sends the operation, to the case's endpoint if it belongs to the job API, and records an object that it
// creates.
func (op contractOperation) send(c *suite.C, id string, body any, options ...suite.Option) *suite.Answer {
	if op.effect == effectCreate && op.api != jobAPI {
		return c.Create(string(op.api), op.path, body, options...)
	}
	return sendTo(c, op.api, op.method, op.pathFor(id), body, options...)
}

func sendTo(c *suite.C, a api, method, path string, body any, options ...suite.Option) *suite.Answer {
	if a == jobAPI {
		return c.Job(method, c.Endpoint, path, body, options...)
	}
	return c.Manage(string(a), method, path, body, options...)
}

func (op contractOperation) validBody(c *suite.C, o *realObjects, word string) any {
	if op.body == nil {
		return nil
	}
	return op.body(c, o, word)
}

func (a api) servedBy(c *suite.C) bool {
	return a == jobAPI || c.HasVersion(string(a))
}

func operationsOf(a api) []contractOperation {
	return slices.DeleteFunc(slices.Clone(contract), func(op contractOperation) bool { return op.api != a })
}

// operationAt finds the operation of a request. path follows the version or the endpoint.
func operationAt(a api, method, path string) (contractOperation, bool) {
	for _, op := range contract {
		if op.api == a && op.method == method && pathMatches(op.path, path) {
			return op, true
		}
	}
	return contractOperation{}, false
}

func pathMatches(pattern, path string) bool {
	if strings.HasPrefix(pattern, "/openai/") {
		return strings.HasPrefix(path, "/openai/")
	}
	return slices.EqualFunc(strings.Split(pattern, "/"), strings.Split(path, "/"), func(want, got string) bool {
		return want == got || strings.HasPrefix(want, "{")
	})
}

// isMissing reports whether the deployment may lack the path, judging by the answer's status.
func isMissing(a *suite.Answer) bool { return isMissingCode(a.Code) }

func isMissingCode(code int) bool { return code == 404 || code == 405 || code == 501 }

// operationsOnJobs are the jobOperations whose path has a job's id.
var operationsOnJobs = slices.DeleteFunc(slices.Clone(jobOperations), func(op contractOperation) bool { return !op.takesID() })
