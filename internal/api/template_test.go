package api_test

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func templates(c *api.Client) *api.Collection[api.Template] { return c.Templates }

// templateOfBothVersions sets every field that v1 or v2 has.
func templateOfBothVersions() api.Template {
	return api.Template{
		ID: "a", Name: "n", Image: "i:1", Disk: 30,
		Command: api.Command{Entrypoint: new([]string{"/bin/sh", "-c"}), Cmd: new([]string{"serve", "--name", "my model"})},
		Env:     map[string]string{"A": "1", "B": ""}, Ports: []string{"80/http", "22/tcp"}, Registry: "r",
		Mounts: api.TemplateMounts{Persistent: &api.PersistentMount{Size: 40, Path: "/data"}},
		Public: true, Serverless: true, Category: "AMD",
		Readme:   new("# hello"),
		StartSSH: new(false), StartJupyter: new(true), AllowedCUDAVersions: new([]string{"12.4", "12.5"}),
	}
}

func TestCreateTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		version api.Version
		want    api.Template
		body    string
	}{
		"v1, all": {api.V1, templateOfBothVersions(), `{"name":"n","imageName":"i:1","dockerStartCmd":["serve","--name","my model"],"containerDiskInGb":30,
			"env":{"A":"1","B":""},"ports":["80/http","22/tcp"],"containerRegistryAuthId":"r","volumeInGb":40,"volumeMountPath":"/data",
			"isPublic":true,"isServerless":true,"category":"AMD","readme":"# hello","dockerEntrypoint":["/bin/sh","-c"]}`},
		// The server would fill in ports and a volume of its own.
		"v1, only required": {api.V1, api.Template{Name: "n", Image: "i"},
			`{"name":"n","imageName":"i","ports":[],"volumeInGb":0,"isPublic":false,"isServerless":false}`},
		"v1, empty": {api.V1, api.Template{Name: "n", Image: "i", Env: map[string]string{}, Ports: []string{}, Readme: new(""),
			Command: api.Command{Args: new(""), Entrypoint: new([]string(nil)), Cmd: new([]string{})}, AllowedCUDAVersions: new([]string{})},
			`{"name":"n","imageName":"i","ports":[],"volumeInGb":0,"isPublic":false,"isServerless":false}`},
		"v2, all": {api.V2, templateOfBothVersions(), `{"name":"n","image":"i:1","entrypoint":["/bin/sh","-c"],"cmd":["serve","--name","my model"],"disk":30,
			"env":{"A":"1","B":""},"ports":["80/http","22/tcp"],"registry":"r","mounts":{"persistent":{"size":40,"path":"/data"}},
			"public":true,"serverless":true,"category":"AMD","startSsh":false,"startJupyter":true,"allowedCudaVersions":["12.4","12.5"]}`},
		"v2, only required": {api.V2, api.Template{Name: "n", Image: "i"}, `{"name":"n","image":"i","public":false,"serverless":false}`},
		"v2, empty": {api.V2, api.Template{Name: "n", Image: "i", Env: map[string]string{}, Ports: []string{}, Readme: new(""),
			Command: api.Command{Args: new(""), Entrypoint: new([]string(nil)), Cmd: new([]string{})}, AllowedCUDAVersions: new([]string{})},
			`{"name":"n","image":"i","public":false,"serverless":false}`},
	} {
		t.Run(name, func(t *testing.T) { expectSameJSON(t, must.Do(createBody(t, c.version, templates, c.want))(t), c.body) })
	}
}

