package page_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// busyMachine is a fake machine with eight GPUs, workers and jobs.
type busyMachine struct {
	clock *clock.Clock

	mu        sync.Mutex
	endpoints []store.Endpoint
	states    map[string]map[string]int
	counts    map[string]*engine.Counts
	jobs      []engine.Job
	workers   map[string][]page.Worker
	logs      map[string][]run.Line
	gpus      []page.GPU
}

func (b *busyMachine) Endpoints(context.Context) ([]store.Endpoint, error) {
	return b.endpoints, nil
}
func (b *busyMachine) States(endpoint string) map[string]int { return b.states[endpoint] }
func (b *busyMachine) Costs(context.Context) (page.Costs, error) {
	return page.Costs{Volumes: 1_250_000_000, Total: 139_922_750_000, Endpoints: []page.EndpointCost{
		{Endpoint: "sdxl7k2m9q4w", Time: (31 * time.Hour).Milliseconds(), Compute: 138_632_000_000, Disk: 40_000_000, Total: 138_672_000_000},
		{Endpoint: "gone0a1b2c3d", Time: (90 * time.Second).Milliseconds(), Compute: 750_000, Total: 750_000},
	}}, nil
}

func (b *busyMachine) Workers(endpoint string) []page.Worker { return b.workers[endpoint] }
func (b *busyMachine) GPUs() page.GPUs {
	b.mu.Lock()
	defer b.mu.Unlock()
	return page.GPUs{Driver: gpu.Driver{Version: "570.86.15", CUDA: "12.8"}, Devices: slices.Clone(b.gpus)}
}

func (b *busyMachine) Active(ctx context.Context) (map[string]engine.Counts, error) {
	endpoints, err := b.Endpoints(ctx)
	active := map[string]engine.Counts{}
	for _, e := range endpoints {
		active[e.ID] = b.Counts(e.ID)
	}
	return active, err
}

func (b *busyMachine) Counts(endpoint string) engine.Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.counts[endpoint]
}

func (b *busyMachine) Newest(_ context.Context, endpoint string, n, _ int) ([]engine.Job, error) {
	var out []engine.Job
	for _, j := range slices.Backward(b.jobs) {
		if endpoint == "" || endpoint == j.Endpoint {
			out = append(out, j)
		}
	}
	return out[:min(n, len(out))], nil
}

func (b *busyMachine) GetUpTo(_ context.Context, endpoint, id string, _ int) (engine.Job, error) {
	for _, j := range b.jobs {
		if j.ID == id && j.Endpoint == endpoint {
			j.Output = []byte(`{"image":"s3://pictures/` + id + `.png","seed":7}`)
			j.Size = len(j.Output)
			return j, nil
		}
	}
	return engine.Job{}, engine.ErrNotFound
}

func (b *busyMachine) Log(_, worker string) ([]run.Line, bool) {
	lines, ok := b.logs[worker]
	return lines, ok
}

func (b *busyMachine) PodLog(pod string) ([]run.Line, bool) { return b.Log("", pod) }

