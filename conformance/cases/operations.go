package cases

import (
	"encoding/json"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// release cancels the job of a /runsync whose wait is over. What that is answered,
// the description leaves open: with or without an id.
func release(c *suite.C, a *suite.Answer) {
	if id, _ := a.Find("id"); id != nil {
		c.JobOf(a).Cancel()
	}
}

var operations = []suite.Case{
	{
		ID: "OPS-01", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 100, Takes: 100 * time.Second,
		Run: func(c *suite.C) {
			begin := c.Now()
			waits := c.Start("POST", "/runsync", suite.Submission(suite.Sleep(200*time.Second)))
			waits.Until(begin.Add(90*time.Second - c.Early(2*time.Second)))
			waits.Held(begin.Add(90 * time.Second))
			waits.Until(begin.Add(90*time.Second + c.Late(10*time.Second)))
			release(c, waits.Answer())
		},
	},
	{
		ID: "OPS-05", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 5, Takes: 5 * time.Second,
		Run: func(c *suite.C) {
			waits := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(time.Minute)))
			waits.Sleep(time.Second + c.Grace())
			a := waits.Answer()
			c.Observe("%d with %s", a.Code, a.Shape())
			release(c, a)
		},
	},
	{
		ID: "OPS-09", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1,
		Run: func(c *suite.C) {
			job := c.RunSync(suite.Stream(5, 0))
			chunks := job.Stream().Is(200).Chunks()
			c.Expect(len(chunks) == 5, "5 chunks, as many as the handler made", "%d chunks", len(chunks))
			for i, chunk := range chunks {
				c.Expect(suite.Same(chunk["output"], suite.M{"n": json.Number(string(rune('0' + i)))}), "a chunk with the output of the handler", "the chunk %s", suite.Text(chunk))
			}
		},
	},
}
