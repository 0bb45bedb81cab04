package contract

import "slices"

// Operations is the table of methods and paths, API by API.
var Operations = slices.Concat(operationsV1, operationsV2, operationsJobs)

// operations sets the API of the operations and adds the codes that all of them may return.
func operations(api API, common []int, ops ...Operation) []Operation {
	for i := range ops {
		ops[i].API = api
		ops[i].Errors = append(ops[i].Errors, common...)
		slices.Sort(ops[i].Errors)
	}
	return ops
}

type detail func(*Operation)

func op(method, path, resource string, success int, source string, details ...detail) Operation {
	row := Operation{Method: method, Path: path, Resource: resource, Success: []int{success}, Source: source}
	for _, set := range details {
		set(&row)
	}
	return row
}

func query(names ...string) detail { return func(o *Operation) { o.Query = names } }
func orStatus(success int) detail {
	return func(o *Operation) { o.Success = append(o.Success, success) }
}
func fails(codes ...int) detail { return func(o *Operation) { o.Errors = codes } }
func opNote(text string) detail { return func(o *Operation) { o.Note = text } }

// All operations may return the failures of the service description (section Errors). 404 means
// that the endpoint or the job doesn't exist.
var operationsJobs = operations(Jobs, []int{401, 403, 404, 429, 500}, append([]Operation{
	op("POST", "/run", "jobSubmission", 200, "service description: Endpoints, section B", fails(400, 413), opNote("returns id and status IN_QUEUE; body up to 10 MB")),
	op("POST", "/runsync", "jobSubmission", 200, "service description: Endpoints, section B", query("wait"), fails(400, 413), opNote("returns the job, unfinished after `wait` (1000 to 300000 ms, default 90000); body up to 20 MB")),
	op("GET", "/status/{job_id}", "job", 200, "service description: Endpoints, section B", query("ttl"), fails(400), opNote("`ttl` sets the job's ttl, in ms")),
	op("GET", "/stream/{job_id}", "streamChunk", 200, "service description: Endpoints, section B", query("wait"), fails(400), opNote("an array of the unread chunks; waits up to `wait` ms for one; under /live a liveStream object")),
	op("POST", "/cancel/{job_id}", "job", 200, "service description: Endpoints, section B", opNote("returns id and status CANCELLED; a finished job keeps its status")),
	op("POST", "/retry/{job_id}", "job", 200, "service description: Endpoints, section B", fails(400), opNote("returns id and status IN_QUEUE; 400 unless FAILED or TIMED_OUT")),
	op("POST", "/purge-queue", "purge", 200, "service description: Endpoints, section B"),
	op("GET", "/health", "health", 200, "service description: Endpoints, section B"),
	op("GET", "/requests", "jobList", 200, "service description: Endpoints, section B, rule 5"),
	op("POST", "/openai/{route}", "", 200, "service description: Endpoints, section B, rule 5", fails(400, 413), opNote("the job's input has the body as openai_input and the path as openai_route; returns the handler's output")),
	op("GET", "/openai/v1/models", "", 200, "field notes: Job API", opNote("a job whose input has only openai_route, /v1/models")),

	op("GET", "/status-sync/{job_id}", "job", 200, "field notes: Job API", query("wait"), fails(400), opNote("only under /live; as status, but waits up to `wait` ms for the job's end")),
	op("POST", "/status-sync/{job_id}", "job", 200, "field notes: Job API", query("wait"), fails(400), opNote("only under /live")),
	op("POST", "/status/{job_id}", "job", 200, "field notes: Job API", query("ttl"), fails(400), opNote("only under /live")),
	op("POST", "/stream/{job_id}", "liveStream", 200, "field notes: Job API", query("wait"), fails(400), opNote("only under /live")),
}, operationsBatch...)...)
