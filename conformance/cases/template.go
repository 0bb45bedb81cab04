package cases

import (
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// templateCases judge the section "Template".
var templateCases = section(suite.Case{Level: suite.Must, Needs: suite.V1, Allow: suite.Create}, []suite.Case{
	{ID: "T-01", Source: "Endpoints A, POST /templates", Statement: "POST /templates with a name and an image returns the template.", Run: func(c *suite.C) {
		name := c.Name()
		a := c.Create("v1", "/templates", suite.M{"name": name, "imageName": c.Image()}).Success().Equal("name", name)
		c.Expect(a.Str("id") != "", "an id", "an empty id")
	}},
	{ID: "T-02", Source: "Template", Statement: "The name of a template is unique.", Run: func(c *suite.C) {
		name := c.Name()
		c.NewTemplate("v1", suite.M{"name": name})
		c.Create("v1", "/templates", suite.M{"name": name, "imageName": "another/image"}).Refused()
		c.Create("v1", "/templates", suite.M{"name": name + "-2", "imageName": "another/image"}).Success()
	}},
	{ID: "T-02-update", Supplementary: true, Needs: suite.V2, Run: func(c *suite.C) {
		first, second := c.NewTemplate("v2"), c.NewTemplate("v2")
		c.Given("VER-19", func() {
			c.V2("PATCH", "/templates/"+suite.PathSegment(second.Str("id")), suite.M{"name": c.Name()}).Success()
		})
		name := first.Str("name")
		c.Create("v2", "/templates", suite.M{"name": name, "image": c.Image()}).Refused()
		c.V2("PATCH", "/templates/"+suite.PathSegment(second.Str("id")), suite.M{"name": name}).Refused()
		if c.Serves("v1") {
			expectRefusedIfServed(c.V1("PATCH", "/templates/"+suite.PathSegment(second.Str("id")), suite.M{"name": name}))
		}
	}},
	{ID: "T-03", Source: "Template, imageName", Statement: "A template without imageName returns 400.", Run: func(c *suite.C) {
		c.NewTemplate("v1")
		c.Create("v1", "/templates", suite.M{"name": c.Name()}).BadRequest()
		c.Create("v1", "/templates", suite.M{"name": c.Name(), "imageName": nil}).BadRequest()
		c.Should(func() { c.Create("v1", "/templates", suite.M{"name": c.Name(), "imageName": ""}).BadRequest() })
	}},
	{ID: "T-04", Source: "Template, name", Statement: "A template without a name returns 400.", Run: func(c *suite.C) {
		c.NewTemplate("v1")
		c.Create("v1", "/templates", suite.M{"imageName": c.Image()}).BadRequest()
		c.Create("v1", "/templates", suite.M{"imageName": c.Image(), "name": nil}).BadRequest()
		c.Should(func() { c.Create("v1", "/templates", suite.M{"imageName": c.Image(), "name": ""}).BadRequest() })
	}},
	fieldCase("T-05", "category is NVIDIA, AMD or CPU; the default is NVIDIA.", templateField{
		name: "category", defaultValue: "NVIDIA", valid: listOf("NVIDIA", "AMD", "CPU"), invalid: listOf("TPU"), doubtful: listOf("cpu", ""),
	}),
	fieldCase("T-06", "containerDiskInGb is an integer; the default is 50.", templateField{name: "containerDiskInGb", defaultValue: 50, valid: listOf(7), invalid: listOf("7", 7.5)}),
	{ID: "T-07", Source: "Template, containerRegistryAuthId", Statement: "The template keeps containerRegistryAuthId.", Run: func(c *suite.C) {
		a := c.Create("v1", "/containerregistryauth", suite.M{"name": c.Name(), "username": "user", "password": c.Secret("PASSWORD")})
		c.SkipIf(a.Code/100 != 2, "version 1 can't create registry auths: %d", a.Code)
		expectStored(c, "containerRegistryAuthId", a.Str("id"))
	}},
	fieldCase("T-08", "dockerEntrypoint is an array of strings, which may be empty.", templateField{name: "dockerEntrypoint", valid: commandLists, invalid: listOf("sh -c true"), doubtful: listOf(listOf(1))}),
	fieldCase("T-09", "dockerStartCmd is an array of strings, which may be empty.", templateField{name: "dockerStartCmd", valid: commandLists, invalid: listOf("sh -c true"), doubtful: listOf(listOf(1))}),
	fieldCase("T-10", "env maps strings to strings.", templateField{
		name: "env", valid: listOf(suite.M{"PLAIN": "value", "EMPTY": "", "SPACES": "  two  ", "UNICODE": "ключ 漢字", "A_B": "a=b;c"}), doubtful: listOf(suite.M{"NUMBER": 5}),
	}),
	fieldCase("T-11", "isPublic is a boolean; the default is false.", templateField{
		name: "isPublic", defaultValue: false, valid: listOf(true), needs: suite.LocalOnly, // other users would see the template
	}),
	fieldCase("T-12", "isServerless is a boolean; the default is false.", templateField{name: "isServerless", defaultValue: false, valid: listOf(true)}),
	fieldCase("T-13", "The template keeps ports. Each is a number, a slash, and http or tcp.", templateField{
		name: "ports", valid: listOf(listOf("8000/http", "9000/tcp")), doubtful: listOf(listOf("80/udp"), listOf("x/http"), listOf("80"), listOf("80/HTTP"), listOf("65536/tcp"), listOf("0/http")),
	}),
	fieldCase("T-14", "The default of readme is the empty string.", templateField{name: "readme", defaultValue: "", valid: listOf("# Title\n\ntext")}),
	fieldCase("T-15", "volumeInGb is an integer; the default is 20.", templateField{name: "volumeInGb", defaultValue: 20, valid: listOf(11), invalid: listOf(11.5)}),
	fieldCase("T-16", "The default of volumeMountPath is /workspace.", templateField{
		name: "volumeMountPath", defaultValue: "/workspace", valid: listOf("/data"), doubtful: listOf("relative"),
	}),
	{ID: "T-17", Source: "Template, id", Statement: "A template has a unique id, a string.", Run: func(c *suite.C) {
		first, other := c.NewTemplate("v1").Str("id"), c.NewTemplate("v1").Str("id")
		c.Expect(first != other, "an id of its own for each", "the id %s twice", first)
	}},
	{ID: "T-18", Source: "Template, earned", Statement: "earned, if present, is a number.", Run: func(c *suite.C) {
		a := c.NewTemplate("v1")
		c.SkipIf(a.ValueOrNil("earned") == nil, "the answer has no earned")
		a.Number("earned")
		expectShownAs(c, "template", "v1", map[string]suite.M{a.Str("id"): {"earned": a.Value("earned")}})
	}},
	{ID: "T-19", Source: "Template, isPlatform", Statement: "isRunpod or isPlatform, which marks an official template, is a boolean if present, and false for a user's own template.", Run: func(c *suite.C) {
		a, marked := c.NewTemplate("v1"), false
		for _, name := range []string{"isPlatform", "isRunpod"} { // RunPod's name replaces the description's "Platform"
			a.EqualIfShown(name, false)
			expectShownAs(c, "template", "v1", map[string]suite.M{a.Str("id"): {name: false}})
			marked = marked || a.ValueOrNil(name) != nil
		}
		c.SkipIf(!marked, "the answer doesn't mark official templates")
	}},
	{ID: "T-20", Source: "Template, runtimeInMin", Statement: "runtimeInMin, if present, is an integer.", Run: func(c *suite.C) {
		a := c.NewTemplate("v1")
		c.SkipIf(a.ValueOrNil("runtimeInMin") == nil, "the answer has no runtimeInMin")
		a.Int("runtimeInMin")
		expectShownAs(c, "template", "v1", map[string]suite.M{a.Str("id"): {"runtimeInMin": a.Value("runtimeInMin")}})
	}},
	{ID: "T-21", Source: "Template", Statement: "The response has the id, the name and imageName.", Run: func(c *suite.C) {
		a := c.NewTemplate("v1")
		a.Str("id")
		a.Str("name")
		a.Equal("imageName", c.Image())
	}},
	{ID: "T-22", Level: suite.Should, Source: "Errors, 400", Statement: "A template with a field of the wrong type returns 400.", Requests: 50, Run: func(c *suite.C) {
		newObjects(c, kindOf("template", "v1")).judgeRefusedValues(func(a *suite.Answer) { a.BadRequest() })
	}},
	{ID: "T-23", Level: suite.Unspec, Source: "Endpoints A", Statement: "The other operations on templates, their status codes, and how unknown fields are handled.", Run: func(c *suite.C) {
		a := c.NewTemplate("v1")
		id := a.Str("id")
		c.Observe("create: %d", a.Code)
		c.Observe("list: %d", c.V1("GET", "/templates", nil).Code)
		c.Observe("read: %d", c.V1("GET", "/templates/"+suite.PathSegment(id), nil).Code)
		c.Observe("update: %d", c.V1("PATCH", "/templates/"+suite.PathSegment(id), suite.M{"readme": "new"}).Code)
		c.Observe("unknown field: %d", c.Create("v1", "/templates", suite.M{"name": c.Name(), "imageName": "i", "unknown": 1}).Code)
		c.Observe("delete: %d", c.V1("DELETE", "/templates/"+suite.PathSegment(id), nil).Code)
	}},
})

type templateField struct {
	name         string
	defaultValue any   // nil if the default isn't judged
	valid        []any // values that a template keeps
	invalid      []any // values that must be refused
	doubtful     []any // values that should be refused
	needs        suite.Needs
}

func fieldCase(id, statement string, f templateField) suite.Case {
	return suite.Case{
		ID: id, Level: suite.Must, Source: "Template, " + f.name, Statement: statement,
		Needs: suite.V1 | f.needs, Allow: suite.Create, Run: func(c *suite.C) {
			stored := map[string]suite.M{} // by id
			if f.defaultValue != nil {
				a := c.NewTemplate("v1")
				answerWith(c, a, f.name).Equal(f.name, f.defaultValue)
				stored[a.Str("id")] = suite.M{f.name: f.defaultValue}
			}
			for _, value := range f.valid {
				stored[expectStored(c, f.name, value)] = suite.M{f.name: value}
			}
			expectShownAs(c, "template", "v1", stored)
			for _, value := range f.invalid {
				expectRefused(c, f.name, value)
				for id := range stored {
					a := c.V1("PATCH", "/templates/"+suite.PathSegment(id), suite.M{f.name: value})
					c.Should(func() { expectRefusedIfServed(a) })
					break
				}
			}
			c.Should(func() {
				for _, value := range f.doubtful {
					expectRefused(c, f.name, value)
				}
			})
		},
	}
}

var commandLists = listOf(listOf("sh", "-c", "echo 'two words' \"$X\""), listOf())

// expectStored creates a template with a field and expects the field, unless it is empty, in the answer.
func expectStored(c *suite.C, field string, value any) (id string) {
	a := c.Create("v1", "/templates", suite.M{"name": c.Name(), "imageName": c.Image(), field: value}).Success()
	if !isEmpty(value) {
		answerWith(c, a, field).Equal(field, value)
	}
	return a.Str("id")
}

// answerWith returns the answer to a creation if it has the field, or else the answer to a read. It
// skips the case if neither answer has the field.
func answerWith(c *suite.C, created *suite.Answer, field string) *suite.Answer {
	if _, ok := created.Find(field); ok {
		return created
	}
	if read := c.V1("GET", "/templates/"+suite.PathSegment(created.Str("id")), nil); read.Code/100 == 2 {
		if _, ok := read.Find(field); ok {
			return read
		}
	}
	c.Skip("the answer has no %s", field)
	return nil
}

func expectRefused(c *suite.C, field string, value any) {
	c.Create("v1", "/templates", suite.Merge(suite.M{"name": c.Name(), "imageName": c.Image()}, suite.M{field: value})).Refused()
}

// endpointCases judge the section "Serverless endpoint".
var endpointCases = section(suite.Case{Level: suite.Must, Needs: suite.V1, Allow: suite.Create}, []suite.Case{
	{ID: "P-01", Source: "Endpoints A, POST /endpoints", Statement: "POST /endpoints accepts name, templateId, gpuTypeIds, workersMin, workersMax and idleTimeout.", Run: func(c *suite.C) { newEndpointV1(c) }},
	{ID: "P-02", Source: "What the service does, 5", Statement: "The job API of a new endpoint is under its id.", Run: func(c *suite.C) {
		var id string
		c.Given("P-01", func() { id = newEndpointV1(c) })
		c.Given("ERR-02", func() { c.Job("GET", suite.SimilarID(id), "/health", nil).Is(404) })
		c.Job("GET", id, "/health", nil).Is(200).Object("jobs")
		c.Job("POST", id, "/purge-queue", nil).Is(200).Equal("removed", 0)
		c.Job("GET", id, "/status/"+c.Nonce(), nil).Refused()
	}},
	{ID: "P-03", Level: suite.Unspec, Source: "Serverless endpoint", Statement: "Whether the response keeps gpuTypeIds in the order of priority.", Run: func(c *suite.C) {
		t := c.NewTemplate("v1", suite.M{"isServerless": true})
		want := c.GPUs(2)
		a := c.Create("v1", "/endpoints", c.EndpointBody("v1", suite.M{"name": c.Name(), "templateId": t.Str("id"), "gpuTypeIds": want, "workersMax": 0}))
		c.Observe("%d, the order is kept: %v", a.Code, suite.Same(a.ValueOrNil("gpuTypeIds"), want))
	}},
	{ID: "P-04", Level: suite.Unspec, Source: "Serverless endpoint", Statement: "scalerType, the unit of idleTimeout, bounds, defaults, and the members of the response.", Run: func(c *suite.C) {
		t := c.NewTemplate("v1", suite.M{"isServerless": true})
		a := c.Create("v1", "/endpoints", c.EndpointBody("v1", suite.M{"name": c.Name(), "templateId": t.Str("id"), "workersMax": 0}))
		for _, name := range []string{"scalerType", "scalerValue", "idleTimeout", "workersMin", "executionTimeoutMs"} {
			c.Observe("%s: %s", name, suite.JSONText(a.ValueOrNil(name)))
		}
		c.Observe("idleTimeout 3601: %d", c.Create("v1", "/endpoints", c.EndpointBody("v1", suite.M{"name": c.Name(), "templateId": t.Str("id"), "idleTimeout": 3601})).Code)
	}},
})

func newEndpointV1(c *suite.C) (id string) {
	members := suite.M{
		"name": c.Name(), "templateId": c.NewTemplate("v1", suite.M{"isServerless": true}).Str("id"), "gpuTypeIds": c.GPUs(1), "workersMin": 0, "workersMax": 1, "idleTimeout": 7, "scalerType": "QUEUE_DELAY",
	}
	a := c.Create("v1", "/endpoints", c.EndpointBody("v1", members)).Success()
	for name, value := range members {
		a.EqualIfShown(name, value)
	}
	return a.Str("id")
}

// commandCases judge the start command. They are skipped at a deployment that refuses entrypoint and cmd.
var commandCases = section(suite.Case{Level: suite.Should, Source: "API changes of November 2026, 1.2", Needs: suite.V2, Allow: suite.Create}, []suite.Case{
	{ID: "CMD-01", Statement: "Version 2 keeps entrypoint and cmd of a template and of an endpoint. A PATCH changes only the lists that it sends, and [] clears a list.",
		Requests: 40, Run: func(c *suite.C) {
			for _, path := range []string{"/templates", "/serverless"} {
				id := newObjectWithCommand(c, path, suite.M{"entrypoint": listOf("sh", "-c"), "cmd": listOf("two words", "")})
				expectCommand(c, path, id, listOf("sh", "-c"), listOf("two words", ""))
				for _, step := range []commandStep{
					{suite.M{"disk": 9}, listOf("sh", "-c"), listOf("two words", "")},
					{suite.M{"cmd": listOf("other")}, listOf("sh", "-c"), listOf("other")},
					{suite.M{"entrypoint": listOf()}, listOf(), listOf("other")},
					{suite.M{"entrypoint": listOf("e"), "cmd": listOf()}, listOf("e"), listOf()},
				} {
					c.V2("PATCH", path+"/"+suite.PathSegment(id), step.body).Success()
					expectCommand(c, path, id, step.entrypoint, step.cmd)
				}
			}
		}},
	{ID: "CMD-02", Statement: "In a response, args is equivalent to entrypoint and cmd. A shell string in args is split into cmd; args in the form {\"entrypoint\":[…],\"cmd\":[…]} set both lists; an empty string clears both.",
		Requests: 60, Run: func(c *suite.C) {
			for _, path := range []string{"/templates", "/serverless"} {
				id := newObjectWithCommand(c, path, suite.M{"args": `{"entrypoint":["e"],"cmd":["c"]}`})
				expectCommand(c, path, id, listOf("e"), listOf("c"))
				for _, step := range []commandStep{
					{suite.M{"args": `python -u 'two words'`}, listOf(), listOf("python", "-u", "two words")},
					{suite.M{"args": `{"entrypoint":["sh","-c"],"cmd":["two words"]}`}, listOf("sh", "-c"), listOf("two words")},
					{suite.M{"args": ""}, listOf(), listOf()},
				} {
					c.V2("PATCH", path+"/"+suite.PathSegment(id), step.body).Success()
					expectCommand(c, path, id, step.entrypoint, step.cmd)
					c.V2("GET", path+"/"+suite.PathSegment(id), nil).Is(200).Equal("args", step.body["args"])
				}
			}
		}},
	{ID: "CMD-03", Statement: "args together with entrypoint or cmd are accepted if they mean the same, as in a response, and rejected otherwise.",
		Requests: 60, Run: func(c *suite.C) {
			for _, path := range []string{"/templates", "/serverless"} {
				id := newObjectWithCommand(c, path, suite.M{"entrypoint": listOf("e"), "cmd": listOf("c d")})
				shown := c.V2("GET", path+"/"+suite.PathSegment(id), nil).Is(200)
				c.V2("PATCH", path+"/"+suite.PathSegment(id), suite.M{"args": shown.Value("args"), "entrypoint": shown.Value("entrypoint"), "cmd": shown.Value("cmd")}).Success()
				newObjectWithCommand(c, path, suite.M{"args": "a b", "entrypoint": listOf(), "cmd": listOf("a", "b")})
				for _, differing := range []suite.M{{"args": "a", "cmd": listOf("b")}, {"args": "a b", "cmd": listOf("a b")}, {"args": "a", "entrypoint": listOf("a")}} {
					c.V2("PATCH", path+"/"+suite.PathSegment(id), differing).Refused()
					c.Create("v2", path, commandBody(c, path, differing)).Refused()
				}
				expectCommand(c, path, id, listOf("e"), listOf("c d"))
			}
		}},
	{ID: "CMD-04", Statement: "entrypoint and cmd of version 2 are dockerEntrypoint and dockerStartCmd of version 1.",
		Needs: suite.V1 | suite.V2, Requests: 20, Run: func(c *suite.C) {
			id := newObjectWithCommand(c, "/templates", suite.M{"entrypoint": listOf("sh", "-c"), "cmd": listOf("two words")})
			c.V1("GET", "/templates/"+suite.PathSegment(id), nil).Is(200).Equal("dockerEntrypoint", listOf("sh", "-c")).Equal("dockerStartCmd", listOf("two words"))
			c.V1("PATCH", "/templates/"+suite.PathSegment(id), suite.M{"dockerEntrypoint": listOf("/init")}).Success()
			expectCommand(c, "/templates", id, listOf("/init"), listOf("two words"))
			c.V2("PATCH", "/templates/"+suite.PathSegment(id), suite.M{"entrypoint": listOf("/other")}).Success()
			expectCommand(c, "/templates", id, listOf("/other"), listOf("two words"))
			c.V2("PATCH", "/templates/"+suite.PathSegment(id), suite.M{"args": "a 'b c'"}).Success()
			expectCommand(c, "/templates", id, listOf(), listOf("a", "b c"))
			c.V1("GET", "/templates/"+suite.PathSegment(id), nil).Is(200).Equal("dockerEntrypoint", listOf()).Equal("dockerStartCmd", listOf("a", "b c"))
		}},
	{ID: "CMD-04-pod", Needs: podNeeds | suite.V1, Allow: suite.Create | suite.Spend, Run: func(c *suite.C) {
		id := newPod(c, suite.M{"entrypoint": listOf("print"), "cmd": listOf("two words")})
		path := "/pods/" + suite.PathSegment(id)
		c.V1("GET", path, nil).Is(200).Equal("dockerEntrypoint", listOf("print")).Equal("dockerStartCmd", listOf("two words"))
		c.V1("PATCH", path, suite.M{"dockerStartCmd": listOf("other")}).Success()
		expectCommand(c, "/pods", id, listOf("print"), listOf("other"))
		expectShownAs(c, "pod", "v1", map[string]suite.M{id: {"dockerEntrypoint": listOf("print"), "dockerStartCmd": listOf("other")}})
	}},
	{ID: "CMD-05", Statement: "An endpoint that is created from a template has the template's entrypoint and cmd, unless its own body sets them.",
		Requests: 20, Run: func(c *suite.C) {
			template := newObjectWithCommand(c, "/templates", suite.M{"entrypoint": listOf("e"), "cmd": listOf("c"), "serverless": true})
			for _, step := range []commandStep{
				{suite.M{}, listOf("e"), listOf("c")},
				{suite.M{"cmd": listOf("own")}, listOf("e"), listOf("own")},
				{suite.M{"args": "own args"}, listOf(), listOf("own", "args")},
			} {
				id := newObjectWithCommand(c, "/serverless", suite.Merge(step.body, suite.M{"templateId": template}))
				expectCommand(c, "/serverless", id, step.entrypoint, step.cmd)
			}
		}},
	{ID: "CMD-06", Statement: "Pods, and the pods of a cluster, keep the entrypoint and cmd that they were created with.",
		Needs: podNeeds, Allow: suite.Create | suite.Spend, Requests: 20, Run: func(c *suite.C) {
			lists := suite.M{"entrypoint": listOf("print"), "cmd": listOf("two words")}
			expectCommand(c, "/pods", newPod(c, lists), listOf("print"), listOf("two words"))
			cluster := c.Create("v2", "/clusters", suite.Merge(clusterBody(c, 2), lists)).Success().Str("id")
			for _, pod := range c.V2("GET", "/clusters/"+suite.PathSegment(cluster)+"/pods", nil).Is(200).List("pods") {
				awaitMember(c, "/pods/"+suite.PathSegment(stringOrEmpty(pod["id"])), "entrypoint", listOf("print"))
				awaitMember(c, "/pods/"+suite.PathSegment(stringOrEmpty(pod["id"])), "cmd", listOf("two words"))
			}
		}},
})

// commandStep is a request body and the start command that it results in.
type commandStep struct {
	body            suite.M
	entrypoint, cmd []any
}

func listOf(list ...any) []any { return append([]any{}, list...) }

func commandBody(c *suite.C, path string, members suite.M) suite.M {
	body := suite.M{"name": c.Name(), "image": c.Image()}
	if path == "/serverless" {
		body = c.EndpointBody("v2", suite.M{"name": c.Name(), "image": c.Image(), "type": "QUEUE", "workers": suite.M{"min": 0, "max": 0}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 3}})
		if members["templateId"] != nil {
			delete(body, "image")
		}
	}
	return suite.Merge(body, members)
}

// newObjectWithCommand creates an object with a start command. It skips the case if the deployment has no
// entrypoint.
func newObjectWithCommand(c *suite.C, path string, members suite.M) (id string) {
	a := c.Create("v2", path, commandBody(c, path, members))
	c.SkipIf(a.IsRefusal() && strings.Contains(strings.ToLower(string(a.Body)), "entrypoint"), "the deployment has no entrypoint and cmd: %d", a.Code)
	id = a.Success().Str("id")
	awaitReadable(c, path+"/"+suite.PathSegment(id))
	return id
}

func expectCommand(c *suite.C, path, id string, entrypoint, cmd []any) {
	kind := map[string]string{"/templates": "template", "/serverless": "endpoint", "/pods": "pod"}[path]
	expectShownAs(c, kind, "v2", map[string]suite.M{id: {"entrypoint": entrypoint, "cmd": cmd}})
}
