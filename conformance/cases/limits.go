package cases

import (
	"bytes"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// retentionCases judge the section "Limits": how long a result exists.
var retentionCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "LIM-11", Source: "Limits, Result retention (/run)", Statement: "The result of /run is kept for 30 minutes after the job ends.",
		Jobs: 1, Seconds: 1, WaitTime: retention, Run: func(c *suite.C) {
			job := c.Run(suite.Echo(suite.M{"x": "kept"})).Reach(suite.Completed)
			ended := job.Answer.Sent // the earliest time
			c.Until(ended.Add(retention - c.EarlyMargin(time.Minute)))
			shown := job.Status()
			c.ExpectBefore(shown, ended.Add(retention-c.EarlyMargin(time.Second)/2))
			shown.Is(200).Equal("output.x", "kept")
		}},
	// The chunks of a result are kept, and deleted, with it.
	{ID: "LIM-11-stream", Supplementary: true, Clauses: []string{"LIM-12"}, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: retention + 2*time.Minute, Seconds: 2, Run: func(c *suite.C) {
		read, unread := c.Run(suite.Stream(3, 0)), c.Run(suite.Stream(3, 0))
		read.AwaitCompleted()
		due := interval{read.Answer.Sent, unread.AwaitCompleted().Received}.add(retention)
		due.untilJustBefore(c)
		chunks := read.Chunks(3)
		c.Expect(len(chunks) == 3, "3 chunks", "%d chunks", len(chunks))
		c.JudgeBy(due.to, func() { expectNoChunks(c, unread) })
	}},
	{ID: "LIM-12", Source: "Limits, Result retention (/run)", Statement: "After 30 minutes the result of /run is deleted, and the job can't be retried.",
		Jobs: 2, Seconds: 1, WaitTime: retention + 2*time.Minute, Run: func(c *suite.C) {
			// A retry changes a job, so each check uses another job.
			jobs := []*suite.Job{c.Run(suite.Fail()), c.Run(suite.Fail())}
			jobs[0].AwaitFailed()
			ended := jobs[1].AwaitFailed().Received
			c.JudgeBy(ended.Add(retention), func() {
				job := jobs[0]
				jobs = jobs[1:]
				job.Retry().Refused()
				job.Status().Absent("output")
			})
		}},
	{ID: "LIM-13", Level: suite.Unspec, Source: "Errors, Missing result", Statement: "The response for a job whose result is deleted.",
		Jobs: 1, Seconds: 1, WaitTime: retention + 2*time.Minute, Run: func(c *suite.C) {
			j := c.Run(suite.Echo())
			ended := j.AwaitCompleted().Received
			c.Until(ended.Add(retention + time.Minute))
			c.Observe("%d", j.Status().Code)
		}},
	{ID: "LIM-14", Source: "Limits, Result retention (/runsync)", Statement: "The result of /runsync is kept for a minute after the job ends.",
		Jobs: 1, Seconds: 1, WaitTime: time.Minute, Run: judgeRunSyncKept(runSync("/runsync", suite.Echo(suite.M{"x": "kept"})), suite.Completed)},
	// A result of /runsync is kept equally long however the job ended, and for at least a minute.
	{ID: "LIM-14-failed", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 40, Jobs: 1, WaitTime: time.Minute, Seconds: 1, Run: judgeRunSyncKept(runSync("/runsync", suite.Fail()), suite.Failed)},
	{ID: "LIM-14-wait", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 40, Jobs: 1, WaitTime: time.Minute, Seconds: 1, Run: judgeRunSyncKept(runSync("/runsync?wait=1000", suite.Echo(suite.M{"x": "kept"})), suite.Completed)},
	{ID: "LIM-14-timed-out", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 40, Jobs: 1, WaitTime: 70 * time.Second, Seconds: 12, Run: judgeRunSyncKept(timeOutRunSync, suite.TimedOut)},
	{ID: "LIM-15", Source: "Limits, Result retention (/runsync)", Statement: "Without a wait setting, the result of /runsync is deleted after a minute.",
		Jobs: 1, Seconds: 1, WaitTime: 2 * time.Minute, Run: judgeRunSyncExpired(runSync("/runsync", suite.Echo(suite.M{"x": "kept"})), time.Minute)},
	{ID: "LIM-15-failed", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 40, Jobs: 1, WaitTime: 2 * time.Minute, Seconds: 1, Run: judgeRunSyncExpired(runSync("/runsync", suite.Fail()), time.Minute)},
	{ID: "LIM-15-timed-out", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 40, Jobs: 1, WaitTime: 2 * time.Minute, Seconds: 6, Run: judgeRunSyncExpired(timeOutRunSync, time.Minute)},
	{ID: "LIM-15-streamed", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 40, Jobs: 1, WaitTime: 2 * time.Minute, Seconds: 1, Run: judgeRunSyncExpired(runSync("/runsync", suite.Stream(3, 0)), time.Minute)},
	{ID: "LIM-16", Source: "Limits, Result retention (/runsync)", Statement: "With a wait setting, the result of /runsync is deleted after five minutes at the latest.",
		Jobs: 1, Seconds: 1, WaitTime: 6 * time.Minute, Run: judgeRunSyncExpired(runSync("/runsync?wait=300000", suite.Echo(suite.M{"x": "kept"})), 5*time.Minute)},
	{ID: "LIM-16-failed", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 40, Jobs: 1, WaitTime: 6 * time.Minute, Seconds: 1, Run: judgeRunSyncExpired(runSync("/runsync?wait=300000", suite.Fail()), 5*time.Minute)},
	{ID: "LIM-16-short-wait", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 40, Jobs: 1, WaitTime: 6 * time.Minute, Seconds: 1, Run: judgeRunSyncExpired(runSync("/runsync?wait=1000", suite.Echo(suite.M{"x": "kept"})), 5*time.Minute)},
	{ID: "LIM-17", Source: "Limits, Result retention (/run)", Statement: "Retention starts when the job ends.",
		Needs: suite.AnyEndpoint | suite.AdvanceableClock, Jobs: 1, Seconds: 1200, WaitTime: time.Hour, Run: func(c *suite.C) {
			j := c.Run(suite.Sleep(20*time.Minute, suite.M{"output": "kept"}), suite.ExecutionTimeout(time.Hour)).Reach(suite.InProgress)
			c.Sleep(20 * time.Minute)
			j.AwaitCompleted()
			ended := j.Answer.Sent.Add(20 * time.Minute) // the earliest time
			c.Until(ended.Add(retention - c.EarlyMargin(time.Minute)))
			j.Status().Is(200).Equal("output", "kept")
		}},
	// The retention of a /runsync whose wait has elapsed counts from the job's end, too.
	{ID: "LIM-17-runsync", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 5 * time.Minute, Seconds: 125, Run: func(c *suite.C) {
		c.Run(suite.Echo()).AwaitCompleted() // starts a worker
		j, submitted := outlastWait(c, suite.Sleep(2*time.Minute, suite.M{"output": "kept"}))
		submitted.add(3 * time.Minute).untilJustBefore(c)
		j.Status().Is(200).Equal("output", "kept")
	}},
	{ID: "LIM-18", Level: suite.Should, Source: "Limits, Result retention (/run)", Statement: "Reading a result doesn't extend its retention.",
		Jobs: 1, Seconds: 1, Requests: 40, WaitTime: retention + time.Minute, Run: func(c *suite.C) {
			j := c.Run(suite.Echo(suite.M{"x": "kept"}))
			ended := j.AwaitCompleted().Received
			for i := 1; i < 30; i++ {
				c.Until(ended.Add(time.Duration(i) * time.Minute))
				j.Status().IfBefore(j.Answer.Sent.Add(retention)).Is(200)
			}
			expectExpired(c, j, ended.Add(retention))
		}},
	{ID: "LIM-19", Level: suite.Should, Source: "Limits, Result retention (/run)", Statement: "Retention starts anew for a retried job.",
		Jobs: 1, Seconds: 1, WaitTime: time.Hour, Run: func(c *suite.C) {
			j := c.Run(suite.Fail(suite.M{"times": 1, "x": "kept"}))
			failed := j.AwaitFailed().Sent
			c.Until(failed.Add(29 * time.Minute))
			var retriedAt time.Time // the earliest time
			c.Given("JOB-22", func() { retriedAt = j.Retry().Is(200).Sent })
			j.AwaitCompleted()
			c.Until(retriedAt.Add(retention - c.EarlyMargin(time.Minute)))
			j.Status().Is(200).Equal("output.x", "kept")
		}},
	{ID: "LIM-20", Level: suite.Should, Source: "Limits", Statement: "A result is deleted when its ttl or retention ends, whichever is first.",
		Jobs: 2, Seconds: 1, WaitTime: retention + time.Minute, Run: func(c *suite.C) {
			short, long := c.Run(suite.Echo(), suite.TTL(time.Minute)), c.Run(suite.Echo(), suite.TTL(2*time.Hour))
			short.AwaitCompleted()
			ended := long.AwaitCompleted().Received
			c.JudgeBy(short.Answer.Received.Add(time.Minute), func() { short.Status().Is(404) })
			long.Status().IfBefore(long.Answer.Sent.Add(retention)).Is(200)
			expectExpired(c, long, ended.Add(retention))
		}},
})

