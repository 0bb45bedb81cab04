package suite

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
)

// The inputs of jobs that our handler knows.

// Echo has the job return its input.
func Echo(more ...M) M { return handlerInput("echo", more) }

// Sleep has it run for some time, and return output where more has one.
func Sleep(d time.Duration, more ...M) M {
	return handlerInput("sleep", more, M{"ms": d.Milliseconds()})
}

// Fail has it fail, with message where more has one, or a text of so many bytes.
// With times it echoes after so many failures.
func Fail(more ...M) M { return handlerInput("fail", more) }

// Crash has it take its worker down. With times it echoes after so many.
func Crash(more ...M) M { return handlerInput("crash", more) }

// Stream has it yield n chunks, {"n": 0} and so on, with a pause before each.
// With bytes they are texts of that length.
func Stream(n int, pause time.Duration, more ...M) M {
	return handlerInput("stream", more, M{"n": n, "ms": pause.Milliseconds()})
}

// Yield has it yield these values as chunks.
func Yield(values ...any) M {
	return handlerInput("stream", nil, M{"n": len(values), "outputs": values})
}

// Bytes has it return a text of n characters.
func Bytes(n int) M { return handlerInput("bytes", nil, M{"n": n}) }

// Beacon has it call a box when it begins, and then every so often for as long
// as it runs.
func Beacon(b *env.Box, every, lasts time.Duration, more ...M) M {
	return handlerInput("beacon", more, M{"url": b.URL, "every": every.Milliseconds(), "ms": lasts.Milliseconds()})
}

func handlerInput(op string, more []M, own ...M) M {
	o := M{"op": op}
	for _, m := range slices.Concat(own, more) {
		maps.Copy(o, m)
	}
	return o
}

// Submission is the body that submits an input; more has webhook, policy and
// s3Config.
func Submission(input any, more ...M) M {
	body := M{"input": input}
	for _, m := range more {
		maps.Copy(body, m)
	}
	return body
}

// Policy is a policy, as a part of a submission.
func Policy(members M) M { return M{"policy": members} }

// TTL is a policy with a time to live.
func TTL(d time.Duration) M { return Policy(M{"ttl": d.Milliseconds()}) }

// ExecutionTimeout is a policy with a bound of the execution.
func ExecutionTimeout(d time.Duration) M { return Policy(M{"executionTimeout": d.Milliseconds()}) }

// Job is a job that a case submitted.
type Job struct {
	ID string
	// Answer is that to the submission.
	Answer *Answer
	// StartedAfter and StartedBefore are the times between which the job began to
	// run, once Await saw it running.
	StartedAfter, StartedBefore time.Time

	c         *C
	endpoint  string
	changedAt time.Time // when it was last cancelled or retried with success
}

// Run submits a job with POST /run, which the case does not judge.
func (c *C) Run(input any, more ...M) *Job { return c.RunAt(c.Endpoint, input, more...) }

// RunAt submits it at another endpoint.
func (c *C) RunAt(endpoint string, input any, more ...M) *Job {
	j := &Job{c: c, endpoint: endpoint}
	c.Given("JOB-11", func() {
		j.Answer = c.Job("POST", endpoint, "/run", Submission(input, more...)).Is(200)
		j.ID = j.Answer.Str("id")
		c.Expect(j.ID != "", "an id", "an empty id")
	})
	c.NoteJob(endpoint, j.ID)
	return j
}

// RunSync submits a job with POST /runsync, which the case does not judge, and
// expects its result: for those that need no time of the target.
func (c *C) RunSync(input any, more ...M) *Job {
	j := &Job{c: c, endpoint: c.Endpoint}
	c.Given("JOB-14", func() {
		j.Answer = c.Post("/runsync", Submission(input, more...)).Is(200).Equal("status", "COMPLETED")
		j.ID = j.Answer.Str("id")
	})
	c.NoteJob(c.Endpoint, j.ID)
	return j
}

// JobOf is the job that an answer to /run or /runsync is about.
func (c *C) JobOf(a *Answer) *Job {
	j := &Job{ID: a.Str("id"), Answer: a, c: c, endpoint: c.Endpoint}
	c.NoteJob(c.Endpoint, j.ID)
	return j
}

// Status asks for the job's status.
func (j *Job) Status() *Answer { return j.c.Job("GET", j.endpoint, "/status/"+j.ID, nil) }

