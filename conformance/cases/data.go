package cases

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// dataCases judge that data of jobs is preserved. The generator makes their values from the run's seed.
var dataCases = section(suite.Case{Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "DAT-01", Level: suite.Must, Source: "Stream chunk", Statement: "The output of a chunk is the JSON value that the handler yielded.",
		Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
			g := generator{c.Random()}
			outputs := []any{g.allValues(), suite.M{"text": g.longText(30_000)}, g.text(), g.number(), []any{}, suite.M{}, nil, false, 0, ""}
			for range localOrRemote(c, 20, 4) {
				outputs = append(outputs, suite.M{g.name(): g.value(3)})
			}
			expectYielded(c, g, outputs)
			expectYielded(c, g, []any{suite.M{"one": g.value(4)}})
		}},
	{ID: "DAT-02", Level: suite.Should, Source: "Job, output", Statement: "Numbers that don't fit a double, such as 2^53+1, aren't changed.",
		Jobs: 2, Seconds: 3, Run: func(c *suite.C) {
			input := suite.Fail(suite.M{"times": 1})
			for i, n := range preciseNumbers {
				input[fmt.Sprint(i)] = json.Number(n)
			}
			echo := suite.Merge(suite.Echo(input), suite.M{"op": "echo"})
			expectOutput(c, suite.JSONText(suite.Submission(echo)), echo)
			job := c.Run(input).Reach(suite.Failed)
			c.Given("JOB-22", func() { job.Retry().Is(200) })
			job.Await(suite.Completed).Equal("output", input)
		}},
	{ID: "DAT-03", Level: suite.Should, Source: "Events, 1", Statement: "The output, input and status in a webhook's body, if present, are the job's.",
		Needs: suite.AnyEndpoint | suite.Webhooks, Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
			g := generator{c.Random()}
			for _, path := range []string{"/run", "/runsync"} {
				box, input := c.Box(), suite.Merge(echoAll(g), suite.M{"text": g.longText(30_000)})
				body := `{"webhook":` + suite.JSONText(box.URL) + `,"input":` + wire.Encode(g.Rand, input, true) + `}`
				c.JobOf(c.Post(path, nil, suite.Raw(body)).Is(200)).AwaitCompleted()
				var call []byte
				c.Given("WEB-01", func() { call = firstCallAfter(c, box, 0).Body })
				decoded, err := wire.Decode(call)
				members, _ := decoded.(suite.M)
				c.SkipIf(err != nil || members == nil, "the call's body isn't a JSON object; the description leaves its form open")
				for name, want := range map[string]any{"output": input, "input": input, "status": suite.Completed} {
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
			submit(c, "/run", nil, suite.Raw(`{"input":{"op":"echo","x":"`+text+`"}}`)).BadRequest()
		}
		submit(c, "/runsync", nil, suite.Raw("{\"input\":{\"op\":\"echo\",\"\xfe\xff\":1}}")).BadRequest()
	}},
	{ID: "DAT-05", Level: suite.Unspec, Source: "Job submission body", Statement: "What JSON leaves open: duplicate members, a byte order mark, half of a surrogate pair, numbers beyond doubles, thousands of levels.",
		Jobs: 8, Seconds: 8, Requests: 40, Run: func(c *suite.C) {
			for _, x := range []struct{ name, body string }{
				{"a member twice", `{"input":{"op":"echo","x":1,"x":2}}`},
				{"input twice", `{"input":{"op":"echo","x":1},"input":{"op":"echo","x":2}}`},
				{"a byte order mark", "\ufeff" + `{"input":{"op":"echo","x":1}}`},
				{"half of a surrogate pair", `{"input":{"op":"echo","x":"\ud800"}}`},
				{"a number beyond doubles", `{"input":{"op":"echo","x":1e400}}`},
				{"a number below doubles", `{"input":{"op":"echo","x":1e-400}}`},
				{"2000 levels", `{"input":{"op":"echo","x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}}`},
				{"another name for input", `{"Input":{"op":"echo","x":1}}`},
			} {
				a := submit(c, "/runsync", nil, suite.Raw(x.body))
				text := suite.JSONText(a.ValueOrNil("output.x"))
				if len(text) > 20 {
					text = fmt.Sprintf("%d bytes", len(text))
				}
				c.Observe("%s: %d %s", x.name, a.Code, text)
			}
		}},
})

