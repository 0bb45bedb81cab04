package page

import (
	"slices"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// testClock is a time that only advance changes.
type testClock struct{ time.Time }

func (c *testClock) advance(d time.Duration) { c.Time = c.Add(d) }

func newTestHistory() (*history, *testClock) {
	now := &testClock{time.Unix(1_800_000_000, 0)} // the start of a step
	return newHistory(func() time.Time { return now.Time }), now
}

// submit records the submission of a job. waiting is the length of the queue after it.
func submit(h *history, endpoint string, waiting int) {
	h.recordEvent(engine.Event{Endpoint: endpoint, To: engine.InQueue}, &engine.Counts{InQueue: waiting})
}

// A past step shows its highest level, or without events the level before it. The last step shows the current level.
func TestLevels(t *testing.T) {
	h, now := newTestHistory()
	submit(h, "ep", 1)
	submit(h, "ep", 2)
	h.recordEvent(engine.Event{Endpoint: "ep", From: engine.InQueue, To: engine.InProgress}, &engine.Counts{InQueue: 1, InProgress: 1})
	got := h.recentOf("ep", engine.Counts{})
	must.Equal(t, got.Queued[steps-2:], []int32{0, 1}, "the length of the queue at first")
	now.advance(3 * step)
	got = h.recentOf("ep", engine.Counts{})
	q, r := got.Queued[steps-5:], got.Running[steps-5:]
	must.Hold(t, slices.Equal(q, []int32{0, 2, 1, 1, 1}) && slices.Equal(r, []int32{0, 1, 1, 1, 1}), "three steps later", q, r)
	now.advance(span)
	q = h.recentOf("ep", engine.Counts{}).Queued
	must.Hold(t, slices.Min(q) == 1 && slices.Max(q) == 1 && len(q) == steps, "when all is long past", q)
	now.advance(1000 * span)
	q = h.recentOf("ep", engine.Counts{}).Queued
	must.Hold(t, slices.Min(q) == 1 && slices.Max(q) == 1, "long after", q)
}

// The levels of all endpoints together are their sums, including jobs from before the first event.
func TestLevelsOfAll(t *testing.T) {
	h, now := newTestHistory()
	h.recordCounts("", engine.Counts{InQueue: 5, InProgress: 1})
	now.advance(step)
	submit(h, "a", 3)
	submit(h, "b", 4)
	now.advance(step)
	h.recordEvent(engine.Event{Endpoint: "a", From: engine.InProgress, To: engine.Completed, Execution: time.Second}, &engine.Counts{InQueue: 3})
	h.recordEvent(engine.Event{Endpoint: "b", From: engine.InQueue}, &engine.Counts{InQueue: 3}) // purged
	now.advance(step)
	got := h.recentOf("", engine.Counts{})
	q, r := got.Queued[steps-5:], got.Running[steps-5:]
	must.Hold(t, slices.Equal(q, []int32{5, 5, 7, 7, 6}) && slices.Equal(r, []int32{1, 1, 1, 1, 0}), "all have", q, r)
	must.Hold(t, got.Ended[engine.Completed] == 1 && len(got.Ended) == 1, "ended", got.Ended)
}

// If other processes change jobs, too, levels come from the counts, and times from this process's events.
func TestHistoryOfSharedJobs(t *testing.T) {
	h, now := newTestHistory()
	h.recordCounts("ep", engine.Counts{InQueue: 9})
	h.recordEvent(engine.Event{Endpoint: "ep", From: engine.InQueue, To: engine.InProgress, Delay: time.Second}, nil)
	now.advance(step)
	h.recordCounts("ep", engine.Counts{InQueue: 4, InProgress: 5})
	got := h.recentOf("ep", engine.Counts{})
	q := got.Queued[steps-3:]
	must.Hold(t, slices.Equal(q, []int32{9, 9, 4}) && *got.Delay.P50[steps/percentileSteps-1] == 1000, "the queue is", q, "and the delays are", got.Delay)
}

func TestPercentiles(t *testing.T) {
	h, now := newTestHistory()
	for i := range 100 {
		h.recordEvent(engine.Event{Endpoint: "ep", From: engine.InQueue, To: engine.InProgress, Delay: time.Duration(100-i) * time.Millisecond}, &engine.Counts{})
	}
	now.advance(percentileSteps * step)
	h.recordEvent(engine.Event{Endpoint: "ep", From: engine.InProgress, To: engine.Failed, Execution: 7 * time.Millisecond}, &engine.Counts{})
	got := h.recentOf("ep", engine.Counts{})
	last := steps/percentileSteps - 1
	p := got.Delay
	must.Hold(t, *p.P50[last-1] == 50 && *p.P95[last-1] == 95 && p.P50[last] == nil && p.P50[0] == nil, "delays", p)
	p = got.Execution
	must.Hold(t, *p.P50[last] == 7 && *p.P95[last] == 7 && p.P50[last-1] == nil, "executions", p)
	now.advance(span)
	past := h.recentOf("ep", engine.Counts{})
	must.Hold(t, !slices.ContainsFunc(past.Delay.P50, func(v *int64) bool { return v != nil }) && len(past.Ended) == 0, "when all is long past", past)
}

func TestHistoryIsBounded(t *testing.T) {
	h, now := newTestHistory()
	for i := range 5000 {
		submit(h, string(rune('a'+i%7)), 1)
		h.recordEvent(engine.Event{Endpoint: "busy", From: engine.InProgress, To: engine.Completed, Delay: 1, Execution: 1}, &engine.Counts{})
		h.recordEvent(engine.Event{Endpoint: "busy", From: engine.InQueue, To: engine.InProgress, Delay: 1}, &engine.Counts{})
		now.advance(150 * time.Millisecond)
	}
	busy := h.endpoints["busy"]
	must.Hold(t, h.recentOf("busy", engine.Counts{}).Delay.P50[0] != nil, "the oldest delays are forgotten")
	must.Hold(t, len(busy.delays) <= (groups+2)*maxTimings && len(busy.executions) <= (groups+2)*maxTimings && len(busy.outcomes) <= steps+1 &&
		cap(busy.delays) <= 4*groups*maxTimings, len(busy.delays), "delays,", len(busy.executions), "executions,", len(busy.outcomes), "outcomes")
	now.advance(span + time.Second)
	submit(h, "new", 1)
	must.Equal(t, len(h.endpoints), 1, "the number of endpoints in the history")
}

func TestGPUHistory(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var h gpuHistory
	devices := func(utilization int) []GPU {
		g := GPU{}
		g.UUID, g.Utilization = "GPU-1", utilization
		return []GPU{g}
	}
	h.record(now, devices(40))
	now = now.Add(2 * step)
	h.record(now, devices(250))
	got := h.utilization("GPU-1", now)
	must.Hold(t, len(got) == steps && slices.Equal(got[steps-4:], []int32{-1, 40, -1, 100}), "the utilization is", got)
	h.record(now, nil)
	got = h.utilization("GPU-1", now)
	must.Hold(t, got == nil, "a removed device has", got)
}

func TestTruncate(t *testing.T) {
	long := []byte("x")
	for len(long) <= maxOutput {
		long = append(long, "é"...)
	}
	must.Equal(t, truncate(long, maxOutput), string(long[:maxOutput-1]), "a long text")
	must.Equal(t, truncate([]byte(`{"a":1}`), maxOutput), `{"a":1}`, "a short text")
	must.Equal(t, describeJob(engine.Job{Error: string(long)}).Error, string(long[:maxError-1]), "an error in the list")
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:8420": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]:8420": true, "::1": true, "localhost": true, "LocalHost:80": true, "app.localhost:1": true,
		"": false, "evil.example": false, "127.0.0.1.evil.example:80": false, "localhost.evil.example": false, "192.168.1.7:8420": false, "0.0.0.0": false, "notlocalhost": false,
	} {
		must.Equal(t, isLoopback(host), want, "isLoopback of", host)
	}
}
