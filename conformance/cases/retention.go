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
		c.Until(over.Add(55 * time.Second))
		there := j.Status()
		c.Before(there, over.Add(59*time.Second))
		there.Is(200).Equal("output.x", "kept")
	}},
	{ID: "LIM-15", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: 2 * time.Minute, Run: func(c *suite.C) {
		j := c.RunSync(suite.Echo(suite.M{"x": "kept"}))
		j.Status().Is(200).Equal("output.x", "kept")
		c.Until(j.Answer.Received.Add(75 * time.Second))
		expired(j)
	}},
	{ID: "LIM-16", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: 6 * time.Minute, Run: func(c *suite.C) {
		a := c.Post("/runsync?wait=300000", suite.Submission(suite.Echo(suite.M{"x": "kept"}))).Is(200)
		j := c.JobOf(a)
		j.Status().Is(200).Equal("output.x", "kept")
		c.Until(a.Received.Add(5*time.Minute + 15*time.Second))
		expired(j)
	}},
	{ID: "LIM-17", Needs: suite.Endpoint | suite.Advanced, Allow: suite.Queue, Jobs: 1, Seconds: 1200, Takes: time.Hour, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(20*time.Minute, suite.M{"output": "kept"}), suite.ExecutionTimeout(time.Hour))
		j.Running()
		c.Sleep(20 * time.Minute)
		over := j.Completed().Sent
		c.Until(over.Add(retention - time.Minute))
		j.Status().Is(200).Equal("output", "kept")
	}},
	{ID: "LIM-18", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Requests: 40, Takes: retention + time.Minute, Run: func(c *suite.C) {
		j := c.Run(suite.Echo(suite.M{"x": "kept"}))
		over := j.Completed().Received
		for i := 1; i < 30; i++ {
			c.Until(over.Add(time.Duration(i) * time.Minute))
			j.Status().Is(200)
		}
		c.Until(over.Add(retention + 30*time.Second))
		expired(j)
	}},
	{ID: "LIM-19", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: time.Hour, Run: func(c *suite.C) {
		j := c.Run(suite.Fail(suite.M{"times": 1, "x": "kept"}))
		over := j.Failed().Sent
		c.Until(over.Add(29 * time.Minute))
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		again := j.Completed().Sent
		c.Until(again.Add(29 * time.Minute))
		j.Status().Is(200).Equal("output.x", "kept")
	}},
	{ID: "LIM-20", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Seconds: 1, Takes: retention + time.Minute, Run: func(c *suite.C) {
		short, long := c.Run(suite.Echo(), suite.TTL(time.Minute)), c.Run(suite.Echo(), suite.TTL(2*time.Hour))
		short.Completed()
		over := long.Completed().Received
		c.Until(short.Answer.Received.Add(time.Minute + c.Grace()))
		short.Status().Is(404)
		long.Status().Is(200)
		c.Until(over.Add(retention + 30*time.Second))
		expired(long)
	}},
}

// expired expects that the result is gone. What the status of such a job is, the
// description leaves open.
func expired(j *suite.Job) {
	if a := j.Status(); a.Code == 200 {
		a.Absent("output")
	}
	j.Retry().Refused()
}
