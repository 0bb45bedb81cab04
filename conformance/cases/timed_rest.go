package cases

import (
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// timedRest are the combinations of times that are no product of a stage and an
// effect: with webhooks, streams, beacons and held requests. Where the clock can't
// be advanced, a few of them stand for the others, which would cost too much.
var timedRest = []suite.Case{
	// A job whose ttl is over in the queue never runs, and neither does one that was
	// retried.
	{ID: "SUB-22-never-runs", Needs: suite.Own | suite.Hooks, Allow: suite.Queue, Requests: 60, Jobs: 3, Takes: 65 * time.Second, Seconds: 32, Run: func(c *suite.C) {
		blocker := c.Blocker(30 * time.Second)
		box, control := c.Box(), c.Box()
		j := c.Run(suite.Beacon(box, 0, 0), suite.TTL(10*time.Second))
		neverRuns(c, j, blocker, box.Calls, control)
	}},
	{ID: "SUB-26-never-runs", Needs: suite.Own | suite.Hooks | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 3, Takes: 100 * time.Second, Seconds: 100, Run: func(c *suite.C) {
		box, control := c.Box(), c.Box()
		j := c.Run(suite.Beacon(box, 0, time.Hour), suite.Policy(suite.M{"ttl": 45_000, "executionTimeout": 5000}))
		j.Running()
		c.Sleep(5*time.Second + c.Grace())
		j.TimedOut()
		blocker := c.Blocker(60 * time.Second)
		c.Given("JOB-23", func() { j.Retry().Is(200) })
		calls := len(box.Calls())
		neverRuns(c, j, blocker, func() []call { return box.Calls()[calls:] }, control)
	}},
	// Whoever waits in /runsync for a job whose ttl is over gets no result. What the
	// answer is, is open.
	{ID: "SUB-22-runsync", Needs: suite.Own | suite.Hooks | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 3, Takes: 4 * time.Minute, Seconds: 32, Run: func(c *suite.C) {
		blocker := c.Blocker(30 * time.Second)
		box, control := c.Box(), c.Box()
		p := c.Start("POST", "/runsync?wait=120000", suite.Submission(suite.Beacon(box, 0, 0), suite.TTL(10*time.Second)))
		c.Sleep(10*time.Second + c.Grace())
		c.Sleep(25 * time.Second)
		blocker.Completed()
		c.Run(suite.Beacon(control, 0, 0)).Completed()
		c.Given("JOB-16", func() { c.Expect(len(c.Calls(control, 1)) > 0, "a beacon of a job that runs", "no beacon") })
		c.Expect(len(box.Calls()) == 0, "no execution of a job whose ttl is over", "%d executions", len(box.Calls()))
		noResult(c, p, 2*time.Minute)
	}},
	{ID: "SUB-23-runsync", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 3 * time.Minute, Seconds: 60, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		p := c.Start("POST", "/runsync?wait=120000", suite.Submission(suite.Sleep(time.Minute, suite.M{"output": "late"}), suite.TTL(10*time.Second)))
		c.Sleep(10*time.Second + c.Grace())
		noResult(c, p, 2*time.Minute)
	}},
	// A job of low priority expires like any other, and stays one when it is retried.
	{ID: "SUB-18-retried", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 150, Jobs: 3, Takes: 10 * time.Minute, Seconds: 5, Run: func(c *suite.C) {
		low := c.Run(suite.Fail(suite.M{"times": 1}), suite.Policy(suite.M{"lowPriority": true}))
		c.Run(suite.Echo()).Completed() // starts a worker, which takes the other one too
		low.Failed()
		for range 20 {
			a := c.Get("/health").Is(200)
			if a.Int("workers.idle")+a.Int("workers.running") == 0 {
				break
			}
			c.Sleep(15 * time.Second)
		}
		a := c.Get("/health").Is(200)
		if a.Int("workers.idle")+a.Int("workers.running") > 0 {
			c.Skip("the worker of the endpoint does not go away")
		}
		c.Given("JOB-22", func() { low.Retry().Is(200) })
		c.Should(func() {
			for range 6 {
				c.Sleep(10 * time.Second)
				low.Status().Is(200).Equal("status", suite.InQueue)
			}
		})
		c.Run(suite.Echo()).Completed()
		low.Await(suite.Completed)
	}},
	{ID: "SUB-18-runsync", Needs: suite.Own, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 65 * time.Second, Seconds: 2, Run: func(c *suite.C) {
		p := c.Start("POST", "/runsync?wait=120000", suite.Submission(suite.Echo(), suite.Policy(suite.M{"lowPriority": true})))
		for range 6 {
			p.Sleep(10 * time.Second)
			c.Expect(p.Open(), "no answer while no worker is started", "an answer")
		}
		c.Run(suite.Echo()).Completed() // this one starts a worker
		p.Answer().Is(200).Equal("status", suite.Completed)
	}},
	// The time-out of the policy comes before that of the endpoint, also for a run
	// after a retry.
	{ID: "SUB-15-endpoint", Needs: suite.LocalOnly | suite.V2 | suite.Advanced, Allow: suite.Create | suite.Queue, Requests: 90, Jobs: 3, Takes: 6 * time.Minute, Seconds: 400, Run: func(c *suite.C) {
		c.E = c.NewEndpoint(3, suite.M{"timeout": 60_000})
		shown := c.V2("GET", "/serverless/"+c.E, nil)
		if n, _ := shown.Find("timeout"); shown.Code != 200 || !suite.Same(n, 60_000) {
			c.Skip("the endpoint shows no time-out")
		}
		for _, limit := range []time.Duration{time.Minute, 20 * time.Second, 3 * time.Minute} {
			policy := suite.M{}
			if limit != time.Minute { // which is the endpoint's
				policy = suite.ExecutionTimeout(limit)
			}
			j := c.Run(suite.Sleep(time.Hour), policy)
			runsFor(c, j, during(j.Answer), limit)
			var again *suite.Answer
			c.Given("JOB-23", func() { again = j.Retry().Is(200) })
			runsFor(c, j, during(again), limit)
		}
	}},
	// The bounds of a policy are kept, not only accepted.
	{ID: "SUB-13-kept", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 1, Takes: 7 * day, Seconds: 600_000, Run: func(c *suite.C) {
		const limit = 6*day + 12*time.Hour
		j := c.Run(suite.Sleep(7*day), suite.Policy(suite.M{"executionTimeout": limit.Milliseconds(), "ttl": (7 * day).Milliseconds()}))
		runsFor(c, j, during(j.Answer), limit)
	}},
	{ID: "SUB-21-kept", Needs: suite.Idle | suite.Advanced, Allow: suite.Queue, Requests: 20, Jobs: 1, Takes: 7 * day, Run: func(c *suite.C) {
		j := c.Run(suite.Echo(), suite.TTL(7*day))
		over := during(j.Answer).later(7 * day)
		over.just(c)
		j.Status().Is(200).Equal("status", suite.InQueue)
		over.isGone(c, j)
	}},
	// Without a policy a job of /runsync has the same times.
	{ID: "SUB-19-runsync", Needs: suite.Idle | suite.Advanced, Allow: suite.Queue, Requests: 20, Jobs: 1, Takes: day, Run: func(c *suite.C) {
		begin := c.Now()
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Echo()))
		c.Sleep(time.Second + c.Grace())
		a := p.Answer()
		if id, ok := a.Find("id"); a.Code != 200 || !ok || id == "" {
			c.Skip("the answer when the wait is over names no job")
		}
		j := c.JobOf(a)
		over := interval{begin, begin}.later(day)
		over.just(c)
		j.Status().Is(200).Equal("status", suite.InQueue)
		over.isGone(c, j)
	}},
	{ID: "SUB-19-running", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 1, Takes: day, Seconds: 90_000, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(2*day), suite.ExecutionTimeout(2*day))
		j.Running()
		over := during(j.Answer).later(day)
		over.just(c)
		j.Status().Is(200).Equal("status", suite.InProgress)
		over.isGone(c, j)
	}},
	{ID: "SUB-09-runsync", Needs: suite.Own | suite.Advanced, Allow: suite.Queue | suite.Spend, Requests: 60, Jobs: 2, Takes: 11 * time.Minute, Seconds: 600, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		begin := c.Now()
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(time.Hour)))
		c.Sleep(time.Second + c.Grace())
		a := p.Answer()
		if id, ok := a.Find("id"); a.Code != 200 || !ok || id == "" {
			c.Skip("the answer when the wait is over names no job")
		}
		runsFor(c, c.JobOf(a), interval{begin, begin}, 10*time.Minute)
	}},
	// An execution that times out or fails is an end, for which /runsync waits, and
	// no longer.
	{ID: "OPS-07-timed-out", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 22 * time.Second, Seconds: 12, Run: func(c *suite.C) {
		endsTheWait(c, suite.TimedOut, suite.Submission(suite.Sleep(time.Hour), suite.ExecutionTimeout(10*time.Second)))
	}},
	{ID: "OPS-07-failed", Needs: suite.Own, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 22 * time.Second, Seconds: 12, Run: func(c *suite.C) {
		endsTheWait(c, suite.Failed, suite.Submission(suite.Stream(1, 10*time.Second, suite.M{"message": "failed"})))
	}},
	// A job that waits when the wait is over goes on waiting, and runs.
	{ID: "OPS-06-queued", Needs: suite.Own | suite.Hooks | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 30 * time.Second, Seconds: 22, Run: func(c *suite.C) {
		c.Blocker(20 * time.Second)
		box := c.Box()
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Beacon(box, 0, 0)))
		c.Sleep(time.Second + c.Grace())
		p.Answer()
		c.Expect(len(box.Calls()) == 0, "a job that waits", "%d executions", len(box.Calls()))
		c.Sleep(20*time.Second + c.Grace())
		calls := c.Calls(box, 1)
		c.Expect(len(calls) == 1, "one execution", "%d executions", len(calls))
	}},
	// The wait is the one that was asked for, wherever it lies between its bounds.
	{ID: "OPS-03-elapsed", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 310 * time.Second, Seconds: 400, Run: waits300},
	{ID: "OPS-02-elapsed", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 25 * time.Second, Seconds: 40, Run: func(c *suite.C) {
		waitsFor(c, 20*time.Second)
	}},
	// A result of /runsync is kept for as long whichever way the job ended, and with
	// a wait setting for a minute at least.
	{ID: "LIM-14-failed", Needs: suite.Own, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: time.Minute, Seconds: 1, Run: func(c *suite.C) {
		keepsRunSync(c, "/runsync", suite.Fail(), suite.Failed)
	}},
	{ID: "LIM-14-wait", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: time.Minute, Seconds: 1, Run: func(c *suite.C) {
		keepsRunSync(c, "/runsync?wait=1000", suite.Echo(suite.M{"x": "kept"}), suite.Completed)
	}},
	{ID: "LIM-15-failed", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 2 * time.Minute, Seconds: 1, Run: func(c *suite.C) {
		forgetsRunSync(c, "/runsync", suite.Fail(), time.Minute)
	}},
	{ID: "LIM-14-timed-out", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 70 * time.Second, Seconds: 12, Run: func(c *suite.C) {
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
	{ID: "LIM-15-timed-out", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 2 * time.Minute, Seconds: 6, Run: func(c *suite.C) {
		j, ended := timedOutRunSync(c)
		expired(c, j, ended.to.Add(time.Minute))
	}},
	{ID: "LIM-15-streamed", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 2 * time.Minute, Seconds: 1, Run: func(c *suite.C) {
		forgetsRunSync(c, "/runsync", suite.Stream(3, 0), time.Minute)
	}},
	{ID: "LIM-16-failed", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 6 * time.Minute, Seconds: 1, Run: func(c *suite.C) {
		forgetsRunSync(c, "/runsync?wait=300000", suite.Fail(), 5*time.Minute)
	}},
	{ID: "LIM-16-short-wait", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 1, Takes: 6 * time.Minute, Seconds: 1, Run: func(c *suite.C) {
		forgetsRunSync(c, "/runsync?wait=1000", suite.Echo(suite.M{"x": "kept"}), 5*time.Minute)
	}},
	// Its retention counts from its end, not from the submission or the answer.
	{ID: "LIM-17-runsync", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 5 * time.Minute, Seconds: 125, Run: func(c *suite.C) {
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
	// The chunks of a result that is gone are gone, and so are those of a job.
	{ID: "LIM-12-stream", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 1, Takes: retention + 2*time.Minute, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 0))
		over := interval{j.Answer.Sent, j.Completed().Received}
		over.later(retention).by(c, func() { noChunks(c, j) })
	}},
	{ID: "LIM-11-stream", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 1, Takes: retention, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 0))
		over := interval{j.Answer.Sent, j.Completed().Received}
		over.later(retention).just(c)
		chunks := j.Stream().Is(200).Chunks()
		c.Expect(len(chunks) == 3, "3 chunks", "%d chunks", len(chunks))
	}},
	// What a run streamed that was retried is not the stream of the next one.
	{ID: "JOB-26-chunks", Needs: suite.Own, Allow: suite.Queue, Requests: 90, Jobs: 2, Takes: 70 * time.Second, Seconds: 35, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 5*time.Second, suite.M{"message": "failed"}))
		j.Running()
		c.Sleep(15*time.Second + c.Grace())
		j.Failed()
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.Running()
		c.Sleep(15*time.Second + c.Grace())
		j.Failed()
		chunks := j.Stream().Is(200).Chunks()
		c.Expect(len(chunks) == 3, "the 3 chunks of the last run", "%d chunks", len(chunks))
		for i, chunk := range chunks {
			c.Expect(number(chunk) == strconv.Itoa(i), "the chunks 0 to 2, each once", "chunk %s in place of %d", number(chunk), i)
		}
	}},
	{ID: "JOB-26-chunks-queued", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Requests: 90, Jobs: 2, Takes: 2 * time.Minute, Seconds: 60, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 0, suite.M{"message": "failed"}))
		j.Failed()
		c.BusyWorker()
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.InQueue()
		p := c.Start("GET", "/stream/"+j.ID, nil)
		for n := 0; n < 3 && p.Open(); n++ {
			c.Sleep(10 * time.Second)
		}
		if !p.Open() {
			a := p.Answer()
			c.Expect(chunksIn(a) == 0, "no chunk of the former run", "the body %s", a.Body)
		}
	}},
}