// retention is how long a result of /run exists (section Limits).
const retention = 30 * time.Minute

// expectExpired expects that a result is deleted after its retention, whatever the job's status is then.
func expectExpired(c *suite.C, j *suite.Job, due time.Time) {
	c.JudgeBy(due, func() {
		if a := j.Status(); a.Code/100 == 2 {
			a.Absent("output")
		}
	})
	c.UntilEffective(due) // a retry changes the job, so only one check is possible
	j.Retry().Refused()
}

// judgeRunSyncKept judges that a result of /runsync still exists shortly before a minute has passed since
// the job's end: a COMPLETED job has the output x = kept, and any other job can be retried.
func judgeRunSyncKept(runJob func(*suite.C) (j *suite.Job, ended interval), status string) func(*suite.C) {
	return func(c *suite.C) {
		j, ended := runJob(c)
		var shown *suite.Answer
		if !ended.add(time.Minute).judgeJustBefore(c, j, func(a *suite.Answer) { shown = a.Is(200).Equal("status", status) }) {
			c.Inconclusive("the time of the job's end isn't known exactly enough")
		}
		if status == suite.Completed {
			shown.Equal("output.x", "kept")
		} else {
			j.Retry().Is(200).Equal("status", suite.InQueue)
		}
	}
}

// timeOutRunSync submits a job with /runsync and waits until the job times out. It also returns the interval of the time-out.
func timeOutRunSync(c *suite.C) (*suite.Job, interval) {
	begin := c.Now()
	p := c.Start("POST", "/runsync", suite.Submission(suite.Sleep(time.Hour), suite.ExecutionTimeout(shortTimeout)))
	for range 4 { // a worker may have to start first
		c.Sleep(shortTimeout + c.Grace())
		if p.AnsweredWithin(suite.TransitTime) {
			break
		}
	}
	var j *suite.Job
	c.Given("JOB-13", func() { j = c.JobOf(p.Answer().Is(200)) })
	return j, interval{begin.Add(shortTimeout), j.AwaitTimedOut().Received}
}

