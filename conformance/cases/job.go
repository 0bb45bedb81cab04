package cases

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// jobCases judge the section "Job": the members of a job, and who sees it.
var jobCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint}, []suite.Case{
	{ID: "JOB-01", Source: "What the service does, 2", Statement: "The job API of an endpoint is below /v2/{endpoint_id}/ and nowhere else.", Run: func(c *suite.C) {
		c.Get("/health").Is(200).Object("jobs")
		unversioned := c.Do("GET", c.Target.Queue()+"/"+suite.PathSegment(c.Endpoint)+"/health", nil)
		_, hasJobs := unversioned.Find("jobs") // the path may have a web page
		unversioned.Expect(unversioned.Code/100 != 2 || !hasJobs, "no such path without /v2")
	}},
	{ID: "JOB-01-every", Needs: suite.OwnEndpoint | suite.SecondEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 60, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, op := range jobOperations {
			for _, id := range s.ids(op) {
				c.Do(op.method, c.Target.Queue()+"/"+suite.PathSegment(c.Endpoint)+op.pathFor(id), op.validBody(c, nil, c.Nonce())) // the description doesn't say what is at this path
			}
		}
		c.Job("POST", c.SecondEndpoint, "/purge-queue", nil).Is(200).Equal("removed", 0) // the queue of another endpoint
		s.expectUnchanged()
	}},
	{ID: "JOB-02", Source: "What the service does, 3", Statement: "If no worker is free, a job waits in the queue.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, WaitTime: 2 * time.Second, Seconds: 30, Run: func(c *suite.C) {
			c.Blocker(10 * time.Minute)
			j := c.Run(suite.Echo())
			j.Status().Is(200).Equal("status", suite.InQueue)
			c.Sleep(2 * time.Second)
			j.Status().Is(200).Equal("status", suite.InQueue)
		}},
	{ID: "JOB-03", Source: "Job, id", Statement: "A job has an id, a non-empty string.", Allow: suite.Queue, Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
		for _, path := range []string{"/run", "/runsync"} {
			j := c.JobOf(c.Post(path, suite.Submission(suite.Echo())).Is(200))
			j.Status().Is(200).Equal("id", j.ID)
		}
	}},
	{ID: "JOB-03-every", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 40, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		for _, j := range newScene(c).jobs() {
			j.Status().Is(200).Equal("id", j.ID)
		}
	}},
	{ID: "JOB-04", Source: "Job, id", Statement: "Two jobs never have the same id.", Allow: suite.Queue, Jobs: 100, Requests: 100, Seconds: 100, Run: func(c *suite.C) {
		ids := map[string]bool{}
		for range localOrRemote(c, 100, 5) {
			id := c.Run(suite.Echo()).ID
			c.Expect(!ids[id], "an id of its own", "the id %s again", id)
			ids[id] = true
		}
	}},
	{ID: "JOB-05", Level: suite.Must, Source: "States and transitions",
		Statement: "A status is one of IN_QUEUE, IN_PROGRESS, COMPLETED, FAILED, CANCELLED and TIMED_OUT.",
		Live:      suite.LiveLevel{Level: suite.Should, Reason: "RunPod's documentation of job states lists RUNNING too"},
		Needs:     suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, Seconds: 20, WaitTime: 20 * time.Second,
		Watch: func(w *suite.WatchedExchange) string {
			if w.Status != "" && !slices.Contains(suite.Statuses, w.Status) {
				return fmt.Sprintf("the status %q", w.Status)
			}
			return ""
		},
		Run: func(c *suite.C) {
			blocker := c.Run(suite.Sleep(20 * time.Second))
			blocker.Await(suite.InProgress)
			queued := c.Run(suite.Echo()).Reach(suite.InQueue)
			queued.Cancel().Is(200)
			c.Until(blocker.StartedBefore.Add(20 * time.Second))
			blocker.Await(suite.Completed)
		}},
	{ID: "JOB-09", Source: "Job, output", Statement: "The output is the JSON value that the handler returned, of any type.",
		Allow: suite.Queue, Jobs: 22, Requests: 60, Seconds: 22, Run: func(c *suite.C) {
			g := generator{c.Random()}
			outputs := []any{
				suite.M{"a": suite.M{"b": []any{1, "two", nil, true}}}, []any{1, []any{}, suite.M{}}, "text", "", "ünï – 漢字 🚀", int64(9007199254740991), -1, 1e-7, 0, true, false, suite.M{}, []any{}, nil,
				g.longText(70_000), g.number(), g.text(), []any{g.allValues()}, g.allValues()["numbers"],
			}
			for range localOrRemote(c, 3, 0) {
				outputs = append(outputs, g.value(4))
			}
			for _, output := range outputs {
				expectOutput(c, submissionText(g, suite.Sleep(0, suite.M{"output": output})), output)
			}
		}},
	{ID: "JOB-10", Level: suite.May, Source: "Job, output", Statement: "An unfinished job has no output, or at least not another job's.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 3, Seconds: 30, Run: func(c *suite.C) {
			first := c.RunSync(suite.Echo()).Answer.Value("output")
			c.Blocker(30 * time.Second)
			output := c.Run(suite.Echo(suite.M{"nonce": c.Nonce()})).AwaitInQueue().ValueOrNil("output")
			c.Expect(output == nil || !suite.Same(output, first), "no output of another job", "the output %s", suite.JSONText(output))
		}},
	{ID: "JOB-40", Level: suite.Should, Source: "Errors, 404", Statement: "An unknown job id returns 404.", Requests: 6, Run: func(c *suite.C) {
		c.Get("/health").Is(200) // the endpoint exists, but not the job
		id := c.Nonce()
		for _, op := range operationsOnJobs {
			op.send(c, id, nil).Is(404, 400) // the id may be malformed
		}
	}},
	{ID: "JOB-40-like", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 40, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, j := range s.jobs() {
			for _, op := range operationsOnJobs {
				op.send(c, suite.SimilarID(j.ID), nil).Is(404)
			}
		}
		s.expectUnchanged()
	}},
	{ID: "JOB-40-form", Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 1, Requests: 16, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Echo()).Reach(suite.Completed)
		for _, op := range operationsOnJobs {
			op.send(c, suite.SimilarID(j.ID), nil).Is(404)
		}
	}},
	{ID: "JOB-41", Level: suite.Should, Source: "Errors, 404", Statement: "Another endpoint doesn't return the job.",
		Needs: suite.AnyEndpoint | suite.SecondEndpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			j := c.RunSync(suite.Echo(suite.M{"nonce": c.Nonce()}))
			j.Status().Is(200)
			c.Job("GET", c.SecondEndpoint, j.Path("status"), nil).Is(404, 403)
		}},
	{ID: "JOB-41-every", Needs: suite.OwnEndpoint | suite.SecondEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 60, WaitTime: 20 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, op := range operationsOnJobs {
			for _, j := range s.jobs() {
				a := c.Job(op.method, c.SecondEndpoint, op.pathFor(j.ID), nil)
				a.Expect(a.IsRefusal() || a.Code == 403, op.String()+" through another endpoint: 404 or 403")
			}
		}
		s.requestTTL(c.SecondEndpoint)
		for _, j := range s.jobs() {
			c.Job("GET", c.SecondEndpoint, "/requests", nil).NotContains(j.ID)
		}
		c.Job("POST", c.SecondEndpoint, "/purge-queue", nil).Is(200).Equal("removed", 0)
		s.expectUnchanged()
	}},
	{ID: "JOB-42", Level: suite.Should, Source: "Endpoints B, GET /status", Statement: "Reading a status doesn't change the job.",
		Allow: suite.Queue, Jobs: 1, Requests: 25, Seconds: 1, Run: func(c *suite.C) {
			j := c.Run(suite.Echo(suite.M{"nonce": c.Nonce()}))
			first := j.AwaitCompleted()
			for range 20 {
				second := j.Status().Is(200)
				for _, field := range []string{"id", "status", "output", "delayTime", "executionTime"} {
					second.Equal(field, first.Value(field)) // other fields may depend on the current time
				}
			}
		}},
	{ID: "JOB-43", Source: "Endpoints B, GET /status", Statement: "The status of a COMPLETED job has delayTime, executionTime, id and status.",
		Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			j := c.Run(suite.Echo())
			a := j.AwaitCompleted().Equal("id", j.ID)
			a.Int("delayTime")
			a.Int("executionTime")
		}},
	{ID: "JOB-44", Level: suite.Must, Source: "Endpoints B, GET /status",
		Statement: "?ttl= of /status sets the time to live of the job.",
		Live:      suite.LiveLevel{Level: suite.Unspec, Reason: "RunPod's documentation shows ?ttl=6000"},
		Needs:     suite.IdleEndpoint, Allow: suite.Queue, Jobs: 2, WaitTime: 17 * time.Second, Run: func(c *suite.C) {
			j, other := c.Run(suite.Echo()), c.Run(suite.Echo())
			due := j.Answer.Sent.Add(10 * time.Second)
			answer := c.Get(j.Path("status") + "?ttl=10000").IfBefore(due).Is(200)
			c.Until(due.Add(-time.Second))
			j.Status().IfBefore(due).Is(200)
			intervalOf(answer).add(10*time.Second).expectDeleted(c, j) // the description doesn't say from when the ttl counts
			other.Status().Is(200).Equal("status", suite.InQueue)
		}},
	{ID: "JOB-45", Level: suite.Unspec, Source: "Endpoints B, GET /status", Statement: "The bounds of ?ttl=.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, Seconds: 60, Run: func(c *suite.C) {
			c.Blocker(60 * time.Second)
			j := c.Run(suite.Echo())
			for _, ttl := range []string{"6000", "9999", "604800001", "abc"} {
				c.Observe("ttl=%s: %d", ttl, c.Get(j.Path("status")+"?ttl="+ttl).Code)
			}
			c.Should(func() { c.Get(j.Path("status") + "?ttl=abc").Is(400) })
		}},
	{ID: "JOB-46", Level: suite.Should, Source: "Endpoints B", Statement: "An operation rejects HTTP methods that it doesn't have, and such a request changes nothing.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 120, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
			s := newScene(c)
			for _, op := range jobOperations {
				for _, method := range otherMethods(c, op) {
					for _, id := range s.ids(op) {
						expectRefusedIfServed(sendTo(c, jobAPI, method, op.pathFor(id), bodyFor(method, suite.Submission(suite.Echo()))))
					}
				}
			}
			s.expectUnchanged()
		}},
	{ID: "JOB-48", Source: "States and transitions", Statement: "Only POST changes a job: GET, HEAD and OPTIONS of /run, /runsync, /cancel, /retry and /purge-queue don't.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 100, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
			s := newScene(c)
			for _, op := range jobOperations {
				if op.method == http.MethodPost && !isOpenAI(op) {
					for _, id := range s.ids(op) {
						for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
							sendTo(c, jobAPI, method, op.pathFor(id), op.validBody(c, nil, c.Nonce()))
						}
					}
				}
			}
			s.expectUnchanged()
		}},
})

