package suite

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
)

// Echo is the input of a job that returns its input. The suite's handler implements the inputs below.
func Echo(members ...M) M { return handlerInput("echo", members) }

// Sleep is the input of a job that runs for some time, and returns the value of the member output.
func Sleep(d time.Duration, members ...M) M {
	return handlerInput("sleep", members, M{"ms": d.Milliseconds()})
}

// Fail is the input of a job that fails. The member message is the text of the error; if bytes is set,
// the error is a text of that length. If times is set, the job fails that often and then returns its input.
func Fail(members ...M) M { return handlerInput("fail", members) }

// Crash is the input of a job that terminates its worker. If times is set, it does so that often
// and then returns its input.
func Crash(members ...M) M { return handlerInput("crash", members) }

// Stream is the input of a job that yields n chunks, {"n": 0} and so on, with a pause before each. If
// the member message is set, the job then fails with it; if bytes is set, the chunks are texts of that length.
func Stream(n int, pause time.Duration, members ...M) M {
	return handlerInput("stream", members, M{"n": n, "ms": pause.Milliseconds()})
}

func Yield(values ...any) M {
	return handlerInput("stream", nil, M{"n": len(values), "outputs": values})
}

// Bytes is the input of a job that returns a text of n characters.
func Bytes(n int) M { return handlerInput("bytes", nil, M{"n": n}) }

// Beacon is the input of a job that runs for duration, and calls a box at its start and at intervals.
func Beacon(b *env.Box, interval, duration time.Duration) M {
	return handlerInput("beacon", nil, M{"url": b.URL, "every": interval.Milliseconds(), "ms": duration.Milliseconds()})
}

func handlerInput(op string, callerMembers []M, members ...M) M {
	return Merge(slices.Concat([]M{{"op": op}}, members, callerMembers)...)
}

// Merge returns an object with the members of all objects. A later object overrides an earlier one.
func Merge(objects ...M) M {
	merged := M{}
	for _, o := range objects {
		maps.Copy(merged, o)
	}
	return merged
}

// Submission returns the body that submits an input, with other members such as webhook, policy and s3Config.
func Submission(input any, members ...M) M {
	return Merge(append([]M{{"input": input}}, members...)...)
}

func Policy(members M) M { return M{"policy": members} }

func TTL(d time.Duration) M { return Policy(M{"ttl": d.Milliseconds()}) }

func ExecutionTimeout(d time.Duration) M { return Policy(M{"executionTimeout": d.Milliseconds()}) }

// Job is a job that a case submitted.
type Job struct {
	ID     string
	Answer *Answer
	// StartedAfter and StartedBefore are the times between which the job began to run. Await sets them.
	StartedAfter, StartedBefore time.Time

	c         *C
	endpoint  string
	changedAt time.Time  // of the last successful /cancel or /retry
	recorded  env.Object // in the ledger; zero if it isn't
}

// Run submits a job with POST /run, as a fixture.
func (c *C) Run(input any, members ...M) (j *Job) {
	c.Given("JOB-11", func() { j = c.JobOf(c.Post("/run", Submission(input, members...)).Is(200)) })
	return j
}

// RunSync submits a job as a fixture with POST /runsync, and expects the answer to have its result.
func (c *C) RunSync(input any, members ...M) (j *Job) {
	c.Given("JOB-14", func() {
		j = c.JobOf(c.Post("/runsync", Submission(input, members...)).Is(200).Equal("status", Completed))
	})
	return j
}

func (c *C) JobOf(a *Answer) *Job {
	j := &Job{ID: a.Str("id"), Answer: a, c: c, endpoint: c.Endpoint}
	c.Expect(j.ID != "", "an id", "an empty id")
	if !a.Sent.Before(c.startedAt) { // otherwise it was counted before the case was deferred
		c.env.Jobs.Add(1)
	}
	if c.Endpoint == c.Target.Endpoint { // other cases use the endpoint, so the job is cancelled at the end
		j.recorded = c.addToLedger(c.jobObject(j.ID))
	}
	j.recordStart(a)
	return j
}

// Path returns the path of an operation on the job, such as status.
func (j *Job) Path(operation string) string { return "/" + operation + "/" + PathSegment(j.ID) }

// Status, Cancel, Retry and Stream send the request with that name.
func (j *Job) Status() *Answer { return j.c.Job("GET", j.endpoint, j.Path("status"), nil) }
func (j *Job) Cancel() *Answer { return j.change("cancel") }
func (j *Job) Retry() *Answer  { return j.change("retry") }
func (j *Job) Stream() *Answer { return j.c.Job("GET", j.endpoint, j.Path("stream"), nil) }

// Chunks reads the stream until it has n chunks or a read returns none: the description doesn't say how many a read returns.
func (j *Job) Chunks(n int) (all []M) {
	for more := 1; more > 0 && len(all) < n; {
		chunks := j.Stream().Is(200).Chunks()
		all, more = append(all, chunks...), len(chunks)
	}
	return all
}