func TestReadTemplate(t *testing.T) {
	v1 := templateOfBothVersions()
	v1.StartSSH, v1.StartJupyter, v1.AllowedCUDAVersions = nil, nil, nil
	v1.Args = new(`{"entrypoint":["/bin/sh","-c"],"cmd":["serve","--name","my model"]}`)
	v2 := templateOfBothVersions()
	v2.Readme, v2.Args = nil, new(" stored ")
	empty := api.Command{Args: new(""), Entrypoint: new([]string(nil)), Cmd: new([]string{})}
	for name, c := range map[string]struct {
		version api.Version
		answer  string
		want    api.Template
	}{
		"v1, all": {api.V1, `{"id":"a","name":"n","imageName":"i:1","dockerStartCmd":["serve","--name","my model"],"containerDiskInGb":30,
			"env":{"A":"1","B":""},"ports":["80/http","22/tcp"],"containerRegistryAuthId":"r","volumeInGb":40,"volumeMountPath":"/data",
			"isPublic":true,"isServerless":true,"category":"AMD","readme":"# hello","dockerEntrypoint":["/bin/sh","-c"],
			"earned":1.5,"runtimeInMin":3,"isRunpod":true,"isPlatform":true}`, v1},
		"v1, only the id": {api.V1, `{"id":"a"}`, api.Template{ID: "a", Readme: new(""), Command: empty}},
		"v1, no volume": {api.V1, `{"id":"a","volumeInGb":0,"volumeMountPath":"/workspace"}`,
			api.Template{ID: "a", Readme: new(""), Command: empty}},
		"v1, null": {api.V1, `{"id":"a","dockerStartCmd":null,"env":null,"ports":null,"containerRegistryAuthId":null,"volumeInGb":null,"readme":null,"dockerEntrypoint":null}`,
			api.Template{ID: "a", Readme: new(""), Command: empty}},
		"v2, all": {api.V2, `{"id":"a","name":"n","image":"i:1","args":" stored ","entrypoint":["/bin/sh","-c"],"cmd":["serve","--name","my model"],"disk":30,
			"env":{"A":"1","B":""},"ports":["80/http","22/tcp"],"registry":"r","mounts":{"persistent":{"size":40,"path":"/data"}},
			"public":true,"serverless":true,"category":"AMD","startSsh":false,"startJupyter":true,"allowedCudaVersions":["12.4","12.5"]}`, v2},
		"v2, only the id": {api.V2, `{"id":"a"}`, api.Template{ID: "a", Command: empty, AllowedCUDAVersions: new([]string(nil))}},
		"v2, null": {api.V2, `{"id":"a","args":null,"env":null,"ports":null,"registry":null,"mounts":null,"startSsh":null,"allowedCudaVersions":null}`,
			api.Template{ID: "a", Command: empty, AllowedCUDAVersions: new([]string(nil))}},
		"v2, no mount": {api.V2, `{"id":"a","mounts":{}}`, api.Template{ID: "a", Command: empty, AllowedCUDAVersions: new([]string(nil))}},
		// Responses of the API of August 2026, which has only args.
		"v2, only args": {api.V2, `{"id":"a","args":"run 'a b'"}`, api.Template{ID: "a", AllowedCUDAVersions: new([]string(nil)),
			Command: api.Command{Args: new("run 'a b'"), Entrypoint: new([]string(nil)), Cmd: new([]string{"run", "a b"})}}},
		"v2, only args in JSON": {api.V2, `{"id":"a","args":"{\"entrypoint\":[\"e\"]}"}`, api.Template{ID: "a", AllowedCUDAVersions: new([]string(nil)),
			Command: api.Command{Args: new(`{"entrypoint":["e"]}`), Entrypoint: new([]string{"e"}), Cmd: new([]string(nil))}}},
		"v2, args that can't be split": {api.V2, `{"id":"a","args":"it's","entrypoint":[],"cmd":[]}`, api.Template{ID: "a", AllowedCUDAVersions: new([]string(nil)),
			Command: api.Command{Args: new("it's"), Entrypoint: new([]string(nil)), Cmd: new([]string{"it's"})}}},
		"v1, no entrypoint": {api.V1, `{"id":"a","dockerStartCmd":["run","a b"]}`, api.Template{ID: "a", Readme: new(""),
			Command: api.Command{Args: new("run 'a b'"), Entrypoint: new([]string(nil)), Cmd: new([]string{"run", "a b"})}}},
	} {
		t.Run(name, func(t *testing.T) { expectEqual(t, decodeAnswer(t, c.version, templates, c.answer), c.want) })
	}
}

func TestUpdateTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.Template) // of templateOfBothVersions
		v1, v2 string
	}{
		"no change": {func(*api.Template) {}, `null`, `null`},
		"name":      {func(t *api.Template) { t.Name = "m" }, `{"name":"m"}`, `{"name":"m"}`},
		"image":     {func(t *api.Template) { t.Image = "j" }, `{"imageName":"j"}`, `{"image":"j"}`},
		"args":      {func(t *api.Template) { t.Command = api.Command{Args: new("run 'a b'")} }, `{"dockerEntrypoint":[],"dockerStartCmd":["run","a b"]}`, `{"args":"run 'a b'"}`},
		"cmd":       {func(t *api.Template) { t.Cmd = new([]string{"x"}) }, `{"dockerStartCmd":["x"]}`, `{"cmd":["x"]}`},
		"the same words as JSON": {func(t *api.Template) {
			t.Command = api.Command{Args: new(`{"cmd":["serve","--name","my model"],"entrypoint":["/bin/sh","-c"]}`)}
		}, `null`, `null`},
		"disk":       {func(t *api.Template) { t.Disk = 50 }, `{"containerDiskInGb":50}`, `{"disk":50}`},
		"env":        {func(t *api.Template) { t.Env = map[string]string{"A": "2"} }, `{"env":{"A":"2"}}`, `{"env":{"A":"2"}}`},
		"ports":      {func(t *api.Template) { t.Ports = []string{"81/http"} }, `{"ports":["81/http"]}`, `{"ports":["81/http"]}`},
		"registry":   {func(t *api.Template) { t.Registry = "s" }, `{"containerRegistryAuthId":"s"}`, `{"registry":"s"}`},
		"size":       {func(t *api.Template) { t.Mounts.Persistent.Size = 60 }, `{"volumeInGb":60,"volumeMountPath":"/data"}`, `{"mounts":{"persistent":{"size":60,"path":"/data"}}}`},
		"path":       {func(t *api.Template) { t.Mounts.Persistent.Path = "/d" }, `{"volumeInGb":40,"volumeMountPath":"/d"}`, `{"mounts":{"persistent":{"size":40,"path":"/d"}}}`},
		"public":     {func(t *api.Template) { t.Public = false }, `{"isPublic":false}`, `{"public":false}`},
		"serverless": {func(t *api.Template) { t.Serverless = false }, `null`, `{"serverless":false}`}, // with v1, the plan replaces the template
		"category":   {func(t *api.Template) { t.Category = "CPU" }, `null`, `{"category":"CPU"}`},     // with v1, the plan replaces the template
		"readme":     {func(t *api.Template) { t.Readme = new("x") }, `{"readme":"x"}`, `null`},
		"entrypoint": {func(t *api.Template) { t.Entrypoint = new([]string{"x"}) }, `{"dockerEntrypoint":["x"]}`, `{"entrypoint":["x"]}`},
		"ssh":        {func(t *api.Template) { t.StartSSH = new(true) }, `null`, `{"startSsh":true}`},
		"ssh, unset": {func(t *api.Template) { t.StartSSH = nil }, `null`, `null`},
		"jupyter":    {func(t *api.Template) { t.StartJupyter = new(false) }, `null`, `{"startJupyter":false}`},
		"CUDA":       {func(t *api.Template) { t.AllowedCUDAVersions = new([]string{"13.0"}) }, `null`, `{"allowedCudaVersions":["13.0"]}`},

		"clear args":       {func(t *api.Template) { t.Command = api.Command{Args: new("")} }, `{"dockerEntrypoint":[],"dockerStartCmd":[]}`, `{"args":""}`},
		"clear cmd":        {func(t *api.Template) { t.Cmd = new([]string(nil)) }, `{"dockerStartCmd":[]}`, `{"cmd":[]}`},
		"clear env":        {func(t *api.Template) { t.Env = nil }, `{"env":{}}`, `{"env":{}}`},
		"clear ports":      {func(t *api.Template) { t.Ports = nil }, `{"ports":[]}`, `{"ports":[]}`},
		"clear registry":   {func(t *api.Template) { t.Registry = "" }, `{"containerRegistryAuthId":""}`, `{"registry":null}`},
		"clear mount":      {func(t *api.Template) { t.Mounts.Persistent = nil }, `{"volumeInGb":0}`, `null`}, // with v2, the plan replaces the template
		"clear readme":     {func(t *api.Template) { t.Readme = nil }, `{"readme":""}`, `null`},
		"clear entrypoint": {func(t *api.Template) { t.Entrypoint = new([]string{}) }, `{"dockerEntrypoint":[]}`, `{"entrypoint":[]}`},
		"clear CUDA":       {func(t *api.Template) { t.AllowedCUDAVersions = nil }, `null`, `{"allowedCudaVersions":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := templateOfBothVersions()
			c.change(&want)
			expectUpdates(t, templates, templateOfBothVersions(), want, c.v1, c.v2)
		})
	}
}

func TestArgsThatV1CantSplit(t *testing.T) {
	broken := templateOfBothVersions()
	broken.Command = api.Command{Args: new(`run 'secret`)}
	body, err := createBody(t, api.V1, templates, broken)
	must.Hold(t, err != nil, "expected an error and got the create body", body)
	body, err = updateBody(t, api.V1, templates, templateOfBothVersions(), broken)
	must.Hold(t, err != nil, "expected an error and got the update body", body)
	// v1 can't split the args that v2 stored, so the update sends every field.
	want := templateOfBothVersions()
	expectUpdate(t, api.V1, templates, broken, want, `{"name":"n","imageName":"i:1","dockerStartCmd":["serve","--name","my model"],"containerDiskInGb":30,
		"env":{"A":"1","B":""},"ports":["80/http","22/tcp"],"containerRegistryAuthId":"r","volumeInGb":40,"volumeMountPath":"/data",
		"isPublic":true,"readme":"# hello","dockerEntrypoint":["/bin/sh","-c"]}`)
	expectUpdate(t, api.V2, templates, broken, want, `{"entrypoint":["/bin/sh","-c"],"cmd":["serve","--name","my model"]}`)
}