// jobTimeCases judge delayTime and executionTime of the section "Job" against times that the case caused.
// The description states no unit, so other units than milliseconds cause a warning at most.
var jobTimeCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "JOB-06", Source: "Job, delayTime", Statement: "delayTime is an integer, and should be in milliseconds.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		delay := c.RunSync(suite.Echo()).Answer.Int("delayTime")
		c.Expect(delay >= 0, "a time that is not negative", "delayTime = %d", delay)
	}},
	{ID: "JOB-06-at-once", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 45 * time.Second, Seconds: 35, Run: func(c *suite.C) {
		c.Run(suite.Echo()).AwaitCompleted() // starts a worker
		j := c.Run(suite.Sleep(runTime))
		started := j.AwaitRunning().Received
		c.Sleep(runTime + c.Grace())
		expectMilliseconds(c, j.AwaitCompleted(), "delayTime", span{0, started.Sub(j.Answer.Sent)})
	}},
	// The times of a retried job may cover its last run or all runs.
	{ID: "JOB-06-retried", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 90, Jobs: 2, WaitTime: 4 * time.Minute, Seconds: 140, Run: func(c *suite.C) {
		f := failTwice(c)
		expectMilliseconds(c, f.status, "delayTime", f.inQueue, f.sinceSubmission)
	}},
	// A running job may already have its delay.
	{ID: "JOB-06-running", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: func(c *suite.C) {
		var j *suite.Job
		free := occupyWorker(c, func() { j = c.Run(suite.Sleep(runTime)) })
		a := j.AwaitRunning()
		expectTimeIfShown(c, a, "delayTime", span{free.Sub(j.Answer.Received), a.Received.Sub(j.Answer.Sent)})
		j.Cancel()
	}},
	{ID: "JOB-07", Source: "Job, executionTime", Statement: "executionTime is an integer, and should be in milliseconds.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		took := c.RunSync(suite.Echo()).Answer.Int("executionTime")
		c.Expect(took >= 0, "a time that is not negative", "executionTime = %d", took)
	}},
	{ID: "JOB-07-ran", Supplementary: true, Clauses: []string{"JOB-06"}, Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: judgeTimesIfShown(suite.Completed, suite.Sleep(runTime))},
	{ID: "JOB-07-at-once", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 40, Jobs: 2, WaitTime: 2 * time.Second, Seconds: 85, Run: func(c *suite.C) {
		blocker := c.Blocker(waitTime)
		j := c.Run(suite.Echo())
		c.Sleep(waitTime + c.Grace())
		blocker.AwaitCompleted()
		ended := j.AwaitCompleted()
		// The job's wait may have any length.
		expectMilliseconds(c, ended, "executionTime", span{0, c.Grace() + ended.Received.Sub(blocker.Answer.Received.Add(waitTime))})
	}},
	// A job that is not COMPLETED may have its times, too.
	{ID: "JOB-07-failed", Supplementary: true, Clauses: []string{"JOB-06"}, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: judgeTimesIfShown(suite.Failed, suite.Stream(1, runTime, suite.M{"message": "failed"}))},
	{ID: "JOB-07-timed-out", Supplementary: true, Clauses: []string{"JOB-06"}, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: judgeTimesIfShown(suite.TimedOut, suite.Sleep(time.Hour), suite.ExecutionTimeout(runTime))},
	{ID: "JOB-07-cancelled", Supplementary: true, Clauses: []string{"JOB-06"}, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: func(c *suite.C) {
		a, delay, execution := runAfterWait(c, suite.Cancelled, suite.Sleep(time.Hour))
		expectTimeIfShown(c, a, "executionTime", span{0, execution.max}) // a cancelled job may have no times
		expectTimeIfShown(c, a, "delayTime", span{0, delay.max})
	}},
	{ID: "JOB-07-retried", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 90, Jobs: 2, WaitTime: 4 * time.Minute, Seconds: 140, Run: func(c *suite.C) {
		f := failTwice(c)
		expectMilliseconds(c, f.status, "executionTime", f.lastRun, f.bothRuns)
	}},
	{ID: "JOB-08", Level: suite.Unspec, Source: "Job, executionTime", Statement: "Whether executionTime is in milliseconds or in seconds.",
		Jobs: 1, WaitTime: 2 * time.Second, Seconds: 2, Run: func(c *suite.C) {
			j := c.Run(suite.Sleep(2 * time.Second))
			c.Given("JOB-15", func() { j.Await(suite.InProgress, suite.Completed) })
			c.Sleep(2 * time.Second)
			switch took := j.AwaitCompleted().Number("executionTime"); {
			case took >= 2000 && took < 60_000:
				c.Observe("milliseconds")
			case took >= 2 && took < 60:
				c.Observe("seconds")
			default:
				c.Observe("%v for 2 s", took)
			}
		}},
	{ID: "JOB-14", Source: "Endpoints B, POST /runsync", Statement: "POST /runsync returns the whole result: status, delayTime, executionTime, id, output.",
		Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
			nonce := c.Nonce()
			c.Run(suite.Echo()).AwaitCompleted() // starts a worker
			a := c.Post("/runsync", suite.Submission(suite.Echo(suite.M{"nonce": nonce}))).Is(200).Equal("status", suite.Completed).Equal("output.nonce", nonce)
			a.Str("id")
			a.Int("delayTime")
			a.Int("executionTime")
		}},
	{ID: "JOB-14-failed", Supplementary: true, Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		a := c.Post("/runsync", suite.Submission(suite.Fail())).Is(200).Equal("status", suite.Failed)
		c.Should(func() { a.Int("delayTime"); a.Int("executionTime") })
	}},
	// The answer to /runsync has the same times.
	{ID: "JOB-14-times", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: func(c *suite.C) {
		var begin time.Time
		var p *suite.Pending
		free := occupyWorker(c, func() {
			begin = c.Now()
			p = c.Start("POST", "/runsync?wait=300000", suite.Submission(suite.Sleep(runTime, suite.M{"output": "done"})))
		})
		c.Sleep(runTime + c.Grace())
		a := p.Answer().Is(200).Equal("status", suite.Completed).Equal("output", "done")
		j, ended := c.JobOf(a), c.Now()
		expectTime(c, a, "delayTime", span{free.Sub(begin), ended.Sub(begin) - runTime})
		expectTime(c, a, "executionTime", span{runTime, ended.Sub(free)})
		status := j.Status().Is(200)
		for _, name := range []string{"delayTime", "executionTime"} {
			status.Equal(name, a.Value(name))
		}
	}},
})

