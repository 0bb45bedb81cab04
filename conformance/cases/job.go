package cases

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// jobCases judge the section "Job": the members of a job, and who sees it.
var jobCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint}, []suite.Case{
	{ID: "JOB-01", Source: "What the service does, 2", Statement: "The job API of an endpoint is below /v2/{endpoint_id}/ and nowhere else.", Run: func(c *suite.C) {
		c.Get("/health").Is(200).Object("jobs")
		bare := c.Do("GET", c.QueueURL()+"/"+c.Endpoint+"/health", nil)
		_, hasJobs := bare.Find("jobs") // the path may have a web page
		bare.Expect(bare.Code/100 != 2 || !hasJobs, "no such path without /v2")
	}},
	{ID: "JOB-01-every", Needs: suite.OwnEndpoint | suite.SecondEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 60, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, op := range jobOperations {
			for _, id := range s.ids(op) {
				c.Do(op.method, c.QueueURL()+"/"+c.Endpoint+op.pathFor(id), op.validBody(c, nil, c.Nonce())) // the description doesn't say what is at this path
			}
		}
		purgeQueue(c, c.SecondEndpoint).Is(200).Equal("removed", 0) // the queue of another endpoint
		s.expectUnchanged()
	}},
	{ID: "JOB-02", Source: "What the service does, 3", Statement: "If no worker is free, a job waits in the queue.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, WaitTime: 2 * time.Second, Seconds: 30, Run: func(c *suite.C) {
			c.Blocker(30 * time.Second)
			j := c.Run(suite.Echo())
			j.Status().Is(200).Equal("status", suite.InQueue)
			c.Sleep(2 * time.Second)
			j.Status().Is(200).Equal("status", suite.InQueue)
		}},
	{ID: "JOB-03", Source: "Job, id", Statement: "A job has an id, a non-empty string.", Allow: suite.Queue, Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
		for _, path := range []string{"/run", "/runsync"} {
			id := c.Post(path, suite.Submission(suite.Echo())).Is(200).Str("id")
			c.Expect(id != "", "an id", "an empty id")
			c.Get("/status/"+id).Is(200).Equal("id", id)
		}
	}},
	{ID: "JOB-04", Source: "Job, id", Statement: "Two jobs never have the same id.", Allow: suite.Queue, Jobs: 100, Requests: 100, Seconds: 100, Run: func(c *suite.C) {
		ids := map[string]bool{}
		for range countFor(c, 100, 5) {
			id := c.Run(suite.Echo()).ID
			c.Expect(!ids[id], "an id of its own", "the id %s again", id)
			ids[id] = true
		}
	}},
	{ID: "JOB-05", Level: suite.Must, Source: "States and transitions",
		Statement: "A status is one of IN_QUEUE, IN_PROGRESS, COMPLETED, FAILED, CANCELLED and TIMED_OUT.",
		Live:      suite.Dialect{Level: suite.Should, Why: "the operator's documentation of job states lists RUNNING too"},
		Needs:     suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, Seconds: 8, WaitTime: 8 * time.Second,
		Watch: func(w *suite.Watched) string {
			if w.Status != "" && !slices.Contains(suite.Statuses, w.Status) {
				return fmt.Sprintf("the status %q", w.Status)
			}
			return ""
		},
		Run: func(c *suite.C) {
			blocker := c.Run(suite.Sleep(8 * time.Second))
			blocker.Await(suite.InProgress)
			waits := c.Run(suite.Echo()).Reach(suite.InQueue)
			waits.Cancel().Is(200)
			c.Until(blocker.StartedBefore.Add(8 * time.Second))
			blocker.Await(suite.Completed)
		}},
	{ID: "JOB-09", Source: "Job, output", Statement: "The output is the JSON value that the handler returned, of any type.",
		Allow: suite.Queue, Jobs: 14, Requests: 20, Seconds: 14, Run: func(c *suite.C) {
			for _, v := range []any{
				suite.M{"a": suite.M{"b": []any{1, "two", nil, true}}}, []any{1, []any{}, suite.M{}}, "text", "", "ünï – 漢字 🚀", int64(9007199254740991), -1, 1e-7, 0, true, false, suite.M{}, []any{},
			} {
				c.RunSync(suite.Sleep(0, suite.M{"output": v})).Answer.Equal("output", v)
			}
			c.RunSync(suite.Sleep(0, suite.M{"output": nil})).Answer.Absent("output")
		}},
	{ID: "JOB-09-kinds", Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 12, Seconds: 12, Requests: 30, Run: func(c *suite.C) {
		g := generator{c.Random()}
		outputs := []any{g.longText(70_000), g.number(), g.text(), []any{g.allValues()}, g.allValues()["numbers"], false, 0, "", []any{}}
		for range countFor(c, 3, 0) {
			outputs = append(outputs, g.value(4))
		}
		for _, output := range outputs {
			if empty, _ := output.(suite.M); output == nil || empty != nil && len(empty) == 0 {
				continue // see JOB-09
			}
			a := c.Post("/runsync", nil, suite.Raw(submissionText(g, suite.Sleep(0, suite.M{"output": output})))).Is(200)
			finalAnswer(c, a).EqualLong("output", output)
			c.Get("/status/"+a.Str("id")).Is(200).EqualLong("output", output)
		}
	}},
	{ID: "JOB-10", Level: suite.May, Source: "Job, output", Statement: "An unfinished job has no output, or at least not another job's.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 3, Seconds: 30, Run: func(c *suite.C) {
			first := c.RunSync(suite.Echo()).Answer.Value("output")
			c.Blocker(30 * time.Second)
			output := c.Run(suite.Echo(suite.M{"nonce": c.Nonce()})).InQueue().Shown("output")
			c.Expect(output == nil || !suite.Same(output, first), "no output of another job", "the output %s", suite.JSONText(output))
		}},
	{ID: "JOB-40", Level: suite.Should, Source: "Errors, 404", Statement: "An unknown job id returns 404.", Requests: 6, Run: func(c *suite.C) {
		c.Get("/health").Is(200) // the endpoint exists, but not the job
		id := c.Nonce()
		eachJobOperation(func(op contractOperation) { op.send(c, id, nil).Is(404, 400) }) // the id may be malformed
	}},
	{ID: "JOB-40-like", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 40, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, j := range s.jobs() {
			id := suite.SimilarID(j.ID)
			eachJobOperation(func(op contractOperation) { op.send(c, id, nil).Is(404) })
		}
		s.expectUnchanged()
	}},
	{ID: "JOB-40-form", Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 1, Requests: 16, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Echo()).Reach(suite.Completed)
		eachJobOperation(func(op contractOperation) { op.send(c, suite.SimilarID(j.ID), nil).Is(404) })
	}},
	{ID: "JOB-41", Level: suite.Should, Source: "Errors, 404", Statement: "Another endpoint doesn't return the job.",
		Needs: suite.AnyEndpoint | suite.SecondEndpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			j := c.RunSync(suite.Echo(suite.M{"nonce": c.Nonce()}))
			j.Status().Is(200)
			c.Job("GET", c.SecondEndpoint, "/status/"+j.ID, nil).Is(404, 403)
		}},
	{ID: "JOB-41-every", Needs: suite.OwnEndpoint | suite.SecondEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 60, WaitTime: 20 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		eachJobOperation(func(op contractOperation) {
			for _, j := range s.jobs() {
				a := c.Job(op.method, c.SecondEndpoint, op.pathFor(j.ID), nil)
				a.Expect(a.IsRefusal() || a.Code == 403, op.String()+" through another endpoint: 404 or 403")
			}
		})
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
			first := j.Completed()
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
			a := j.Completed().Equal("id", j.ID)
			a.Int("delayTime")
			a.Int("executionTime")
		}},
	{ID: "JOB-44", Level: suite.Must, Source: "Endpoints B, GET /status",
		Statement: "?ttl= of /status sets the time to live of the job.",
		Live:      suite.Dialect{Level: suite.Unspec, Why: "the operator's documentation shows ?ttl=6000"},
		Needs:     suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, WaitTime: 17 * time.Second, Seconds: 60, Run: func(c *suite.C) {
			c.Blocker(60 * time.Second)
			j := c.Run(suite.Echo())
			set := c.Get("/status/" + j.ID + "?ttl=10000").Is(200)
			c.Until(j.Answer.Sent.Add(9 * time.Second))
			j.Status().Before(j.Answer.Sent.Add(10 * time.Second)).Is(200)
			intervalOf(set).add(10*time.Second).expectDeleted(c, j) // the description doesn't say from when the ttl counts
		}},
	{ID: "JOB-44-one", Needs: suite.IdleEndpoint, Allow: suite.Queue, Jobs: 2, WaitTime: 15 * time.Second, Run: func(c *suite.C) {
		first, second := c.Run(suite.Echo()), c.Run(suite.Echo())
		set := c.Get("/status/" + first.ID + "?ttl=10000").Is(200)
		intervalOf(set).add(10*time.Second).expectDeleted(c, first)
		second.Status().Is(200).Equal("status", suite.InQueue)
	}},
	{ID: "JOB-45", Level: suite.Unspec, Source: "Endpoints B, GET /status", Statement: "The bounds of ?ttl=.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, Seconds: 60, Run: func(c *suite.C) {
			c.Blocker(60 * time.Second)
			j := c.Run(suite.Echo())
			for _, ttl := range []string{"6000", "9999", "604800001", "abc"} {
				c.Observe("ttl=%s: %d", ttl, c.Get("/status/"+j.ID+"?ttl="+ttl).Code)
			}
		}},
	{ID: "JOB-46", Level: suite.Should, Source: "Endpoints B", Statement: "An operation rejects other methods, and such a request changes nothing.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, Requests: 20, Seconds: 30, Run: func(c *suite.C) {
			blocker := c.Blocker(30 * time.Second)
			j := c.Run(suite.Echo())
			for _, op := range []string{"GET /run", "GET /runsync", "GET /cancel/" + j.ID, "GET /retry/" + j.ID, "GET /purge-queue", "POST /health", "POST /status/" + j.ID, "POST /stream/" + j.ID} {
				method, path, _ := strings.Cut(op, " ")
				c.Job(method, c.Endpoint, path, nil).Refused()
			}
			j.Status().Before(blocker.StartedAfter.Add(30*time.Second)).Is(200).Equal("status", suite.InQueue)
		}},
	{ID: "JOB-46-every", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 120, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, op := range jobOperations {
			for _, method := range otherMethods(c, op) {
				for _, id := range s.ids(op) {
					expectMethodRefused(sendTo(c, jobAPI, method, op.pathFor(id), bodyFor(method, suite.Submission(suite.Echo()))))
				}
			}
		}
		s.expectUnchanged()
	}},
	{ID: "JOB-48", Source: "States and transitions", Statement: "Only POST changes a job: a GET of /run, /runsync, /cancel, /retry or /purge-queue changes nothing.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 4, Requests: 60, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
			s := newScene(c)
			for _, op := range jobOperations {
				if op.method == http.MethodPost && !isOpenAI(op) {
					for _, id := range s.ids(op) {
						sendTo(c, jobAPI, http.MethodGet, op.pathFor(id), nil)
					}
				}
			}
			s.expectUnchanged()
		}},
})
