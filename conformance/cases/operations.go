package cases

import (
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// api is one of the three that make up the contract.
type api string

const (
	jobAPI api = "jobs"
	v1API  api = "v1"
	v2API  api = "v2"
)

// operationEffect is what an operation does where it is accepted.
type operationEffect int

const (
	reads   operationEffect = iota
	makes                   // an object, or a job
	changes                 // the object of the path
	removes                 // the object of the path, or what waits in the queue
)

// contractOperation is a method on a path. {id} stands for an object of the kind, and
// {worker} for a worker of an endpoint.
type contractOperation struct {
	api    api
	method string
	path   string
	kind   string // of the object that the operation is about, or that it makes or lists
	effect operationEffect
	// body is a good one, in which every text that may be any has the word in it.
	body func(c *suite.C, o *realObjects, word string) suite.M
	// shown says that the service description has the operation. Whether others
	// are served is up to the deployment.
	shown bool
}

// contract is the table of the operations. Cases about keys, methods, objects
// that are not there and refusals are derived from it, so that an operation is
// covered as soon as it is here.
var contract = slices.Concat(jobOperations, operationsOfV1, operationsOfV2)

// Operations lists the contract as "v1 GET /templates/{id}".
func Operations() (list []string) {
	for _, op := range contract {
		list = append(list, string(op.api)+" "+op.method+" "+op.path)
	}
	return list
}

// jobOperations are those below /v2/{endpoint_id}.
var jobOperations = []contractOperation{
	{jobAPI, "POST", "/run", "job", makes, echoes, true},
	{jobAPI, "POST", "/runsync", "job", makes, echoes, true},
	{jobAPI, "GET", "/status/{id}", "job", reads, nil, true},
	{jobAPI, "GET", "/stream/{id}", "job", reads, nil, true},
	{jobAPI, "POST", "/cancel/{id}", "job", changes, nil, true},
	{jobAPI, "POST", "/retry/{id}", "job", changes, nil, true},
	{jobAPI, "POST", "/purge-queue", "queue", removes, nil, true},
	{jobAPI, "GET", "/health", "queue", reads, nil, true},
	{jobAPI, "POST", "/openai/v1/completions", "job", makes, echoes, true},
	{jobAPI, "GET", "/requests", "queue", reads, nil, true},
}

// operationsOfV1 are those of the management API, version 1. Most are left to the
// deployment by the description.
var operationsOfV1 = []contractOperation{
	{v1API, "GET", "/templates", "template", reads, nil, false},
	{v1API, "POST", "/templates", "template", makes, templateV1, true},
	{v1API, "GET", "/templates/{id}", "template", reads, nil, false},
	{v1API, "PATCH", "/templates/{id}", "template", changes, templateChange, false},
	{v1API, "POST", "/templates/{id}/update", "template", changes, templateChange, false},
	{v1API, "DELETE", "/templates/{id}", "template", removes, nil, false},

	{v1API, "GET", "/networkvolumes", "volume", reads, nil, false},
	{v1API, "POST", "/networkvolumes", "volume", makes, volumeV1, false},
	{v1API, "GET", "/networkvolumes/{id}", "volume", reads, nil, false},
	{v1API, "PATCH", "/networkvolumes/{id}", "volume", changes, volumeChange, false},
	{v1API, "POST", "/networkvolumes/{id}/update", "volume", changes, volumeChange, true},
	{v1API, "DELETE", "/networkvolumes/{id}", "volume", removes, nil, false},

	{v1API, "GET", "/containerregistryauth", "registry", reads, nil, true},
	{v1API, "POST", "/containerregistryauth", "registry", makes, registryAuth, false},
	{v1API, "GET", "/containerregistryauth/{id}", "registry", reads, nil, false},
	{v1API, "DELETE", "/containerregistryauth/{id}", "registry", removes, nil, true},

	{v1API, "GET", "/endpoints", "endpoint", reads, nil, false},
	{v1API, "POST", "/endpoints", "endpoint", makes, endpointBodyV1, true},
	{v1API, "GET", "/endpoints/{id}", "endpoint", reads, nil, false},
	{v1API, "PATCH", "/endpoints/{id}", "endpoint", changes, newName, false},
	{v1API, "POST", "/endpoints/{id}/update", "endpoint", changes, newName, false},
	{v1API, "DELETE", "/endpoints/{id}", "endpoint", removes, nil, false},

	{v1API, "GET", "/pods", "pod", reads, nil, false},
	{v1API, "GET", "/pods/{id}", "pod", reads, nil, false},
	{v1API, "DELETE", "/pods/{id}", "pod", removes, nil, false},
	{v1API, "GET", "/billing/pods", "billing", reads, nil, false},
	{v1API, "GET", "/billing/endpoints", "billing", reads, nil, false},
	{v1API, "GET", "/billing/networkvolumes", "billing", reads, nil, false},
}

// operationsOfV2 are those of version 2, which describes itself at /openapi.json.
var operationsOfV2 = []contractOperation{
	{v2API, "GET", "/templates", "template", reads, nil, true},
	{v2API, "POST", "/templates", "template", makes, templateV2, true},
	{v2API, "GET", "/templates/{id}", "template", reads, nil, true},
	{v2API, "PATCH", "/templates/{id}", "template", changes, templateChange, true},
	{v2API, "DELETE", "/templates/{id}", "template", removes, nil, true},

	{v2API, "GET", "/network-volumes", "volume", reads, nil, true},
	{v2API, "POST", "/network-volumes", "volume", makes, volumeV2, true},
	{v2API, "GET", "/network-volumes/{id}", "volume", reads, nil, true},
	{v2API, "PATCH", "/network-volumes/{id}", "volume", changes, volumeChange, true},
	{v2API, "DELETE", "/network-volumes/{id}", "volume", removes, nil, true},

	{v2API, "GET", "/registries", "registry", reads, nil, true},
	{v2API, "POST", "/registries", "registry", makes, registryAuth, true},
	{v2API, "GET", "/registries/{id}", "registry", reads, nil, true},
	{v2API, "DELETE", "/registries/{id}", "registry", removes, nil, true},

	{v2API, "GET", "/serverless", "endpoint", reads, nil, true},
	{v2API, "POST", "/serverless", "endpoint", makes, endpointBodyV2, true},
	{v2API, "GET", "/serverless/{id}", "endpoint", reads, nil, true},
	{v2API, "PATCH", "/serverless/{id}", "endpoint", changes, newName, true},
	{v2API, "DELETE", "/serverless/{id}", "endpoint", removes, nil, true},
	{v2API, "GET", "/serverless/{id}/workers", "endpoint", reads, nil, true},
	{v2API, "GET", "/serverless/{id}/releases", "endpoint", reads, nil, true},
	{v2API, "GET", "/serverless/{id}/workers/{worker}/logs", "endpoint", reads, nil, true},

	{v2API, "GET", "/catalog/gpus", "gpu", reads, nil, true},
	{v2API, "GET", "/catalog/gpus/{id}", "gpu", reads, nil, true},
	{v2API, "GET", "/catalog/cpus", "cpu", reads, nil, true},
	{v2API, "GET", "/catalog/cpus/{id}", "cpu", reads, nil, true},
	{v2API, "GET", "/catalog/datacenters", "datacenter", reads, nil, true},
	{v2API, "GET", "/catalog/datacenters/{id}", "datacenter", reads, nil, true},

	{v2API, "GET", "/pods", "pod", reads, nil, true},
	{v2API, "GET", "/pods/{id}", "pod", reads, nil, true},
	{v2API, "PATCH", "/pods/{id}", "pod", changes, newName, true},
	{v2API, "DELETE", "/pods/{id}", "pod", removes, nil, true},
	{v2API, "GET", "/pods/{id}/logs", "pod", reads, nil, true},
	{v2API, "POST", "/pods/{id}/action", "pod", changes, start, true},

	{v2API, "GET", "/clusters", "cluster", reads, nil, true},
	{v2API, "GET", "/clusters/{id}", "cluster", reads, nil, true},
	{v2API, "DELETE", "/clusters/{id}", "cluster", removes, nil, true},

	{v2API, "GET", "/registries/delegations", "delegation", reads, nil, true},
	{v2API, "DELETE", "/registries/delegations/{id}", "delegation", removes, nil, true},

	{v2API, "GET", "/billing", "billing", reads, nil, true},
	{v2API, "GET", "/billing/pods", "billing", reads, nil, true},
	{v2API, "GET", "/billing/serverless", "billing", reads, nil, true},
	{v2API, "GET", "/billing/endpoints", "billing", reads, nil, true},
	{v2API, "GET", "/billing/network-volumes", "billing", reads, nil, true},
}

func echoes(_ *suite.C, _ *realObjects, word string) suite.M {
	return suite.Submission(suite.Echo(suite.M{"word": word}))
}

func templateV1(c *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "imageName": c.Image(), "readme": word, "env": suite.M{"WORD": word}, "containerDiskInGb": 7, "isServerless": false}
}

