package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// retentionCases are of "Limits": how long a result is there.
var retentionCases = []suite.Case{
	{
		ID: "LIM-11", Level: suite.Must, From: "Limits, Result retention (/run)",
		Says:  "The result of /run is there for 30 minutes after the end.",
		Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: retention,
		Run: func(c *suite.C) {
			job := c.Run(suite.Echo(suite.M{"x": "kept"}))
			job.Completed()
			over := job.Answer.Sent // or later
			c.Until(over.Add(retention - c.Early(time.Minute)))
			there := job.Status()
			c.Before(there, over.Add(retention-c.Early(time.Second)/2))
			there.Is(200).Equal("output.x", "kept")
		},
	},
	{ID: "LIM-11-stream", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 1, Takes: retention, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 0))
		over := interval{j.Answer.Sent, j.Completed().Received}
		over.later(retention).just(c)
		chunks := j.Stream().Is(200).Chunks()
		c.Expect(len(chunks) == 3, "3 chunks", "%d chunks", len(chunks))
	}},
	{
		ID: "LIM-12", Level: suite.Must, From: "Limits, Result retention (/run)",
		Says:  "After 30 minutes the result of /run is gone, and the job is not to be retried.",
		Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Seconds: 1, Takes: retention + 2*time.Minute,
		Run: func(c *suite.C) {
			// A retry changes a job: each look has one of its own.
			jobs := []*suite.Job{c.Run(suite.Fail()), c.Run(suite.Fail())}
			jobs[0].Failed()
			over := jobs[1].Failed().Received
			c.By(over.Add(retention), func() {
				job := jobs[0]
				jobs = jobs[1:]
				job.Retry().Refused()
				job.Status().Absent("output")
			})
		},
	},
	// The chunks of a result that is gone are gone, and so are those of a job.
	{ID: "LIM-12-stream", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 1, Takes: retention + 2*time.Minute, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 0))
		over := interval{j.Answer.Sent, j.Completed().Received}
		over.later(retention).by(c, func() { noChunks(c, j) })
	}},
	{
		ID: "LIM-13", Level: suite.Unspec, From: "Errors, Missing result",
		Says:  "The status of a job whose result is gone.",
		Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: retention + 2*time.Minute, Run: func(c *suite.C) {
			j := c.Run(suite.Echo())
			over := j.Completed().Received
			c.Until(over.Add(retention + time.Minute))
			c.Observe("%d", j.Status().Code)
		},
	},
	{
		ID: "LIM-14", Level: suite.Must, From: "Limits, Result retention (/runsync)",
		Says:  "The result of /runsync is there for a minute after the end.",
		Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: time.Minute, Run: func(c *suite.C) {
			j := c.RunSync(suite.Echo(suite.M{"x": "kept"}))
			over := j.Answer.Sent
			c.Until(over.Add(time.Minute - c.Early(5*time.Second)))
			there := j.Status()
			c.Before(there, over.Add(time.Minute-c.Early(time.Second)/2))
			there.Is(200).Equal("output.x", "kept")
		},
	},
	// A result of /runsync is kept for as long whichever way the job ended, and with
	// a wait setting for a minute at least.
	{ID: "LIM-14-failed", More: true, Needs: suite.Own, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: time.Minute, Seconds: 1, Run: func(c *suite.C) {
		keepsRunSync(c, "/runsync", suite.Fail(), suite.Failed)
	}},
	{ID: "LIM-14-wait", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: time.Minute, Seconds: 1, Run: func(c *suite.C) {
		keepsRunSync(c, "/runsync?wait=1000", suite.Echo(suite.M{"x": "kept"}), suite.Completed)
	}},
	{ID: "LIM-14-timed-out", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 70 * time.Second, Seconds: 12, Run: func(c *suite.C) {
		j, ended := timedOutRunSync(c)
		over := ended.later(time.Minute)
		if !over.just(c) {
			c.Inconclusive("the end of the job is not known well enough")
		}
		there := j.Status()
		c.Before(there, over.from)
		there.Is(200).Equal("status", suite.TimedOut)
		j.Retry().Is(200).Equal("status", suite.InQueue)
	}},
	{
		ID: "LIM-15", Level: suite.Must, From: "Limits, Result retention (/runsync)",
		Says:  "Without a wait setting, the result of /runsync is gone after a minute.",
		Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: 2 * time.Minute, Run: func(c *suite.C) {
			j := c.RunSync(suite.Echo(suite.M{"x": "kept"}))
			j.Status().Is(200).Equal("output.x", "kept")
			expired(c, j, j.Answer.Received.Add(time.Minute))
		},
	},
	{ID: "LIM-15-failed", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 2 * time.Minute, Seconds: 1, Run: func(c *suite.C) {
		forgetsRunSync(c, "/runsync", suite.Fail(), time.Minute)
	}},
	{ID: "LIM-15-timed-out", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 2 * time.Minute, Seconds: 6, Run: func(c *suite.C) {
		j, ended := timedOutRunSync(c)
		expired(c, j, ended.to.Add(time.Minute))
	}},
	{ID: "LIM-15-streamed", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 2 * time.Minute, Seconds: 1, Run: func(c *suite.C) {
		forgetsRunSync(c, "/runsync", suite.Stream(3, 0), time.Minute)
	}},
	{
		ID: "LIM-16", Level: suite.Must, From: "Limits, Result retention (/runsync)",
		Says:  "With a wait setting, the result of /runsync is gone after five minutes at the latest.",
		Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: 6 * time.Minute, Run: func(c *suite.C) {
			a := c.Post("/runsync?wait=300000", suite.Submission(suite.Echo(suite.M{"x": "kept"}))).Is(200)
			j := c.JobOf(a)
			j.Status().Is(200).Equal("output.x", "kept")
			expired(c, j, a.Received.Add(5*time.Minute))
		},
	},
	{ID: "LIM-16-failed", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 6 * time.Minute, Seconds: 1, Run: func(c *suite.C) {
		forgetsRunSync(c, "/runsync?wait=300000", suite.Fail(), 5*time.Minute)
	}},
	{ID: "LIM-16-short-wait", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 6 * time.Minute, Seconds: 1, Run: func(c *suite.C) {
		forgetsRunSync(c, "/runsync?wait=1000", suite.Echo(suite.M{"x": "kept"}), 5*time.Minute)
	}},
	{
		ID: "LIM-17", Level: suite.Must, From: "Limits, Result retention (/run)",
		Says:  "The retention counts from the end of the job.",
		Needs: suite.Endpoint | suite.Advanced, Allow: suite.Queue, Jobs: 1, Seconds: 1200, Takes: time.Hour, Run: func(c *suite.C) {
			j := c.Run(suite.Sleep(20*time.Minute, suite.M{"output": "kept"}), suite.ExecutionTimeout(time.Hour))
			j.Running()
			c.Sleep(20 * time.Minute)
			j.Completed()
			over := j.Answer.Sent.Add(20 * time.Minute) // or later
			c.Until(over.Add(retention - c.Early(time.Minute)))
			j.Status().Is(200).Equal("output", "kept")
		},
	},
	// Its retention counts from its end, not from the submission or the answer.
	{ID: "LIM-17-runsync", More: true, Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 5 * time.Minute, Seconds: 125, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		begin := c.Now()
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(2*time.Minute, suite.M{"output": "kept"})))
		c.Sleep(time.Second + c.Grace())
		a := p.Answer()
		if id, ok := a.Find("id"); a.Code != 200 || !ok || id == "" {
			c.Skip("the answer when the wait is over names no job")
		}
		j := c.JobOf(a)
		interval{begin, begin}.later(3 * time.Minute).just(c)
		j.Status().Is(200).Equal("output", "kept")
	}},
	{
		ID: "LIM-18", Level: suite.Should, From: "Limits, Result retention (/run)",
		Says:  "Reading a result does not prolong its retention.",
		Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Requests: 40, Takes: retention + time.Minute, Run: func(c *suite.C) {
			j := c.Run(suite.Echo(suite.M{"x": "kept"}))
			over := j.Completed().Received
			for i := 1; i < 30; i++ {
				c.Until(over.Add(time.Duration(i) * time.Minute))
				j.Status().Is(200)
			}
			expired(c, j, over.Add(retention))
		},
	},
	{
		ID: "LIM-19", Level: suite.Should, From: "Limits, Result retention (/run)",
		Says:  "A retried job has its retention anew.",
		Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: time.Hour, Run: func(c *suite.C) {
			j := c.Run(suite.Fail(suite.M{"times": 1, "x": "kept"}))
			over := j.Failed().Sent
			c.Until(over.Add(29 * time.Minute))
			var again time.Time // or later
			c.Given("JOB-22", func() { again = j.Retry().Is(200).Sent })
			j.Completed()
			c.Until(again.Add(retention - c.Early(time.Minute)))
			j.Status().Is(200).Equal("output.x", "kept")
		},
	},
	{
		ID: "LIM-20", Level: suite.Should, From: "Limits",
		Says:  "Of ttl and retention, the one that is over first counts.",
		Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Seconds: 1, Takes: retention + time.Minute, Run: func(c *suite.C) {
			short, long := c.Run(suite.Echo(), suite.TTL(time.Minute)), c.Run(suite.Echo(), suite.TTL(2*time.Hour))
			short.Completed()
			over := long.Completed().Received
			c.By(short.Answer.Received.Add(time.Minute), func() { short.Status().Is(404) })
			long.Status().Is(200)
			expired(c, long, over.Add(retention))
		},
	},
}

