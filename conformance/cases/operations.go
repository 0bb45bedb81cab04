package cases

import (
	_ "embed"
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

type operationEffect string

const (
	effectRead   operationEffect = "read"
	effectCreate operationEffect = "create" // of an object or a job
	effectUpdate operationEffect = "update" // of the object of the path
	effectDelete operationEffect = "delete" // of the object of the path, or of the jobs in the queue
)

// contractOperation is a line of operations.tsv, which explains it.
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

//go:embed operations.tsv
var operationsTable string

var (
	contract = func() (list []contractOperation) {
		for line := range strings.Lines(operationsTable) {
			if !strings.HasPrefix(line, "#") {
				c := strings.Split(strings.TrimSpace(line), "\t")
				list = append(list, contractOperation{api(c[0]), c[1], c[2], c[3], operationEffect(c[4]), validBodies[c[5]], c[6] == "described"})
			}
		}
		return list
	}()
	jobOperations        = operationsOf(jobAPI)
	managementOperations = slices.Concat(operationsOf(v1API), operationsOf(v2API))
)

// validBodies are the bodies of operations.tsv.
var validBodies = map[string]func(c *suite.C, o *realObjects, word string) suite.M{
	"echo": func(_ *suite.C, _ *realObjects, word string) suite.M {
		return suite.Submission(suite.Echo(suite.M{"word": word}))
	},
	"templateV1": func(c *suite.C, _ *realObjects, word string) suite.M {
		return suite.M{"name": "conf-" + word, "imageName": c.Image(), "readme": word, "env": suite.M{"WORD": word}, "containerDiskInGb": 7, "isServerless": false}
	},
	"templateV2": func(c *suite.C, _ *realObjects, word string) suite.M {
		return suite.M{"name": "conf-" + word, "image": c.Image(), "env": suite.M{"WORD": word}, "disk": 7, "public": false}
	},
	"templateUpdate": func(_ *suite.C, _ *realObjects, word string) suite.M {
		return suite.M{"name": "conf-" + word, "env": suite.M{"WORD": word}}
	},
	"volume": func(_ *suite.C, o *realObjects, word string) suite.M {
		return suite.M{"name": "conf-" + word, "size": sizeOfVolume, map[api]string{v1API: "dataCenterId", v2API: "dataCenter"}[o.api]: o.dataCenter}
	},
	"volumeUpdate": func(_ *suite.C, _ *realObjects, word string) suite.M {
		return suite.M{"name": "conf-" + word, "size": sizeOfVolume + 1}
	},
	"registryAuth": func(c *suite.C, _ *realObjects, word string) suite.M {
		return suite.M{"name": "conf-" + word, "username": "user", "password": c.Secret("PASSWORD")}
	},
	"endpointV1": func(c *suite.C, o *realObjects, word string) suite.M {
		return c.EndpointBody("v1", suite.M{"name": "conf-" + word, "templateId": o.ids["serverless template"], "workersMin": 0, "workersMax": 0})
	},
	"endpointV2": endpointBodyV2,
	"rename":     func(_ *suite.C, _ *realObjects, word string) suite.M { return suite.M{"name": "conf-" + word} },
	"delegation": delegationBody,
	"start":      func(*suite.C, *realObjects, string) suite.M { return suite.M{"action": "start"} },
}

// Operations returns all operations in the form "v1 GET /templates/{id}".
func Operations() (list []string) {
	for _, op := range contract {
		list = append(list, string(op.api)+" "+op.method+" "+op.path)
	}
	return list
}

// sizeOfVolume is the size of new volumes in GB.
const sizeOfVolume = 10

func endpointBodyV2(c *suite.C, _ *realObjects, word string) suite.M {
	return c.EndpointBody("v2", suite.M{
		"name": "conf-" + word, "type": "QUEUE", "image": c.Image(), "env": suite.M{"WORD": word},
		"workers": suite.M{"min": 0, "max": 0}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 1},
	})
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
