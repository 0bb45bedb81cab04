package main

import "github.com/alecthomas/kong"

// jobHelp is the common part of the help of the commands below job.
const jobHelp = `ENDPOINT is the id or name of an endpoint. The deployment is at GPUCLOUD_BASE_URL, by default the jobrunner
of this machine, whose key is read from its data folder unless GPUCLOUD_API_KEY is set.

`

const jobExits = `
Exit status: 0 the job is COMPLETED, 1 FAILED, 2 it was rejected, 3 TIMED_OUT, 4 anything else.`

// jobDetails has the rest of the help of the command job and the commands below it, by their paths.
var jobDetails = map[string]string{
	"job": `Examples:
  jobrunner job run my-endpoint --input '{"prompt": "hello"}'
  jobrunner job status my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1
  GPUCLOUD_BASE_URL=https://cloud.example.com jobrunner job run my-endpoint --detach`,
	"job run": `Examples:
  jobrunner job run my-endpoint --input '{"prompt": "hello"}'
  jobrunner job run my-endpoint --input request.json --tail
  jobrunner job run my-endpoint --detach
` + jobExits,
	"job status": `Example:
  jobrunner job status my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1 --json

It exits with 0 for any status of the job.`,
	"job tail": `The deployment returns each chunk only once, so chunks that another client has read are missing. Text is
printed as it is, any other chunk as a line of JSON. If the job has no chunks, its output is printed.

Example:
  jobrunner job tail my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1
` + jobExits,
	"job logs": `Prints the worker's log from the first line that names the job until the job's end, without lines that name another job.

Example:
  jobrunner job logs my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1`,
	"job cancel": "Example:\n  jobrunner job cancel my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1",
	"job retry":  "Example:\n  jobrunner job retry my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1",
	"job purge": `Running jobs continue.

Example:
  jobrunner job purge my-endpoint`,
	"job batch": `A batch runs up to 5,000 requests on separate workers (docs/guides/batch.md).

Example:
  jobrunner job batch run my-endpoint inputs.jsonl --name nightly > results.jsonl`,
	"job batch run": `After Ctrl-C the batch continues.

Examples:
  jobrunner job batch run my-endpoint inputs.jsonl > results.jsonl
  jobrunner job batch run my-endpoint inputs.jsonl --name nightly --detach

Exit status: 0 all requests are COMPLETED, 1 some aren't, 2 the batch was rejected, 4 anything else.`,
	"job batch list":    "Example:\n  jobrunner job batch list my-endpoint",
	"job batch status":  "Example:\n  jobrunner job batch status my-endpoint 01a20ee2-b476-7200-b70b-92030390656b",
	"job batch results": "Example:\n  jobrunner job batch results my-endpoint 01a20ee2-b476-7200-b70b-92030390656b",
	"job batch cancel":  "Example:\n  jobrunner job batch cancel my-endpoint 01a20ee2-b476-7200-b70b-92030390656b",
}

func addJobHelp(k *kong.Kong) error {
	return kong.Visit(k.Model, func(v kong.Visitable, next kong.Next) error {
		if command, ok := v.(*kong.Node); ok && jobDetails[command.Path()] != "" {
			command.Detail = jobHelp + jobDetails[command.Path()]
		}
		return next(nil)
	})
}
