//go:build linux && cgo

package nvidia_test

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

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu/nvidia"
)

// TestRealGPU checks a machine with a GPU and prints measurements; see CONTRIBUTING.md.
func TestRealGPU(t *testing.T) {
	if os.Getenv("GPUCLOUD_TEST_GPU") == "" {
		t.Skip("GPUCLOUD_TEST_GPU=1 checks a machine with a GPU: see CONTRIBUTING.md")
	}
	inventory := must.Do(nvidia.Open(slog.New(slog.NewTextHandler(os.Stderr, nil))))(t)
	t.Cleanup(inventory.Close)
	var r realReport
	defer func() {
		t.Logf("\n### %s\n\n| what | measured |\n|---|---|\n%s\n", gpu.Summary(inventory), strings.Join(r.lines, "\n"))
	}()

	t.Run("inventory", func(t *testing.T) { checkInventory(t, inventory) })
	t.Run("samples", func(t *testing.T) { checkSamples(t, inventory, &r) })
	t.Run("placement", func(t *testing.T) { checkPlacement(t, inventory, &r) })
	t.Run("CUDA", func(t *testing.T) { checkCUDA(t, inventory, &r) })
	t.Run("job API", func(t *testing.T) { checkJobs(t, inventory, &r) })
}

// realReport collects measurements.
type realReport struct {
	lines      []string
	scriptTime time.Duration // duration of the script without the deployment
}

func (r *realReport) add(name, value string) {
	r.lines = append(r.lines, fmt.Sprintf("| %s | %s |", name, value))
}

// checkInventory compares the inventory with the output of nvidia-smi.
func checkInventory(t *testing.T, inventory gpu.Inventory) {
	for _, d := range inventory.Devices() {
		t.Logf("%+v", d)
		must.Hold(t, d.UUID != "" && d.TypeID != "" && d.Memory > 0, "the device is incomplete", d)
	}
	list, err := exec.CommandContext(t.Context(), "nvidia-smi", "-L").Output()
	if err != nil {
		t.Logf("there is no nvidia-smi to compare with: %v", err)
		return
	}
	for _, d := range inventory.Devices() {
		must.Hold(t, strings.Contains(string(list), d.UUID), "nvidia-smi doesn't list", d.UUID, string(list))
	}
}

func checkSamples(t *testing.T, inventory gpu.Inventory, r *realReport) {
	for _, d := range inventory.Devices() {
		start := time.Now()
		s, err := inventory.Sample(d.UUID)
		duration := time.Since(start)
		if err != nil {
			t.Error(err)
			continue
		}
		must.Hold(t, s.MemoryUsed >= 0 && s.MemoryUsed <= d.Memory && s.Utilization <= 100 && s.Temperature <= 120, "the sample is out of bounds:", s)
		r.add("an idle "+d.TypeID, fmt.Sprintf("%d %%, %d MiB, %d W, %d °C; read in %s",
			s.Utilization, s.MemoryUsed>>20, s.Power/1000, s.Temperature, duration.Round(10*time.Microsecond)))
	}
}

// checkPlacement acquires every device once, and no device twice.
func checkPlacement(t *testing.T, inventory gpu.Inventory, r *realReport) {
	a := gpu.NewAllocator(inventory)
	defer a.Close()
	acquired := 0
	var refusal error
	for refusal == nil {
		var devices []gpu.Device
		devices, refusal = a.Acquire(gpu.Request{Count: 1}, fmt.Sprint("worker ", acquired+1))
		acquired += len(devices)
	}
	must.Equal(t, acquired, len(inventory.Devices()), "the number of assigned devices")
	r.add(fmt.Sprintf("worker %d, with %d of %[2]d devices in use", acquired+1, acquired), "refused: "+refusal.Error())
}

type scriptOutput struct {
	GPU, Name      string
	Visible, Wrong int
	Began, Ended   float64 // s
}

func (s scriptOutput) check(t *testing.T, devices []gpu.Device) {
	t.Helper()
	must.Hold(t, s.Visible == 1 && s.Wrong == 0 && slices.ContainsFunc(devices, func(d gpu.Device) bool { return strings.HasSuffix(d.UUID, s.GPU) }), "the job saw", s.Visible, "GPUs, had", s.Wrong, "wrong results and ran on", s.GPU, "want one, none and one of", devices)
}

// smallInput is so small that overhead dominates the duration.
const smallInput = `{"numbers": 1024}`