// retention is how long the result of /run is there (Limits).
const retention = 30 * time.Minute

// expired expects that the result is gone when its retention is over. What the
// status of such a job is, the description leaves open.
func expired(c *suite.C, j *suite.Job, over time.Time) {
	c.By(over, func() {
		if a := j.Status(); a.Code/100 == 2 {
			a.Absent("output")
		}
	})
	c.Past(over) // a retry changes the job, so there is one
	j.Retry().Refused()
}

// keepsRunSync expects that a result is there for a minute.
func keepsRunSync(c *suite.C, path string, input suite.M, status string) {
	j, ended := runSync(c, path, input)
	over := ended.later(time.Minute)
	if !over.just(c) {
		c.Inconclusive("the end of the job is not known well enough")
	}
	there := j.Status()
	c.Before(there, over.from)
	there.Is(200).Equal("status", status)
	if status == suite.Failed {
		j.Retry().Is(200).Equal("status", suite.InQueue)
	}
}

// timedOutRunSync is a job of /runsync that timed out.
func timedOutRunSync(c *suite.C) (*suite.Job, interval) {
	begin := c.Now()
	p := c.Start("POST", "/runsync", suite.Submission(suite.Sleep(time.Hour), suite.ExecutionTimeout(shortLimit)))
	for n := 0; n < 4; n++ { // a worker may have to be started first
		c.Sleep(shortLimit + c.Grace())
		if !p.Open() {
			break
		}
	}
	var j *suite.Job
	c.Given("JOB-13", func() { j = c.JobOf(p.Answer().Is(200)) })
	return j, interval{begin.Add(shortLimit), j.TimedOut().Received}
}

