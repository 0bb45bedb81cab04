package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func container(image string) *api.Container {
	return &api.Container{
		Image: new(image), Command: api.Command{Args: new("python 'a b'")}, Disk: new(int64(20)), Env: map[string]string{"A": "b"},
		Ports: new([]string{"8000/http"}), Registry: new(""),
	}
}

func gpuPod() api.Pod {
	return api.Pod{
		Name: "p", Container: container("i"), GPU: &api.PodGPU{ID: "NVIDIA L4", Count: 2, PodGPURequirements: api.PodGPURequirements{AllowedCUDAVersions: []string{"12.8"}}},
		Mounts: api.PodMounts{Persistent: &api.PersistentMount{Size: 30, Path: "/data"}}, Cloud: "SECURE", DataCenterIDs: []string{"EU-RO-1"},
	}
}

func TestPodBodies(t *testing.T) {
	network := gpuPod()
	network.GPU, network.CPU = nil, &api.PodCPU{ID: "cpu3c", VCPUCount: 4, Memory: 8}
	network.Mounts = api.PodMounts{Network: []api.NetworkMount{{VolumeID: "v", Path: "/net"}}}
	ofTemplate := api.Pod{Name: "p", TemplateID: new("t"), Container: &api.Container{Env: map[string]string{"A": "b"}}, GPU: &api.PodGPU{ID: "NVIDIA L4", Count: 1}}
	bare := api.Pod{Name: "p", Container: container("i"), GPU: &api.PodGPU{ID: "NVIDIA L4"}, Locked: new(true), GlobalNetworking: &api.GlobalNetworking{Enabled: true}, StartSSH: new(true)}
	for name, c := range map[string]struct {
		pod    api.Pod
		v1, v2 string
	}{
		"GPU": {gpuPod(),
			`{"name":"p","imageName":"i","containerDiskInGb":20,"containerRegistryAuthId":"","dockerStartCmd":["python","a b"],"env":{"A":"b"},"ports":["8000/http"],
				"volumeInGb":30,"volumeMountPath":"/data","computeType":"GPU","gpuTypeIds":["NVIDIA L4"],"gpuCount":2,"allowedCudaVersions":["12.8"],"cloudType":"SECURE","dataCenterIds":["EU-RO-1"]}`,
			`{"name":"p","image":"i","args":"python 'a b'","disk":20,"env":{"A":"b"},"ports":["8000/http"],"registry":null,
				"gpu":{"id":"NVIDIA L4","count":2,"allowedCudaVersions":["12.8"]},"mounts":{"persistent":{"size":30,"path":"/data"}},"cloud":"SECURE","dataCenterIds":["EU-RO-1"]}`},
		"CPU with a network volume": {network,
			`{"name":"p","imageName":"i","containerDiskInGb":20,"containerRegistryAuthId":"","dockerStartCmd":["python","a b"],"env":{"A":"b"},"ports":["8000/http"],
				"networkVolumeId":"v","volumeMountPath":"/net","computeType":"CPU","cpuFlavorIds":["cpu3c"],"vcpuCount":4,"cloudType":"SECURE","dataCenterIds":["EU-RO-1"]}`,
			`{"name":"p","image":"i","args":"python 'a b'","disk":20,"env":{"A":"b"},"ports":["8000/http"],"registry":null,
				"cpu":{"id":"cpu3c","vcpuCount":4},"mounts":{"network":[{"volumeId":"v","path":"/net"}]},"cloud":"SECURE","dataCenterIds":["EU-RO-1"]}`},
		"from a template, without own settings": {ofTemplate,
			`{"name":"p","templateId":"t","env":{"A":"b"},"computeType":"GPU","gpuTypeIds":["NVIDIA L4"],"gpuCount":1}`,
			`{"name":"p","templateId":"t","env":{"A":"b"},"gpu":{"id":"NVIDIA L4","count":1}}`},
		"without a mount, which v1 would add": {bare,
			`{"name":"p","imageName":"i","containerDiskInGb":20,"containerRegistryAuthId":"","dockerStartCmd":["python","a b"],"env":{"A":"b"},"ports":["8000/http"],
				"volumeInGb":0,"locked":true,"globalNetworking":true,"computeType":"GPU","gpuTypeIds":["NVIDIA L4"]}`,
			`{"name":"p","image":"i","args":"python 'a b'","disk":20,"env":{"A":"b"},"ports":["8000/http"],"registry":null,"gpu":{"id":"NVIDIA L4"},"globalNetworking":true,"startSsh":true}`},
	} {
		for version, want := range map[api.Version]string{api.V1: c.v1, api.V2: c.v2} {
			client, d := deploy(t, version, answer(201, `{"id":"a"}`))
			d.emptyLists = true
			must.Succeed(t, must.Err(client.Pods.Create(t.Context(), c.pod)), version, name)
			t.Log(version, name)
			expectSameJSON(t, d.last(t).body, want)
		}
	}
}

func TestPodUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.Pod)
		v1, v2 string // "" where nothing is sent
	}{
		"no change":          {func(*api.Pod) {}, ``, ``},
		"the order of ports": {func(p *api.Pod) { p.Container.Ports = new([]string{"22/tcp", "8000/http"}) }, ``, ``},
		"fixed attributes":   {func(p *api.Pod) { p.GPU, p.DataCenterIDs, p.Cloud, p.TemplateID = nil, nil, "", new("t") }, ``, ``},
		"the name":           {func(p *api.Pod) { p.Name = "q" }, `{"name":"q"}`, `{"name":"q"}`},
		"the image":          {func(p *api.Pod) { p.Container.Image = new("j") }, `{"imageName":"j"}`, `{"image":"j"}`},
		"no arguments":       {func(p *api.Pod) { p.Container.Args = new("") }, `{"dockerStartCmd":[]}`, `{"args":""}`},
		"an entrypoint":      {func(p *api.Pod) { p.Container.Args, p.Container.Entrypoint = nil, new([]string{"e"}) }, `{"dockerEntrypoint":["e"]}`, `{"entrypoint":["e"]}`},
		"the same lists": {func(p *api.Pod) {
			p.Container.Command = api.Command{Entrypoint: new([]string(nil)), Cmd: new([]string{"python", "a b"})}
		}, ``, ``},
		"an empty cmd":            {func(p *api.Pod) { p.Container.Args, p.Container.Cmd = nil, new([]string(nil)) }, `{"dockerStartCmd":[]}`, `{"cmd":[]}`},
		"no ports":                {func(p *api.Pod) { p.Container.Ports = new([]string{}) }, `{"ports":[]}`, `{"ports":[]}`},
		"no registry auth":        {func(p *api.Pod) { p.Container.Registry = new("") }, `{"containerRegistryAuthId":""}`, `{"registry":null}`},
		"the environment":         {func(p *api.Pod) { p.Container.Env = map[string]string{} }, `{"env":{}}`, `{"env":{}}`},
		"unset attributes":        {func(p *api.Pod) { p.Container = &api.Container{} }, ``, ``},
		"the size of the mount":   {func(p *api.Pod) { p.Mounts.Persistent.Size = 50 }, `{"volumeInGb":50,"volumeMountPath":"/data"}`, `{"mounts":{"persistent":{"size":50,"path":"/data"}}}`},
		"no mount, which is kept": {func(p *api.Pod) { p.Mounts = api.PodMounts{} }, ``, ``},
		"a lock":                  {func(p *api.Pod) { p.Locked = new(true) }, `{"locked":true}`, `{"locked":true}`},
		"global networking, which is off already": {func(p *api.Pod) { p.GlobalNetworking = &api.GlobalNetworking{} }, `{"globalNetworking":false}`, `{"globalNetworking":false}`},
	} {
		for version, want := range map[api.Version]string{api.V1: c.v1, api.V2: c.v2} {
			client, d := deploy(t, version, answer(200, `{"id":"a"}`))
			have, after := gpuPod(), gpuPod()
			have.ID, have.Locked, have.GlobalNetworking = "a", new(false), &api.GlobalNetworking{}
			have.Container.Ports, after.Container.Ports = new([]string{"8000/http", "22/tcp"}), new([]string{"8000/http", "22/tcp"})
			have.Container.Registry, after.Container.Registry = new("r"), new("r")
			c.change(&after)
			must.Succeed(t, must.Err(client.Pods.Update(t.Context(), have, after)), version, name)
			if last := d.last(t); want == "" {
				must.Equal(t, last.method, http.MethodGet, version, name, "sent", last.body)
			} else {
				t.Log(version, name)
				expectSameJSON(t, last.body, want)
			}
		}
	}
}