type call = env.Call

// neverRuns expects that a job whose ttl is over while a blocker runs is gone, and
// does not begin when the blocker ends.
func neverRuns(c *suite.C, j, blocker *suite.Job, calls func() []call, control *env.Box) {
	ended := blocker.Answer.Received.Add(time.Minute)
	c.Until(ended.Add(c.Grace()))
	blocker.Await(suite.Completed)
	c.Run(suite.Beacon(control, 0, 0)).Completed()
	c.Given("JOB-16", func() { c.Expect(len(c.Calls(control, 1)) > 0, "a beacon of a job that runs", "no beacon") })
	c.Expect(len(calls()) == 0, "no execution of a job whose ttl is over", "%d executions", len(calls()))
	j.Status().Is(404)
}

// noResult expects that a held /runsync is not answered with a result.
func noResult(c *suite.C, p *suite.Pending, wait time.Duration) {
	for n := time.Duration(0); n <= wait && p.Open(); n += 15 * time.Second {
		c.Sleep(15 * time.Second)
	}
	a := p.Answer()
	status, _ := a.Find("status")
	c.Expect(a.Code != 200 || status != suite.Completed, "no result of a job whose ttl is over", "%d, status %v", a.Code, status)
}

// runsFor expects that a job runs for so long from its start, which follows its
// queueing, and no longer.
func runsFor(c *suite.C, j *suite.Job, queued interval, limit time.Duration) {
	started := interval{queued.from, j.Running().Received}
	over := started.later(limit)
	if over.just(c) {
		there := j.Status()
		c.Before(there, over.from)
		there.Is(200).Equal("status", suite.InProgress)
	}
	over.by(c, func() { j.Status().Is(200).Equal("status", suite.TimedOut) })
}