func (j *Job) change(operation string) *Answer {
	a := j.c.Job("POST", j.endpoint, j.Path(operation), nil)
	if a.Code/100 == 2 {
		j.changedAt = a.Received
	}
	return a
}

const (
	InQueue    = "IN_QUEUE"
	InProgress = "IN_PROGRESS"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
	Cancelled  = "CANCELLED"
	TimedOut   = "TIMED_OUT"
)

var Statuses = []string{InQueue, InProgress, Completed, Failed, Cancelled, TimedOut}

func IsFinal(status string) bool {
	return slices.Contains([]string{Completed, Failed, Cancelled, TimedOut}, status)
}

// AwaitInQueue, AwaitRunning and so on wait for a status that the case needs, but doesn't judge.
func (j *Job) AwaitInQueue() *Answer   { return j.awaitGiven(InQueue) }
func (j *Job) AwaitRunning() *Answer   { return j.awaitGiven(InProgress) }
func (j *Job) AwaitCompleted() *Answer { return j.awaitGiven(Completed) }
func (j *Job) AwaitFailed() *Answer    { return j.awaitGiven(Failed) }
func (j *Job) AwaitTimedOut() *Answer  { return j.awaitGiven(TimedOut) }

var statusClauses = map[string]string{InQueue: "JOB-02", InProgress: "JOB-15", Completed: "JOB-16", Failed: "JOB-36", TimedOut: "SUB-10"}

func (j *Job) awaitGiven(status string) (a *Answer) {
	j.c.Given(statusClauses[status], func() { a = j.Await(status) })
	return a
}

// Reach waits for a status as AwaitInQueue does, and returns the job.
func (j *Job) Reach(status string) *Job {
	j.awaitGiven(status)
	return j
}

// Await waits for one of the statuses: 10 s on a local target, and StartPatience on others. If
// the time passes, or the job ends with another status or doesn't exist, the case fails. It is inconclusive if no
// worker started at a target that isn't local.
func (j *Job) Await(statuses ...string) *Answer {
	c := j.c
	accepted := "status = " + strings.Join(statuses, " or ")
	limit, realLimit := 10*time.Second, patience
	if !c.Target.Local {
		limit, realLimit = c.env.StartPatience(), 0 // a worker may have to start first
	}
	start, realStart := c.Now(), time.Now()
	for n := 0; ; n++ {
		a := j.Status()
		text := j.recordStart(a)
		switch {
		case a.Code/100 == 2 && slices.Contains(statuses, text):
			return a
		case IsFinal(text) && c.Now().Before(j.changedAt.Add(c.Grace())): // the read may be older than the change
		case a.Code/100 != 2, text == "", IsFinal(text):
			a.fail(accepted)
		case c.Now().Sub(start) > limit && time.Since(realStart) > realLimit:
			c.env.RecordStart(text != InQueue)
			if text == InQueue && !c.Target.Local {
				c.Inconclusive("no worker started the job within %s", limit)
			}
			a.fail(accepted)
		}
		c.pauseBetweenPolls(n)
	}
}

// recordStart records when the job started. A COMPLETED job can't be retried, so it needn't be cancelled at the end.
func (j *Job) recordStart(a *Answer) (status string) {
	switch status, _ = a.ValueOrNil("status").(string); {
	case status == Completed:
		_ = j.c.env.Ledger.Remove(j.recorded) // if the ledger can't be written, the cleanup cancels the job
	case status == InQueue:
		j.StartedAfter, j.StartedBefore = a.Sent, time.Time{}
	case status == InProgress && j.StartedBefore.IsZero():
		j.c.env.RecordStart(true)
		j.StartedBefore = a.Received
		if j.StartedAfter.IsZero() {
			j.StartedAfter = j.Answer.Sent
		}
	}
	return status
}

// pauseBetweenPolls pauses after the nth poll. A local target soon shows effects that
// don't wait for its clock, so the first pauses are short and in real time.
func (c *C) pauseBetweenPolls(n int) {
	switch {
	case !c.Target.Local:
		c.Sleep(min(time.Duration(n+1)*500*time.Millisecond, 5*time.Second))
	case n < 8:
		time.Sleep(time.Millisecond << min(n, 4))
	default:
		time.Sleep(20 * time.Millisecond)
		c.Sleep(200 * time.Millisecond)
	}
}

// Blocker runs a job that occupies the single worker of the case's endpoint, so that other jobs wait.
func (c *C) Blocker(d time.Duration) *Job {
	return c.Run(Sleep(d)).Reach(InProgress)
}

// BusyWorker is Blocker for longer than the case takes.
func (c *C) BusyWorker() *Job {
	return c.Run(Sleep(busyJobDuration), Policy(M{"executionTimeout": (busyJobDuration + time.Hour).Milliseconds()})).Reach(InProgress)
}

const busyJobDuration = 12 * time.Hour
