//go:build unix

package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// podFacts are members of a pod in version 2.
type podFacts struct {
	ID, Name, Image, Status string
	Actions                 []string
	Reason, CUDAVersion     *string
	StartedAt               *string
	GPU                     *struct {
		ID    string
		Count int
	}
	SSH     struct{ Direct *struct{ Command string } }
	Env     map[string]string
	Locked  bool
	Runtime *struct {
		Uptime int
		GPUs   []struct{ Util, MemoryUtil int }
		Ports  []struct {
			Private, Public int
			Type, IP        string
		}
	}
	Cluster *struct {
		ID, IP string
		Rank   int
	}
	GlobalNetworking struct{ Enabled bool }
}

// podScript records its starts and SIGTERM, and exits with the status that a test writes to a file in its volume.
const podScript = `echo "begins $COLOR $*"
[ -n "$GPUCLOUD_VOLUME" ] && echo "$$ $COLOR $CUDA_VISIBLE_DEVICES" >> "$GPUCLOUD_VOLUME/starts"
trap 'echo asked to end; exit 0' TERM
while :; do
	[ -n "$GPUCLOUD_VOLUME" ] && [ -s "$GPUCLOUD_VOLUME/exit" ] && { status=$(cat "$GPUCLOUD_VOLUME/exit"); rm "$GPUCLOUD_VOLUME/exit"; exit "$status"; }
	sleep 0.02
done
`

// podServer serves HTTP at the port in its environment.
const podServer = `import http.server, os
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ["RUNPOD_POD_ID"].encode())
    def log_message(self, *args): print(*args[1:])
http.server.HTTPServer((os.environ["RUNPOD_PUBLIC_IP"], int(os.environ["RUNPOD_TCP_PORT_8080"])), H).serve_forever()
`

func startProcessPods(t *testing.T, args ...string) *testDeployment {
	t.Helper()
	h := preparePods(t)
	h.start(t, args...)
	return h
}

func preparePods(t *testing.T) *testDeployment {
	t.Helper()
	h := &testDeployment{home: t.TempDir(), dir: t.TempDir()}
	writeFile(t, filepath.Join(h.dir, "pod.sh"), podScript)
	writeFile(t, filepath.Join(h.dir, "server.py"), podServer)
	writeFile(t, filepath.Join(h.dir, "member.py"), clusterProgram)
	writeFile(t, filepath.Join(h.home, "jobrunner.yaml"), `engine: none
rules:
  - image: team/pod
    process: {run: [sh, `+filepath.Join(h.dir, "pod.sh")+`], template: args}
  - image: team/server
    process: {run: [python3, -u, `+filepath.Join(h.dir, "server.py")+`]}
  - image: team/member
    process: {run: [python3, -u, `+filepath.Join(h.dir, "member.py")+`]}
  - image: team/command
    command: {run: [cat]}
`)
	return h
}

func (h *testDeployment) createPod(body string) string {
	h.t.Helper()
	return h.createObject("/v2/pods", body)
}

func (h *testDeployment) getPod(id string) (p podFacts) {
	h.t.Helper()
	h.call(http.MethodGet, "/v2/pods/"+id, "", &p)
	return p
}

func (h *testDeployment) awaitPodStatus(id, status string) (p podFacts) {
	h.t.Helper()
	defer func() {
		if h.t.Failed() {
			text, _ := json.Marshal(p) // can't fail
			h.t.Logf("the pod was last %s", text)
		}
	}()
	h.waitUntil(status+" of the pod "+id, func() bool { p = h.getPod(id); return p.Status == status })
	return p
}

// awaitReason waits until a pod's reason contains a text.
func (h *testDeployment) awaitReason(id, text string) {
	h.t.Helper()
	h.waitUntil("the reason "+text, func() bool {
		p := h.getPod(id)
		return p.Status == "PROVISIONING" && p.Reason != nil && strings.Contains(*p.Reason, text)
	})
}

func (h *testDeployment) performAction(id, action string) {
	h.t.Helper()
	h.call(http.MethodPost, "/v2/pods/"+id+"/action", `{"action":"`+action+`"}`, nil)
}

func (h *testDeployment) volumeOf(id string) string {
	return filepath.Join(h.home, "data", "pods", id, "volume")
}