// expectOutput expects the output of a submission to /runsync in the answer and in the status.
func expectOutput(c *suite.C, submission string, want any) {
	a := c.Post("/runsync", nil, suite.Raw(submission)).Is(200)
	job, final := c.JobOf(a), a
	if status := a.ValueOrNil("status"); status == suite.InQueue || status == suite.InProgress {
		final = job.Await(suite.Completed, suite.Failed)
	}
	for _, shown := range []*suite.Answer{final, job.Status().Is(200)} {
		if want == nil {
			shown.Absent("output")
		} else {
			shown.Equal("output", want)
		}
	}
}

// localOrRemote returns local at a local target, otherwise remote.
func localOrRemote(c *suite.C, local, remote int) int {
	if c.Target.Local {
		return local
	}
	return remote
}

// echoAll returns the input of an echo job with all values of the generator. The input itself also has the members of the value "names".
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

func submissionText(g generator, input suite.M) string {
	return wire.Encode(g.Rand, suite.Submission(input), true)
}

func inputOfSize(g generator, size int) (text string, input suite.M) {
	const maxEscapeSize = 6 // of a character in JSON, in bytes
	input = suite.Echo(suite.M{"text": g.longText(size/maxEscapeSize - 100), "pad": ""})
	input["pad"] = strings.Repeat("p", size-len(suite.JSONText(input)))
	return suite.JSONText(input), input
}

// expectYielded expects that a stream has exactly the chunks that its handler yields.
func expectYielded(c *suite.C, g generator, outputs []any) {
	job := c.JobOf(c.Post("/run", nil, suite.Raw(submissionText(g, suite.Yield(outputs...)))).Is(200))
	job.Await(suite.Completed)
	chunks := job.Chunks(len(outputs))
	c.SkipIf(len(chunks) > 0 && isChunk(chunks[0], 0), "the handler can't stream given outputs")
	c.Expect(len(chunks) == len(outputs), fmt.Sprint(len(outputs), " chunks"), "%d chunks", len(chunks))
	for i, output := range outputs {
		d := suite.Difference(output, chunks[i]["output"])
		c.Expect(d == "", "a chunk with the output that the handler yielded", "chunk %d: %s", i, d)
	}
}

// preciseNumbers has numbers that a double can't represent, and powers of two beside them.
var preciseNumbers = []string{
	"9007199254740993", "-9007199254740993", "9223372036854775807", "-9223372036854775808", "18446744073709551615", "18446744073709551616", "1000000000000000000001",
	"12345678901234567890123456789012345678901", "0.1234567890123456789", "3.14159265358979323846264338327950288", "1.0000000000000000001e-7",
}

// notObjects has texts that resemble a submission, but aren't a JSON object.
var notObjects = []string{
	`{"input":{"op":"echo"}} x`, `{"input":{"op":"echo"}}{"input":{"op":"echo"}}`, `{"input":{"op":"echo"}},`, `{"input":{"op":"echo"}}}`, `{"input":{"op":"echo"}}]`,
	`x{"input":{"op":"echo"}}`, `{"input":{"op":"echo",}}`, `{"input":{"op":"echo"},}`, `{"input":{"op":"echo" "x":1}}`, `{"input":{'op':'echo'}}`, `{input:{"op":"echo"}}`,
	`{"input":{"op":"echo","x":01}}`, `{"input":{"op":"echo","x":.5}}`, `{"input":{"op":"echo","x":1.}}`, `{"input":{"op":"echo","x":+1}}`, `{"input":{"op":"echo","x":0x1F}}`,
	`{"input":{"op":"echo","x":True}}`, `{"input":{"op":"echo","x":undefined}}`, `{"input":{"op":"echo","x":"\x41"}}`, `{"input":{"op":"echo","x":"\u12"}}`,
	"{\"input\":{\"op\":\"echo\",\"x\":\"a\nb\"}}", `{"input":{"op":"echo","x":"open}}`, `{"input":{"op":"echo"} /* comment */}`, "{\"input\":{\"op\":\"echo\"}} // comment",
	`{"input":{"op":"echo","x":[1,2}}`, `{"input":{"op":"echo"}`, `"{\"input\":{\"op\":\"echo\"}}"`, `input=%7B%22op%22%3A%22echo%22%7D`,
}

// generator generates random JSON values. Every JSON implementation preserves them: strings, names, doubles,
// and integers that a double can represent.
type generator struct{ *rand.Rand }