// Objects returns pods in most states, and a cluster with a waiting member.
func (b *busyMachine) Objects(context.Context) (all page.Objects, err error) {
	now := b.clock.Wall()
	gpus := func(n int64) *store.PodGPU { return &store.PodGPU{TypeIDs: []string{"NVIDIA H200"}, Count: n} }
	cpus := func(n int64, flavor string) *store.PodCPU {
		return &store.PodCPU{FlavorIDs: []string{flavor}, VCPUCount: n}
	}
	for i, p := range []page.Pod{
		{Head: store.Head{Name: "notebook-ada"}, PodState: store.PodState{Status: "RUNNING", StartedAt: now.Add(-4*time.Hour - time.Minute)}, Image: "registry.example.com/dev/jupyter:4", Actions: []pod.Action{"stop", "restart"}, GPU: gpus(1), Cost: 3.59},
		{Head: store.Head{Name: "train-lora"}, PodState: store.PodState{Status: "PROVISIONING", Reason: "waits for 4 × NVIDIA H200: 1 is free"}, Image: "registry.example.com/train/lora:7", Actions: []pod.Action{"stop"}, GPU: gpus(4)},
		{Head: store.Head{Name: "prepare-data"}, PodState: store.PodState{Status: "EXITED", Reason: "ended with exit status 0"}, Image: "registry.example.com/data/prepare:2", Actions: []pod.Action{"start"}, CPU: cpus(8, "cpu3c")},
		{Head: store.Head{Name: "export"}, PodState: store.PodState{Status: "ERROR", Reason: "exit status 137: killed by SIGKILL, out of memory"}, Image: "registry.example.com/data/export:1", Actions: []pod.Action{"start"}, CPU: cpus(2, "cpu3c")},
		{Head: store.Head{Name: "database"}, PodState: store.PodState{Status: "RUNNING", StartedAt: now.Add(time.Minute)}, Image: "registry.example.com/db/vectors:3", Actions: []pod.Action{"restart"}, CPU: cpus(8, "cpu3m"), Locked: true, Cost: 0.24},
		{Head: store.Head{Name: "node-1"}, PodState: store.PodState{Status: "PROVISIONING"}, Image: "registry.example.com/train/llm:9", GPU: gpus(8), Cluster: &store.ClusterMember{ID: "cl7k2m9q4wxy", Rank: new(int64(1)), IP: "10.65.0.3"}},
		{Head: store.Head{Name: "node-0"}, PodState: store.PodState{Status: "RUNNING", StartedAt: now.Add(-time.Hour)}, Image: "registry.example.com/train/llm:9", GPU: gpus(8), Cost: 28.72, Cluster: &store.ClusterMember{ID: "cl7k2m9q4wxy", Rank: new(int64(0)), IP: "10.65.0.2"}},
	} {
		p.ID, p.Created = fmt.Sprintf("pod%d%09d", i, i), now.Add(-time.Duration(i)*time.Hour)
		all.Pods = append(all.Pods, p)
	}
	all.Clusters = []store.Cluster{{Head: store.Head{ID: "cl7k2m9q4wxy", Name: "llm-training", Created: now.Add(-time.Hour)}, Type: "TRAINING", Compute: store.ClusterCompute{GPUTypeID: "NVIDIA H200", GPUCountPerPod: 8}, Network: &store.ClusterNetwork{CIDR: "10.65.0.0/24"}}}
	all.Volumes = []store.NetworkVolume{
		{Head: store.Head{ID: "vol3f8x1p0zd", Name: "weights"}, DataCenter: "EU-RO-1", Type: "STANDARD", Size: 500},
		{Head: store.Head{ID: "vol5t6r0n2bq", Name: "datasets"}, DataCenter: "EU-RO-1", Type: "HIGH_PERFORMANCE", Size: 2000},
	}
	return all, nil
}

func (b *busyMachine) Releases(context.Context, string) ([]store.Release, error) {
	return []store.Release{{Version: 2, Created: b.clock.Now(), Changes: []store.Change{
		{Field: "template.imageName", Old: []byte(`"sdxl:2.4.0"`), New: []byte(`"sdxl:2.4.1"`)}, {Field: "template.env", Old: []byte(`{}`), New: []byte(`{"HF_TOKEN":"x"}`)},
	}}, {Version: 1, Created: b.clock.Now().Add(-time.Hour)}}, nil
}

func (b *busyMachine) Batches(_ context.Context, endpoint string, _, n int) (list []engine.Batch, total int, err error) {
	now := b.clock.Now()
	for i, b := range []engine.Batch{
		{State: engine.BatchDraft, Total: 40},
		{Name: "nightly-embeddings", State: engine.BatchFinalized, Total: 5000, InProgress: 2, Completed: 3127, Failed: 4},
		{Name: "yesterday", State: engine.BatchFinalized, Total: 5000, Completed: 5000},
		{Name: "too slow", State: engine.BatchFailed, Total: 900, Completed: 512, Failed: 1},
		{Name: "by mistake", State: engine.BatchCancelled, Total: 900},
	} {
		b.Endpoint, b.ID, b.Created = endpoint, fmt.Sprintf("01a20ee2-b476-7200-b70b-92030390656%d", i), now.Add(-time.Duration(i)*9*time.Hour)
		list = append(list, b)
	}
	return list[:min(n, len(list))], 61, nil
}

