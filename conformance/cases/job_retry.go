package cases

import (
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// retryCases judge the section "States and transitions", POST /retry, and rule 2 of "Endpoints B".
var retryCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "JOB-22", Source: "States and transitions, POST /retry", Statement: "/retry puts a FAILED job back IN_QUEUE and returns id and status.",
		Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
			j := c.Run(suite.Fail(suite.M{"times": 1})).Reach(suite.Failed)
			j.Retry().Is(200).Equal("id", j.ID).Equal("status", suite.InQueue)
			j.Await(suite.Completed)
		}},
	{ID: "JOB-22-one", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 3, Requests: 25, Seconds: 30, Run: func(c *suite.C) {
		first, second := c.Run(suite.Fail()), c.Run(suite.Fail())
		first.Failed()
		second.Failed()
		c.Blocker(time.Minute)
		first.Retry().Is(200)
		second.Status().Is(200).Equal("status", suite.Failed)
		purgeQueue(c, c.Endpoint).Is(200).Equal("removed", 1)
	}},
	{ID: "JOB-23", Source: "States and transitions, POST /retry", Statement: "/retry puts a TIMED_OUT job back IN_QUEUE.",
		Jobs: 1, WaitTime: 7 * time.Second, Seconds: 12, Run: func(c *suite.C) {
			j := c.Run(suite.Sleep(time.Minute), suite.ExecutionTimeout(5*time.Second)).Reach(suite.InProgress)
			c.Sleep(7 * time.Second)
			j.TimedOut()
			j.Retry().Is(200).Equal("status", suite.InQueue)
			j.Await(suite.InQueue, suite.InProgress)
		}},
	{ID: "JOB-24", Source: "Endpoints B, rule 2", Statement: "A retried job keeps its id.", Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
		j := c.Run(suite.Fail(suite.M{"times": 1})).Reach(suite.Failed)
		j.Retry().Is(200).Equal("id", j.ID)
		j.Status().Is(200).Equal("id", j.ID)
	}},
	{ID: "JOB-25", Source: "Endpoints B, rule 2", Statement: "A retried job runs with its original input.", Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
		nonce := c.Nonce()
		j := c.Run(suite.Fail(suite.M{"times": 1, "nonce": nonce})).Reach(suite.Failed)
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.Await(suite.Completed).Equal("output.nonce", nonce)
	}},
	{ID: "JOB-25-data", Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 3, Seconds: 6, Requests: 45, Run: func(c *suite.C) {
		g := generator{c.Random()}
		for i, text := range []string{"", g.longText(10_000), g.longText(300_000)} {
			if i == 2 && !c.Thorough("an input of a megabyte") {
				break
			}
			input := suite.Fail(echoAll(g), suite.M{"op": "fail", "times": 1, "text": text})
			job := c.JobOf(c.Post("/run", nil, suite.Raw(submissionText(g, input))).Is(200)).Reach(suite.Failed)
			c.Given("JOB-22", func() { job.Retry().Is(200) })
			job.Await(suite.Completed).EqualLong("output", input)
		}
	}},
	{ID: "JOB-26", Source: "Endpoints B, rule 2", Statement: "A retried job loses its previous output, error and stream.",
		Jobs: 1, WaitTime: 13 * time.Second, Seconds: 24, Run: func(c *suite.C) {
			nonce := c.Nonce()
			j := c.Run(suite.Stream(1, 12*time.Second, suite.M{"output": suite.M{"left": nonce}, "message": "ends " + nonce})).Reach(suite.InProgress)
			c.Until(j.StartedBefore.Add(12 * time.Second))
			first := j.Failed()
			if !showsHandlerOutput(first, nonce) {
				c.Skip("a FAILED job shows no data of its handler")
			}
			c.Given("JOB-22", func() { j.Retry().Is(200) })
			for _, a := range []*suite.Answer{j.Await(suite.InQueue, suite.InProgress), j.Running()} {
				a.Expect(!showsHandlerOutput(a, nonce), "no data of the previous run")
			}
		}},
	// A retried job has only the chunks of its last run.
	{ID: "JOB-26-chunks", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 90, Jobs: 2, WaitTime: 70 * time.Second, Seconds: 35, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 5*time.Second, suite.M{"message": "failed"})).Reach(suite.InProgress)
		c.Sleep(15*time.Second + c.Grace())
		j.Failed()
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.Running()
		c.Sleep(15*time.Second + c.Grace())
		j.Failed()
		chunks := j.Stream().Is(200).Chunks()
		c.Expect(len(chunks) == 3, "the 3 chunks of the last run", "%d chunks", len(chunks))
		for i, chunk := range chunks {
			c.Expect(chunkNumber(chunk) == strconv.Itoa(i), "the chunks 0 to 2, each once", "chunk %s in place of %d", chunkNumber(chunk), i)
		}
	}},
	{ID: "JOB-26-chunks-queued", Supplementary: true, Needs: suite.OwnEndpoint | suite.Advanced, Allow: suite.Queue, Requests: 90, Jobs: 2, WaitTime: 2 * time.Minute, Seconds: 60, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 0, suite.M{"message": "failed"})).Reach(suite.Failed)
		c.BusyWorker()
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.InQueue()
		p := c.Start("GET", "/stream/"+j.ID, nil)
		for n := 0; n < 3 && p.Unanswered(); n++ {
			c.Sleep(10 * time.Second)
		}
		if !p.Unanswered() {
			a := p.Answer()
			a.Expect(countChunks(a) == 0, "no chunk of the previous run")
		}
	}},
	{ID: "JOB-27", Source: "Endpoints B, rule 2", Statement: "/retry rejects a COMPLETED job and doesn't change it.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		nonce := c.Nonce()
		j := c.RunSync(suite.Echo(suite.M{"nonce": nonce}))
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", suite.Completed).Equal("output.nonce", nonce)
	}},
	{ID: "JOB-28", Source: "Endpoints B, rule 2", Statement: "/retry rejects a job that is IN_QUEUE.", Needs: suite.OwnEndpoint, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		j := c.Run(suite.Echo()).Reach(suite.InQueue)
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", suite.InQueue)
	}},
	{ID: "JOB-29", Source: "Endpoints B, rule 2", Statement: "/retry rejects a job that is IN_PROGRESS.", Jobs: 1, Seconds: 30, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(30 * time.Second)).Reach(suite.InProgress)
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", suite.InProgress)
	}},
	{ID: "JOB-30", Source: "Endpoints B, rule 2", Statement: "/retry rejects a CANCELLED job.", Needs: suite.OwnEndpoint, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		j := c.Run(suite.Echo())
		c.Given("JOB-17", func() {
			j.Cancel().Is(200)
			j.Await(suite.Cancelled)
		})
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", suite.Cancelled)
	}},
})