// texts has strings that an implementation may misread or change.
var texts = []string{
	"", " ", "  two  ", "\t", "line\nline\r\nline\r", "\x00", "\x01\x1f\x7f", "\u0085\u00a0", "\u2028\u2029", "\ufeff", "\ufffd\uffff", "\U0010ffff",
	"é", "e\u0301", "Å", "\u212b", "ﬁ", "İi", "ß", "ǆ", "한", "\u1112\u1161\u11ab", "👩\u200d💻🏳\ufe0f\u200d🌈", "𝒳", "שלום", "\u202eabc",
	"null", "true", "1", "1e5", "-0", "NaN", "0x10", "007", "2026-11-15", "2026-11-15T00:00:00Z", "{}", "[1]", `{"a":1}`, `"quoted"`,
	`back\slash`, `\n`, `\u0041`, "/", "</script>&amp;<b>", "'; --", "%20%", "a+b", "${HOME} $1 $$", "{{x}}", "a,b;c", "data:text/plain;base64,QQ==", "=1+1", "*", "..", "CON",
}

// names has names of members that an implementation may misread or change.
var names = append([]string{
	"__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "length", "a.b", "a..b", ".a", "a[0]", "$ref", "$set", "$", "@type", "#text", "a/b", "~1", "a b",
	"Key", "key", "KEY", "snake_case", "camelCase", "kebab-case", "0", "1", "01", "-1", "id", "status", "error", "output", "input", "null", strings.Repeat("long", 100),
}, texts...)

// numbers has numbers at the limits of doubles and integers.
var numbers = []string{
	"0", "-0", "-0.0", "1.0", "1", "-1", "1e2", "1E+2", "15e-1", "1.50", "100000000000000000000", "0.1", "0.30000000000000004", "3.141592653589793", "1e-7", "1.5E-07", "1e21", "123456789012345680000",
	"2147483647", "2147483648", "-2147483649", "4294967295", "4294967296", "9007199254740991", "-9007199254740991", "9007199254740992", "1e16",
	"1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "0.1e1", "1000000.5", "16777217",
}

// value returns a random value with at most depth nested levels.
func (g generator) value(depth int) any {
	switch kind := g.IntN(12); {
	case kind < 3 && depth > 0:
		o := suite.M{}
		for range g.IntN(6) {
			o[g.name()] = g.value(depth - 1)
		}
		return o
	case kind < 5 && depth > 0:
		list := make([]any, g.IntN(6))
		for i := range list {
			list[i] = g.value(depth - 1)
		}
		return list
	case kind < 8:
		return g.number()
	case kind == 8:
		return g.IntN(2) == 0
	case kind == 9:
		return nil
	}
	return g.text()
}

func (g generator) name() string {
	if g.IntN(4) == 0 {
		return g.text()
	}
	return names[g.IntN(len(names))]
}

func (g generator) text() string {
	if g.IntN(3) > 0 {
		return texts[g.IntN(len(texts))]
	}
	return g.longText(g.IntN(40))
}

// longText returns a random text of one- to four-byte characters in UTF-8.
func (g generator) longText(characters int) string {
	var b strings.Builder
	for range characters {
		r := rune(g.IntN(0x80))
		switch g.IntN(4) {
		case 1:
			r = rune(0x80 + g.IntN(0x780))
		case 2:
			r = rune(0x800 + g.IntN(0xd000))
		case 3:
			r = rune(0x10000 + g.IntN(0x100000))
		}
		b.WriteRune(r)
	}
	return b.String()
}

// number returns a random number that a double can represent.
func (g generator) number() json.Number {
	switch g.IntN(3) {
	case 0:
		return json.Number(strconv.FormatInt(g.Int64N(1<<54)-1<<53, 10))
	case 1:
		f := math.Float64frombits(g.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = g.NormFloat64()
		}
		return json.Number(strconv.FormatFloat(f, "eg"[g.IntN(2)], -1, 64))
	}
	return json.Number(numbers[g.IntN(len(numbers))])
}

// allValues returns an object with all texts, names and numbers, and with nested and random values.
func (g generator) allValues() suite.M {
	namedValues, allTexts, allNumbers := suite.M{}, []any{}, []any{}
	for i, name := range names {
		namedValues[name] = i
	}
	for _, text := range texts {
		allTexts = append(allTexts, text)
	}
	for _, number := range numbers {
		allNumbers = append(allNumbers, json.Number(number))
	}
	var nested any = []any{}
	for range 32 {
		nested = suite.M{"": []any{nested}}
	}
	thousands := make([]any, 5000)
	for i := range thousands {
		thousands[i] = g.IntN(1 << 30)
	}
	return suite.M{
		"names": namedValues, "texts": allTexts, "numbers": allNumbers, "nested": nested, "thousands": thousands, "some": g.value(6), "more": []any{g.value(4), g.value(4), g.value(4)},
		"nothing": []any{nil, suite.M{"null": nil}, []any{}, suite.M{}, []any{nil}, []any{[]any{}}, suite.M{"": suite.M{}}, "", 0, false},
	}
}
