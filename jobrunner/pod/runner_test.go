package pod

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

var someProcess = run.Process((*builtin)(nil))

func newDesiredPod(status store.PodStatus, generation int64) *store.Pod {
	return &store.Pod{PodState: store.PodState{Status: status, Run: generation}}
}

func TestNextStep(t *testing.T) {
	wiped := func(p *store.Pod) *store.Pod { p.WipeVolume = true; return p }
	program := &run.Program{}
	running := actualState{generation: 1, hasGPUs: true, program: program, allocated: true, joined: true, process: someProcess}
	for name, c := range map[string]struct {
		desired *store.Pod
		actual  actualState
		closing bool
		want    step
	}{
		"new":                                 {newDesiredPod(store.PodProvisioning, 1), actualState{}, false, resolve},
		"image resolved":                      {newDesiredPod(store.PodProvisioning, 1), actualState{generation: 1, program: program}, false, allocate},
		"GPUs allocated":                      {newDesiredPod(store.PodStarting, 1), actualState{generation: 1, program: program, hasGPUs: true, allocated: true}, false, join},
		"network joined":                      {newDesiredPod(store.PodStarting, 1), actualState{generation: 1, program: program, hasGPUs: true, allocated: true, joined: true}, false, startProcess},
		"running":                             {newDesiredPod(store.PodRunning, 1), running, false, watch},
		"running, the record lags":            {newDesiredPod(store.PodStarting, 1), running, false, watch},
		"restarted":                           {newDesiredPod(store.PodStarting, 2), running, false, stopProcess},
		"restarted, process stopped":          {newDesiredPod(store.PodStarting, 2), actualState{generation: 1, hasGPUs: true}, false, resolve},
		"restarted during a start":            {newDesiredPod(store.PodStarting, 2), actualState{generation: 1, hasGPUs: true, program: program, allocated: true}, false, resolve},
		"reset while running":                 {wiped(newDesiredPod(store.PodStarting, 2)), running, false, stopProcess},
		"reset, process stopped":              {wiped(newDesiredPod(store.PodStarting, 2)), actualState{generation: 1, hasGPUs: true}, false, wipe},
		"stopped while running":               {newDesiredPod(store.PodExited, 2), running, false, stopProcess},
		"stopped, process stopped":            {newDesiredPod(store.PodExited, 2), actualState{generation: 1, hasGPUs: true}, false, release},
		"stopped":                             {newDesiredPod(store.PodExited, 2), actualState{generation: 1}, false, idle},
		"stopped and reset, GPUs still held":  {wiped(newDesiredPod(store.PodExited, 2)), actualState{generation: 1, hasGPUs: true}, false, release},
		"stopped and reset":                   {wiped(newDesiredPod(store.PodExited, 2)), actualState{generation: 1}, false, wipe},
		"failed":                              {newDesiredPod(store.PodError, 1), actualState{generation: 1}, false, idle},
		"deleted while running":               {nil, running, false, stopProcess},
		"deleted, process stopped":            {nil, actualState{generation: 1, hasGPUs: true}, false, release},
		"deleted":                             {nil, actualState{generation: 1}, false, remove},
		"deployment ends while running":       {newDesiredPod(store.PodRunning, 1), running, true, stopProcess},
		"deployment ends during a start":      {newDesiredPod(store.PodStarting, 1), actualState{generation: 1, hasGPUs: true, program: program}, true, exit},
		"deployment ends, deleted":            {nil, actualState{}, true, exit},
		"deployment ends, the volume remains": {wiped(newDesiredPod(store.PodExited, 1)), actualState{}, true, exit},
	} {
		must.Equal(t, nextStep(c.desired, c.actual, c.closing), c.want, name, "step")
	}
}

