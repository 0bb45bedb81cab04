package cases

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// dataCases judge that data of jobs is preserved, which follows from several sections. The
// generator makes their values from the run's seed.
var dataCases = section(suite.Case{Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "DAT-01", Level: suite.Must, Source: "Stream chunk", Statement: "The output of a chunk is the JSON value that the handler yielded.",
		Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
			g := generator{c.Random()}
			outputs := []any{g.allValues(), suite.M{"text": g.longText(30_000)}, g.text(), g.number(), []any{}, suite.M{}, nil, false, 0, ""}
			for range countFor(c, 20, 4) {
				outputs = append(outputs, suite.M{g.name(): g.value(3)})
			}
			expectYielded(c, g, outputs)
			expectYielded(c, g, []any{suite.M{"one": g.value(4)}})
		}},
	{ID: "DAT-02", Level: suite.Should, Source: "Job, output", Statement: "Numbers that don't fit a double, such as 2^53+1, aren't changed.",
		Jobs: 2, Seconds: 3, Run: func(c *suite.C) {
			input := suite.Fail(suite.M{"times": 1})
			for i, n := range precise {
				input[fmt.Sprint(i)] = json.Number(n)
			}
			a := c.Post("/runsync", suite.Submission(suite.Merge(suite.Echo(input), suite.M{"op": "echo"}))).Is(200)
			finalAnswer(c, a).EqualLong("output", suite.Merge(suite.Echo(input), suite.M{"op": "echo"}))
			c.Get("/status/"+a.Str("id")).Is(200).EqualLong("output", suite.Merge(suite.Echo(input), suite.M{"op": "echo"}))
			job := c.Run(input).Reach(suite.Failed)
			c.Given("JOB-22", func() { job.Retry().Is(200) })
			job.Await(suite.Completed).EqualLong("output", input)
		}},
	{ID: "DAT-03", Level: suite.Should, Source: "Events, 1", Statement: "The job in a webhook's body equals the job's status.",
		Needs: suite.AnyEndpoint | suite.Webhooks, Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
			g := generator{c.Random()}
			for _, path := range []string{"/run", "/runsync"} {
				box, input := c.Box(), suite.Merge(echoAll(g), suite.M{"text": g.longText(30_000)})
				body := `{"webhook":` + suite.JSONText(box.URL) + `,"input":` + g.encode(input) + `}`
				c.JobOf(c.Post(path, nil, suite.Raw(body)).Is(200)).Completed()
				var call []byte
				c.Given("WEB-01", func() { call = lastCall(c, box, 1).Body })
				decoded, err := suite.Decode(call)
				members, _ := decoded.(suite.M)
				if err != nil || members == nil {
					c.Skip("the call's body isn't a JSON object; the description leaves its form open")
				}
				for name, want := range map[string]any{"output": input, "input": input} {
					if value, ok := members[name]; ok {
						d := suite.Difference(want, value)
						c.Expect(d == "", "the job's "+name+" in the webhook call", "another %s: %s", name, d)
					}
				}
			}
		}},
	{ID: "DAT-04", Level: suite.Should, Source: "Errors, 400", Statement: "A submission that isn't valid UTF-8 returns 400.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.RunSync(suite.Echo())
		for _, text := range []string{"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe9t\xe9"} {
			submitText(c, "/run", `{"input":{"op":"echo","x":"`+text+`"}}`).BadRequest()
		}
		submitText(c, "/runsync", "{\"input\":{\"op\":\"echo\",\"\xfe\xff\":1}}").BadRequest()
	}},
	{ID: "DAT-05", Level: suite.Unspec, Source: "Job submission body", Statement: "What JSON leaves open: duplicate members, a byte order mark, half of a surrogate pair, numbers beyond doubles, thousands of levels.",
		Jobs: 8, Seconds: 8, Requests: 40, Run: func(c *suite.C) {
			for _, x := range []struct{ words, body string }{
				{"a member twice", `{"input":{"op":"echo","x":1,"x":2}}`},
				{"input twice", `{"input":{"op":"echo","x":1},"input":{"op":"echo","x":2}}`},
				{"a byte order mark", "\ufeff" + `{"input":{"op":"echo","x":1}}`},
				{"half of a surrogate pair", `{"input":{"op":"echo","x":"\ud800"}}`},
				{"a number beyond doubles", `{"input":{"op":"echo","x":1e400}}`},
				{"a number below doubles", `{"input":{"op":"echo","x":1e-400}}`},
				{"2000 levels", `{"input":{"op":"echo","x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}}`},
				{"another name for input", `{"Input":{"op":"echo","x":1}}`},
			} {
				a := submitText(c, "/runsync", x.body)
				text := suite.JSONText(a.Shown("output.x"))
				if len(text) > 20 {
					text = fmt.Sprintf("%d bytes", len(text))
				}
				c.Observe("%s: %d %s", x.words, a.Code, text)
			}
		}},
})