// How long a job waits and runs. The two times differ, so that a case can tell them apart.
const (
	waitTime = 70 * time.Second
	runTime  = 30 * time.Second
)

// span has the shortest and the longest duration that a wait or a run may have had.
type span struct{ min, max time.Duration }

// occupyWorker keeps the worker busy for waitTime, and calls submit meanwhile. It returns the
// earliest time at which the worker was free again.
func occupyWorker(c *suite.C, submit func()) (free time.Time) {
	blocker := c.Run(suite.Sleep(waitTime))
	started := blocker.AwaitRunning()
	submit()
	c.Until(started.Received.Add(waitTime + c.Grace()))
	blocker.AwaitCompleted()
	return blocker.Answer.Sent.Add(waitTime)
}

// runAfterWait returns the status of a job that waited for waitTime, ran for runTime and ended with a
// status, with the spans that the case measured.
func runAfterWait(c *suite.C, status string, input suite.M, members ...suite.M) (a *suite.Answer, delay, execution span) {
	var j *suite.Job
	free := occupyWorker(c, func() { j = c.Run(input, members...) })
	running := j.Await(suite.InProgress, status)
	c.Sleep(runTime + c.Grace())
	if status == suite.Cancelled {
		j.Cancel()
	}
	c.Given("JOB-16", func() { a = j.Await(status) })
	return a, span{free.Sub(j.Answer.Received), running.Received.Sub(j.Answer.Sent)}, span{runTime, a.Received.Sub(free)}
}