// judgeRunSyncExpired judges that a result is deleted after its retention.
func judgeRunSyncExpired(runJob func(*suite.C) (j *suite.Job, ended interval), keptFor time.Duration) func(*suite.C) {
	return func(c *suite.C) {
		j, ended := runJob(c)
		expectExpired(c, j, ended.to.Add(keptFor))
		expectNoChunks(c, j)
	}
}

// runSync returns a function that submits a job that ends at once, and waits for its end.
func runSync(path string, input suite.M) func(*suite.C) (*suite.Job, interval) {
	return func(c *suite.C) (j *suite.Job, ended interval) {
		begin := c.Now()
		c.Given("JOB-13", func() {
			a := c.Post(path, suite.Submission(input)).Is(200)
			id := a.ValueOrNil("id")
			c.SkipIf(id == nil || id == "", "the answer after the wait has no job id") // a worker had to start first
			j = c.JobOf(a)
		})
		return j, interval{begin, j.Await(suite.Completed, suite.Failed).Received}
	}
}

// expectNoChunks expects that a stream has no chunks. The answer may have any status code.
func expectNoChunks(c *suite.C, j *suite.Job) {
	n := countChunks(requestHeldAnswer(c, j.Path("stream")))
	c.Expect(n == 0, "no chunk of a deleted result", "%d chunks", n)
}

