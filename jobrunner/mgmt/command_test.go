package mgmt_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// commands are start commands in bodies of version 2, and how answers show them.
var commands = []struct{ body, args, entrypoint, cmd string }{
	{`"args":"python -u 'h i.py'"`, `"python -u 'h i.py'"`, `[]`, `["python","-u","h i.py"]`},
	{`"entrypoint":["sh","-c"],"cmd":["a b",""]`, `"{\"entrypoint\":[\"sh\",\"-c\"],\"cmd\":[\"a b\",\"\"]}"`, `["sh","-c"]`, `["a b",""]`},
	{`"args":"{\"cmd\":[\"x\"]}"`, `"{\"cmd\":[\"x\"]}"`, `[]`, `["x"]`},
	{`"cmd":["<&>"],"entrypoint":[]`, `"{\"entrypoint\":[],\"cmd\":[\"<&>\"]}"`, `[]`, `["<&>"]`},
	{`"args":"a b","entrypoint":[],"cmd":["a","b"]`, `"a b"`, `[]`, `["a","b"]`}, // sent by a client that edits an object and sends all members back
	{`"args":"{\"entrypoint\":[\"e\"],\"cmd\":[\"c\"]}","entrypoint":["e"]`, `"{\"entrypoint\":[\"e\"],\"cmd\":[\"c\"]}"`, `["e"]`, `["c"]`},
	{`"args":"it's","cmd":["it's"]`, `"it's"`, `[]`, `["it's"]`}, // a shell can't parse that
	{`"args":"","entrypoint":[],"cmd":[]`, `""`, `[]`, `[]`},
	{`"entrypoint":["e"]`, `"{\"entrypoint\":[\"e\"],\"cmd\":[]}"`, `["e"]`, `[]`},
	{`"entrypoint":[],"cmd":[]`, `""`, `[]`, `[]`},
}

// contradictions are bodies whose args differ from entrypoint or cmd.
var contradictions = []string{
	`"args":"a","entrypoint":["a"]`, `"args":"a","cmd":["b"]`, `"args":"a","cmd":[]`, `"args":"","cmd":["a"]`, `"args":"a b","cmd":["a b"]`,
	`"args":"{\"entrypoint\":[\"e\"],\"cmd\":[\"c\"]}","cmd":["c"],"entrypoint":[]`,
}

// kindsWithCommands are the bodies of creates without their last brace; $ stands for the name.
var kindsWithCommands = map[string]string{
	"templates":  `{"name":"$","image":"i"`,
	"serverless": `{"name":"$","image":"i","cpu":[{"id":"cpu3c","vcpuCount":2}],"workers":{"min":0,"max":0}`,
	"pods":       `{"name":"$","image":"i","gpu":{"id":"NVIDIA L4"}`,
	"clusters":   `{"name":"$","image":"i","type":"RAY","compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":1,"podCount":2}`,
}