// judgeTimesIfShown judges the times of a job that ends with a status. Only a COMPLETED job must
// have them, which JOB-06 and JOB-07 judge.
func judgeTimesIfShown(status string, input suite.M, members ...suite.M) func(*suite.C) {
	return func(c *suite.C) {
		a, delay, execution := runAfterWait(c, status, input, members...)
		expectTimeIfShown(c, a, "executionTime", execution)
		expectTimeIfShown(c, a, "delayTime", delay)
	}
}

// failedTwice has the last status of a job that failed, was retried and failed again, and its times.
type failedTwice struct {
	status            *suite.Answer
	lastRun, bothRuns span
	inQueue           span // from the last wait alone to both waits
	sinceSubmission   span // from the submission to the start of the last run
}

// failTwice runs a job twice. Each run fails after runTime.
func failTwice(c *suite.C) (f failedTwice) {
	j := c.Run(suite.Stream(1, runTime, suite.M{"message": "failed"})).Reach(suite.InProgress)
	c.Sleep(runTime + c.Grace())
	first := j.AwaitFailed()
	var retried *suite.Answer
	free := occupyWorker(c, func() { c.Given("JOB-22", func() { retried = j.Retry().Is(200) }) })
	running := j.Await(suite.InProgress, suite.Failed)
	c.Sleep(runTime + c.Grace())
	f.status = j.AwaitFailed()
	f.lastRun = span{runTime, f.status.Received.Sub(free)}
	f.bothRuns = span{2 * runTime, f.status.Received.Sub(free) + first.Received.Sub(j.Answer.Sent)}
	f.inQueue = span{free.Sub(retried.Received), running.Received.Sub(retried.Sent) + first.Received.Sub(j.Answer.Sent) - runTime}
	f.sinceSubmission = span{free.Sub(j.Answer.Received), running.Received.Sub(j.Answer.Sent)}
	return f
}