// From any state, the steps reach a step that waits, without a repeated step or a second process.
func TestStepsConverge(t *testing.T) {
	desiredPods := []*store.Pod{nil}
	for _, status := range []store.PodStatus{store.PodProvisioning, store.PodStarting, store.PodRunning, store.PodExited, store.PodError} {
		for _, wipeVolume := range []bool{false, true} {
			p := newDesiredPod(status, 2)
			p.WipeVolume = wipeVolume
			desiredPods = append(desiredPods, p)
		}
	}
	for _, desired := range desiredPods {
		for bits := range 1 << 6 {
			a := actualState{generation: int64(1 + bits&1), hasGPUs: bits&2 != 0, allocated: bits&4 != 0, joined: bits&8 != 0}
			if bits&16 != 0 {
				a.program = &run.Program{}
			}
			if bits&32 != 0 {
				a.process, a.program = someProcess, &run.Program{}
			}
			for _, closing := range []bool{false, true} {
				must.Equal(t, converge(desired, a, closing), nil, "the steps from", a, "to", desired, "closing:", closing)
			}
		}
	}
}

// converge performs steps that succeed until a step waits for an event.
func converge(desired *store.Pod, a actualState, closing bool) error {
	if desired != nil {
		p := *desired
		desired = &p
	}
	done := map[step]bool{}
	for {
		next := nextStep(desired, a, closing)
		if done[next] {
			return fmt.Errorf("step %d is repeated", next)
		}
		done[next] = true
		switch next {
		case idle, remove:
			if a.process != nil || a.hasGPUs {
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
			a.hasGPUs = false
		case wipe:
			desired.WipeVolume = false
		case resolve:
			a.generation = desired.Run
			a.reset()
			a.program = &run.Program{}
		case allocate:
			a.hasGPUs, a.allocated = true, true
		case join:
			a.joined = true
		case startProcess:
			if a.process != nil || !a.hasGPUs && !a.allocated {
				return fmt.Errorf("a process is started with %+v", a)
			}
			a.process = someProcess
		}
	}
}

// newTestPods returns Pods of a new store without GPUs.
func newTestPods(t *testing.T, c Config) (*Pods, *sqldb.DB) {
	t.Helper()
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
	c.Store, c.Clock = must.Do(store.Open(t.Context(), db, new(clock.Clock)))(t), new(clock.Clock)
	c.Devices, c.Folder, c.Meter = gpu.NewAllocator(gpu.NoGPUs()), t.TempDir(), busyProcess{}
	pods := New(c)
	t.Cleanup(func() { pods.Close(); c.Devices.Close(); _ = db.Close() })
	return pods, db
}

// slowEngine answers when answer is closed. It has a container of a deleted pod and the network of a deleted cluster.
type slowEngine struct {
	run.PodPrograms
	t       *testing.T
	answer  chan struct{}
	removed chan string
}

func (e *slowEngine) Orphans(context.Context, string) []run.Orphan {
	select {
	case <-e.answer:
	case <-time.After(10 * time.Second):
		e.t.Error("Load waits for the container engine")
	}
	return []run.Orphan{{Pod: "deleted", Remove: func() { e.removed <- "container" }}}
}

func (e *slowEngine) OrphanNetworks(context.Context, string) []string {
	return []string{networkName("deleted")}
}

func (e *slowEngine) RemoveNetwork(_ context.Context, name string) error {
	e.removed <- name
	return nil
}

// Without running pods, Load doesn't wait for a slow container engine. Leftovers are removed when the engine answers.
func TestLeftoversAreRemovedInTheBackground(t *testing.T) {
	engine := &slowEngine{t: t, answer: make(chan struct{}), removed: make(chan string, 3)}
	pods, _ := newTestPods(t, Config{Programs: engine, FolderID: "m", Persistent: true, Logger: slog.New(slog.DiscardHandler)})
	must.Succeed(t, pods.Load(t.Context()))
	close(engine.answer)
	must.Equal(t, <-engine.removed, "container", "the removed object")
	must.Equal(t, <-engine.removed, networkName("deleted"), "the removed object")

	// While a member of a cluster ends, another one may allocate GPUs for it. They are released, too.
	r, a := newRunner(pods, "p"), actualState{hasGPUs: true, process: must.Do(startBuiltin(pods.Clock)(t.Context(), run.Spec{}))(t)}
	r.setRunning(store.Pod{}, a.process)
	r.reportEnd(t.Context(), store.Pod{}, &a)
	must.Equal(t, nextStep(newDesiredPod(store.PodExited, 0), a, false), release, "the step after the end")

	record := must.Do(store.Create(t.Context(), pods.Store, store.Pod{CPU: &store.PodCPU{FlavorIDs: []string{"cpu3c"}, VCPUCount: 2}, PodState: store.PodState{Status: store.PodRunning}}))(t)
	r.id, a.process = record.ID, endedProcess{}
	r.setRunning(record, a.process)
	r.reportEnd(t.Context(), record, &a)
	must.Equal(t, must.Do(pods.Store.Pod(t.Context(), r.id))(t).Status, store.PodProvisioning, "the status after a restart of the engine")
}

// A pod that starts again keeps its GPU, unless it has become faulty.
func TestRestartLeavesFaultyGPU(t *testing.T) {
	pods, _ := newTestPods(t, Config{Driver: func() gpu.Driver { return gpu.Driver{} }})
	inventory := must.Do(gpu.Simulate("faulty", slog.New(slog.DiscardHandler)))(t)
	defer inventory.Close()
	pods.Devices = gpu.NewAllocator(inventory)
	record := must.Do(store.Create(t.Context(), pods.Store, store.Pod{Cloud: "SECURE", GPU: &store.PodGPU{TypeIDs: []string{inventory.Devices()[2].TypeID}, Count: 1}, PodState: store.PodState{Status: store.PodStarting}}))(t)
	r := newRunner(pods, record.ID)
	r.devices = must.Do(pods.Devices.Claim([]string{inventory.Devices()[2].UUID}, r.id))(t)
	for range 2 {
		must.Succeed(t, r.acquire(t.Context(), record))
		must.Equal(t, r.devices, inventory.Devices()[:1], "the GPUs")
	}
}

// endedProcess ended when its engine restarted.
type endedProcess struct{ run.Process }

func (endedProcess) Stop(time.Duration) {}
func (endedProcess) Exit() run.Exit     { return run.Exit{Restart: true} }

// fakeProcess exits when its channel is closed.
type fakeProcess struct {
	run.Process
	done chan struct{}
}

func (p fakeProcess) Done() <-chan struct{} { return p.done }

func member(rank int64) store.Pod {
	return store.Pod{Cluster: &store.ClusterMember{ID: "c", Rank: &rank, Size: 2}, GPU: &store.PodGPU{Count: 1}}
}

// A running member restarts only when the primary's address differs from the address that the member got.
func TestPrimaryMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{primary: primary{changed: make(chan struct{})}}
		r := &runner{cluster: c}
		p := member(1)
		c.mu.Lock() // as while an engine makes the network, which may hang
		(&Pods{clusters: map[string]*cluster{"c": c}}).join(r, p)
		c.mu.Unlock()
		p.HiddenEnv = map[string]string{"PRIMARY_ADDR": "10.0.0.1"}
		for _, end := range []string{"moved", "ended"} {
			process := fakeProcess{done: make(chan struct{})}
			moved := make(chan bool, 1)
			go func() { moved <- r.awaitPrimaryMove(t.Context(), p, process) }()
			for _, address := range []string{"10.0.0.1", "", "10.0.0.1"} {
				c.announce(address)
				synctest.Wait()
				must.Require(t, len(moved) == 0, address, "the member doesn't keep running")
			}
			if end == "moved" {
				c.announce("10.0.0.2")
			} else {
				close(process.done)
			}
			must.Equal(t, <-moved, end == "moved", end)
			c.announce("")
		}
	})
}

