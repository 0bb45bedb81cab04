//go:build linux

package main_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// history is a deployment with a log of a test's random operations.
type history struct {
	*handlers
	random *rand.Rand
	gpus   string // value of --simulate-gpus
	steps  []string
}

// eachHistory runs histories of random operations concurrently. A failing one prints the seed that
// repeats it.
func eachHistory(t *testing.T, seeds int, run func(t *testing.T, h *history)) {
	t.Parallel()
	if testing.Short() {
		seeds = 1
	}
	for range seeds {
		seed := rand.Uint64() >> 32
		if text := os.Getenv("GPUCLOUD_TEST_SEED"); text != "" {
			seed, _ = strconv.ParseUint(text, 10, 64)
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			h := &history{random: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a test repeats it
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("GPUCLOUD_TEST_SEED=%d\n%s", seed, strings.Join(h.steps, "\n"))
				}
			})
			run(t, h)
		})
	}
}

func (h *history) note(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

func (h *history) restartDeployment() {
	h.t.Helper()
	if h.random.IntN(3) == 0 {
		h.note("the jobrunner is stopped")
		h.interrupt()
	} else {
		h.note("the jobrunner is killed")
		h.kill()
	}
	h.start(h.t, "--simulate-gpus="+h.gpus)
}

// settle waits until difference returns "".
func (h *history) settle(difference func() string) {
	h.t.Helper()
	found := "nothing was looked at"
	defer func() {
		if h.t.Failed() {
			h.note("%s", found)
			h.t.Log(found)
		}
	}()
	h.until("the model's state", func() bool { found = difference(); return found == "" })
}

// processDifference returns a difference between running pods and their processes: each pod has one,
// and no GPU belongs to two. check checks the environment of a process.
func (h *history) processDifference(running map[string]bool, check func(id string, env map[string]string) string) string {
	found, devices := map[string]bool{}, map[string]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, _ := os.ReadFile(file) // fails if the process has ended
		if !strings.Contains(string(text), filepath.Join(h.dir, "pod.sh")) {
			continue
		}
		env := map[string]string{}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		for variable := range strings.SplitSeq(string(environ), "\x00") {
			name, value, _ := strings.Cut(variable, "=")
			env[name] = value
		}
		id := env["RUNPOD_POD_ID"]
		if id == "" || found[id] || !running[id] {
			return fmt.Sprintf("the process %s of the pod %q: it runs %v, there is another %v", file, id, running[id], found[id])
		}
		found[id] = true
		for device := range strings.SplitSeq(env["CUDA_VISIBLE_DEVICES"], ",") {
			if other := devices[device]; device != "" && other != "" {
				h.t.Fatalf("the pods %s and %s have the same GPU %s", other, id, device)
			}
			devices[device] = id
		}
		if difference := check(id, env); difference != "" {
			return difference
		}
	}
	if !maps.Equal(found, running) {
		return fmt.Sprintf("the processes of the pods %v, and those that run are %v", found, running)
	}
	return ""
}