// checkCUDA runs a real CUDA script without the deployment, on one device.
func checkCUDA(t *testing.T, inventory gpu.Inventory, r *realReport) {
	devices := inventory.Devices()
	run := func(input string) (out scriptOutput) {
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
	r.scriptTime = median(20, func() { run(smallInput) })
	r.add("a CUDA script, run by hand (median of 20)", r.scriptTime.Round(100*time.Microsecond).String())
}

func median(n int, do func()) time.Duration {
	durations := make([]time.Duration, n)
	for i := range durations {
		start := time.Now()
		do()
		durations[i] = time.Since(start)
	}
	slices.Sort(durations)
	return durations[n/2]
}

// realImage is the image for which the deployment runs testdata/cuda.py, once per job.
const realImage = "gpucheck/cuda"

// checkJobs runs the script as one job, and then as two jobs that each need all GPUs of a type.
func checkJobs(t *testing.T, inventory gpu.Inventory, r *realReport) {
	d := deployment{t: t, url: os.Getenv("GPUCLOUD_BASE_URL"), key: os.Getenv("GPUCLOUD_API_KEY")}
	if d.url == "" {
		t.Skip("GPUCLOUD_BASE_URL is the deployment on this machine to run jobs on: see CONTRIBUTING.md")
	}
	typeID := inventory.Devices()[0].TypeID
	devices := slices.DeleteFunc(inventory.Devices(), func(d gpu.Device) bool { return d.TypeID != typeID })
	count := len(devices)
	if devices[0].MIG != "" {
		count = 1
	}
	name := fmt.Sprintf("gpucheck-%d", time.Now().UnixNano())
	template := d.call("POST", "/v1/templates", fmt.Sprintf(`{"name": %q, "imageName": %q, "isServerless": true}`, name, realImage))["id"]
	defer d.call("DELETE", fmt.Sprint("/v1/templates/", template), "")
	endpoint := d.call("POST", "/v1/endpoints", fmt.Sprintf(
		`{"name": %q, "templateId": %q, "gpuTypeIds": [%q], "gpuCount": %d, "workersMax": 2, "idleTimeout": 60, "scalerType": "REQUEST_COUNT", "scalerValue": 1}`,
		name, template, typeID, count))["id"]
	defer d.call("DELETE", fmt.Sprint("/v1/endpoints/", endpoint), "")
	jobs := fmt.Sprint("/v2/", endpoint)

	run := func(input string) (out scriptOutput) {
		t.Helper()
		job := d.call("POST", jobs+"/runsync", `{"input": `+input+`}`)
		text, _ := json.Marshal(job["output"]) // it was decoded from JSON
		err := json.Unmarshal(text, &out)
		must.Require(t, err == nil && job["status"] == "COMPLETED", "the job is", job, err, "want COMPLETED")
		return out
	}
	start := time.Now()
	first := run(smallInput)
	r.add("the first job, with the start of its worker", time.Since(start).Round(time.Millisecond).String())
	if count == 1 {
		first.check(t, devices)
	}
	warm := median(20, func() { run(smallInput) })
	r.add("the script as a job of a warm worker (median of 20)", warm.Round(100*time.Microsecond).String())
	if r.scriptTime > 0 {
		r.add("overhead of the job API", (warm - r.scriptTime).Round(100*time.Microsecond).String())
	}

	outputs := make(chan scriptOutput, 2)
	for range 2 {
		go func() {
			var out scriptOutput
			defer func() { outputs <- out }() // also if the job fails
			out = run(`{"numbers": 1024, "seconds": 4}`)
		}()
	}
	throttled := d.waitUntil(jobs+"/health", func(health map[string]any) bool {
		workers, _ := health["workers"].(map[string]any)
		return workers["throttled"] == 1.0 && workers["running"] == 1.0
	})
	a, b := <-outputs, <-outputs
	must.Hold(t, throttled || len(devices) >= 2*count, "no worker was throttled with all GPUs in use")
	must.Hold(t, len(devices) >= 2*count || !(a.Ended > b.Began) || !(b.Ended > a.Began), "two jobs had the GPU at once", a, b)
	r.add("two jobs at once that need the same GPU", fmt.Sprintf("one after the other, the second worker throttled: %t; pause between them %s",
		throttled, time.Duration(max(a.Began-b.Ended, b.Began-a.Ended)*float64(time.Second)).Round(time.Millisecond)))
}

type deployment struct {
	t        *testing.T
	url, key string
}

func (d deployment) call(method, path, body string) (answer map[string]any) {
	d.t.Helper()
	r := must.Do(http.NewRequestWithContext(context.WithoutCancel(d.t.Context()), method, d.url+path, strings.NewReader(body)))(d.t)
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("Content-Type", "application/json")
	resp := must.Do(http.DefaultClient.Do(r))(d.t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &answer)
	}
	must.Require(d.t, err == nil && resp.StatusCode < 300, method, path, "is answered", resp.StatusCode, string(text), err)
	return answer
}

// waitUntil polls until an answer meets the condition, for 3 seconds at most: the first of two jobs takes 4.
func (d deployment) waitUntil(path string, condition func(map[string]any) bool) bool {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 60 {
		if condition(d.call("GET", path, "")) {
			return true
		}
		<-ticker.C
	}
	return false
}