// endsTheWait expects that /runsync answers at the end of a job that does not
// succeed, after ten seconds.
func endsTheWait(c *suite.C, status string, submission suite.M) {
	c.Run(suite.Echo()).Completed() // a worker is ready now
	begin := c.Now()
	p := c.Start("POST", "/runsync?wait=300000", submission)
	c.Until(begin.Add(10*time.Second - c.Early(2*time.Second)))
	c.Expect(p.Open(), "no answer before 10 s", "an answer before that")
	ends := begin.Add(10 * time.Second)
	if status == suite.TimedOut {
		c.By(ends, func() { c.Expect(answered(p), "an answer when the job is over", "no answer") })
	}
	c.Until(ends.Add(c.Late(10 * time.Second)))
	a := p.Answer().Is(200).Equal("status", status)
	c.JobOf(a)
}

// answered gives an answer that is under way the moment that it needs on the wall.
func answered(p *suite.Pending) bool {
	for n := 0; n < 100 && p.Open(); n++ {
		continue // Open waits for some milliseconds
	}
	return p.Over()
}

func waits300(c *suite.C) { waitsFor(c, 5*time.Minute) }

// waitsFor expects that a wait lasts as long as was asked for, in the queue as
// well as while the job runs.
func waitsFor(c *suite.C, wait time.Duration) {
	begin := c.Now()
	path := "/runsync?wait=" + strconv.FormatInt(wait.Milliseconds(), 10)
	submission := suite.Submission(suite.Sleep(2 * wait))
	runs, queued := c.Start("POST", path, submission), c.Start("POST", path, submission)
	c.Until(begin.Add(wait - c.Early(2*time.Second)))
	c.Expect(runs.Open() && queued.Open(), "no answer before "+wait.String(), "an answer before that")
	c.Until(begin.Add(wait + c.Late(10*time.Second)))
	runs.Answer()
	queued.Answer()
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