// addressVariables has exactly the variables that contain a member's own address. rankEnvironment has them, too.
func TestOwnAddress(t *testing.T) {
	for rank, want := range []map[string]string{
		{"NODE_ADDR": "", "PRIMARY_ADDR": "", "MASTER_ADDR": "", "HOST_NODE_ADDR": ":29400"},
		{"NODE_ADDR": ""},
	} {
		must.Equal(t, addressVariables(member(int64(rank))), want, "rank", rank)
		for name := range addressVariables(member(int64(rank))) {
			_, ok := rankEnvironment(member(int64(rank)), "", "", primaryPort)[name]
			must.Hold(t, ok, "rank", rank, "rankEnvironment lacks", name)
		}
	}
}

func openTestLog(t *testing.T, folder string) *fileLog {
	t.Helper()
	return openLog(folder, run.LogConfig{Clock: new(clock.Clock), ID: "p"}, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// After a restart, a log continues its line numbers and its mark, the last line's time, and drops invalid lines.
func TestLogIsKept(t *testing.T) {
	folder := t.TempDir()
	l := openTestLog(t, folder)
	l.WriteLine("one", "2026-06-01T12:00:00Z")
	l.Note("the pod runs")
	file := l.file
	_, _ = file.WriteString(`{"n":2,`) // the disk is full meanwhile: only this line is lost
	l.file = must.Do(os.Open(os.DevNull))(t)
	l.Note("lost")
	l.file = file
	l.WriteLine("two", "2026-06-01T12:00:01Z")
	// The deployment is killed while it writes a line.
	f := must.Do(os.OpenFile(filepath.Join(folder, logFile), os.O_APPEND|os.O_WRONLY, 0))(t)
	_, _ = f.WriteString(`{"n":3,"t":"2026-0`)
	_ = f.Close()

	l = openTestLog(t, folder)
	l.WriteLine("three", "2026-06-01T12:00:02Z")
	lines, _ := l.Lines(0)
	var text []string
	for _, line := range lines {
		text = append(text, fmt.Sprintf("%d %v %s", line.Number, line.System, line.Text))
	}
	must.Equal(t, strings.Join(text, "\n"), "0 false one\n1 true the pod runs\n3 false two\n4 false three")
	must.Equal(t, l.Mark(), "2026-06-01T12:00:02Z", "the mark")
	for n := range 3 * run.MaxLines {
		l.WriteLine(fmt.Sprintf("line %d %s", n, strings.Repeat("x", 1000)), "m")
	}
	l.close()
	info, err := os.Stat(filepath.Join(folder, logFile))
	must.Hold(t, err == nil && info.Size() <= maxFileBytes+logBytes, "the file has", info.Size(), "bytes,", err)
	l = openTestLog(t, folder)
	lines, _ = l.Lines(0)
	last := lines[len(lines)-1]
	must.Hold(t, len(lines) <= run.MaxLines && last.Number == 3*run.MaxLines+4 && strings.HasPrefix(last.Text, "line 14999 "), len(lines), "lines, the last is", last.Number, last.Text[:20])
}

// busyProcess has used half an hour of CPU time. It is also a Meter that records nothing.
type busyProcess struct {
	run.Process
	Meter
}

func (busyProcess) Usage() run.Usage { return run.Usage{CPU: 30 * time.Minute} }
func (busyProcess) Started(Span)     {}
func (busyProcess) Stopped(Span)     {}

// The CPU utilization of an adopted pod is the average since its start, not since its adoption.
func TestUtilizationOfAdoptedPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := New(Config{Devices: new(gpu.Allocator), Meter: busyProcess{}, Folder: t.TempDir(), Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler)})
		record := store.Pod{CPU: &store.PodCPU{VCPUCount: 1}, PodState: store.PodState{StartedAt: time.Now().Add(-time.Hour)}}
		r := newRunner(pods, "p")
		r.desired, pods.runners["p"] = &record, r
		r.setRunning(record, busyProcess{})
		must.Equal(t, pods.Utilization("p").CPU, new(int64(50)), "the CPU utilization")
	})
}