// forgetsRunSync expects that a result is gone when its retention is over.
func forgetsRunSync(c *suite.C, path string, input suite.M, kept time.Duration) {
	j, ended := runSync(c, path, input)
	expired(c, j, ended.to.Add(kept))
	noChunks(c, j)
}

// runSync submits a job that ends at once, and waits for it.
func runSync(c *suite.C, path string, input suite.M) (*suite.Job, interval) {
	begin := c.Now()
	var j *suite.Job
	c.Given("JOB-13", func() {
		a := c.Post(path, suite.Submission(input)).Is(200)
		if id, ok := a.Find("id"); !ok || id == "" { // a worker had to be started first
			c.Skip("the answer when the wait is over names no job")
		}
		j = c.JobOf(a)
	})
	ended := j.Await(suite.Completed, suite.Failed).Received
	return j, interval{begin, ended}
}

// noChunks expects that a stream has none, whatever else it answers.
func noChunks(c *suite.C, j *suite.Job) {
	p := c.Start("GET", "/stream/"+j.ID, nil)
	for n := 0; n < 3 && p.Open(); n++ {
		c.Sleep(10 * time.Second)
	}
	n := chunksIn(p.Answer())
	c.Expect(n == 0, "no chunk of a result that is gone", "%d chunks", n)
}

// chunksIn is how many chunks an answer has that need have none: it may be of
// another form.
func chunksIn(a *suite.Answer) int {
	for _, path := range []string{"", "stream"} {
		if list, ok := a.Find(path); ok {
			if chunks, ok := list.([]any); ok && a.Code/100 == 2 {
				return len(chunks)
			}
		}
	}
	return 0
}
