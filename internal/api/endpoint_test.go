package api_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func endpoints(c *api.Client) *api.Collection[api.Endpoint] { return c.Endpoints }

// gpuEndpoint is an endpoint that both versions can express.
func gpuEndpoint() api.Endpoint {
	return api.Endpoint{
		ID: "a", Name: "n", Type: "QUEUE", TemplateID: new("t"), Container: &api.Container{},
		GPU: &api.GPU{Pools: []string{"P1", "P2"}, ExcludedTypes: []string{"X"}, TypeIDs: []string{"T1", "T2"},
			Count: 2, AllowedCUDAVersions: []string{"12.4", "12.5"}},
		Workers: api.Workers{Min: 1, Max: 5, IdleTimeout: new(int64(20))}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 6},
		DataCenterIDs: []string{"EU-RO-1", "US-KS-2"}, NetworkVolumes: []string{"v1", "v2"}, Timeout: 60000, FlashBoot: new("FLASHBOOT"),
	}
}

func ownContainer() *api.Container {
	return &api.Container{Image: new("i"), Command: api.Command{Args: new("x")}, Disk: new(int64(30)), Env: map[string]string{"A": "1"},
		Ports: new([]string{"80/http", "22/tcp"}), Registry: new("r")}
}

func TestCreateEndpoint(t *testing.T) {
	cpu := api.Endpoint{Name: "n", TemplateID: new("t"), CPU: []api.CPU{{"cpu3c", 4}, {"cpu5c", 4}}, FlashBoot: new("OFF"),
		Scaling: api.Scaling{Type: "REQUEST_COUNT", RequestCount: 3}, Workers: api.Workers{Max: 3}}
	for name, c := range map[string]struct {
		version api.Version
		want    api.Endpoint
		body    string
	}{
		"v1, GPU": {api.V1, gpuEndpoint(), `{"name":"n","templateId":"t","computeType":"GPU","gpuTypeIds":["T1","T2"],"gpuCount":2,
			"allowedCudaVersions":["12.4","12.5"],"dataCenterIds":["EU-RO-1","US-KS-2"],"networkVolumeIds":["v1","v2"],"executionTimeoutMs":60000,
			"flashboot":true,"idleTimeout":20,"scalerType":"QUEUE_DELAY","scalerValue":6,"workersMin":1,"workersMax":5}`},
		"v1, CPU": {api.V1, cpu, `{"name":"n","templateId":"t","computeType":"CPU","cpuFlavorIds":["cpu3c","cpu5c"],"vcpuCount":4,
			"flashboot":false,"scalerType":"REQUEST_COUNT","scalerValue":3,"workersMin":0,"workersMax":3}`},
		"v1, minimal": {api.V1, api.Endpoint{TemplateID: new("t")}, `{"templateId":"t","workersMin":0,"workersMax":0}`},
		"v2, GPU": {api.V2, gpuEndpoint(), `{"name":"n","type":"QUEUE","templateId":"t",
			"gpu":{"pools":["P1","P2"],"excludedTypes":["X"],"count":2,"allowedCudaVersions":["12.4","12.5"]},
			"dataCenterIds":["EU-RO-1","US-KS-2"],"networkVolumes":["v1","v2"],"timeout":60000,"flashboot":"FLASHBOOT",
			"workers":{"min":1,"max":5,"idleTimeout":20},"scaling":{"type":"QUEUE_DELAY","queueDelay":6}}`},
		"v2, CPU": {api.V2, cpu, `{"name":"n","templateId":"t","cpu":[{"id":"cpu3c","vcpuCount":4},{"id":"cpu5c","vcpuCount":4}],
			"flashboot":"OFF","workers":{"min":0,"max":3},"scaling":{"type":"REQUEST_COUNT","requestCount":3}}`},
		"v2, minimum CUDA version": {api.V2, api.Endpoint{Name: "n", GPU: &api.GPU{Pools: []string{"P"}, MinCUDAVersion: "12.4"}},
			`{"name":"n","gpu":{"pools":["P"],"minCudaVersion":"12.4"},"workers":{"min":0,"max":0}}`},
		"v2, container": {api.V2, api.Endpoint{Name: "n", Type: "LOAD_BALANCER", Container: ownContainer()},
			`{"name":"n","type":"LOAD_BALANCER","image":"i","args":"x","disk":30,"env":{"A":"1"},"ports":["80/http","22/tcp"],"registry":"r","workers":{"min":0,"max":0}}`},
		// An empty setting overrides the template's.
		"v2, empty container": {api.V2, api.Endpoint{Name: "n", TemplateID: new("t"),
			Container: &api.Container{Command: api.Command{Args: new("")}, Env: map[string]string{}, Ports: new([]string(nil)), Registry: new("")}},
			`{"name":"n","templateId":"t","args":"","env":{},"ports":[],"registry":null,"workers":{"min":0,"max":0}}`},
		"v2, minimal": {api.V2, api.Endpoint{Name: "n", DataCenterIDs: []string{}, NetworkVolumes: []string{}, GPU: &api.GPU{}},
			`{"name":"n","gpu":{},"workers":{"min":0,"max":0}}`},
		"v2, fraction": {api.V2, api.Endpoint{Name: "n", FlashBoot: new("PRIORITY_FLASHBOOT"), Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 0.5}},
			`{"name":"n","flashboot":"PRIORITY_FLASHBOOT","scaling":{"type":"QUEUE_DELAY","queueDelay":0.5},"workers":{"min":0,"max":0}}`},
	} {
		t.Run(name, func(t *testing.T) { expectSameJSON(t, must.Do(createBody(t, c.version, endpoints, c.want))(t), c.body) })
	}
}

