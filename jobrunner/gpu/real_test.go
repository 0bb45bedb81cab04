//go:build linux && cgo

package gpu_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// TestRealGPU checks a machine with a GPU, and prints what it measured as a
// section for docs/gpu.md, which says how to run it.
func TestRealGPU(t *testing.T) {
	if os.Getenv("GPUCLOUD_TEST_GPU") == "" {
		t.Skip("GPUCLOUD_TEST_GPU=1 checks a machine with a GPU: see docs/gpu.md")
	}
	inventory, err := gpu.Open(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inventory.Close)
	var r realReport
	defer func() { t.Log("\n" + r.markdown(inventory)) }()

	t.Run("inventory", func(t *testing.T) { checkInventory(t, inventory) })
	t.Run("samples", func(t *testing.T) { checkSamples(t, inventory, &r) })
	t.Run("placement", func(t *testing.T) { checkPlacement(t, inventory, &r) })
	t.Run("CUDA", func(t *testing.T) { checkCUDA(t, inventory, &r) })
	t.Run("job API", func(t *testing.T) { checkJobs(t, inventory, &r) })
}

// realReport is what is measured.
type realReport struct {
	lines  []string
	direct time.Duration // the script, run by hand
}

func (r *realReport) add(what, value string) {
	r.lines = append(r.lines, fmt.Sprintf("| %s | %s |", what, value))
}

func (r *realReport) markdown(inventory gpu.Inventory) string {
	return fmt.Sprintf("### %s\n\n| what | measured |\n|---|---|\n%s\n", gpu.Summary(inventory), strings.Join(r.lines, "\n"))
}

// checkInventory compares the inventory with what the driver's own tool lists.
func checkInventory(t *testing.T, inventory gpu.Inventory) {
	for _, d := range inventory.Devices() {
		t.Logf("%+v", d)
		if d.UUID == "" || d.TypeID == "" || d.Memory <= 0 {
			t.Errorf("incomplete: %+v", d)
		}
	}
	listed, err := exec.CommandContext(t.Context(), "nvidia-smi", "-L").Output()
	if err != nil {
		t.Logf("nvidia-smi is not here to compare with: %v", err)
		return
	}
	for _, d := range inventory.Devices() {
		if !strings.Contains(string(listed), d.UUID) {
			t.Errorf("nvidia-smi doesn't list %s:\n%s", d.UUID, listed)
		}
	}
}

func checkSamples(t *testing.T, inventory gpu.Inventory, r *realReport) {
	for _, d := range inventory.Devices() {
		began := time.Now()
		s, err := inventory.Sample(d.UUID)
		took := time.Since(began)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.MemoryUsed < 0 || s.MemoryUsed > d.Memory || s.Utilization > 100 || s.Temperature > 120 {
			t.Errorf("%+v", s)
		}
		r.add("an idle "+d.TypeID, fmt.Sprintf("%d %%, %d MiB, %d W, %d °C; read in %s",
			s.Utilization, s.MemoryUsed>>20, s.Power/1000, s.Temperature, took.Round(10*time.Microsecond)))
	}
}

// checkPlacement gives every device away once, and no device twice.
func checkPlacement(t *testing.T, inventory gpu.Inventory, r *realReport) {
	a := gpu.NewAllocator(inventory)
	defer a.Close()
	given := 0
	var refused error
	for refused == nil {
		var devices []gpu.Device
		devices, refused = a.Acquire(gpu.Request{Count: 1}, fmt.Sprint("worker ", given+1))
		given += len(devices)
	}
	if given != len(inventory.Devices()) {
		t.Errorf("%d of %d devices were given", given, len(inventory.Devices()))
	}
	r.add(fmt.Sprintf("worker %d, with %d of %[2]d devices in use", given+1, given), "refused: "+refused.Error())
}

// squared is what testdata/cuda.py prints.
type squared struct {
	GPU, Name      string
	Visible, Wrong int
	Began, Ended   float64 // s
}

func (s squared) check(t *testing.T, on []gpu.Device) {
	t.Helper()
	if s.Visible != 1 || s.Wrong != 0 || !slices.ContainsFunc(on, func(d gpu.Device) bool { return strings.HasSuffix(d.UUID, s.GPU) }) {
		t.Errorf("the job saw %d GPUs, had %d wrong results and ran on %s; want one, none and one of %+v", s.Visible, s.Wrong, s.GPU, on)
	}
}

// few is an input so small that the rest is what takes time.
const few = `{"numbers": 1024}`

