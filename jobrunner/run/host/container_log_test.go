package host

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Lines of an engine are passed on without their times, and without the times that Podman inserts,
// after the last line of the previous run.
func TestMarkedLines(t *testing.T) {
	const written = "2026-06-01T12:00:00.000000001Z one\n" +
		"2026-06-01T12:00:00.000000002Z two\n" +
		"2026-06-01T12:00:00.000000003Z thr2026-06-01T12:00:00.000000004Z ee\n" +
		"Error: the engine says this\n" +
		"2026-06-01T12:00:00.000000005Z 2026-06-01T11:00:00.000000000Z is the program's own\n" +
		"2026-06-01T12:00:00.000000006Z \n" +
		"2026-06-01T12:00:00.000000007Z cut off"
	for since, want := range map[string][]string{
		"":                               {"one", "two", "three", "2026-06-01T11:00:00.000000000Z is the program's own", "", "cut off"},
		"2026-06-01T12:00:00.000000002Z": {"three", "2026-06-01T11:00:00.000000000Z is the program's own", "", "cut off"},
	} {
		log := newOutput()
		m := &markedLines{since: since, last: since, pieces: true, log: log}
		must.Do(io.Copy(m, iotest.OneByteReader(strings.NewReader(written))))(t)
		m.flush()
		got := log.String()
		must.Hold(t, got == strings.Join(want, "\n")+"\n" && m.last == "2026-06-01T12:00:00.000000007Z", "since", since, got, "and then", m.last)
	}
}

// A pod joins the engine's default network, its rule's, or one shared with other pods. Only in its own
// networks it has a name and published ports.
func TestPodCreation(t *testing.T) {
	const name = "--network-alias id.runpod.internal"
	for _, c := range []struct{ network, rule, deployment, want, lacks string }{
		{"", "", "d", "--label gpucloud.deployment=d --env-file", "--network"},
		{"", "", "", "--label gpucloud.run=r --env-file", "gpucloud.deployment"},
		{"", "", "d", "--publish 127.0.0.1:4001:22 --publish 127.0.0.1:4002:8080 --gpus \"device=GPU-a\" --mount type=bind,source=/v,target=/w x a", "--add-host"},
		{"gpucloud-global", "", "d", "--network gpucloud-global " + name + " --publish 127.0.0.1:4001:22", "--add-host"},
		{"gpucloud-global", "mine", "d", "--network mine --publish 127.0.0.1:4001:22", name},
		{"gpucloud-global", "host", "d", "--network host --gpus", "--publish"},
	} {
		s := run.Spec{
			ID: "id", Container: store.Container{Image: "x", Args: "a"}, Devices: []gpu.Device{{UUID: "GPU-a"}}, Mounts: []run.Mount{{Dir: "/v", Path: "/w"}},
			Pod: &run.Pod{
				Run: 7, Network: c.network, Deployment: c.deployment, Ports: []store.PodPort{{Private: 22, Public: 4001, Protocol: "tcp"}, {Private: 8080, Public: 4002, Protocol: "http"}, {Private: 1}},
			},
		}
		dir := t.TempDir()
		args, _, err := creation{&containerSettings{Network: text{Value: c.rule}}, s, "n", "r", false, "linux"}.args(dir)
		line := strings.ReplaceAll(strings.Join(args, " "), dir+"/", "")
		if err != nil || !strings.Contains(line, c.want) || strings.Contains(line, c.lacks) || !strings.Contains(line, "--label gpucloud.pod=id --label gpucloud.pod.run=7 ") || strings.Contains(line, "gpucloud.worker") {
			t.Errorf("%+v:\n%s %v", c, line, err)
		}
	}
}