func templateV2(c *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "image": c.Image(), "env": suite.M{"WORD": word}, "disk": 7, "public": false}
}

func templateChange(_ *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "env": suite.M{"WORD": word}}
}

func volumeV1(_ *suite.C, o *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "size": sizeOfVolume, "dataCenterId": o.dataCenter}
}

func volumeV2(_ *suite.C, o *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "size": sizeOfVolume, "dataCenter": o.dataCenter}
}

// sizeOfVolume is that of new volumes, in GB.
const sizeOfVolume = 10

func volumeChange(_ *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "size": sizeOfVolume + 1}
}

func registryAuth(c *suite.C, _ *realObjects, word string) suite.M {
	return suite.M{"name": "conf-" + word, "username": "user", "password": c.Secret("PASSWORD")}
}

func endpointBodyV1(c *suite.C, o *realObjects, word string) suite.M {
	return c.Endpoint("v1", suite.M{"name": "conf-" + word, "templateId": o.id("serverless template"), "workersMin": 0, "workersMax": 0})
}

func endpointBodyV2(c *suite.C, _ *realObjects, word string) suite.M {
	return c.Endpoint("v2", suite.M{
		"name": "conf-" + word, "type": "QUEUE", "image": c.Image(), "env": suite.M{"WORD": word},
		"workers": suite.M{"min": 0, "max": 0}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 1},
	})
}

