package worker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// The table in the package's documentation matches the code.
func TestLifecycleIsDocumented(t *testing.T) {
	lines := strings.Split(string(must.ReadFile(t, "pools.go")), "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "refused ") && strings.HasPrefix(l, "//\t") })
	must.Require(t, first >= 0, "the documentation has no table")
	events := map[string]event{
		"refused": devicesRefused, "granted": devicesGranted, "requested": jobRequested, "taken": jobTaken,
		"gone": lastJobGone, "failed": workerFailed, "shutdown": shutdown,
	}
	documented := map[event]map[State]State{}
	for _, line := range lines[first+1:] {
		if !strings.HasPrefix(line, "//\t") {
			break
		}
		from := State(strings.Fields(strings.TrimPrefix(line, "//"))[0])
		must.Require(t, from != "", "a row without a state:", line)
		for name, e := range events {
			column := strings.Index(lines[first], name)
			if column >= len(line) || line[column] == ' ' {
				continue
			}
			if documented[e] == nil {
				documented[e] = map[State]State{}
			}
			to, _, _ := strings.Cut(line[column:], " ")
			documented[e][from] = State(to)
		}
	}
	must.Equal(t, len(documented), len(transitions), "the number of documented events", documented)
	for e, want := range transitions {
		must.Equal(t, documented[e], want, "the documented transitions of event", e)
	}
}

func TestDesiredCount(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	ago := func(s float64) time.Time { return now.Add(-time.Duration(s * float64(time.Second))) }
	delay := Endpoint{Max: 3, ScalerValue: 4}
	requests := Endpoint{Max: 10, ScalerValue: 4, ByRequests: true}
	for name, c := range map[string]struct {
		e              Endpoint
		load           engine.Load
		staying, spare int
		lastStart      time.Time
		want           int
		recheckIn      time.Duration
	}{
		"nothing to do":                          {delay, engine.Load{}, 0, 0, time.Time{}, 0, recheckInterval},
		"first job":                              {delay, engine.Load{Waiting: 1, Oldest: now}, 0, 0, time.Time{}, 1, recheckInterval},
		"many first jobs":                        {delay, engine.Load{Waiting: 9, Oldest: now}, 0, 0, time.Time{}, 1, recheckInterval},
		"no worker allowed":                      {Endpoint{ScalerValue: 4}, engine.Load{Waiting: 9, Oldest: now}, 0, 0, time.Time{}, 0, recheckInterval},
		"an idle worker will take the job":       {delay, engine.Load{Waiting: 1, Oldest: ago(60)}, 1, 1, ago(60), 1, recheckInterval},
		"has not waited long enough":             {delay, engine.Load{Waiting: 1, Running: 1, Oldest: ago(3)}, 1, 0, ago(60), 1, time.Second},
		"has waited for the delay":               {delay, engine.Load{Waiting: 1, Running: 1, Oldest: ago(4)}, 1, 0, ago(60), 2, 4 * time.Second},
		"a delay beyond a Duration":              {Endpoint{Max: 3, ScalerValue: 1e10}, engine.Load{Waiting: 1, Running: 1, Oldest: now}, 1, 0, ago(60), 1, 1e9 * time.Second},
		"a worker was just added":                {delay, engine.Load{Waiting: 5, Running: 2, Oldest: ago(60)}, 2, 0, ago(1), 2, 3 * time.Second},
		"never more than the maximum":            {delay, engine.Load{Waiting: 5, Running: 3, Oldest: ago(60)}, 3, 0, ago(60), 3, 4 * time.Second},
		"more requests than a float counts":      {Endpoint{Max: 3, ScalerValue: 1 << 53, ByRequests: true}, engine.Load{Waiting: 1}, 0, 0, time.Time{}, 1, recheckInterval},
		"the minimum":                            {Endpoint{Min: 2, Max: 3, ScalerValue: 4}, engine.Load{}, 0, 0, time.Time{}, 2, recheckInterval},
		"requests: four":                         {requests, engine.Load{Waiting: 4}, 0, 0, time.Time{}, 1, recheckInterval},
		"requests: five":                         {requests, engine.Load{Waiting: 5}, 0, 0, time.Time{}, 2, recheckInterval},
		"requests: running jobs count":           {requests, engine.Load{Waiting: 5, Running: 4}, 1, 0, time.Time{}, 3, recheckInterval},
		"requests: never more than the maximum":  {requests, engine.Load{Waiting: 500}, 1, 0, time.Time{}, 10, recheckInterval},
		"requests: idle workers end by time-out": {requests, engine.Load{}, 3, 3, time.Time{}, 3, recheckInterval},
	} {
		got, recheckIn := c.e.desiredCount(c.load, c.staying, c.spare, now, c.lastStart)
		must.Hold(t, got == c.want && recheckIn == c.recheckIn,
			name, got, "workers, evaluate again in", recheckIn, "expected", c.want, "in", c.recheckIn)
	}
}

// Devices may be freed between a worker's refusal and its state THROTTLED.
func TestFreedDevicesWakeNewWorkers(t *testing.T) {
	core, w := new(poolCore), &worker{retry: make(chan struct{}, 1), takingCtx: t.Context(), state: Initializing}
	core.currentSettings.Store(new(Endpoint))
	w.pool = core
	(&Pools{pools: map[string]*pool{"": {workers: map[*worker]bool{w: true}}}}).retryAll()
	must.Equal(t, len(w.retry), 1, "signals to a worker that isn't THROTTLED yet")
}

// Reports of stale workers don't affect the new version.
func TestBackoffIgnoresOtherVersions(t *testing.T) {
	now := time.Now()
	for name, report := range map[string]func(b *backoff, version int64){
		"fail":    func(b *backoff, version int64) { b.recordFailure(version, "no disk", now) },
		"ready":   (*backoff).recordReady,
		"serving": (*backoff).recordServing,
		"jobDone": (*backoff).recordJobDone,
	} {
		t.Run(name, func(t *testing.T) {
			b := backoff{version: 1}
			b.recordFailure(1, "no model", now)
			b.reset(2)
			report(&b, 1)
			pause, failure := b.pause(now), b.failure()
			must.Hold(t, pause == 0 && failure == "", "the new version is delayed by", pause, failure)
			must.Hold(t, b.recordFailure(2, "no disk", now), "the failure of the new version isn't logged")
			report(&b, 1)
			b.pause(now.Add(minRetryPause))
			must.Hold(t, !b.recordFailure(2, "no disk", now), "the same failure is logged twice")
			report(&b, 1)
			pause, failure = b.pause(now), b.failure()
			must.Hold(t, pause == 2*minRetryPause && failure == "no disk", "after two failures the pause is", pause, failure)
		})
	}
}

func TestSignature(t *testing.T) {
	const failure = "it ended right after its start, with exit status 1"
	for other, same := range map[string]bool{
		failure: true,
		failure + " (meanwhile the kernel killed one of its processes or one next to it, out of memory)": true,
		"it ended right after its start, with exit status 2":                                             false,
		failure + ". The end of its log:\nno model":                                                      false,
	} {
		must.Equal(t, signature(other) == signature(failure), same, "whether the signature is the same for", other)
	}
	must.Equal(t, signature("at 0x7f12: no model 15"), signature("at 0x9a00: no model 16"), "signatures of failures that differ in an address and a count")
}