func expectTimeIfShown(c *suite.C, a *suite.Answer, name string, spans ...span) {
	if a.ValueOrNil(name) != nil {
		expectMilliseconds(c, a, name, spans...)
	}
}

// expectMilliseconds expects a time within one of the spans, and warns if it isn't in milliseconds.
func expectMilliseconds(c *suite.C, a *suite.Answer, name string, spans ...span) {
	inMilliseconds, text := expectTime(c, a, name, spans...)
	c.Should(func() {
		c.Expect(inMilliseconds, text+" in milliseconds", "the time %s = %s", name, suite.JSONText(a.Value(name)))
	})
}

// expectTime expects a time within one of the spans, in milliseconds, seconds or microseconds.
func expectTime(c *suite.C, a *suite.Answer, name string, spans ...span) (inMilliseconds bool, accepted string) {
	value := float64(a.Int(name))
	fits := func(unit time.Duration) bool {
		for _, s := range spans {
			length := time.Duration(value * float64(unit))
			if value >= 0 && length >= s.min-c.EarlyMargin(time.Second)-unit && length <= s.max+c.Grace()+unit {
				return true
			}
		}
		return false
	}
	accepted = name + ":"
	for _, s := range spans {
		accepted += fmt.Sprintf(" from %s to %s,", s.min.Round(time.Second), s.max.Round(time.Second))
	}
	inMilliseconds = fits(time.Millisecond)
	c.Expect(inMilliseconds || fits(time.Second) || fits(time.Microsecond), accepted+" in any unit", "the time %s = %v", name, value)
	return inMilliseconds, accepted
}