func TestCommandsV2(t *testing.T) {
	d := deploy(t)
	for kind, body := range kindsWithCommands {
		path := "/v2/" + kind
		updatedPath := path + "/" + d.create(path, strings.Replace(body, "$", "updated", 1)+`}`)
		for _, c := range commands {
			want := map[string]string{"args": c.args, "entrypoint": c.entrypoint, "cmd": c.cmd}
			createdPath := path + "/" + d.create(path, strings.Replace(body, "$", strings.NewReplacer(`"`, "", `\`, "").Replace(c.body), 1)+","+c.body+"}")
			if kind == "clusters" {
				member := d.mustSend(200, "GET", createdPath+"/pods", "").get("pods.1.id").(string)
				d.expectMembers(d.mustSend(200, "GET", "/v2/pods/"+member, ""), want)
				continue
			}
			d.expectMembers(d.mustSend(200, "GET", createdPath, ""), want)
			d.expectMembers(d.mustSend(200, "PATCH", updatedPath, `{"entrypoint":["other"],"cmd":["other"]}`), map[string]string{"cmd": `["other"]`})
			if !strings.HasPrefix(c.body, `"entrypoint":["e"]`) { // such an update leaves cmd unchanged
				d.expectMembers(d.mustSend(200, "PATCH", updatedPath, "{"+c.body+"}"), want)
			}
		}
		for _, c := range contradictions {
			d.expectRefusal(400, "args and entrypoint or cmd differ", "POST", path, strings.Replace(body, "$", "refused", 1)+","+c+"}")
			if kind != "clusters" {
				d.expectRefusal(400, "args and entrypoint or cmd differ", "PATCH", updatedPath, "{"+c+"}")
			}
		}
		d.expectRefusal(400, "args has a NUL character", "POST", path, strings.Replace(body, "$", "refused", 1)+`,"args":"{\"cmd\":[\"a\\u0000\"]}"}`)
		d.expectRefusal(422, `"errors":["$.image`, "POST", path, strings.NewReplacer("$", "refused", `"image":"i"`, `"image":"i\u0000"`).Replace(body)+"}")
	}
}

// Each version reads what the other wrote.
func TestCommandInTwoVersions(t *testing.T) {
	d := deploy(t)
	for kind, body := range map[string]string{"templates": `{"name":"t","image":"i"}`, "pods": kindsWithCommands["pods"] + "}"} {
		path := "/" + kind + "/" + d.create("/v2/"+kind, body)
		for _, step := range []struct{ version, body, args, entrypoint, cmd string }{
			{"v1", `{"dockerStartCmd":["a b","c"]}`, `"'a b' c"`, `[]`, `["a b","c"]`},
			{"v1", `{"dockerEntrypoint":["sh"]}`, `"{\"entrypoint\":[\"sh\"],\"cmd\":[\"a b\",\"c\"]}"`, `["sh"]`, `["a b","c"]`},
			{"v2", `{"cmd":["d"]}`, `"{\"entrypoint\":[\"sh\"],\"cmd\":[\"d\"]}"`, `["sh"]`, `["d"]`},
			{"v1", `{"dockerEntrypoint":[]}`, `"d"`, `[]`, `["d"]`},
			{"v2", `{"args":" d "}`, `" d "`, `[]`, `["d"]`},
			{"v1", `{"dockerEntrypoint":[],"dockerStartCmd":["d"]}`, `" d "`, `[]`, `["d"]`},
			{"v1", `{"dockerEntrypoint":["e"],"dockerStartCmd":[]}`, `"{\"entrypoint\":[\"e\"],\"cmd\":[]}"`, `["e"]`, `[]`},
			{"v2", `{"args":"x"}`, `"x"`, `[]`, `["x"]`}, // args are the whole command
			{"v1", `{"dockerStartCmd":[]}`, `""`, `[]`, `[]`},
		} {
			d.mustSend(200, "PATCH", "/"+step.version+path, step.body)
			d.expectMembers(d.mustSend(200, "GET", "/v1"+path, ""), map[string]string{"dockerEntrypoint": step.entrypoint, "dockerStartCmd": step.cmd})
			d.expectMembers(d.mustSend(200, "GET", "/v2"+path, ""), map[string]string{"args": step.args, "entrypoint": step.entrypoint, "cmd": step.cmd})
		}
	}
}

// Pods and endpoints take a template's command unless their own body sets it.
func TestCommandOfTemplate(t *testing.T) {
	d := deploy(t)
	for kind, body := range map[string]string{"pods": `"gpu":{"id":"NVIDIA L4"}`, "serverless": `"gpu":{"pools":["ADA_24"]}`} {
		for name, command := range map[string]string{"args": `"args":"x y"`, "lists": `"entrypoint":["e"],"cmd":["c"]`} {
			template := must.Do(json.Marshal(d.create("/v2/templates", `{"name":"`+kind+name+`","image":"i",`+command+`,"serverless":`+map[string]string{"pods": "false", "serverless": "true"}[kind]+"}")))(t)
			templateCommand := map[string][2]string{"args": {`[]`, `["x","y"]`}, "lists": {`["e"]`, `["c"]`}}[name]
			for members, want := range map[string][2]string{
				``: templateCommand, `,"cmd":["d"]`: {templateCommand[0], `["d"]`}, `,"entrypoint":["f"]`: {`["f"]`, templateCommand[1]}, `,"args":"z"`: {`[]`, `["z"]`}, `,"args":""`: {`[]`, `[]`}, `,"cmd":[]`: {templateCommand[0], `[]`},
			} {
				id := d.create("/v2/"+kind, `{"name":"n",`+body+`,"templateId":`+string(template)+members+`}`)
				d.expectMembers(d.mustSend(200, "GET", "/v2/"+kind+"/"+id, ""), map[string]string{"entrypoint": want[0], "cmd": want[1]})
			}
		}
	}
}

// An update to args with the same meaning creates no release and replaces no container, so a locked pod accepts it.
func TestSameCommandReplacesNothing(t *testing.T) {
	d := deploy(t)
	pod := "/v2/pods/" + d.create("/v2/pods", kindsWithCommands["pods"]+`,"args":"a 'b'"}`)
	endpoint := "/v2/serverless/" + d.create("/v2/serverless", kindsWithCommands["serverless"]+`,"args":"a 'b'"}`)
	d.mustSend(200, "PATCH", pod, `{"locked":true}`)
	for _, update := range []string{`{"cmd":["a","b"]}`, `{"args":"a b"}`, `{"args":"{\"cmd\":[\"a\",\"b\"]}"}`} {
		d.mustSend(200, "PATCH", pod, update)
		d.mustSend(200, "PATCH", endpoint, update)
	}
	d.expectRefusal(409, "is locked", "PATCH", pod, `{"entrypoint":["e"]}`)
	d.mustSend(200, "PATCH", endpoint, `{"entrypoint":["e"]}`)
	d.expectMembers(d.mustSend(200, "GET", endpoint+"/releases", ""), map[string]string{
		"endpointVersion": `1`, "releases.0.diff": `[{"field":"template.dockerArgs","old":"a b","new":"{\"entrypoint\":[\"e\"],\"cmd\":[\"a\",\"b\"]}"}]`,
	})
}