// Both versions' answers about a pod decode into the same neutral pod, except for members that v1 lacks.
func TestPodAnswers(t *testing.T) {
	v1 := `{"id":"a","name":"p","image":"i","containerDiskInGb":20,"dockerEntrypoint":["sh"],"dockerStartCmd":["python","a b"],"env":{"A":"b"},"ports":["22/tcp","8000/http"],
		"containerRegistryAuthId":"r","portMappings":{"22":10022},"publicIp":"1.2.3.4","desiredStatus":"RUNNING","lastStartedAt":"2026-01-01T00:00:00Z","lastStatusChange":"x","locked":true,
		"gpu":{"id":"NVIDIA L4","count":2,"displayName":"L4"},"vcpuCount":12.5,"costPerHr":0.5,"machine":{"secureCloud":true,"dataCenterId":"EU-RO-1"},"volumeInGb":30,"volumeMountPath":"/data"}`
	v2 := `{"id":"a","name":"p","image":"i","args":"{\"entrypoint\":[\"sh\"],\"cmd\":[\"python\",\"a b\"]}","entrypoint":["sh"],"cmd":["python","a b"],"disk":20,"env":{"A":"b"},"ports":["22/tcp","8000/http"],"registry":"r","status":"RUNNING","actions":["stop"],"mounts":{"persistent":{"size":30,"path":"/data"}},
		"gpu":{"id":"NVIDIA L4","count":2},"cloud":"SECURE","dataCenterId":"EU-RO-1","cudaVersion":"12.8","ssh":{"proxy":null,"direct":{"host":"1.2.3.4","port":10022,"username":"root","command":"ssh root@1.2.3.4 -p 10022"}},
		"template":null,"cost":0.5,"locked":true,"globalNetworking":{"enabled":true,"ip":"10.0.0.1","internalDns":"a.internal"},"runtime":{"uptime":5,"gpus":[],"ports":[{"private":22,"public":10022,"type":"tcp","ip":"1.2.3.4"},{"private":8000,"public":null,"type":"http","ip":null}]},
		"createdAt":"2026-01-01T00:00:00Z","startedAt":"2026-01-01T00:00:00Z","reason":null}`
	read := func(version api.Version, body string) api.Pod {
		c, _ := deploy(t, version, answer(200, body))
		return must.Do(c.Pods.Get(t.Context(), "a"))(t)
	}
	got1, got2 := read(api.V1, v1), read(api.V2, v2)
	must.Hold(t, got2.GlobalNetworking != nil && got2.GlobalNetworking.IP == "10.0.0.1" && slices.Equal(*got1.Container.Entrypoint, []string{"sh"}),
		"v2 has the global networking", got2.GlobalNetworking, "and v1 the entrypoint", *got1.Container.Entrypoint)
	got2.GlobalNetworking, got2.Actions, got2.CUDAVersion, got2.CreatedAt, got2.Runtime.Uptime, got2.Runtime.GPUs = nil, nil, nil, "", 0, nil
	expectEqual(t, got1, got2)

	cpu := read(api.V1, `{"id":"a","cpuFlavorId":"cpu3c","vcpuCount":4,"memoryInGb":8,"desiredStatus":"EXITED","lastStartedAt":"2026-01-01T00:00:00Z","volumeInGb":0,"volumeMountPath":"/net",
		"networkVolume":{"id":"v","name":"n","size":10,"dataCenterId":"d"},"machine":{"secureCloud":false}}`)
	expectEqual(t, cpu.CPU, &api.PodCPU{ID: "cpu3c", VCPUCount: 4, Memory: 8})
	expectEqual(t, cpu.Mounts, api.PodMounts{Network: []api.NetworkMount{{VolumeID: "v", Path: "/net"}}})
	must.Hold(t, cpu.Cloud == "COMMUNITY" && cpu.Runtime == nil && !cpu.Active(), "expected an inactive pod of the community cloud without runtime and got", cpu)
}