func newName(_ *suite.C, _ *realObjects, word string) suite.M { return suite.M{"name": "conf-" + word} }

func start(*suite.C, *realObjects, string) suite.M { return suite.M{"action": "start"} }

// String is "GET /v2/templates/{id}", or "GET /status/{id}" of the job API.
func (op contractOperation) String() string {
	if op.api == jobAPI {
		return op.method + " " + op.path
	}
	return op.method + " /" + string(op.api) + op.path
}

// about tells whether the path names an object.
func (op contractOperation) about() bool { return strings.Contains(op.path, "{id}") }

// at is the path for an object.
func (op contractOperation) at(id string) string {
	return strings.NewReplacer("{id}", suite.Segment(id), "{worker}", "worker").Replace(op.path)
}

// send asks for the operation on an object. Of the job API it is asked of the
// case's own endpoint.
func (op contractOperation) send(c *suite.C, id string, body any, options ...suite.Option) *suite.Answer {
	return ask(c, op.api, op.method, op.at(id), body, options...)
}

func ask(c *suite.C, a api, method, path string, body any, options ...suite.Option) *suite.Answer {
	switch a {
	case v1API:
		return c.V1(method, path, body, options...)
	case v2API:
		return c.V2(method, path, body, options...)
	}
	return c.Job(method, c.E, path, body, options...)
}

// good is a body of the operation, nil where it takes none.
func (op contractOperation) good(c *suite.C, o *realObjects, word string) any {
	if op.body == nil {
		return nil
	}
	return op.body(c, o, word)
}

// has tells whether the target has the API.
func (a api) has(c *suite.C) bool {
	return a == jobAPI || a == v1API && c.HasV1() || a == v2API && c.HasV2()
}

// operationsOf are those of an API.
func operationsOf(a api) []contractOperation {
	return slices.DeleteFunc(slices.Clone(contract), func(op contractOperation) bool { return op.api != a })
}

// operationAt finds the operation of a request. path is the one after the version,
// or after the endpoint.
func operationAt(a api, method, path string) (contractOperation, bool) {
	for _, op := range contract {
		if op.api == a && op.method == method && matches(op.path, path) {
			return op, true
		}
	}
	return contractOperation{}, false
}

func matches(pattern, path string) bool {
	if strings.HasPrefix(pattern, "/openai/") {
		return strings.HasPrefix(path, "/openai/")
	}
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return len(want) == len(got) && !slices.ContainsFunc(want, func(segment string) bool {
		other := got[0]
		got = got[1:]
		return segment != other && !strings.HasPrefix(segment, "{")
	})
}

// missing tells whether an answer may be that of a path that the deployment does
// not serve.
func missing(a *suite.Answer) bool { return a.Code == 404 || a.Code == 405 || a.Code == 501 }

// ofJobs is for each operation on a job.
func ofJobs(do func(op contractOperation)) {
	for _, op := range jobOperations {
		if op.about() {
			do(op)
		}
	}
}