// brokenKeeper can't remove volumes.
type brokenKeeper struct{ run.VolumeKeeper }

func (brokenKeeper) RemoveVolume(context.Context, string) error { return errors.New("it hangs") }

// A pod whose volume can't be wiped says so in the log, and a start or deletion doesn't wait for the next try.
func TestFailedWipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(livelog.Log)
		pods, db := newTestPods(t, Config{Keeper: brokenKeeper{}, Logger: slog.New(slog.NewTextHandler(log, nil))})
		record := store.Pod{CPU: &store.PodCPU{FlavorIDs: []string{"cpu3c"}, VCPUCount: 2}, PodState: store.PodState{Status: store.PodExited, WipeVolume: true}}
		record = must.Do(store.Create(t.Context(), pods.Store, record))(t)
		pods.SyncAll(t.Context(), []store.Pod{record}) // also starts the runner of a pod whose create had no reply
		time.Sleep(40 * time.Second)
		must.Hold(t, strings.Contains(log.String(), "it hangs"), "the log is", log)
		must.Succeed(t, store.Delete[store.Pod](t.Context(), pods.Store, record.ID))
		pods.Sync(t.Context(), record.ID)
		synctest.Wait()
		must.Hold(t, pods.find(record.ID) == nil, "the deleted pod waits for another try to wipe its volume")
		record.FolderID = "another node's"
		record = must.Do(store.Create(t.Context(), pods.Store, record))(t)
		pods.Sync(t.Context(), record.ID)
		must.Hold(t, pods.find(record.ID) == nil, "another node's pod has a folder and an empty log here")
		// A single node, which calls no SyncAll, tries a failed read again.
		pods.SingleNode = true
		rename := func(from, to string) {
			must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error { return must.Err(tx.Exec("ALTER TABLE " + from + " RENAME TO " + to)) }))
		}
		rename("objects", "away")
		pods.Sync(t.Context(), record.ID)
		rename("away", "objects")
		time.Sleep(2 * time.Second)
		must.Hold(t, pods.find(record.ID) != nil && pods.find(record.ID).hasRead(&record), "the pod isn't read again")
	})
}

