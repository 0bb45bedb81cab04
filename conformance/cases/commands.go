package cases

import (
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

const commandSource = "API changes of November 2026, 1.2"

// commandCases judge the start command of containers. They skip a deployment that refuses
// entrypoint and cmd.
var commandCases = section(suite.Case{Level: suite.Should, Source: commandSource, Needs: suite.V2, Allow: suite.Create, Operations: commandOperations}, []suite.Case{
	{ID: "CMD-01", Statement: "Version 2 keeps entrypoint and cmd of a template and of an endpoint. A PATCH changes only the lists that it sends, and [] clears a list.",
		Requests: 40, Run: func(c *suite.C) {
			for _, path := range []string{"/templates", "/serverless"} {
				id := newCommand(c, path, suite.M{"entrypoint": words("sh", "-c"), "cmd": words("two words", "")})
				expectCommand(c, path, id, words("sh", "-c"), words("two words", ""))
				for _, step := range []commandStep{
					{suite.M{"disk": 9}, words("sh", "-c"), words("two words", "")},
					{suite.M{"cmd": words("other")}, words("sh", "-c"), words("other")},
					{suite.M{"entrypoint": words()}, words(), words("other")},
					{suite.M{"entrypoint": words("e"), "cmd": words()}, words("e"), words()},
				} {
					c.V2("PATCH", path+"/"+id, step.sent).Success()
					expectCommand(c, path, id, step.entrypoint, step.cmd)
				}
			}
		}},
	{ID: "CMD-02", Statement: "args, entrypoint and cmd of a response mean the same. A shell string in args is split into cmd; args in the form {\"entrypoint\":[…],\"cmd\":[…]} set both lists; an empty string clears both.",
		Requests: 30, Run: func(c *suite.C) {
			id := newCommand(c, "/templates", suite.M{"entrypoint": words("e"), "cmd": words("c")})
			for _, step := range []commandStep{
				{suite.M{"args": `python -u 'two words'`}, words(), words("python", "-u", "two words")},
				{suite.M{"args": `{"entrypoint":["sh","-c"],"cmd":["two words"]}`}, words("sh", "-c"), words("two words")},
				{suite.M{"args": ""}, words(), words()},
			} {
				c.V2("PATCH", "/templates/"+id, step.sent).Success()
				expectCommand(c, "/templates", id, step.entrypoint, step.cmd)
				c.V2("GET", "/templates/"+id, nil).Is(200).Equal("args", step.sent["args"])
			}
		}},
	{ID: "CMD-03", Statement: "args together with entrypoint or cmd are accepted if they mean the same, such as those of a response, and rejected otherwise.",
		Requests: 40, Run: func(c *suite.C) {
			id := newCommand(c, "/templates", suite.M{"entrypoint": words("e"), "cmd": words("c d")})
			shown := c.V2("GET", "/templates/"+id, nil).Is(200)
			c.V2("PATCH", "/templates/"+id, suite.M{"args": shown.Value("args"), "entrypoint": shown.Value("entrypoint"), "cmd": shown.Value("cmd")}).Success()
			newCommand(c, "/templates", suite.M{"args": "a b", "entrypoint": words(), "cmd": words("a", "b")})
			for _, differs := range []suite.M{{"args": "a", "cmd": words("b")}, {"args": "a b", "cmd": words("a b")}, {"args": "a", "entrypoint": words("a")}} {
				c.V2("PATCH", "/templates/"+id, differs).Refused()
				c.Create("v2", "/templates", commandBody(c, "/templates", differs)).Refused()
			}
			expectCommand(c, "/templates", id, words("e"), words("c d"))
		}},
	{ID: "CMD-04", Statement: "entrypoint and cmd of version 2 are dockerEntrypoint and dockerStartCmd of version 1.",
		Needs: suite.V1 | suite.V2, Requests: 20, Run: func(c *suite.C) {
			id := newCommand(c, "/templates", suite.M{"entrypoint": words("sh", "-c"), "cmd": words("two words")})
			c.V1("GET", "/templates/"+id, nil).Is(200).Equal("dockerEntrypoint", words("sh", "-c")).Equal("dockerStartCmd", words("two words"))
			c.V1("PATCH", "/templates/"+id, suite.M{"dockerEntrypoint": words("/init")}).Success()
			expectCommand(c, "/templates", id, words("/init"), words("two words"))
			c.V2("PATCH", "/templates/"+id, suite.M{"args": "a 'b c'"}).Success()
			expectCommand(c, "/templates", id, words(), words("a", "b c"))
			c.V1("GET", "/templates/"+id, nil).Is(200).Equal("dockerEntrypoint", words()).Equal("dockerStartCmd", words("a", "b c"))
		}},
	{ID: "CMD-05", Statement: "An endpoint that is created from a template has the template's entrypoint and cmd, unless its own body sets them.",
		Requests: 20, Run: func(c *suite.C) {
			template := newCommand(c, "/templates", suite.M{"entrypoint": words("e"), "cmd": words("c"), "serverless": true})
			for _, own := range []commandStep{
				{suite.M{}, words("e"), words("c")},
				{suite.M{"cmd": words("own")}, words("e"), words("own")},
				{suite.M{"args": "own args"}, words(), words("own", "args")},
			} {
				id := newCommand(c, "/serverless", suite.Merge(own.sent, suite.M{"templateId": template}))
				expectCommand(c, "/serverless", id, own.entrypoint, own.cmd)
			}
		}},
	{ID: "CMD-06", Statement: "Pods, and the pods of a cluster, have the entrypoint and cmd of their creation.",
		Needs: podNeeds, Allow: suite.Create | suite.Spend, Operations: append([]string{"POST /v2/clusters"}, podOperations...), Requests: 20, Run: func(c *suite.C) {
			lists := suite.M{"entrypoint": words("print"), "cmd": words("two words")}
			expectCommand(c, "/pods", newPod(c, lists), words("print"), words("two words"))
			cluster := c.Create("v2", "/clusters", suite.Merge(clusterBody(c, 2), lists)).Success().Str("id")
			for _, member := range c.V2("GET", "/clusters/"+cluster+"/pods", nil).Is(200).List("pods") {
				expectCommand(c, "/pods", text(member["id"]), words("print"), words("two words"))
			}
		}},
})

var commandOperations = []string{"POST /v2/templates", "GET /v2/templates/{id}", "PATCH /v2/templates/{id}"}

// commandStep is a body with the lists that the object has after it.
type commandStep struct {
	sent            suite.M
	entrypoint, cmd []any
}

func words(list ...any) []any { return append([]any{}, list...) }

// commandBody returns the body that creates a template or an endpoint.
func commandBody(c *suite.C, path string, more suite.M) suite.M {
	body := suite.M{"name": c.Name(), "image": c.Image()}
	if path == "/serverless" {
		body = c.EndpointBody("v2", suite.M{"name": c.Name(), "image": c.Image(), "type": "QUEUE", "workers": suite.M{"min": 0, "max": 0}, "scaling": suite.M{"type": "REQUEST_COUNT", "requestCount": 3}})
		if more["templateId"] != nil {
			delete(body, "image")
		}
	}
	return suite.Merge(body, more)
}

// newCommand creates a template or an endpoint. It skips the case if the deployment doesn't
// support entrypoint.
func newCommand(c *suite.C, path string, more suite.M) (id string) {
	a := c.Create("v2", path, commandBody(c, path, more))
	if a.IsRefusal() && strings.Contains(strings.ToLower(string(a.Body)), "entrypoint") {
		c.Skip("the deployment has no entrypoint and cmd: %d", a.Code)
	}
	return a.Success().Str("id")
}

// expectCommand expects that an object has the lists.
func expectCommand(c *suite.C, path, id string, entrypoint, cmd []any) {
	awaitMember(c, path+"/"+id, "cmd", cmd)
	awaitMember(c, path+"/"+id, "entrypoint", entrypoint)
}