// checkCUDA runs a real CUDA job by hand, on one device alone.
func checkCUDA(t *testing.T, inventory gpu.Inventory, r *realReport) {
	devices := inventory.Devices()
	run := func(input string) (out squared) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "python3", "testdata/cuda.py")
		c.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES="+devices[0].UUID)
		c.Stdin = strings.NewReader(input)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		text, err := c.Output()
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil {
			t.Fatalf("%v\n%s%s", err, text, stderr.Bytes())
		}
		return out
	}
	run(`{"numbers": 1048576}`).check(t, devices[:1])
	r.direct = median(20, func() { run(few) })
	r.add("a CUDA script, run by hand (median of 20)", r.direct.Round(100*time.Microsecond).String())
}

func median(n int, do func()) time.Duration {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		do()
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[n/2]
}

// realImage is what the deployment runs testdata/cuda.py for, once per job.
const realImage = "gpucheck/cuda"

// checkJobs runs the same script as jobs of a deployment: alone, and as two at
// once that both ask for all GPUs of a type.
func checkJobs(t *testing.T, inventory gpu.Inventory, r *realReport) {
	d := deployment{t: t, url: os.Getenv("GPUCLOUD_BASE_URL"), key: os.Getenv("GPUCLOUD_API_KEY")}
	if d.url == "" {
		t.Skip("GPUCLOUD_BASE_URL is the deployment on this machine to run jobs on: see docs/gpu.md")
	}
	whole := inventory.Devices()[0].TypeID
	devices := slices.DeleteFunc(inventory.Devices(), func(d gpu.Device) bool { return d.TypeID != whole })
	count := len(devices)
	if devices[0].MIG != "" {
		count = 1
	}
	name := fmt.Sprintf("gpucheck-%d", time.Now().UnixNano())
	template := d.call("POST", "/v1/templates", fmt.Sprintf(`{"name": %q, "imageName": %q, "isServerless": true}`, name, realImage))["id"]
	defer d.call("DELETE", fmt.Sprint("/v1/templates/", template), "")
	endpoint := d.call("POST", "/v1/endpoints", fmt.Sprintf(
		`{"name": %q, "templateId": %q, "gpuTypeIds": [%q], "gpuCount": %d, "workersMax": 2, "idleTimeout": 60, "scalerType": "REQUEST_COUNT", "scalerValue": 1}`,
		name, template, whole, count))["id"]
	defer d.call("DELETE", fmt.Sprint("/v1/endpoints/", endpoint), "")
	jobs := fmt.Sprint("/v2/", endpoint)

	run := func(input string) (out squared) {
		t.Helper()
		job := d.call("POST", jobs+"/runsync", `{"input": `+input+`}`)
		text, _ := json.Marshal(job["output"]) // it was decoded from JSON
		if err := json.Unmarshal(text, &out); err != nil || job["status"] != "COMPLETED" {
			t.Fatalf("%v (%v)", job, err)
		}
		return out
	}
	began := time.Now()
	first := run(few)
	r.add("the first job, with the start of its worker", time.Since(began).Round(time.Millisecond).String())
	if count == 1 {
		first.check(t, devices)
	}
	warm := median(20, func() { run(few) })
	r.add("the script as a job of a warm worker (median of 20)", warm.Round(100*time.Microsecond).String())
	if r.direct > 0 {
		r.add("overhead of the job API", (warm - r.direct).Round(100*time.Microsecond).String())
	}

	ended := make(chan squared, 2)
	for range 2 {
		go func() {
			var out squared
			defer func() { ended <- out }() // also where it fails
			out = run(`{"numbers": 1024, "seconds": 4}`)
		}()
	}
	throttled := d.until(jobs+"/health", func(health map[string]any) bool {
		workers, _ := health["workers"].(map[string]any)
		return workers["throttled"] == 1.0 && workers["running"] == 1.0
	})
	a, b := <-ended, <-ended
	if !throttled && len(devices) < 2*count {
		t.Error("with all GPUs in use, no worker was throttled")
	}
	if len(devices) < 2*count && a.Ended > b.Began && b.Ended > a.Began {
		t.Errorf("two jobs had the GPU at once: %+v, %+v", a, b)
	}
	r.add("two jobs at once that need the same GPU", fmt.Sprintf("one after the other, the second worker throttled: %t; pause between them %s",
		throttled, time.Duration(max(a.Began-b.Ended, b.Began-a.Ended)*float64(time.Second)).Round(time.Millisecond)))
}

// deployment is one that already runs.
type deployment struct {
	t        *testing.T
	url, key string
}

func (d deployment) call(method, path, body string) (answer map[string]any) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(d.t.Context()), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil || resp.StatusCode >= 300 {
		d.t.Fatalf("%s %s: %d %s (%v)", method, path, resp.StatusCode, text, err)
	}
	return answer
}

// until asks until an answer is as wanted, for as long as the first of two jobs
// may take.
func (d deployment) until(path string, wanted func(map[string]any) bool) bool {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 60 {
		if wanted(d.call("GET", path, "")) {
			return true
		}
		<-ticker.C
	}
	return false
}