// countChunks counts the chunks of an answer in any form.
func countChunks(a *suite.Answer) int {
	for _, path := range []string{"", "stream"} {
		list, _ := a.Find(path)
		if chunks, ok := list.([]any); ok && a.Code/100 == 2 {
			return len(chunks)
		}
	}
	return 0
}

// payloadCases judge the section "Limits": the size of request bodies.
var payloadCases = section(suite.Case{Level: suite.Must, Needs: suite.OwnEndpoint, Allow: suite.Queue | suite.Load}, []suite.Case{
	{ID: "LIM-01", Source: "Limits, /run payload", Statement: "/run accepts a body of 10 MB.", Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second) // no worker reads the input
		c.JobOf(c.Post("/run", nil, suite.Raw(submissionOfSize(10_000_000))).Is(200))
	}},
	{ID: "LIM-02", Source: "Limits, /run payload", Statement: "/run rejects a body above 10 MB.", Needs: suite.AnyEndpoint, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Run(suite.Echo())
		expectTooLarge(c, "/run", 10<<20+1)
	}},
	{ID: "LIM-02-forms", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 30, Run: judgeFormsTooLarge("/run", 10<<20+1)},
	{ID: "LIM-03", Level: suite.Unspec, Source: "Limits, /run payload", Statement: "Whether MB is 10^6 or 2^20 bytes for /run.", Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		observeMegabyte(c, "/run", 10)
	}},
	{ID: "LIM-04", Source: "Limits, /runsync payload", Statement: "/runsync accepts a body of 20 MB.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/runsync", nil, suite.Raw(submissionOfSize(20_000_000))).Is(200))
	}},
	{ID: "LIM-05", Source: "Limits, /runsync payload", Statement: "/runsync rejects a body above 20 MB.", Needs: suite.AnyEndpoint, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.RunSync(suite.Echo())
		expectTooLarge(c, "/runsync", 20<<20+1)
	}},
	{ID: "LIM-05-forms", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 30, Run: judgeFormsTooLarge("/runsync", 20<<20+1)},
	{ID: "LIM-06", Level: suite.Unspec, Source: "Limits, /runsync payload", Statement: "Whether MB is 10^6 or 2^20 bytes for /runsync.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		observeMegabyte(c, "/runsync", 20)
	}},
	{ID: "LIM-07", Source: "Endpoints B, rule 1", Statement: "/run and /runsync have different size limits.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/runsync", nil, suite.Raw(submissionOfSize(15_000_000))).Is(200))
		expectTooLarge(c, "/run", 15_000_000)
	}},
	{ID: "LIM-08", Source: "States and transitions, POST /run", Statement: "A rejected submission creates no job.", Jobs: 1, Seconds: 30, Run: func(c *suite.C) {
		c.BusyWorker()
		for _, large := range largeBodies {
			expectTooLarge(c, large.path, large.size)
			expectTooLarge(c, large.path, large.size, suite.Chunked())
		}
		c.Post("/purge-queue", nil).Is(200).Equal("removed", 0)
	}},
	{ID: "LIM-08-bodies", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 30, Requests: 90, Seconds: 30, Run: func(c *suite.C) {
		c.BusyWorker()
		accepted := 0
		for _, path := range []string{"/run", "/runsync?wait=1000"} {
			for _, body := range invalidBodies {
				for _, option := range []suite.Option{func(*suite.Request) {}, suite.Chunked()} {
					if submit(c, path, nil, suite.Raw(body), option).Code/100 == 2 { // other clauses judge refusals
						accepted++
					}
				}
			}
		}
		c.Post("/purge-queue", nil).Is(200).Equal("removed", accepted)
		for _, query := range []string{"wait=soon", "wait=-1"} {
			if submit(c, "/runsync?"+query, suite.Submission(suite.Echo())).Code/100 == 2 {
				return // the deployment chose a valid wait, during which the job may have ended
			}
		}
		c.Post("/purge-queue", nil).Is(200).Equal("removed", 0)
	}},
	{ID: "LIM-09", Source: "Endpoints B, rule 1", Statement: "A body without Content-Length has the same size limit.",
		Needs: suite.AnyEndpoint, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			c.Run(suite.Echo())
			for _, large := range largeBodies {
				expectTooLarge(c, large.path, large.size, suite.Chunked())
			}
		}},
	{ID: "LIM-10", Level: suite.Unspec, Source: "Endpoints B, rule 1", Statement: "How large an output may be.", Jobs: 2, Seconds: 4, Run: func(c *suite.C) {
		// If the larger output is accepted, so is the smaller one.
		for _, n := range []int{21_000_000, 10_000_000} {
			a := c.Run(suite.Bytes(n)).Await(suite.Completed, suite.Failed, suite.Cancelled, suite.TimedOut)
			text, _ := a.ValueOrNil("output").(string)
			c.Observe("an output of %d bytes: %s with %d bytes", n, a.Str("status"), len(text))
			if len(text) == n {
				return
			}
		}
	}},
})