func TestReadEndpoint(t *testing.T) {
	v1 := gpuEndpoint()
	v1.Type, v1.Container, v1.GPU.Pools, v1.GPU.ExcludedTypes = "", nil, nil, nil
	v1.FlashBoot, v1.CreatedAt, v1.WorkerEnv = nil, "2026-11-01T00:00:00Z", map[string]string{"A": "1"}
	v2 := gpuEndpoint()
	v2.TemplateID, v2.Container, v2.GPU.TypeIDs = nil, ownContainer(), nil
	v2.Container.Entrypoint, v2.Container.Cmd = new([]string(nil)), new([]string{"x"})
	v2.CreatedAt, v2.RequestURLs = v1.CreatedAt, api.RequestURLs{Run: "http://q/run", RunSync: "http://q/runsync", Status: "http://q/status",
		Stream: "http://q/stream", Cancel: "http://q/cancel", Retry: "http://q/retry", PurgeQueue: "http://q/purge-queue", Health: "http://q/health"}
	empty := &api.Container{Command: api.Command{Args: new(""), Entrypoint: new([]string(nil)), Cmd: new([]string{})}, Env: map[string]string{}, Ports: new([]string(nil)), Registry: new("")}
	allDataCenters := `["EU-RO-1","CA-MTL-1","EU-SE-1","US-IL-1","EUR-IS-1","EU-CZ-1","US-TX-3","EUR-IS-2","US-KS-2","US-GA-2","US-WA-1","US-TX-1","CA-MTL-3",
		"EU-NL-1","US-TX-4","US-CA-2","US-NC-1","OC-AU-1","US-DE-1","EUR-IS-3","CA-MTL-2","AP-JP-1","EUR-NO-1","EU-FR-1","US-KS-3","US-GA-1"]`
	for name, c := range map[string]struct {
		version api.Version
		wire    string
		want    api.Endpoint
	}{
		"v1, all": {api.V1, `{"id":"a","name":"n","templateId":"t","computeType":"GPU","gpuTypeIds":["T1","T2"],"gpuCount":2,
			"allowedCudaVersions":["12.4","12.5"],"dataCenterIds":["EU-RO-1","US-KS-2"],"networkVolumeId":"v1","networkVolumeIds":["v1","v2"],
			"executionTimeoutMs":60000,"idleTimeout":20,"scalerType":"QUEUE_DELAY","scalerValue":6,"workersMin":1,"workersMax":5,
			"createdAt":"2026-11-01T00:00:00Z","env":{"A":"1"},"template":{"id":"t"},"workers":[{"id":"w"}],"userId":"u","version":3}`, v1},
		"v1, minimal":              {api.V1, `{"id":"a"}`, api.Endpoint{ID: "a"}},
		"v1, null":                 {api.V1, `{"id":"a","templateId":null,"gpuTypeIds":null,"minCudaVersion":null,"dataCenterIds":null,"networkVolumeId":null,"networkVolumeIds":null,"idleTimeout":null}`, api.Endpoint{ID: "a"}},
		"v1, one volume":           {api.V1, `{"id":"a","networkVolumeId":"v"}`, api.Endpoint{ID: "a", NetworkVolumes: []string{"v"}}},
		"v1, no volume":            {api.V1, `{"id":"a","networkVolumeId":""}`, api.Endpoint{ID: "a"}},
		"v1, all data centers":     {api.V1, `{"id":"a","dataCenterIds":` + allDataCenters + `}`, api.Endpoint{ID: "a"}},
		"v1, one data center":      {api.V1, `{"id":"a","dataCenterIds":["EU-RO-1"]}`, api.Endpoint{ID: "a", DataCenterIDs: []string{"EU-RO-1"}}},
		"v1, CPU":                  {api.V1, `{"id":"a","computeType":"CPU","gpuCount":1,"instanceIds":["cpu3c-8-16","a-b-2-4"]}`, api.Endpoint{ID: "a", CPU: []api.CPU{{"cpu3c", 8}, {"a-b", 2}}}},
		"v1, unreadable CPU":       {api.V1, `{"id":"a","computeType":"CPU","instanceIds":["cpu3c-8-16","cpu3c-x-16"]}`, api.Endpoint{ID: "a"}},
		"v1, CPU without counts":   {api.V1, `{"id":"a","computeType":"CPU","instanceIds":["cpu3c-8"]}`, api.Endpoint{ID: "a"}},
		"v1, CPU without a name":   {api.V1, `{"id":"a","computeType":"CPU","instanceIds":[""]}`, api.Endpoint{ID: "a"}},
		"v1, any GPU":              {api.V1, `{"id":"a","computeType":"GPU","gpuCount":1}`, api.Endpoint{ID: "a", GPU: &api.GPU{Count: 1}}},
		"v1, minimum CUDA version": {api.V1, `{"id":"a","minCudaVersion":"12.4"}`, api.Endpoint{ID: "a", GPU: &api.GPU{MinCUDAVersion: "12.4"}}},
		"v1, flashboot":            {api.V1, `{"id":"a","flashboot":true}`, api.Endpoint{ID: "a", FlashBoot: new("FLASHBOOT")}},
		"v1, no flashboot":         {api.V1, `{"id":"a","flashboot":false}`, api.Endpoint{ID: "a", FlashBoot: new("OFF")}},
		"v1, by requests": {api.V1, `{"id":"a","scalerType":"REQUEST_COUNT","scalerValue":3}`,
			api.Endpoint{ID: "a", Scaling: api.Scaling{Type: "REQUEST_COUNT", RequestCount: 3}}},
		"v2, all": {api.V2, `{"id":"a","name":"n","type":"QUEUE","image":"i","args":"x","disk":30,"env":{"A":"1"},"ports":["80/http","22/tcp"],"registry":"r",
			"gpu":{"pools":["P1","P2"],"excludedTypes":["X"],"count":2,"allowedCudaVersions":["12.4","12.5"],"minCudaVersion":null},
			"workers":{"min":1,"max":5,"idleTimeout":20},"scaling":{"type":"QUEUE_DELAY","queueDelay":6},
			"dataCenterIds":["EU-RO-1","US-KS-2"],"networkVolumes":["v1","v2"],"timeout":60000,"flashboot":"FLASHBOOT","createdAt":"2026-11-01T00:00:00Z",
			"requestUrls":{"run":"http://q/run","runSync":"http://q/runsync","status":"http://q/status","stream":"http://q/stream",
			"cancel":"http://q/cancel","retry":"http://q/retry","purgeQueue":"http://q/purge-queue","health":"http://q/health"}}`, v2},
		"v2, minimal": {api.V2, `{"id":"a"}`, api.Endpoint{ID: "a", Container: empty}},
		"v2, null": {api.V2, `{"id":"a","gpu":null,"cpu":null,"args":null,"env":null,"ports":null,"registry":null,"workers":null,"scaling":null,"requestUrls":null,"timeout":null}`,
			api.Endpoint{ID: "a", Container: empty}},
		"v2, CPU": {api.V2, `{"id":"a","cpu":[{"id":"cpu3c","vcpuCount":4,"memory":8}],"workers":{"min":0,"max":3},"scaling":{"type":"REQUEST_COUNT","requestCount":3}}`,
			api.Endpoint{ID: "a", Container: empty, CPU: []api.CPU{{"cpu3c", 4}}, Workers: api.Workers{Max: 3}, Scaling: api.Scaling{Type: "REQUEST_COUNT", RequestCount: 3}}},
		"v2, load balancer": {api.V2, `{"id":"a","type":"LOAD_BALANCER","requestUrls":{"base":"http://b","health":"http://b/ping"},"gpu":{"pools":["P"],"allowedCudaVersions":[],"minCudaVersion":"12.4"}}`,
			api.Endpoint{ID: "a", Type: "LOAD_BALANCER", Container: empty, RequestURLs: api.RequestURLs{Base: "http://b", Health: "http://b/ping"},
				GPU: &api.GPU{Pools: []string{"P"}, AllowedCUDAVersions: []string{}, MinCUDAVersion: "12.4"}}},
	} {
		t.Run(name, func(t *testing.T) { expectEqual(t, decodeAnswer(t, c.version, endpoints, c.wire), c.want) })
	}
}

func TestUpdateEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.Endpoint) // of gpuEndpoint
		v1, v2 string
	}{
		"no change": {func(*api.Endpoint) {}, `null`, `null`},
		"name":      {func(e *api.Endpoint) { e.Name = "m" }, `{"name":"m"}`, `{"name":"m"}`},
		"pools": {func(e *api.Endpoint) { e.GPU.Pools = []string{"P3"} }, `null`,
			`{"gpu":{"pools":["P3"],"excludedTypes":["X"]}}`},
		"exclusions": {func(e *api.Endpoint) { e.GPU.ExcludedTypes = nil }, `null`,
			`{"gpu":{"pools":["P1","P2"],"excludedTypes":[]}}`},
		"types": {func(e *api.Endpoint) { e.GPU.TypeIDs = []string{"T2", "T1"} }, `{"gpuTypeIds":["T2","T1"]}`, `null`},
		"count": {func(e *api.Endpoint) { e.GPU.Count = 1 }, `{"gpuCount":1}`,
			`{"gpu":{"pools":["P1","P2"],"excludedTypes":["X"],"count":1}}`},
		"CUDA": {func(e *api.Endpoint) { e.GPU.AllowedCUDAVersions = []string{"13.0"} }, `{"allowedCudaVersions":["13.0"]}`,
			`{"gpu":{"pools":["P1","P2"],"excludedTypes":["X"],"allowedCudaVersions":["13.0"]}}`},
		"minimum CUDA version": {func(e *api.Endpoint) { e.GPU.AllowedCUDAVersions, e.GPU.MinCUDAVersion = nil, "12.4" },
			`{"allowedCudaVersions":[],"minCudaVersion":"12.4"}`,
			`{"gpu":{"pools":["P1","P2"],"excludedTypes":["X"],"allowedCudaVersions":[],"minCudaVersion":"12.4"}}`},
		"min": {func(e *api.Endpoint) { e.Workers.Min = 0 }, `{"workersMin":0,"workersMax":5,"idleTimeout":20}`,
			`{"workers":{"min":0,"max":5,"idleTimeout":20}}`},
		"no idle time": {func(e *api.Endpoint) { e.Workers.IdleTimeout = nil }, `null`, `{"workers":{"min":1,"max":5}}`},
		"scaling": {func(e *api.Endpoint) { e.Scaling = api.Scaling{Type: "REQUEST_COUNT", RequestCount: 6} },
			`{"scalerType":"REQUEST_COUNT","scalerValue":6}`, `{"scaling":{"type":"REQUEST_COUNT","requestCount":6}}`},
		"data centers": {func(e *api.Endpoint) { e.DataCenterIDs = []string{"EU-RO-1"} },
			`{"dataCenterIds":["EU-RO-1"]}`, `{"dataCenterIds":["EU-RO-1"]}`},
		"volumes": {func(e *api.Endpoint) { e.NetworkVolumes = []string{"v3"} },
			`{"networkVolumeIds":["v3"]}`, `{"networkVolumes":["v3"]}`},
		"timeout":           {func(e *api.Endpoint) { e.Timeout = 7000 }, `{"executionTimeoutMs":7000}`, `{"timeout":7000}`},
		"flashboot":         {func(e *api.Endpoint) { e.FlashBoot = new("OFF") }, `{"flashboot":false}`, `{"flashboot":"OFF"}`},
		"omitted flashboot": {func(e *api.Endpoint) { e.FlashBoot = nil }, `null`, `null`},
		"omitted type":      {func(e *api.Endpoint) { e.Type = "" }, `null`, `null`},
		"omitted GPU":       {func(e *api.Endpoint) { e.GPU = nil }, `null`, `null`},
		"other order":       {func(e *api.Endpoint) { reorder(e) }, `null`, `null`},
		"other order, more": {func(e *api.Endpoint) { reorder(e); e.Timeout = 0 }, `{"executionTimeoutMs":0}`, `{"timeout":0}`},

		"clear data centers": {func(e *api.Endpoint) { e.DataCenterIDs = nil }, `{"dataCenterIds":[]}`, `{"dataCenterIds":[]}`},
		"clear volumes":      {func(e *api.Endpoint) { e.NetworkVolumes = nil }, `{"networkVolumeIds":[]}`, `{"networkVolumes":[]}`},
		"clear timeout":      {func(e *api.Endpoint) { e.Timeout = 0 }, `{"executionTimeoutMs":0}`, `{"timeout":0}`},
		"clear CUDA": {func(e *api.Endpoint) { e.GPU.AllowedCUDAVersions = []string{} }, `{"allowedCudaVersions":[]}`,
			`{"gpu":{"pools":["P1","P2"],"excludedTypes":["X"],"allowedCudaVersions":[]}}`},
		// With a template, omitted versions are the template's.
		"omitted CUDA": {func(e *api.Endpoint) { e.GPU.AllowedCUDAVersions = nil }, `null`, `null`},
		"omitted CUDA, without a template": {func(e *api.Endpoint) { e.GPU.AllowedCUDAVersions, e.TemplateID = nil, nil },
			`{"allowedCudaVersions":[]}`, `{"gpu":{"pools":["P1","P2"],"excludedTypes":["X"],"allowedCudaVersions":[]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := gpuEndpoint()
			c.change(&want)
			expectUpdates(t, endpoints, gpuEndpoint(), want, c.v1, c.v2)
		})
	}
}

// reorder reverses the lists whose order has no meaning.
func reorder(e *api.Endpoint) {
	e.DataCenterIDs = []string{"US-KS-2", "EU-RO-1"}
	e.NetworkVolumes = []string{"v2", "v1"}
	e.GPU.Pools = []string{"P2", "P1"}
	e.GPU.AllowedCUDAVersions = []string{"12.5", "12.4"}
}

func TestUpdateCPU(t *testing.T) {
	have := api.Endpoint{ID: "a", Name: "n", CPU: []api.CPU{{"cpu3c", 4}}}
	want := api.Endpoint{Name: "n", CPU: []api.CPU{{"cpu3c", 8}, {"cpu5c", 8}}}
	expectUpdates(t, endpoints, have, want, `{"cpuFlavorIds":["cpu3c","cpu5c"],"vcpuCount":8}`, `{"cpu":[{"id":"cpu3c","vcpuCount":8},{"id":"cpu5c","vcpuCount":8}]}`)
	// cpuFlavorIds and vcpuCount are sent together, even if only one has changed: each has its meaning only with the other.
	want.CPU = want.CPU[:1]
	expectUpdate(t, api.V1, endpoints, have, want, `{"cpuFlavorIds":["cpu3c"],"vcpuCount":8}`)
}

// Without a template, an endpoint has its own container settings.
func TestUpdateContainer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.Container)
		body   string
	}{
		"no change":   {func(*api.Container) {}, `null`},
		"other order": {func(c *api.Container) { c.Ports = new([]string{"22/tcp", "80/http"}) }, `null`},
		"unset":       {func(c *api.Container) { *c = api.Container{} }, `null`},
		"all": {func(c *api.Container) {
			*c = api.Container{Image: new("j"), Command: api.Command{Args: new("y")}, Disk: new(int64(50)), Env: map[string]string{"B": "2"}, Ports: new([]string{"81/http"}), Registry: new("s")}
		}, `{"image":"j","args":"y","disk":50,"env":{"B":"2"},"ports":["81/http"],"registry":"s"}`},
		"clear": {func(c *api.Container) {
			*c = api.Container{Command: api.Command{Args: new("")}, Env: map[string]string{}, Ports: new([]string{}), Registry: new("")}
		}, `{"args":"","env":{},"ports":[],"registry":null}`},
		"lists":            {func(c *api.Container) { c.Command = api.Command{Entrypoint: new([]string{"e"}), Cmd: new([]string{})} }, `{"entrypoint":["e"],"cmd":[]}`},
		"the same command": {func(c *api.Container) { c.Command = api.Command{Entrypoint: new([]string{}), Cmd: new([]string{"x"})} }, `null`},
		"one":              {func(c *api.Container) { c.Args = new("y") }, `{"args":"y"}`},
	} {
		t.Run(name, func(t *testing.T) {
			have := api.Endpoint{ID: "a", Name: "n", Container: ownContainer()}
			want := api.Endpoint{Name: "n", Container: ownContainer()}
			c.change(want.Container)
			expectUpdates(t, endpoints, have, want, `null`, c.body)
		})
	}
}

func TestUpdateOfTheTemplate(t *testing.T) {
	withTemplate := func(template string, c *api.Container, apply bool) api.Endpoint {
		return api.Endpoint{ID: "a", Name: "n", TemplateID: &template, Container: c, ApplyTemplate: apply,
			GPU: &api.GPU{Pools: []string{"P"}, Count: 1, AllowedCUDAVersions: []string{"12.4"}}}
	}
	cuda := func(e api.Endpoint, versions []string) api.Endpoint {
		gpu := *e.GPU
		gpu.AllowedCUDAVersions = versions
		e.GPU = &gpu
		return e
	}
	override := &api.Container{Image: new("j"), Env: map[string]string{"B": "2"}}
	const gpu = `"gpu":{"pools":["P"],"excludedTypes":[],"allowedCudaVersions":`
	for name, c := range map[string]struct {
		have, want api.Endpoint
		v1, v2     string
	}{
		"the same template": {withTemplate("t", ownContainer(), false), withTemplate("t", override, false), `null`, `null`},
		"another template": {withTemplate("t", ownContainer(), false), withTemplate("u", override, false),
			`{"templateId":"u"}`, `{"templateId":"u","image":"j","env":{"B":"2"},` + gpu + `["12.4"]}}`},
		"again": {withTemplate("t", ownContainer(), false), withTemplate("t", override, true),
			`{"templateId":"t"}`, `{"templateId":"t","image":"j","env":{"B":"2"},` + gpu + `["12.4"]}}`},
		"again, without own settings": {withTemplate("t", ownContainer(), false), withTemplate("t", &api.Container{}, true),
			`{"templateId":"t"}`, `{"templateId":"t",` + gpu + `["12.4"]}}`},
		"again, with equal settings": {withTemplate("t", override, false), withTemplate("t", override, true),
			`{"templateId":"t"}`, `{"templateId":"t","image":"j","env":{"B":"2"},` + gpu + `["12.4"]}}`},
		"again, its CUDA versions cleared": {withTemplate("t", nil, false), cuda(withTemplate("t", nil, true), []string{}),
			`{"templateId":"t","allowedCudaVersions":[]}`, `{"templateId":"t",` + gpu + `[]}}`},
		"again, without CUDA bounds": {withTemplate("t", nil, false), cuda(withTemplate("t", nil, true), nil),
			`{"templateId":"t"}`, `{"templateId":"t"}`},
		"for the first time": {api.Endpoint{ID: "a", Name: "n", GPU: withTemplate("", nil, false).GPU, Container: ownContainer()}, withTemplate("t", nil, false),
			`{"templateId":"t"}`, `{"templateId":"t",` + gpu + `["12.4"]}}`},
		"no template": {withTemplate("t", override, false), api.Endpoint{Name: "n", Container: ownContainer()},
			`null`, `{"image":"i","args":"x","disk":30,"env":{"A":"1"},"ports":["80/http","22/tcp"],"registry":"r"}`},
		"apply nothing": {api.Endpoint{ID: "a", Name: "n"}, api.Endpoint{Name: "n", ApplyTemplate: true}, `null`, `null`},
	} {
		t.Run(name, func(t *testing.T) { expectUpdates(t, endpoints, c.have, c.want, c.v1, c.v2) })
	}
}

func TestEndpointsThatV1CantExpress(t *testing.T) {
	for name, c := range map[string]struct {
		want  api.Endpoint
		named string
	}{
		"load balancer":  {api.Endpoint{Type: "LOAD_BALANCER"}, "type"},
		"half seconds":   {api.Endpoint{Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 0.5}}, "scaling.queueDelay"},
		"priority boot":  {api.Endpoint{FlashBoot: new("PRIORITY_FLASHBOOT")}, "flashboot"},
		"several counts": {api.Endpoint{CPU: []api.CPU{{"cpu3c", 2}, {"cpu3c", 4}}}, "cpu"},
	} {
		body, err := createBody(t, api.V1, endpoints, c.want)
		must.Hold(t, err != nil && strings.Contains(err.Error(), "can't express "+c.named), name, "created as", body, err)
		body, err = updateBody(t, api.V1, endpoints, api.Endpoint{ID: "a"}, c.want)
		must.Hold(t, err != nil, name, "updated by", body)
		// Settings that v2 made and v1 can't express are replaced.
		have := c.want
		have.ID = "a"
		expectUpdate(t, api.V1, endpoints, have, api.Endpoint{Name: "n", Workers: api.Workers{Max: 1}}, `{"name":"n","dataCenterIds":[],"networkVolumeIds":[],"executionTimeoutMs":0,"workersMin":0,"workersMax":1}`)
	}
}