func newBusyMachine(c *clock.Clock) *busyMachine {
	b := &busyMachine{clock: c, states: map[string]map[string]int{}, counts: map[string]*engine.Counts{}, workers: map[string][]page.Worker{}, logs: map[string][]run.Line{}}
	now := c.Now()
	for i, c := range []struct {
		id, name, image string
		min, max        int64 // workers
		states          map[string]int
	}{
		{"sdxl7k2m9q4w", "stable-diffusion-xl", "registry.example.com/vision/sdxl:2.4.1", 1, 6, map[string]int{"RUNNING": 4, "IDLE": 1, "INITIALIZING": 1}},
		{"llm3f8x1p0zd", "llama-70b-chat", "registry.example.com/llm/llama-70b:1.9", 1, 1, map[string]int{"RUNNING": 1}},
		{"whis5t6r0n2b", "whisper-transcribe", "registry.example.com/audio/whisper-large:3", 0, 4, map[string]int{"THROTTLED": 1}},
		{"embd9a7c4v1y", "embeddings", "registry.example.com/text/embed:0.8", 0, 2, map[string]int{"UNHEALTHY": 1}},
	} {
		e := store.Endpoint{Head: store.Head{ID: c.id, Name: c.name}, Type: "QUEUE", Container: store.Container{Image: c.image}, WorkersMin: c.min, WorkersMax: c.max}
		b.endpoints, b.states[e.ID] = append(b.endpoints, e), c.states
		b.counts[e.ID] = &engine.Counts{Completed: 1840 >> (2 * i), Failed: []int{12, 0, 3, 41}[i]}
	}
	addWorker := func(endpoint, id string, state worker.State, reason string, devices ...int) {
		w := page.Worker{
			Endpoint: endpoint,
			Info: worker.Info{
				ID: id, State: state, Reason: reason, StartedAt: now.Add(-37 * time.Minute), Usage: run.Usage{CPU: 12 * time.Minute, Memory: 11 << 30}, Stale: id == "w5sdxl-idle",
			},
		}
		for _, d := range devices {
			w.Devices = append(w.Devices, gpu.Device{UUID: fmt.Sprint("GPU-", d), Index: d})
		}
		b.workers[endpoint] = append(b.workers[endpoint], w)
		for i := range 600 {
			b.logs[id] = append(b.logs[id], run.Line{Time: now.Add(time.Duration(i-600) * time.Second), Text: fmt.Sprintf("step \x1b[1m%d\x1b[0m of 600, loss %.4f", i+1, 1/float64(i+1))})
		}
		b.logs[id] = append(b.logs[id], run.Line{Time: now, Text: hostile})
	}
	for i := range 4 {
		addWorker("sdxl7k2m9q4w", fmt.Sprintf("w%dsdxl-run", i+1), "RUNNING", "", i)
	}
	addWorker("sdxl7k2m9q4w", "w5sdxl-idle", "IDLE", "", 4)
	addWorker("sdxl7k2m9q4w", "w6sdxl-init", "INITIALIZING", "")
	addWorker("llm3f8x1p0zd", "w1llm-run", "RUNNING", "", 5, 6)
	addWorker("whis5t6r0n2b", "w1whis-wait", "THROTTLED", "all 8 × NVIDIA H200 are in use")
	addWorker("embd9a7c4v1y", "w1embd-sick", "UNHEALTHY", "ended with exit code 1 three times within a minute: ModuleNotFoundError: No module named 'torch'")
	for i := range 8 {
		g := page.GPU{DeviceState: gpu.DeviceState{
			Device: gpu.Device{UUID: fmt.Sprint("GPU-", i), Index: i, TypeID: "NVIDIA H200", Memory: 141 << 30},
			Sample: gpu.Sample{Utilization: 96 - 7*i, MemoryUsed: int64(120-14*i) << 30, Power: 640_000 - 60_000*i, Temperature: 71 - 4*i},
		}}
		for _, workers := range b.workers {
			for _, w := range workers {
				if slices.ContainsFunc(w.Devices, func(d gpu.Device) bool { return d.UUID == g.UUID }) {
					g.Owner = w.ID
				}
			}
		}
		if i == 7 {
			g.Fault, g.Sample = "XID 79: the GPU has fallen off the bus", gpu.UnknownSample
		}
		b.gpus = append(b.gpus, g)
	}
	return b
}

func newBusyPage(t *testing.T) (*busyMachine, *page.Page) {
	t.Helper()
	var jump time.Duration // of the time of day, as after the machine slept
	c := clock.New(func() time.Time { return time.Now().Add(jump) })
	c.Now()
	jump = time.Hour
	c.MeasureJump()
	b := newBusyMachine(c)
	p := page.New(page.Config{Source: b, Keys: apikey.New(key), Key: key, Clock: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Version: "1.2.3"})
	t.Cleanup(p.Close)
	return b, p
}

