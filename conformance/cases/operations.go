package cases

import (
	"encoding/json"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

var operations = []suite.Case{
	{
		ID: "OPS-01", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 100, Takes: 100 * time.Second,
		Run: func(c *suite.C) {
			begin := c.Now()
			waits := c.Start("POST", "/runsync", suite.Submission(suite.Sleep(200*time.Second)))
			c.Until(begin.Add(88 * time.Second))
			c.Expect(waits.Open(), "no answer before 90 s", "an answer within 88 s")
			c.Until(begin.Add(90*time.Second + 2*c.Grace()))
			c.JobOf(waits.Answer().Is(200)).Cancel()
		},
	},
	{
		ID: "OPS-05", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 5, Takes: 5 * time.Second,
		Run: func(c *suite.C) {
			waits := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(time.Minute)))
			c.Sleep(time.Second + c.Grace())
			a := waits.Answer()
			c.Observe("%d with %s", a.Code, a.Shape())
			c.JobOf(a).Cancel()
		},
	},
	{
		ID: "OPS-09", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1,
		Run: func(c *suite.C) {
			job := c.RunSync(suite.Stream(5, 0))
			chunks := job.Stream().Is(200).Chunks()
			c.Expect(len(chunks) == 5, "5 chunks, as many as the handler made", "%d", len(chunks))
			for i, chunk := range chunks {
				c.Expect(suite.Same(chunk["output"], suite.M{"n": json.Number(string(rune('0' + i)))}), "a chunk with the output of the handler", "%s", suite.Text(chunk))
			}
		},
	},
}