// Cancel, Retry and Stream send the request of that name.
func (j *Job) Cancel() *Answer { return j.change("/cancel/") }
func (j *Job) Retry() *Answer  { return j.change("/retry/") }
func (j *Job) Stream() *Answer { return j.c.Job("GET", j.endpoint, "/stream/"+j.ID, nil) }

func (j *Job) change(operation string) *Answer {
	a := j.c.Job("POST", j.endpoint, operation+j.ID, nil)
	if a.Code/100 == 2 {
		j.changedAt = a.Received
	}
	return a
}

// Statuses of jobs.
const (
	InQueue    = "IN_QUEUE"
	InProgress = "IN_PROGRESS"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
	Cancelled  = "CANCELLED"
	TimedOut   = "TIMED_OUT"
)

// Statuses are all of them.
var Statuses = []string{InQueue, InProgress, Completed, Failed, Cancelled, TimedOut}

// IsFinal tells whether a job with the status has ended.
func IsFinal(status string) bool {
	return slices.Contains([]string{Completed, Failed, Cancelled, TimedOut}, status)
}

// InQueue, Running, Completed, Failed and TimedOut wait for a status that the case
// needs and does not judge.
func (j *Job) InQueue() *Answer   { return j.awaitGiven("JOB-02", InQueue) }
func (j *Job) Running() *Answer   { return j.awaitGiven("JOB-15", InProgress) }
func (j *Job) Completed() *Answer { return j.awaitGiven("JOB-16", Completed) }
func (j *Job) Failed() *Answer    { return j.awaitGiven("JOB-36", Failed) }
func (j *Job) TimedOut() *Answer  { return j.awaitGiven("SUB-10", TimedOut) }

func (j *Job) awaitGiven(clause, status string) (a *Answer) {
	j.c.Given(clause, func() { a = j.Await(status) })
	return a
}

// Await waits for a status, for a moment of the target's time. Where the job has
// ended with another status, or does not exist, the case fails.
func (j *Job) Await(statuses ...string) *Answer {
	c := j.c
	accepted := "status = " + strings.Join(statuses, " or ")
	limit, wall := 10*time.Second, patience
	if !c.Local() {
		limit, wall = c.env.StartPatience(), 0 // a worker may have to be started first
	}
	start, began := c.Now(), time.Now()
	for n := 0; ; n++ {
		a := j.Status()
		status, _ := a.Find("status")
		text, _ := status.(string)
		j.noteStart(a, text)
		switch {
		case a.Code/100 == 2 && slices.Contains(statuses, text):
			return a
		case IsFinal(text) && c.Now().Before(j.changedAt.Add(c.Grace())): // a read may come from before the change
		case a.Code/100 != 2, text == "", IsFinal(text):
			a.fail(accepted)
		case c.Now().Sub(start) > limit && time.Since(began) > wall:
			c.env.NoteStart(text != InQueue)
			a.fail(accepted)
		}
		c.pauseBetweenPolls(n)
	}
}

// noteStart narrows the interval in which the job began to run.
func (j *Job) noteStart(a *Answer, status string) {
	switch {
	case status == InQueue:
		j.StartedAfter, j.StartedBefore = a.Sent, time.Time{}
	case status == InProgress && j.StartedBefore.IsZero():
		j.c.env.NoteStart(true)
		j.StartedBefore = a.Received
		if j.StartedAfter.IsZero() {
			j.StartedAfter = j.Answer.Sent
		}
	}
}

// pauseBetweenPolls is that between two looks: what needs no time of the target is soon
// done, so the first ones are short and on the wall.
func (c *C) pauseBetweenPolls(n int) {
	switch {
	case !c.Local():
		c.Sleep(min(time.Duration(n+1)*500*time.Millisecond, 5*time.Second))
	case n < 8:
		time.Sleep(time.Millisecond << min(n, 4))
	default:
		time.Sleep(20 * time.Millisecond)
		c.Sleep(200 * time.Millisecond)
	}
}

// Blocker fills the one worker of the case's own endpoint for some time, and is
// running when Blocker returns: what is submitted after it waits.
func (c *C) Blocker(d time.Duration) *Job {
	j := c.Run(Sleep(d))
	j.Running()
	return j
}

// BusyWorker fills the one worker of the case's own endpoint for longer than the
// case takes.
func (c *C) BusyWorker() *Job {
	j := c.Run(Sleep(busyJobDuration), Policy(M{"executionTimeout": (busyJobDuration + time.Hour).Milliseconds()}))
	j.Running()
	return j
}

const busyJobDuration = 12 * time.Hour