// observeMegabyte observes whether the target's megabyte has 10^6 or 2^20 bytes.
func observeMegabyte(c *suite.C, path string, n int) {
	if a := c.Post(path, nil, suite.Raw(submissionOfSize(n<<20))); a.Code/100 == 2 {
		c.Observe("MB of 2^20 bytes")
		return
	}
	if a := c.Post(path, nil, suite.Raw(submissionOfSize(n*1_000_000+1))); a.Code/100 == 2 {
		c.Observe("more than 10^6 and less than 2^20 bytes for a MB")
		return
	}
	c.Observe("MB of 10^6 bytes")
}

// expectTooLarge expects that a body of n bytes is refused, or the connection closed while it is sent.
func expectTooLarge(c *suite.C, path string, n int, o ...suite.Option) {
	a := c.Post(path, nil, append(o, suite.Raw(submissionOfSize(n)), suite.MayHangUp())...)
	if a.Code == 0 {
		c.Get("/health").Is(200) // the target still works
		return
	}
	a.Refused()
}

// judgeFormsTooLarge expects that all bytes of a body count: white space, multi-byte characters, other members.
func judgeFormsTooLarge(path string, n int) func(*suite.C) {
	return func(c *suite.C) {
		c.BusyWorker()
		const submission = `{"input":{"op":"echo"}`
		pad := func(before, unit, after string) []byte {
			return []byte(before + strings.Repeat(unit, (n-len(before)-len(after))/len(unit)+1) + after)
		}
		for _, body := range [][]byte{
			pad("", " ", submission+"}"), pad(submission+"}", "\n", ""), pad(submission, " ", "}"),
			pad(`{"input":{"op":"echo","pad":"`, "漢", `"}}`), pad(`{"input":{"op":"echo","pad":"`, `\u00e9`, `"}}`),
			pad(submission+`,"s3Config":{"accessId":"`, "x", `"}}`), pad(submission+`,"other":"`, "x", `"}`),
		} {
			a := c.Post(path, nil, suite.Raw(body), suite.MayHangUp())
			if a.Code != 0 {
				a.Refused()
			}
		}
		c.Given("OPS-24", func() { expectHealth(c, "jobs.inQueue", 0) })
	}
}

func submissionOfSize(n int) []byte {
	const before, after = `{"input":{"op":"sleep","pad":"`, `"}}`
	b := bytes.Repeat([]byte{'x'}, n)
	copy(b, before)
	copy(b[n-len(after):], after)
	return b
}

// largeBodies are bodies that exceed a limit whether a MB has 10^6 or 2^20 bytes.
var largeBodies = []struct {
	path string
	size int
}{{"/run", 10<<20 + 500_000}, {"/runsync", 20<<20 + 500_000}}

var invalidBodies = []string{
	`{}`, `{"policy":{}}`, `{"input":"text"}`, `{"input":[{}]}`, `{"input":null}`, `{"input":{}`, ``, `[]`, `nonsense`,
	`{"input":{},"webhook":5}`, `{"input":{},"webhook":"no address"}`, `{"input":{},"policy":"soon"}`, `{"input":{},"policy":{"ttl":"1000"}}`,
	`{"input":{},"policy":{"ttl":1}}`, `{"input":{},"policy":{"executionTimeout":1}}`, `{"input":{},"policy":{"lowPriority":"yes"}}`,
	`{"input":{},"s3Config":[]}`, `{"input":{},"s3Config":{"accessId":5}}`,
}