func TestTerminatedPodIsGone(t *testing.T) {
	for version, body := range map[api.Version]string{api.V1: `{"id":"a","desiredStatus":"TERMINATED"}`, api.V2: `{"id":"a","status":"TERMINATED"}`} {
		c, _ := deploy(t, version, answer(200, body))
		got, err := c.Pods.Get(t.Context(), "a")
		must.Hold(t, api.IsNotFound(err), version, "answers a terminated pod, and the read returned", got, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/pods", answer(200, `{"pods":[{"id":"a","status":"TERMINATED"}]}`))
	mux.HandleFunc("GET /v2/templates", answer(200, `{"templates":[]}`))
	mux.HandleFunc("/", answer(404, `{"title":"Not Found","status":404}`))
	must.Succeed(t, pipe(t, mux, api.Settings{SharedReads: true}).Pods.Delete(t.Context(), "a"), "only the list still has the pod")
}

// A pod whose create failed is found by its settings, also with variables that the deployment adds.
func TestPodOfALostCreate(t *testing.T) {
	want := gpuPod()
	want.Mounts, want.StartSSH = api.PodMounts{}, new(true)
	for name, c := range map[string]struct {
		change  map[string]any
		adopted bool
	}{
		"as requested":           {nil, true},
		"with SSH":               {map[string]any{"env": map[string]any{"A": "b", "PUBLIC_KEY": "ssh-rsa x"}}, true},
		"with another variable":  {map[string]any{"env": map[string]any{"A": "b", "C": "d"}}, false},
		"on another GPU":         {map[string]any{"gpu": map[string]any{"id": "NVIDIA A40", "count": 2}}, false},
		"with one GPU":           {map[string]any{"gpu": map[string]any{"id": "NVIDIA L4", "count": 1}}, false},
		"in another data center": {map[string]any{"dataCenterId": "US-CA-2"}, false},
		"in the other cloud":     {map[string]any{"cloud": "COMMUNITY"}, false},
		"with another image":     {map[string]any{"image": "other"}, false},
		"with a mount":           {map[string]any{"mounts": map[string]any{"persistent": map[string]any{"size": 30, "path": "/x"}}}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeAPI{member: "pods"}
			s.faults = []fault{func(w http.ResponseWriter, r *http.Request, _ func() string) {
				object := map[string]any{
					"name": "p", "image": "i", "args": "python 'a b'", "disk": 20, "env": map[string]any{"A": "b"}, "ports": []string{"8000/http"}, "mounts": map[string]any{},
					"gpu": map[string]any{"id": "NVIDIA L4", "count": 2}, "cloud": "SECURE", "dataCenterId": "EU-RO-1", "locked": false, "status": "PROVISIONING",
				}
				maps.Copy(object, c.change)
				s.add(object)
				answer(500, ``)(w, r)
			}}
			got, err := s.newClient(t).Pods.Create(t.Context(), want)
			must.Equal(t, c.adopted, err == nil && got.ID == "id1", "the pod", name, "is adopted; the create returned", got.ID, err)
			_, unresolved := errors.AsType[*api.UnresolvedCreateError](err)
			must.Hold(t, c.adopted || unresolved, "the pod", name, "isn't adopted, and the error isn't an UnresolvedCreateError:", err)
		})
	}
}

// togglingPod is a server with one pod. It carries out the actions start and stop, except as faults say.
type togglingPod struct {
	status  string
	faults  []int // the answer's status, action by action; with 200 or a negated status the action is carried out
	actions []string
}

func (p *togglingPod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		answer(200, fmt.Sprintf(`{"id":"a","status":%q,"desiredStatus":%[1]q}`, p.status))(w, r)
		return
	}
	var body struct{ Action string }
	action := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if json.NewDecoder(r.Body).Decode(&body); body.Action != "" {
		action = body.Action
	}
	status := 200
	if n := len(p.actions); n < len(p.faults) {
		status = p.faults[n]
	}
	p.actions = append(p.actions, action)
	if status == 200 || status < 0 {
		p.status = map[string]string{"start": "RUNNING", "stop": "EXITED"}[action]
	}
	if status != 200 {
		status = max(status, -status)
		answer(status, fmt.Sprintf(`{"title":"No","status":%d,"message":"no"}`, status))(w, r)
		return
	}
	answer(200, `{"id":"a"}`)(w, r)
}

func TestSetActive(t *testing.T) {
	for name, c := range map[string]struct {
		status  string
		active  bool
		faults  []int
		actions int
		fails   bool
	}{
		"it runs already":              {"RUNNING", true, nil, 0, false},
		"it starts already":            {"STARTING", true, nil, 0, false},
		"it has failed, so it's off":   {"ERROR", false, nil, 0, false},
		"start":                        {"EXITED", true, nil, 1, false},
		"stop":                         {"RUNNING", false, nil, 1, false},
		"the answer is lost":           {"RUNNING", false, []int{-500}, 1, false},
		"the first try fails":          {"RUNNING", false, []int{500, 200}, 2, false},
		"it can't be found at first":   {"EXITED", true, []int{404, 404, 200}, 3, false},
		"another client was faster":    {"RUNNING", false, []int{-409}, 1, false},
		"it is refused":                {"RUNNING", false, []int{400}, 1, true},
		"it is refused for its status": {"RUNNING", false, []int{409, 409, 409, 409, 409}, 4, true},
	} {
		for _, version := range versions {
			synctest.Test(t, func(t *testing.T) {
				p := &togglingPod{status: c.status, faults: c.faults}
				got, err := pipe(t, p, api.Settings{Version: version}).Pods.SetActive(t.Context(), "a", c.active)
				must.Hold(t, (err != nil) == c.fails && len(p.actions) == c.actions && (c.fails || got.Active() == c.active),
					version, name, "ends with", got.Status, err, "after", p.actions, "expected", c.actions, "actions")
			})
		}
	}
}