// finalAnswer returns the answer to a /runsync, or the job's final status if /runsync
// returned before the job ended.
func finalAnswer(c *suite.C, a *suite.Answer) *suite.Answer {
	job := c.JobOf(a)
	if status := a.Shown("status"); status == suite.InQueue || status == suite.InProgress {
		return job.Await(suite.Completed, suite.Failed)
	}
	return a
}

// countFor returns the count for the target.
func countFor(c *suite.C, local, remote int) int {
	if c.Local() {
		return local
	}
	return remote
}

// echoAll returns the input of a job that returns all values of the generator, some of them
// as members of the input itself.
func echoAll(g generator) suite.M {
	all := g.allValues()
	input := suite.M{"data": all}
	for name, value := range all["names"].(suite.M) {
		if name != "error" { // handlers of the public SDK fail with this member
			input[name] = value
		}
	}
	return suite.Echo(input)
}

func submissionText(g generator, input suite.M) string { return g.encode(suite.Submission(input)) }

// inputOfSize returns an input and its JSON text of size bytes.
func inputOfSize(g generator, size int) (text string, input suite.M) {
	var long, quoted strings.Builder
	left := size - len(`{"op":"echo","text":"","pad":""}`)
	for {
		part := g.longText(50)
		text := suite.JSONText(part)
		if text = text[1 : len(text)-1]; len(text) > left {
			break
		}
		long.WriteString(part)
		quoted.WriteString(text)
		left -= len(text)
	}
	pad := strings.Repeat("p", left)
	input = suite.Echo(suite.M{"text": long.String(), "pad": pad})
	return `{"op":"echo","text":"` + quoted.String() + `","pad":"` + pad + `"}`, input
}

// expectYielded expects that a stream has exactly the chunks that its handler yields.
func expectYielded(c *suite.C, g generator, outputs []any) {
	job := c.JobOf(c.Post("/run", nil, suite.Raw(submissionText(g, suite.Yield(outputs...)))).Is(200))
	job.Await(suite.Completed)
	chunks := job.Stream().Is(200).Chunks()
	if len(chunks) > 0 && suite.Same(chunks[0]["output"], suite.M{"n": 0}) {
		c.Skip("the handler doesn't support given chunks")
	}
	c.Expect(len(chunks) == len(outputs), fmt.Sprint(len(outputs), " chunks"), "%d chunks", len(chunks))
	for i, output := range outputs {
		d := suite.Difference(output, chunks[i]["output"])
		c.Expect(d == "", "a chunk with the output that the handler yielded", "chunk %d: %s", i, d)
	}
}

// submitText submits a raw body that may be refused. It records a created job.
func submitText(c *suite.C, path, text string) *suite.Answer {
	return submit(c, path, nil, suite.Raw(text))
}

// precise has numbers that a double can't represent.
var precise = []string{
	"9007199254740993", "-9007199254740993", "9223372036854775807", "-9223372036854775808", "18446744073709551615", "18446744073709551616", "1000000000000000000001",
	"12345678901234567890123456789012345678901", "0.1234567890123456789", "3.14159265358979323846264338327950288", "1.0000000000000000001e-7",
}

// notJSON has texts that resemble a submission, but aren't JSON.
var notJSON = []string{
	`{"input":{"op":"echo"}} x`, `{"input":{"op":"echo"}}{"input":{"op":"echo"}}`, `{"input":{"op":"echo"}},`, `{"input":{"op":"echo"}}}`, `{"input":{"op":"echo"}}]`,
	`x{"input":{"op":"echo"}}`, `{"input":{"op":"echo",}}`, `{"input":{"op":"echo"},}`, `{"input":{"op":"echo" "x":1}}`, `{"input":{'op':'echo'}}`, `{input:{"op":"echo"}}`,
	`{"input":{"op":"echo","x":01}}`, `{"input":{"op":"echo","x":.5}}`, `{"input":{"op":"echo","x":1.}}`, `{"input":{"op":"echo","x":+1}}`, `{"input":{"op":"echo","x":0x1F}}`,
	`{"input":{"op":"echo","x":True}}`, `{"input":{"op":"echo","x":undefined}}`, `{"input":{"op":"echo","x":"\x41"}}`, `{"input":{"op":"echo","x":"\u12"}}`,
	"{\"input\":{\"op\":\"echo\",\"x\":\"a\nb\"}}", `{"input":{"op":"echo","x":"open}}`, `{"input":{"op":"echo"} /* comment */}`, "{\"input\":{\"op\":\"echo\"}} // comment",
	`{"input":{"op":"echo","x":[1,2}}`, `{"input":{"op":"echo"}`, `"{\"input\":{\"op\":\"echo\"}}"`, `input=%7B%22op%22%3A%22echo%22%7D`,
}