// serveLocally serves a page until the test's end. Open the tab afterwards, so that it is closed first: Close waits for the tab's requests.
func serveLocally(t *testing.T, p *page.Page) (url string) {
	t.Helper()
	server := httptest.NewServer(page.RejectOtherHosts(false, p))
	t.Cleanup(server.Close)
	return server.URL
}

// ask sends a request with the key to a page.
func ask(p *page.Page, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func (b *busyMachine) emit(p *page.Page, e engine.Event) {
	b.mu.Lock()
	c := b.counts[e.Endpoint]
	for state, n := range map[engine.State]int{e.From: -1, e.To: 1} {
		switch {
		case state == engine.InQueue:
			c.InQueue += n
		case state == engine.InProgress:
			c.InProgress += n
		case state == engine.Completed && n > 0:
			c.Completed++
		case state == engine.Failed && n > 0:
			c.Failed++
		}
	}
	b.mu.Unlock()
	p.RecordEvent(e)
}

// work simulates ten minutes with waves of jobs on two endpoints and a viewer of the page.
func (b *busyMachine) work(p *page.Page) {
	const tick = 2 * time.Second
	for i := range 300 {
		wave := 1 + math.Sin(float64(i)/28) + .4*math.Sin(float64(i)/5)
		for k, id := range []string{"sdxl7k2m9q4w", "llm3f8x1p0zd"} {
			c := b.Counts(id)
			if want := int(wave * float64(9-6*k)); c.InQueue < want {
				b.emit(p, engine.Event{Endpoint: id, To: engine.InQueue})
			} else if c.InQueue > 0 && c.InProgress < 4-2*k {
				b.emit(p, engine.Event{Endpoint: id, From: engine.InQueue, To: engine.InProgress, Delay: time.Duration(float64(300+i*17%1900)*(1+3*wave)) * time.Millisecond})
			}
			if c.InProgress > 2-k && i%3 == k {
				end := engine.Completed
				if i%40 == 0 {
					end = engine.Failed
				}
				b.emit(p, engine.Event{Endpoint: id, From: engine.InProgress, To: end, Execution: time.Duration(900+i*37%2600+k*9000) * time.Millisecond})
			}
		}
		if i%2 == 0 {
			b.mu.Lock()
			for k := range b.gpus[:7] {
				b.gpus[k].Utilization = min(100, int(30*wave)+6*(7-k)+(i*(k+3))%9)
			}
			b.mu.Unlock()
			ask(p, "GET", "/ui/snapshot")
		}
		b.clock.Advance(tick)
	}
	now := b.clock.Now()
	states := []engine.State{engine.Completed, engine.Completed, engine.Failed, engine.Completed, engine.TimedOut, engine.Cancelled, engine.Completed, engine.InProgress, engine.InProgress, engine.InQueue}
	for i := range 40 {
		j := engine.Job{Endpoint: b.endpoints[i%2].ID, ID: fmt.Sprintf("%08x-6b1f-4c6e-9d0a-1f2e3d4c5b6a-q1", i*2654435761%0xffffffff), State: states[i*len(states)/40]}
		j.Queued = now.Add(time.Duration(i-40) * 12 * time.Second)
		if j.State != engine.InQueue {
			j.Worker, j.Delay = b.workers[j.Endpoint][0].ID, time.Duration(200+i*97)*time.Millisecond
		}
		if j.State.Terminal() {
			j.Execution = time.Duration(1100+i*311) * time.Millisecond
		}
		if j.State == engine.Failed {
			j.Error, j.Retries = "CUDA out of memory: tried to allocate 2.50 GiB", 1
		}
		b.jobs = append(b.jobs, j)
	}
	for _, lines := range b.logs {
		for i := range lines {
			lines[i].Time = now.Add(time.Duration(i-len(lines)) * time.Second)
		}
	}
}

// The page shows GPUs, workers in every state, their logs, and charts of the last ten minutes.
func TestBrowserOfBusyMachine(t *testing.T) {
	for _, screen := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"desk", 1366, 900, false}, {"desk-dark", 1366, 900, true}, {"tablet", 740, 1100, false}, {"phone", 390, 844, false}} {
		t.Run(screen.name, func(t *testing.T) {
			b, p := newBusyPage(t)
			b.work(p)
			url := serveLocally(t, p)
			tab := chromium.Open(t, screen.width, screen.height, screen.dark)
			tab.Visit(url + "/#code=" + p.NewCode())
			tab.Until(`document.querySelector('#status').textContent === 'Live'`)
			tab.Until(`document.querySelectorAll('#jobs tbody tr').length === 12`)
			tab.Picture("busy-" + screen.name)
			tab.Click("#jobs-more")
			tab.Until(`document.querySelectorAll('#jobs tbody tr').length === 40`)
			for selector, wants := range map[string][]string{
				"#gpus":            {"GPU 0", "NVIDIA H200", " %", "120 GiB of 141 GiB", "71 °C", "640 W", "stable-diffusion-xl", "XID 79", "unusable"},
				"#gpus-count":      {"8 · driver 570.86.15 · CUDA 12.8"},
				"#workers tbody":   {"w1llm-run", "GPU 5, 6", "all 8 × NVIDIA H200 are in use", "No module named 'torch'", "of an older version", "11 GiB", "unhealthy"},
				"#costs tbody":     {"stable-diffusion-xl", "1 d 07 h", "$138.63", "$0.0400", "$138.67", "gone0a1b2c3d (deleted)", "1 min 30 s", "$0.0008", "Network volumes", "$1.25", "Total", "$139.92"},
				"#costs-count":     {"$139.92 since midnight, UTC"},
				"[data-tile=gpus]": {"7 of 8", "1 can’t be used"},
				"#endpoints tbody": {"4 running", "1 throttled", "of 1 to 6"},
				"#jobs":            {"CUDA out of memory", "dispatched again 1×", "timed out"},
				"#pods tbody":      {"notebook-ada", "1 × NVIDIA H200", "4 h 01 min", "$3.59", "waits for 4 × NVIDIA H200", "out of memory", "locked"},
				"#pods-count":      {"5 · 2 running · 1 provisioning · 1 exited · 1 error"},
				"#clusters":        {"llm-training", "training · 2 pods, each 8 × NVIDIA H200 · network 10.65.0.0/24", "10.65.0.3", "$28.72"},
				"#volumes tbody":   {"weights", "2,000 GB", "EU-RO-1", "high performance"},
				"#keys tbody":      {"The deployment’s own", "default", "never"},
				"#user":            {"default"},
			} {
				tab.Shows(selector, wants...)
			}
			var curve string
			tab.Eval(`document.querySelector('#chart-load .line').getAttribute('d')`, &curve)
			must.Hold(t, strings.Count(curve, "L") == 119, "expected 119 lines in the queue's curve and got", curve)
			var bars int
			tab.Eval(`document.querySelectorAll('#chart-times .range').length`, &bars)
			must.Hold(t, bars >= 30 && bars <= 40, "the chart has", bars, "ranges, expected 30 to 40")
			var lines int
			tab.Eval(`[...document.querySelectorAll('#gpus .line')].filter((l) => (l.getAttribute('d') ?? '').split('L').length > 100).length`, &lines)
			must.Hold(t, lines == 7, lines, "GPUs have a curve, expected 7")
			tab.Until(`[...document.querySelectorAll('#pods td:nth-child(5)')].some((td) => td.textContent === '0 ms')`)
			tab.CheckAccessibility("overview")
			tab.Click(`[aria-label="Log of worker w1llm-run"]`)
			tab.Shows("#detail", "Only the latest 500 lines are shown.", "step 600 of 600", hostile)
			tab.CheckAccessibility("log")
			tab.Picture("busy-log-" + screen.name)
			tab.Eval(`{ const real = fetch; window.fetch = async (url, o) => { const a = await real(url, o); if (!String(url).includes('/log')) return a;
				const b = await a.json(); b.log.shift(); b.log.push({ time: 0, text: 'late' }); return new Response(JSON.stringify(b)); };
				const log = document.querySelector('#detail .log'); log.focus(); getSelection().selectAllChildren(log.children[400]); }`, nil)
			tab.Shows("#detail .log", "late")
			tab.Until(`getSelection().toString().includes(' of 600') && document.activeElement.matches('#detail .log')`)
			// A selection that ends outside the dialog doesn't close it, a click there does.
			var title struct{ X, Y float64 }
			tab.Eval(`document.querySelector('#detail h2').getBoundingClientRect().toJSON()`, &title)
			tab.Do(chromedp.DragAndDropXY(title.X+5, title.Y+5, 2, 2))
			tab.Until(`document.querySelector('#detail').open`)
			tab.Do(chromedp.MouseClickXY(2, 2))
			tab.Until(`!document.querySelector('#detail').open`)
			expectClean(t, tab, url)
		})
	}
}