func (h *testDeployment) recordedStarts(id string) []string {
	text, _ := os.ReadFile(filepath.Join(h.volumeOf(id), "starts")) // may not exist yet
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// awaitLogLine reads a pod's log until a line contains a text, and returns the lines of its events.
func (h *testDeployment) awaitLogLine(id, query, text string, header http.Header) (events []string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), waitTimeout)
	defer cancel()
	req := must.Do(http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/v2/pods/"+id+"/logs"+query, nil))(h.t)
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Authorization", "Bearer k")
	resp := must.Do(http.DefaultClient.Do(req))(h.t)
	defer resp.Body.Close()
	must.Require(h.t, resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == "text/event-stream" &&
		resp.Header.Get("Cache-Control") == "no-cache" && resp.Header.Get("X-Accel-Buffering") == "no", "the log has the status and headers", resp.StatusCode, resp.Header)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		events = append(events, lines.Text())
		if strings.Contains(lines.Text(), text) && strings.HasPrefix(lines.Text(), "data: ") {
			return events
		}
	}
	h.t.Fatalf("%q is not in the log: %v %q", text, lines.Err(), events[max(0, len(events)-20):])
	return nil
}

const cpu = `"cpu":{"id":"cpu3c","vcpuCount":2}`

// A pod is the process of a rule with the pod's arguments, variables and GPUs. runtime.ports has its ports.
func TestPodIsAProcess(t *testing.T) {
	t.Parallel()
	h := startProcessPods(t, "--simulate-gpus=l4x2")
	id := h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA L4","count":2},"args":"'one two' three","env":{"COLOR":"red"},"mounts":{"persistent":{"size":10,"path":"/w"}}}`)
	p := h.awaitPodStatus(id, "RUNNING")
	h.waitUntil("its start", func() bool { return len(h.recordedStarts(id)) == 1 })
	h.waitUntil("the utilization of its GPUs", func() bool { // it is sampled only after the start
		p = h.getPod(id)
		return p.Runtime != nil && len(p.Runtime.GPUs) == 2 && p.Runtime.GPUs[0].Util >= 50
	})
	words := strings.Fields(h.recordedStarts(id)[0])
	must.Hold(t, len(words) == 3 && words[1] == "red" && strings.Count(words[2], "GPU-") == 2 && p.CUDAVersion != nil && p.Reason == nil && p.StartedAt != nil, "the pod recorded", words, "and is", p)
	events := h.awaitLogLine(id, "?source=container", "begins red one two three", nil)
	must.Hold(t, len(events) == 2, "the log's events are", events, "want an id and a line")

	server := h.createPod(`{"name":"s","image":"team/server",` + cpu + `,"ports":["8080/http","22/tcp"]}`)
	serverPod := h.awaitPodStatus(server, "RUNNING")
	must.Require(t, len(serverPod.Runtime.Ports) == 2 && serverPod.SSH.Direct != nil &&
		serverPod.SSH.Direct.Command == fmt.Sprintf("ssh root@127.0.0.1 -p %d", serverPod.Runtime.Ports[1].Public), "the server's pod is", serverPod)
	port := serverPod.Runtime.Ports[0]
	must.Hold(t, port.Private == 8080 && port.Type == "http", "the port is", port)
	h.waitForAnswer("http://"+net.JoinHostPort(port.IP, fmt.Sprint(port.Public))+"/", server)
	var v1 struct {
		PortMappings                           map[string]int
		PublicIP, DesiredStatus, LastStartedAt string
	}
	h.call(http.MethodGet, "/v1/pods/"+server, "", &v1)
	must.Hold(t, v1.PortMappings["8080"] == port.Public && v1.PublicIP == port.IP && v1.DesiredStatus == "RUNNING" && v1.LastStartedAt != "", "in version 1 the pod is", v1)
}

// If a pod can't start, the jobrunner logs each reason once, however often it retries.
func TestPodThatCannotStartIsLogged(t *testing.T) {
	t.Parallel()
	h := startProcessPods(t, "--clock=admin")
	id := h.createPod(`{"name":"p","image":"team/unknown",` + cpu + `}`)
	h.awaitReason(id, "nothing on this machine runs the image team/unknown")
	for range 3 {
		h.call(http.MethodPost, "/clock", `{"advance":120000}`, nil)
		time.Sleep(100 * time.Millisecond)
	}
	h.interrupt()
	log := h.stderr.String()
	must.Hold(t, strings.Count(log, "level=WARN msg=\"a pod can't start\" pod="+id) == 1 && strings.Count(log, "team/unknown") == 1, "want one warning in", log)
}

