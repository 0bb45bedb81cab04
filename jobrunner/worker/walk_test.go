package worker_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// walks is the number of random sequences of events in a run of TestRandomWalk, named by their seeds.
const walks = 60

// After any sequence of events, states are right, no job is lost or done twice, and workers are neither too many
// nor, except during a back-off, too few.
func TestRandomWalk(t *testing.T) {
	for range walks {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) { walkFrom(t, seed) })
	}
}

func walkFrom(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 0))
	fakes := newFakes(3)
	fakes.boot, fakes.exitDelay, fakes.slots = time.Duration(dice.IntN(3))*time.Second, time.Duration(dice.IntN(2))*time.Second, 1+dice.IntN(2)
	bubbleWithFakes(t, fakes, func(f *fixture) {
		w := &walk{fixture: f, fakes: fakes, dice: dice, settings: newColoredEndpoint(1, 3), jobs: map[string]bool{}, cancelled: map[string]bool{}}
		f.pools.Set(w.settings)
		for range 60 {
			w.step()
			w.check()
			if t.Failed() {
				t.Logf("after %q", w.events)
				return
			}
		}
		w.settle()
	})
}

// walk runs a sequence of events and records it.
type walk struct {
	*fixture
	fakes    *fakes
	dice     *rand.Rand
	settings worker.Endpoint
	events   []string

	jobs      map[string]bool
	cancelled map[string]bool
}

func (w *walk) step() {
	event := ""
	switch n := w.dice.IntN(20); {
	case n < 6:
		input := fmt.Sprintf(`{"seconds": %d, "crash": %t, "deaf": %t}`, w.dice.IntN(20), w.dice.IntN(10) == 0, w.dice.IntN(3) == 0)
		event = "job " + input
		w.jobs[w.submit(engine.NewJob{Input: []byte(input)}).ID] = true
	case n < 9:
		alive := w.fakes.alive()
		if len(alive) == 0 {
			break
		}
		process := alive[w.dice.IntN(len(alive))]
		if n < 8 {
			event = "crash of " + process.spec.ID
			process.end(errors.New("exit status 9"))
		} else {
			event = "unhealthy " + process.spec.ID
			process.client.ReportUnhealthy("no model") // it may be about to end
		}
	case n < 10:
		for id := range w.jobs {
			if !w.cancelled[id] {
				event = "cancel " + id
				_, _ = w.engine.Cancel(w.t.Context(), "ep", id) // it may be done
				w.cancelled[id] = true
				break
			}
		}
	case n < 12:
		w.settings.Version++
		w.settings.Env = newColoredEndpoint(w.settings.Version, 0).Env
		event = fmt.Sprint("version ", w.settings.Version)
		w.pools.Set(w.settings)
	case n < 14:
		w.settings.Max = w.dice.IntN(5)
		w.settings.Min = w.dice.IntN(w.settings.Max + 1)
		w.settings.ByRequests = w.dice.IntN(2) == 0
		event = fmt.Sprintf("from %d to %d, by requests %t", w.settings.Min, w.settings.Max, w.settings.ByRequests)
		w.fakes.update(func() { w.fakes.maxWorkers = w.settings.Max })
		w.pools.Set(w.settings)
	case n < 15:
		w.fakes.update(func() { w.fakes.broken = !w.fakes.broken })
		event = fmt.Sprint("broken ", w.fakes.broken)
	default:
		d := time.Duration(w.dice.IntN(15000)) * time.Millisecond
		event = fmt.Sprint("pass ", d)
		time.Sleep(d)
	}
	w.events = append(w.events, event)
	synctest.Wait()
}

// check compares the pool's view of the workers with the simulated workers.
func (w *walk) check() {
	w.t.Helper()
	var counts worker.Counts
	infos := map[string]worker.Info{}
	for _, info := range w.pools.Workers("ep") {
		infos[info.ID] = info
		counts.Add(info.State)
		must.Hold(w.t, info.State != worker.Unhealthy || info.Reason != "", info.ID, "is UNHEALTHY without a reason")
		must.Hold(w.t, info.State != worker.Throttled, info.ID, "is THROTTLED")
		must.Hold(w.t, (info.State == worker.Running) == (info.Jobs > 0) || info.State == worker.Unhealthy, info.ID, info.State, info.Jobs, "jobs")
		must.Equal(w.t, info.Stale, info.Version != w.settings.Version, "whether", info.ID, "of version", info.Version, "is stale at version", w.settings.Version)
	}
	must.Equal(w.t, w.pools.Counts("ep"), counts, "counts")
	alive := w.fakes.alive()
	for _, process := range alive {
		w.fakes.mu.Lock()
		jobs, killed := len(process.jobs), process.killed
		w.fakes.mu.Unlock()
		info, ok := infos[process.spec.ID]
		switch {
		case killed: // it is shutting down
			must.Hold(w.t, !ok || info.State == worker.Unhealthy, info.ID, "is killed and", info.State)
		case !ok:
			w.t.Errorf("%s is alive, and Workers does not return it", process.spec.ID)
		case jobs > 0 && info.State != worker.Running && info.State != worker.Unhealthy:
			w.t.Errorf("%s is %s and works on %d jobs", info.ID, info.State, jobs)
		}
		delete(infos, process.spec.ID)
	}
	for id, info := range infos {
		must.Equal(w.t, info.State, worker.Unhealthy, "the state of a worker that isn't alive:", id)
	}
	must.Hold(w.t, counts.Unhealthy != 0 || len(alive) >= w.settings.Min, len(alive), "workers live, fewer than", w.settings.Min, "and none is UNHEALTHY")
}

// settle ends the faults of workers, waits until all jobs have ended, and checks them.
func (w *walk) settle() {
	w.t.Helper()
	w.fakes.update(func() { w.fakes.broken, w.fakes.maxWorkers = false, 2 })
	w.settings.Min, w.settings.Max = 1, 2
	w.pools.Set(w.settings)
	time.Sleep(15 * time.Minute)
	synctest.Wait()
	w.check()
	got := w.pools.Workers("ep")
	must.Hold(w.t, len(got) == 1 && got[0].State == worker.Idle && !got[0].Stale, "in the end the workers are", got)
	all, err := w.engine.Newest(w.t.Context(), "ep", 1000, 0)
	must.Hold(w.t, err == nil && len(all) == len(w.jobs), len(w.jobs), "jobs were accepted, and", len(all), "exist", err)
	for _, job := range all {
		runs, most := w.fakes.runs[job.ID], job.Retries+1+w.fakes.spared[job.ID]
		switch {
		case job.State == engine.Completed && job.Retries+1 <= runs && runs <= most:
		case job.State == engine.Cancelled && w.cancelled[job.ID] && runs <= most:
		case job.State == engine.Failed && job.Retries == 1 && 2 <= runs && runs <= most:
		default:
			w.t.Errorf("job %s is %s after %d runs and %d retries, error %q", job.ID, job.State, runs, job.Retries, job.Error)
		}
	}
	if w.t.Failed() {
		w.t.Logf("after %q", w.events)
	}
}
