package limits

import (
	"time"
)

// Operation is the operation of the job API that a request counts for.
type Operation int

const (
	Unlimited Operation = iota
	Run
	RunSync
	Status
	Stream
	Cancel
	PurgeQueue
	OpenAI
	Requests
)

// Window is the time in which requests are counted.
const Window = 10 * time.Second

// Limit bounds one user's requests for an operation at one endpoint.
type Limit struct {
	Name       string
	Rate       int  // requests in any Window
	PerWorker  int  // requests in any Window for each running worker; the limit is PerWorker × workers if that exceeds Rate
	Concurrent int  // concurrent requests; 0: unlimited
	Queues     bool // each request queues a job
}

// Table lists every operation's limit (docs/reference/contract.md: service description,
// Limits, Rate limits; requests per worker: field notes, job API).
var Table = [...]Limit{
	Run:        {"/run", 1000, 200, 200, true},
	RunSync:    {"/runsync", 2000, 400, 400, true},
	Status:     {"/status", 2000, 400, 400, false},
	Stream:     {"/stream", 2000, 400, 400, false},
	Cancel:     {"/cancel", 100, 20, 20, false},
	PurgeQueue: {"/purge-queue", 2, 0, 0, false},
	OpenAI:     {"/openai", 2000, 400, 400, true},
	Requests:   {"/requests", 10, 0, 2, false},
}

// A queue is full if it has more than queueBase jobs and more than queuePerWorker jobs for each worker of
// workersMax (field notes, job API, requests per worker).
const (
	queueBase      = 50
	queuePerWorker = 500
)

func QueueFull(jobs, workersMax int) bool {
	return jobs > queueBase && jobs > queuePerWorker*workersMax
}