// engineUpAt works from a time on, but never starts a container. It has a container of a pod, and an older one.
type engineUpAt struct {
	run.NoPrograms
	at     time.Time
	starts []time.Time
	orphan run.Orphan
}

func (e *engineUpAt) Orphans(context.Context, string) []run.Orphan {
	return []run.Orphan{{Pod: e.orphan.Pod, Run: -1, Remove: func() {}}, e.orphan}
}

func (e *engineUpAt) Program(string) (run.Program, error) {
	start := func(context.Context, run.Spec) (run.Process, error) {
		e.starts = append(e.starts, time.Now())
		return nil, errors.New("the image is gone")
	}
	if time.Now().Before(e.at) {
		return run.Program{}, errors.New("the engine is down")
	}
	return run.Program{Start: start}, nil
}

// A container that can't be adopted is removed. Its pod starts soon after the engine is up. Retries log their reason once.
func TestRetriedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, log := &engineUpAt{at: time.Now().Add(time.Hour + 10*time.Second)}, new(livelog.Log)
		pods, _ := newTestPods(t, Config{Programs: engine, Persistent: true, LogTo: log, Logger: slog.New(slog.NewTextHandler(log, nil))})
		record := store.Pod{CPU: &store.PodCPU{FlavorIDs: []string{"cpu3c"}, VCPUCount: 2}, PodState: store.PodState{Status: store.PodRunning, Devices: []string{"gone"}}}
		removed := false
		engine.orphan = run.Orphan{Pod: must.Do(store.Create(t.Context(), pods.Store, record))(t).ID, Remove: func() { removed = true }}
		must.Succeed(t, pods.Load(t.Context()))
		time.Sleep(2 * time.Hour)
		pods.Close()
		must.Hold(t, len(engine.starts) > 10 && engine.starts[0].Sub(engine.at) <= 10*time.Second, "the engine is up at", engine.at, "the starts are at", engine.starts)
		must.Equal(t, strings.Count(log.String(), "a pod can't start"), 2, "logged reasons in", log)
		must.Hold(t, removed, "the container still runs")
		must.Contain(t, log.String(), "kept running while the jobrunner was down, but can't continue")
	})
}

func TestBuiltinArgs(t *testing.T) {
	for args, want := range map[string]string{"sleep 9300000000000 exit 1": run.Stopped, "sleep 1 exit": "exit status 2"} {
		synctest.Test(t, func(t *testing.T) {
			p := must.Do(startBuiltin(new(clock.Clock))(t.Context(), run.Spec{Container: store.Container{Args: args}, Log: run.NewLog(run.LogConfig{Clock: new(clock.Clock)})}))(t)
			time.Sleep(time.Second)
			p.Stop(0)
			must.Equal(t, p.Exit().Text, want, args)
		})
	}
}
