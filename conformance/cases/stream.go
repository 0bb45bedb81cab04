package cases

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// streamCases judge the section "Stream chunk".
var streamCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "OPS-08", Source: "Stream chunk", Statement: "/stream returns a JSON array.", Needs: suite.AnyEndpoint | suite.DescribedDialect, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		j := c.RunSync(suite.Stream(3, 0))
		chunks := j.Stream().Is(200).Array("")
		c.Expect(len(chunks) >= 1 && len(chunks) <= 3, "an array of the 3 chunks, or the first of them", "%d chunks: %s", len(chunks), suite.JSONText(chunks))
		if a := j.Stream(); a.Code == 200 { // has no chunks, unless each read has all of them, or a part
			a.Array("")
		}
	}},
	{ID: "OPS-09", Source: "Stream chunk", Statement: "Each chunk has an output.", Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
		jobs := map[int]*suite.Job{2: c.Run(suite.Stream(2, 0)), 5: c.Run(suite.Stream(5, 0))}
		for _, job := range jobs {
			job.AwaitCompleted()
		}
		for n, job := range jobs {
			chunks := job.Chunks(n)
			c.Expect(len(chunks) == n, fmt.Sprintf("the job's own %d chunks", n), "%d chunks", len(chunks))
			for i, chunk := range chunks {
				c.Expect(isChunk(chunk, i), "a chunk with the output of the handler", "the chunk %s", suite.JSONText(chunk))
			}
		}
	}},
	{ID: "OPS-10", Source: "Stream chunk", Statement: "The metrics of a chunk, if present, are numbers, except scenario, which is a string.",
		Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			chunks := c.RunSync(suite.Stream(3, 0)).Chunks(3)
			c.Given("OPS-09", func() { c.Expect(len(chunks) == 3, "3 chunks", "%d chunks", len(chunks)) })
			for _, chunk := range chunks {
				shown := chunk["metrics"]
				if shown == nil {
					continue
				}
				members, ok := shown.(suite.M)
				c.Expect(ok, "metrics: an object", "metrics = %s", suite.JSONText(shown))
				for name, value := range members {
					_, ok := value.(json.Number)
					if name == "scenario" {
						_, ok = value.(string)
					}
					c.Expect(ok || !slices.Contains(metrics, name), name+": a number, the scenario a string", "metrics.%s = %s", name, suite.JSONText(value))
				}
			}
		}},
	{ID: "OPS-11", Source: "Limits, Streamed chunk", Statement: "A chunk has at most 1 MB.", Jobs: 2, Seconds: 3, Run: func(c *suite.C) {
		chunksOf := func(n int) []suite.M { return c.RunSync(suite.Stream(1, 0, suite.M{"bytes": n})).Chunks(1) }
		for _, chunk := range chunksOf(2_500_000) {
			size := len(suite.JSONText(chunk["output"]))
			if text, ok := chunk["output"].(string); ok {
				size = len(text) // the description leaves open whether the quotes count
			}
			c.Expect(size <= 1<<20, "an output of 1 MB at most (2^20 bytes)", "a chunk of %d bytes", size)
		}
		// Only a larger chunk is split.
		c.Should(func() {
			chunks := chunksOf(999_000)
			c.Expect(len(chunks) == 1, "one chunk of less than 1 MB", "%d chunks", len(chunks))
		})
	}},
	{ID: "OPS-12", Source: "Endpoints B, rule 4", Statement: "A larger output is split into several chunks without loss.", Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
		want := generator{c.Random()}.longText(1_100_000) // about 2.7 MB; a chunk is split only between characters
		var all strings.Builder
		job, n := c.RunSync(suite.Yield(want)), 0
		for more := 1; more > 0 && all.Len() < len(want); n += more {
			chunks := job.Chunks(1)
			more = len(chunks)
			c.SkipIf(more > 0 && isChunk(chunks[0], 0), "the handler can't stream given outputs")
			for _, chunk := range chunks {
				part, ok := chunk["output"].(string)
				c.Expect(ok, "parts of the text", "the chunk %.200s", suite.JSONText(chunk))
				all.WriteString(part)
			}
		}
		d := suite.Difference(want, all.String())
		c.Expect(d == "", "the text that the handler yielded, in parts", "%s in %d parts", d, n)
		c.Expect(n >= 3, "3 chunks at least", "%d chunks", n)
	}},
	{ID: "OPS-13", Level: suite.Should, Source: "Endpoints B, GET /stream", Statement: "Each chunk is delivered once, in the order of creation.",
		Jobs: 1, Requests: 130, WaitTime: 22 * time.Second, Seconds: 20, Run: func(c *suite.C) {
			j := c.Run(suite.Stream(100, 200*time.Millisecond)).Reach(suite.InProgress)
			var seen []suite.M
			// A handler on a busy machine falls behind, so the case waits as long as chunks arrive.
			for requests, withoutChunk := 0, 0; requests < 110 && withoutChunk < 10; requests, withoutChunk = requests+1, withoutChunk+1 {
				c.Sleep(time.Second)
				for _, chunk := range j.Stream().Is(200).Chunks() {
					if isChunk(chunk, 0) { // a deployment may also return all chunks each time
						seen = nil
					}
					seen, withoutChunk = append(seen, chunk), 0
				}
				if len(seen) >= 100 {
					break
				}
			}
			for i, chunk := range seen {
				c.Expect(isChunk(chunk, i), "the chunks 0 to 99, in order, each once", "the chunk %s in place of %d", suite.JSONText(chunk), i)
			}
			c.Expect(len(seen) == 100, "100 chunks", "%d chunks", len(seen))
		}},
	{ID: "OPS-14", Level: suite.Should, Source: "What the service does, 2", Statement: "Chunks can be read while the job runs.",
		Jobs: 1, WaitTime: 4 * time.Second, Seconds: 10, Run: func(c *suite.C) {
			j := c.Run(suite.Stream(10, time.Second)).Reach(suite.InProgress)
			c.Sleep(4 * time.Second)
			chunks := j.Stream().Is(200).Chunks()
			j.Status().IfBefore(j.StartedAfter.Add(10*time.Second)).Is(200).Equal("status", suite.InProgress)
			c.Expect(len(chunks) > 0, "chunks of a job that is IN_PROGRESS", "no chunk")
		}},
	{ID: "OPS-15", Level: suite.Unspec, Source: "Endpoints B, GET /stream", Statement: "What /stream returns for a job whose handler doesn't stream.",
		Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			a := c.RunSync(suite.Echo()).Stream()
			c.Observe("%d with %s", a.Code, a.Shape())
		}},
	{ID: "OPS-16", Level: suite.Unspec, Source: "Endpoints B, GET /stream", Statement: "What /stream returns for a queued, a finished or an unknown job.",
		Needs: suite.OwnEndpoint, Jobs: 3, WaitTime: 30 * time.Second, Seconds: 30, Run: func(c *suite.C) {
			finished := c.RunSync(suite.Stream(2, 0))
			c.Observe("finished: %d", finished.Stream().Code)
			c.Observe("finished, read again: %d", finished.Stream().Code)
			c.Blocker(time.Minute)
			waiting := c.Run(suite.Echo())
			c.Observe("waiting: %d", requestHeldAnswer(c, waiting.Path("stream")).Code)
			c.Observe("unknown: %d", c.Get("/stream/"+suite.PathSegment(suite.SimilarID(finished.ID))).Code)
		}},
})

// metrics are the described members of a chunk's metrics. All are numbers, except the scenario.
var metrics = strings.Fields("avg_gen_throughput avg_prompt_throughput cpu_kv_cache_usage gpu_kv_cache_usage input_tokens output_tokens pending running scenario stream_index swapped")

// requestHeldAnswer sends a request that may be held, and waits up to 30 s for the answer.
func requestHeldAnswer(c *suite.C, path string) *suite.Answer {
	p := c.Start("GET", path, nil)
	p.Sleep(30 * time.Second)
	return p.Answer()
}

// isChunk reports whether a chunk is the nth of suite.Stream.
func isChunk(chunk suite.M, n int) bool { return suite.Same(chunk["output"], suite.M{"n": n}) }
