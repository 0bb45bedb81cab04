package pod

import (
	"fmt"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// runs is a process.
var runs = run.Process((*builtin)(nil))

func newDesiredPod(status store.PodStatus, generation int64) *store.Pod {
	return &store.Pod{PodState: store.PodState{Status: status, Run: generation}}
}

func TestNextStep(t *testing.T) {
	wiped := func(p *store.Pod) *store.Pod { p.WipeVolume = true; return p }
	program := &run.Program{}
	running := actual{generation: 1, holds: true, program: program, allocated: true, joined: true, process: runs}
	for name, c := range map[string]struct {
		desired *store.Pod
		actual  actual
		closing bool
		want    step
	}{
		"new":                                 {newDesiredPod(store.PodProvisioning, 1), actual{}, false, resolve},
		"image resolved":                      {newDesiredPod(store.PodProvisioning, 1), actual{generation: 1, program: program}, false, allocate},
		"GPUs allocated":                      {newDesiredPod(store.PodStarting, 1), actual{generation: 1, program: program, holds: true, allocated: true}, false, join},
		"network joined":                      {newDesiredPod(store.PodStarting, 1), actual{generation: 1, program: program, holds: true, allocated: true, joined: true}, false, startProcess},
		"running":                             {newDesiredPod(store.PodRunning, 1), running, false, watch},
		"running, the record lags":            {newDesiredPod(store.PodStarting, 1), running, false, watch},
		"restarted":                           {newDesiredPod(store.PodStarting, 2), running, false, stopProcess},
		"restarted, process stopped":          {newDesiredPod(store.PodStarting, 2), actual{generation: 1, holds: true}, false, resolve},
		"restarted during a start":            {newDesiredPod(store.PodStarting, 2), actual{generation: 1, holds: true, program: program, allocated: true}, false, resolve},
		"reset while running":                 {wiped(newDesiredPod(store.PodStarting, 2)), running, false, stopProcess},
		"reset, process stopped":              {wiped(newDesiredPod(store.PodStarting, 2)), actual{generation: 1, holds: true}, false, wipe},
		"stopped while running":               {newDesiredPod(store.PodExited, 2), running, false, stopProcess},
		"stopped, process stopped":            {newDesiredPod(store.PodExited, 2), actual{generation: 1, holds: true}, false, release},
		"stopped":                             {newDesiredPod(store.PodExited, 2), actual{generation: 1}, false, idle},
		"stopped and reset, GPUs still held":  {wiped(newDesiredPod(store.PodExited, 2)), actual{generation: 1, holds: true}, false, release},
		"stopped and reset":                   {wiped(newDesiredPod(store.PodExited, 2)), actual{generation: 1}, false, wipe},
		"failed":                              {newDesiredPod(store.PodError, 1), actual{generation: 1}, false, idle},
		"deleted while running":               {nil, running, false, stopProcess},
		"deleted, process stopped":            {nil, actual{generation: 1, holds: true}, false, release},
		"deleted":                             {nil, actual{generation: 1}, false, remove},
		"deployment ends while running":       {newDesiredPod(store.PodRunning, 1), running, true, stopProcess},
		"deployment ends during a start":      {newDesiredPod(store.PodStarting, 1), actual{generation: 1, holds: true, program: program}, true, exit},
		"deployment ends, deleted":            {nil, actual{}, true, exit},
		"deployment ends, the volume remains": {wiped(newDesiredPod(store.PodExited, 1)), actual{}, true, exit},
	} {
		must.Equal(t, nextStep(c.desired, c.actual, c.closing), c.want, name, "step")
	}
}

// From any state, the steps reach one that waits for an event. They never repeat, and never start a
// second process.
func TestStepsConverge(t *testing.T) {
	states := []*store.Pod{nil}
	for _, status := range []store.PodStatus{store.PodProvisioning, store.PodStarting, store.PodRunning, store.PodExited, store.PodError, store.PodTerminated} {
		for _, wipeVolume := range []bool{false, true} {
			p := newDesiredPod(status, 2)
			p.WipeVolume = wipeVolume
			states = append(states, p)
		}
	}
	for _, want := range states {
		for bits := range 1 << 6 {
			a := actual{generation: int64(1 + bits&1), holds: bits&2 != 0, allocated: bits&4 != 0, joined: bits&8 != 0}
			if bits&16 != 0 {
				a.program = &run.Program{}
			}
			if bits&32 != 0 {
				a.process, a.program = runs, &run.Program{}
			}
			for _, closing := range []bool{false, true} {
				err := converge(want, a, closing)
				must.Hold(t, err == nil, want, a, "closing", closing, err)
			}
		}
	}
}

// converge performs steps that succeed until one waits for an event.
func converge(desired *store.Pod, a actual, closing bool) error {
	if desired != nil {
		p := *desired
		desired = &p
	}
	taken := map[step]bool{}
	for {
		next := nextStep(desired, a, closing)
		if taken[next] {
			return fmt.Errorf("step %d is repeated", next)
		}
		taken[next] = true
		switch next {
		case idle, remove:
			if a.process != nil || a.holds {
				return fmt.Errorf("step %d leaves a process or GPUs", next)
			}
			return nil
		case exit, watch:
			if (a.process != nil) != (next == watch) {
				return fmt.Errorf("step %d with process %v", next, a.process)
			}
			return nil
		case stopProcess:
			a.process = nil
			a.reset()
		case release:
			a.holds = false
		case wipe:
			desired.WipeVolume = false
		case resolve:
			a.generation = desired.Run
			a.reset()
			a.program = &run.Program{}
		case allocate:
			a.holds, a.allocated = true, true
		case join:
			a.joined = true
		case startProcess:
			if a.process != nil || !a.holds && !a.allocated {
				return fmt.Errorf("a process is started with %+v", a)
			}
			a.process = runs
		}
	}
}
