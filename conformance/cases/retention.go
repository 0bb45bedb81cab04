package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// How long results are kept, but for LIM-11 and LIM-12.
var retentions = []suite.Case{
	{ID: "LIM-13", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: retention + 2*time.Minute, Run: func(c *suite.C) {
		j := c.Run(suite.Echo())
		over := j.Completed().Received
		c.Until(over.Add(retention + time.Minute))
		c.Observe("%d", j.Status().Code)
	}},
	{ID: "LIM-14", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: time.Minute, Run: func(c *suite.C) {
		j := c.RunSync(suite.Echo(suite.M{"x": "kept"}))
		over := j.Answer.Sent
		c.Until(over.Add(time.Minute - c.Early(5*time.Second)))
		there := j.Status()
		c.Before(there, over.Add(time.Minute-c.Early(time.Second)/2))
		there.Is(200).Equal("output.x", "kept")
	}},
	{ID: "LIM-15", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: 2 * time.Minute, Run: func(c *suite.C) {
		j := c.RunSync(suite.Echo(suite.M{"x": "kept"}))
		j.Status().Is(200).Equal("output.x", "kept")
		expired(c, j, j.Answer.Received.Add(time.Minute))
	}},
	{ID: "LIM-16", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: 6 * time.Minute, Run: func(c *suite.C) {
		a := c.Post("/runsync?wait=300000", suite.Submission(suite.Echo(suite.M{"x": "kept"}))).Is(200)
		j := c.JobOf(a)
		j.Status().Is(200).Equal("output.x", "kept")
		expired(c, j, a.Received.Add(5*time.Minute))
	}},
	{ID: "LIM-17", Needs: suite.Endpoint | suite.Advanced, Allow: suite.Queue, Jobs: 1, Seconds: 1200, Takes: time.Hour, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(20*time.Minute, suite.M{"output": "kept"}), suite.ExecutionTimeout(time.Hour))
		j.Running()
		c.Sleep(20 * time.Minute)
		j.Completed()
		over := j.Answer.Sent.Add(20 * time.Minute) // or later
		c.Until(over.Add(retention - c.Early(time.Minute)))
		j.Status().Is(200).Equal("output", "kept")
	}},
	{ID: "LIM-18", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Requests: 40, Takes: retention + time.Minute, Run: func(c *suite.C) {
		j := c.Run(suite.Echo(suite.M{"x": "kept"}))
		over := j.Completed().Received
		for i := 1; i < 30; i++ {
			c.Until(over.Add(time.Duration(i) * time.Minute))
			j.Status().Is(200)
		}
		expired(c, j, over.Add(retention))
	}},
	{ID: "LIM-19", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: time.Hour, Run: func(c *suite.C) {
		j := c.Run(suite.Fail(suite.M{"times": 1, "x": "kept"}))
		over := j.Failed().Sent
		c.Until(over.Add(29 * time.Minute))
		var again time.Time // or later
		c.Given("JOB-22", func() { again = j.Retry().Is(200).Sent })
		j.Completed()
		c.Until(again.Add(retention - c.Early(time.Minute)))
		j.Status().Is(200).Equal("output.x", "kept")
	}},
	{ID: "LIM-20", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Seconds: 1, Takes: retention + time.Minute, Run: func(c *suite.C) {
		short, long := c.Run(suite.Echo(), suite.TTL(time.Minute)), c.Run(suite.Echo(), suite.TTL(2*time.Hour))
		short.Completed()
		over := long.Completed().Received
		c.By(short.Answer.Received.Add(time.Minute), func() { short.Status().Is(404) })
		long.Status().Is(200)
		expired(c, long, over.Add(retention))
	}},
}

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