// A pod that can't run yet waits with a reason. It gets GPUs when another pod or worker releases them.
func TestPodsWait(t *testing.T) {
	t.Parallel()
	h := startProcessPods(t, "--simulate-gpus=l4x2")
	h.awaitReason(h.createPod(`{"name":"p","image":"team/unknown",`+cpu+`}`), "nothing on this machine runs the image team/unknown")
	h.awaitReason(h.createPod(`{"name":"p","image":"team/command",`+cpu+`}`), "a pod needs a process or a container")
	h.awaitReason(h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA H200"}}`), "this machine has no NVIDIA H200; it has 2 × NVIDIA L4")
	h.awaitReason(h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA L4","count":4}}`), "a pod asks for 4 GPUs of one type")
	h.awaitReason(h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA L4","minCudaVersion":"13.0"}}`), "the pod asks for at least 13.0")
	h.awaitReason(h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA L4","allowedCudaVersions":["11.8"]}}`), "the pod allows only 11.8")

	first := h.createPod(`{"name":"first","image":"team/pod","gpu":{"id":"NVIDIA L4","count":2}}`)
	h.awaitPodStatus(first, "RUNNING")
	second := h.createPod(`{"name":"second","image":"builtin/echo","gpu":{"id":"NVIDIA L4"}}`)
	h.awaitReason(second, "all of this machine's 2 × NVIDIA L4 are in use")
	h.performAction(first, "stop")
	h.awaitPodStatus(second, "RUNNING")
	third := h.createPod(`{"name":"third","image":"team/pod","gpu":{"id":"NVIDIA L4"}}`)
	h.awaitPodStatus(third, "RUNNING")
	h.performAction(first, "start")
	h.awaitReason(first, "in use")
	h.call(http.MethodDelete, "/v2/pods/"+second, "", nil)
	h.performAction(third, "terminate")
	h.awaitPodStatus(first, "RUNNING")
	var v1 struct{ LastStatusChange string }
	h.call(http.MethodGet, "/v1/pods/"+first, "", &v1)
	must.Hold(t, strings.HasPrefix(v1.LastStatusChange, "Started after a wait: "), "after a wait, the last status change is", v1.LastStatusChange)

	// A worker and a pod never share a GPU.
	h.createEndpoint("/v2/serverless", `{"name":"e","image":"team/pod","gpu":{"pools":["ADA_24"],"count":1},"workers":{"min":1,"max":1}}`)
	h.waitUntil("a worker that waits", func() bool {
		_, text := h.get("/v2/serverless/" + h.endpoint + "/workers")
		return strings.Contains(text, `"THROTTLED"`)
	})
	h.performAction(first, "stop")
	h.waitUntil("a worker with the GPU", func() bool {
		_, text := h.get("/v2/serverless/" + h.endpoint + "/workers")
		return strings.Contains(text, `"gpuTypeId":"NVIDIA L4"`)
	})
}

// Stop and restart send SIGTERM and keep the volume. Reset and deletion wipe it.
func TestPodsVolumeAndActions(t *testing.T) {
	t.Parallel()
	h := startProcessPods(t)
	id := h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA L4"},"mounts":{"persistent":{"size":10,"path":"/w"}}}`)
	h.awaitReason(id, "no GPU was found")
	h.interrupt()
	h.start(t, "--simulate-gpus=l4x2")
	h.awaitPodStatus(id, "RUNNING")
	n := 0
	awaitStarts := func(want int) {
		t.Helper()
		n = want
		h.waitUntil(fmt.Sprintf("start %d", want), func() bool { return len(h.recordedStarts(id)) == want })
		h.awaitPodStatus(id, "RUNNING")
	}
	awaitStarts(1)
	h.performAction(id, "restart")
	awaitStarts(2)
	h.performAction(id, "stop")
	h.awaitPodStatus(id, "EXITED")
	h.awaitLogLine(id, "", "asked to end", nil)
	p := h.getPod(id)
	must.Hold(t, slices.Equal(p.Actions, []string{"start", "terminate"}) && p.Runtime == nil && p.SSH.Direct == nil, "the stopped pod is", p)
	h.performAction(id, "start")
	awaitStarts(3)
	// A change of the container replaces it; a change of the name doesn't.
	h.call(http.MethodPatch, "/v2/pods/"+id, `{"name":"q","locked":true}`, nil)
	h.call(http.MethodPatch, "/v2/pods/"+id, `{"locked":false}`, nil)
	h.call(http.MethodPatch, "/v2/pods/"+id, `{"env":{"COLOR":"blue"}}`, nil)
	awaitStarts(4)
	last := h.recordedStarts(id)[n-1]
	must.Hold(t, strings.Contains(last, "blue"), "the last start lacks the new color:", h.recordedStarts(id))
	h.call(http.MethodPost, "/v1/pods/"+id+"/reset", "", nil)
	awaitStarts(1) // with an empty volume
	h.call(http.MethodPost, "/v1/pods/"+id+"/stop", "", nil)
	h.call(http.MethodPost, "/v1/pods/"+id+"/reset", "", nil)
	h.waitUntil("the wiped volume", func() bool { return len(h.recordedStarts(id)) == 0 })
	p = h.getPod(id)
	must.Hold(t, p.Status == "EXITED", "a reset started the pod:", p)
	h.performAction(id, "start")
	awaitStarts(1)
	h.call(http.MethodDelete, "/v2/pods/"+id, "", nil)
	h.waitUntil("the removal of its folder", func() bool {
		_, err := os.Stat(filepath.Dir(h.volumeOf(id)))
		return os.IsNotExist(err)
	})
}

// If the program ends by itself, the pod is EXITED, or ERROR after a failure, and its GPU is free.
func TestPodsThatEnd(t *testing.T) {
	t.Parallel()
	h := startProcessPods(t, "--simulate-gpus=l4x2")
	id := h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA L4","count":2},"mounts":{"persistent":{"size":10,"path":"/w"}}}`)
	for exitStatus, want := range map[string]string{"0": "EXITED", "7": "ERROR"} {
		h.awaitPodStatus(id, "RUNNING")
		writeFile(t, filepath.Join(h.volumeOf(id), "exit"), exitStatus)
		p := h.awaitPodStatus(id, want)
		must.Hold(t, p.Reason != nil && *p.Reason == "it ended: exit status "+exitStatus, "the ended pod is", p)
		h.awaitLogLine(id, "?source=system", "the pod ended: exit status "+exitStatus, nil)
		other := h.createPod(`{"name":"o","image":"builtin/echo","gpu":{"id":"NVIDIA L4","count":2}}`)
		h.awaitPodStatus(other, "RUNNING")
		h.performAction(other, "terminate")
		h.performAction(id, "start")
	}
	failed := h.createPod(`{"name":"f","image":"builtin/conformance","args":"print hello env COLOR exit 3","env":{"COLOR":"red"},` + cpu + `}`)
	h.awaitPodStatus(failed, "ERROR")
	h.awaitLogLine(failed, "", "COLOR=red", nil)
}

// A pod writes to its network volume, which outlives the pod.
func TestPodsNetworkVolume(t *testing.T) {
	t.Parallel()
	h := startProcessPods(t)
	volume := h.createVolume()
	id := h.createPod(`{"name":"p","image":"team/pod",` + cpu + `,"mounts":{"network":[{"volumeId":"` + volume + `","path":"/n"}]}}`)
	file := filepath.Join(h.home, "data", "volumes", volume, "starts")
	h.waitUntil("its start", func() bool { _, err := os.Stat(file); return err == nil })
	h.call(http.MethodDelete, "/v2/pods/"+id, "", nil)
	h.waitUntil("its end", func() bool { _, err := os.Stat(h.volumeOf(id)); return os.IsNotExist(err) })
	must.Equal(t, must.Err(os.Stat(file)), nil, "the deletion of the pod deleted the network volume")
}

// A log is read from its end, a time or a reader's last line. It outlasts stops of the pod and jobrunner.
func TestPodLogs(t *testing.T) {
	t.Parallel()
	h := startProcessPods(t)
	id := h.createPod(`{"name":"p","image":"builtin/conformance",` + cpu + `,"args":"print one print two print three print four"}`)
	events := h.awaitLogLine(id, "?source=container", "four", nil)
	must.Require(t, len(events) == 8, "the log's events are", events, "want 4 ids and 4 lines")
	eventIDs := func(events []string) (ids []string) {
		for i := 0; i < len(events); i += 2 {
			ids = append(ids, strings.TrimPrefix(events[i], "id: "))
		}
		return ids
	}
	var firstLine struct{ Source, Line, TS string }
	err := json.Unmarshal([]byte(strings.TrimPrefix(events[1], "data: ")), &firstLine)
	must.Hold(t, err == nil && firstLine.Source == "container" && firstLine.Line == "one" && eventIDs(events)[0] == firstLine.TS, "the first event is", events[1], err)
	lastTwo := h.awaitLogLine(id, "?source=container&tail=2", "four", nil)
	must.Hold(t, len(lastTwo) == 4 && strings.Contains(lastTwo[1], "three"), "the last 2 lines are", lastTwo)
	resumed := h.awaitLogLine(id, "?source=container&tail=1&since=2020-01-01T00:00:00Z", "four", http.Header{"Last-Event-ID": {eventIDs(events)[1]}})
	must.Hold(t, len(resumed) == 4 && strings.Contains(resumed[1], "three"), "a reader that had 2 lines gets", resumed)
	sinceTime := h.awaitLogLine(id, "?source=container&tail=1&since=2020-01-01T00:00:00Z", "four", nil)
	must.Hold(t, len(sinceTime) == 8, "since a time, the events are", sinceTime)
	for _, query := range []string{"?tail=-1", "?tail=5001", "?tail=x", "?source=both", "?since=yesterday"} {
		status, text := h.get("/v2/pods/" + id + "/logs" + query)
		must.Hold(t, status == http.StatusBadRequest, "logs", query, "returned", status, text)
	}
	status, _ := h.get("/v2/pods/nothing/logs")
	must.Hold(t, status == http.StatusNotFound, "the log of no pod:", status)
	// A live log sends later lines as they arrive.
	lines := make(chan []string, 1)
	go func() { lines <- h.awaitLogLine(id, "?tail=0&source=system", "the pod runs", nil) }()
	time.Sleep(50 * time.Millisecond) // usually enough for the reader to connect; the test passes otherwise, too
	h.performAction(id, "restart")
	<-lines
	h.kill()
	h.start(t)
	afterKill := h.awaitLogLine(id, "?tail=5000", "starts the pod again", nil)
	must.Contain(t, strings.Join(afterKill, "\n"), `"one"`, eventIDs(events)[0])
}

// After a kill -9 or a stop, the next start restarts running pods and logs that. Other pods keep their states.
func TestPodsSurviveAKill(t *testing.T) {
	t.Parallel()
	h := startProcessPods(t, "--simulate-gpus=l4x2")
	volume := `"mounts":{"persistent":{"size":10,"path":"/w"}}`
	runningPod := h.createPod(`{"name":"r","image":"team/pod","gpu":{"id":"NVIDIA L4"},` + volume + `}`)
	stoppedPod := h.createPod(`{"name":"s","image":"team/pod","gpu":{"id":"NVIDIA L4"},` + volume + `}`)
	failedPod := h.createPod(`{"name":"f","image":"builtin/echo","args":"exit 1",` + cpu + `}`)
	waitingPod := h.createPod(`{"name":"w","image":"team/unknown",` + cpu + `}`)
	h.awaitPodStatus(runningPod, "RUNNING")
	h.awaitPodStatus(stoppedPod, "RUNNING")
	h.performAction(stoppedPod, "stop")
	h.awaitPodStatus(failedPod, "ERROR")
	h.awaitReason(waitingPod, "nothing on this machine")
	h.waitUntil("its start", func() bool { return len(h.recordedStarts(runningPod)) == 1 })
	for i, endDeployment := range []func(){func() { h.kill() }, func() { h.interrupt() }} {
		pid := strings.Fields(h.recordedStarts(runningPod)[i])[0]
		endDeployment()
		h.start(t, "--simulate-gpus=l4x2")
		h.awaitPodStatus(runningPod, "RUNNING")
		h.waitUntil("its start", func() bool { return len(h.recordedStarts(runningPod)) == i+2 })
		h.awaitLogLine(runningPod, "?source=system&tail=5000", "starts the pod again", nil)
		var v1 struct{ LastStatusChange string }
		h.call(http.MethodGet, "/v1/pods/"+runningPod, "", &v1)
		must.Hold(t, strings.HasPrefix(v1.LastStatusChange, "Restarted: the jobrunner restarted"), "the last status change is", v1.LastStatusChange)
		p := h.getPod(stoppedPod)
		must.Hold(t, p.Status == "EXITED" && len(h.recordedStarts(stoppedPod)) <= 1, "the stopped pod is", p)
		p = h.getPod(failedPod)
		must.Hold(t, p.Status == "ERROR" && *p.Reason == "it ended: exit status 1", "the failed pod is", p)
		h.awaitReason(waitingPod, "nothing on this machine")
		text, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		must.Hold(t, !strings.Contains(string(text), "pod.sh"), "the pod's process", pid, "survived its jobrunner")
	}
}
