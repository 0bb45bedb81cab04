package page

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

const (
	step  = 5 * time.Second
	steps = 120 // in a chart; the last one is the current step
	span  = steps * step

	// Percentiles are computed over several steps, so that they have enough values.
	percentileSteps = 6

	maxTimings = 1024 // per endpoint; the older half is dropped when it's full
)

// history is the activity of the last ten minutes. Events write it: between two events, the numbers of an
// endpoint's jobs don't change. If several jobrunners change jobs, a ticker writes the numbers (sample).
type history struct {
	now func() time.Time

	mu        sync.Mutex
	all       *series
	endpoints map[string]*series // by id
}

// series is the recent history of an endpoint, or of all.
type series struct {
	queued, running levels
	delays          []timing
	executions      []timing
	ended           []outcomes
	touched         time.Time
}

// levels keeps the highest level of each step.
type levels struct {
	at     int64 // number of the last written step
	recent [steps]int32
	level  int32
}

type timing struct {
	At   int64         `json:"at"` // milliseconds since 1970
	Took time.Duration `json:"took"`
}

// outcomes are the numbers of jobs that ended in each state in a step.
type outcomes struct {
	at     int64 // number of the step
	states map[engine.State]int
}

func newHistory(now func() time.Time) *history {
	return &history{now: now, all: new(series), endpoints: map[string]*series{}}
}

func stepOf(t time.Time) int64 { return t.UnixNano() / int64(step) }

func (l *levels) set(now time.Time, level int) {
	l.roll(now)
	l.level = int32(level)
	l.recent[l.at%steps] = max(l.recent[l.at%steps], l.level)
}

// roll copies the level into the steps that began since the last call.
func (l *levels) roll(now time.Time) {
	at := stepOf(now)
	if at-l.at > steps {
		l.at = at - steps
	}
	for l.at < at {
		l.at++
		l.recent[l.at%steps] = l.level
	}
}

func (l *levels) recentLevels(now time.Time) []int32 {
	l.roll(now)
	out := make([]int32, 0, steps)
	for i := l.at - steps + 1; i <= l.at; i++ {
		out = append(out, l.recent[(i%steps+steps)%steps])
	}
	return out
}

// untilNow returns the highest level of each past step, and then the current level.
func (l *levels) untilNow(now time.Time) []int32 {
	out := l.recentLevels(now)
	out[steps-1] = l.level
	return out
}

func (l *levels) fill(now time.Time, level int) {
	l.at, l.level = stepOf(now), int32(level)
	for i := range l.recent {
		l.recent[i] = l.level
	}
}

// recordEvent records an event and the endpoint's counts after it. counts is nil if other processes
// change jobs too; then recordCounts sets them.
func (h *history) recordEvent(e engine.Event, counts *engine.Counts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	queued, running := delta(e)
	recent, isNew := h.getOrCreate(e.Endpoint, now)
	if isNew && counts != nil {
		recent.fill(now, counts.InQueue-queued, counts.InProgress-running)
	}
	if counts != nil {
		recent.set(now, counts.InQueue, counts.InProgress)
		h.all.set(now, int(h.all.queued.level)+queued, int(h.all.running.level)+running)
	}
	recent.record(now, e)
	h.all.record(now, e)
}

func (s *series) set(now time.Time, queued, running int) {
	s.queued.set(now, queued)
	s.running.set(now, running)
}

func (s *series) fill(now time.Time, queued, running int) {
	s.queued.fill(now, queued)
	s.running.fill(now, running)
}

// delta returns how an event changes the numbers of waiting and running jobs.
func delta(e engine.Event) (queued, running int) {
	count := func(s engine.State, n int) {
		switch s {
		case engine.InQueue:
			queued += n
		case engine.InProgress:
			running += n
		}
	}
	count(e.From, -1)
	count(e.To, +1)
	return queued, running
}

func (s *series) record(now time.Time, e engine.Event) {
	s.touched = now
	if e.To == engine.InProgress {
		s.delays = appendTiming(s.delays, timing{now.UnixMilli(), e.Delay})
	}
	if !e.To.Terminal() {
		return
	}
	if e.Execution > 0 {
		s.executions = appendTiming(s.executions, timing{now.UnixMilli(), e.Execution})
	}
	at := stepOf(now)
	if n := len(s.ended); n == 0 || s.ended[n-1].at != at {
		s.ended = slices.DeleteFunc(s.ended, func(o outcomes) bool { return o.at <= at-steps })
		s.ended = append(s.ended, outcomes{at, map[engine.State]int{}})
	}
	s.ended[len(s.ended)-1].states[e.To]++
}

func appendTiming(list []timing, t timing) []timing {
	if len(list) >= maxTimings {
		list = append(list[:0], list[maxTimings/2:]...)
	}
	return append(list, t)
}

// getOrCreate returns the history of an endpoint, or of all endpoints if endpoint is "". Before it
// creates a history, it drops endpoints without events in the last ten minutes.
func (h *history) getOrCreate(endpoint string, now time.Time) (recent *series, isNew bool) {
	if recent = h.series(endpoint); recent != nil {
		return recent, false
	}
	maps.DeleteFunc(h.endpoints, func(_ string, s *series) bool { return now.Sub(s.touched) > span })
	recent = new(series)
	h.endpoints[endpoint] = recent
	return recent, true
}

// recordCounts records the counts of an endpoint that other processes change too; "" means all endpoints.
func (h *history) recordCounts(endpoint string, counts engine.Counts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	recent, _ := h.getOrCreate(endpoint, now)
	if recent.queued.at == 0 { // the first count
		recent.fill(now, counts.InQueue, counts.InProgress)
	}
	recent.touched = now
	recent.set(now, counts.InQueue, counts.InProgress)
}

// recentHistory is the recent history in the page's JSON. Percentiles are milliseconds, or null without jobs.
type recentHistory struct {
	Queued  []int32 `json:"queued"`
	Running []int32 `json:"running"`

	Delay     percentiles `json:"delay"`
	Execution percentiles `json:"execution"`

	Ended map[engine.State]int `json:"ended"` // in the last ten minutes
}

type percentiles struct {
	P50 []*int64 `json:"p50"`
	P95 []*int64 `json:"p95"`
}

// events are job events that this jobrunner recorded in the last ten minutes. Others record their own.
type events struct {
	Delays     []timing             `json:"delays"`
	Executions []timing             `json:"executions"`
	Ended      map[engine.State]int `json:"ended"`
}

// recentOf returns the history of an endpoint, or of all for "", with the events of other jobrunners.
// Without events, the current counts are assumed for all steps.
func (h *history) recentOf(endpoint string, counts engine.Counts, others ...events) recentHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, recent := h.now(), h.series(endpoint)
	if recent == nil {
		recent = new(series)
		recent.fill(now, counts.InQueue, counts.InProgress)
	}
	all := recent.events(now)
	for _, o := range others {
		all.Delays, all.Executions = append(all.Delays, o.Delays...), append(all.Executions, o.Executions...)
		for state, n := range o.Ended {
			all.Ended[state] += n
		}
	}
	return recentHistory{
		Queued: recent.queued.untilNow(now), Running: recent.running.untilNow(now),
		Delay: summarize(all.Delays, now), Execution: summarize(all.Executions, now),
		Ended: all.Ended,
	}
}

// events returns the events of an endpoint, or of all for "".
func (h *history) events(endpoint string) events {
	h.mu.Lock()
	defer h.mu.Unlock()
	if recent := h.series(endpoint); recent != nil {
		return recent.events(h.now())
	}
	return events{}
}

// series returns the history of an endpoint, or nil if it has none. "" stands for all endpoints.
func (h *history) series(endpoint string) *series {
	if endpoint == "" {
		return h.all
	}
	return h.endpoints[endpoint]
}

func (s *series) events(now time.Time) events {
	out := events{Delays: slices.Clone(s.delays), Executions: slices.Clone(s.executions), Ended: map[engine.State]int{}}
	for _, o := range s.ended {
		if o.at > stepOf(now)-steps {
			for state, n := range o.states {
				out.Ended[state] += n
			}
		}
	}
	return out
}

// queue returns the recent lengths of an endpoint's queue, or a single value if it didn't change.
func (h *history) queue(endpoint string, counts engine.Counts) []int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if recent := h.endpoints[endpoint]; recent != nil {
		list := recent.queued.untilNow(now)
		if slices.Min(list) == slices.Max(list) {
			return list[:1]
		}
		return list
	}
	return []int32{int32(counts.InQueue)}
}

func summarize(list []timing, now time.Time) percentiles {
	const groups = steps / percentileSteps
	var durations [groups][]time.Duration
	last := stepOf(now)
	for _, t := range list {
		if back := (last - stepOf(time.UnixMilli(t.At))) / percentileSteps; back >= 0 && back < groups {
			durations[groups-1-back] = append(durations[groups-1-back], t.Took)
		}
	}
	p := percentiles{make([]*int64, groups), make([]*int64, groups)}
	for i, some := range durations {
		if len(some) > 0 {
			slices.Sort(some)
			p.P50[i] = new(percentile(some, 50).Milliseconds())
			p.P95[i] = new(percentile(some, 95).Milliseconds())
		}
	}
	return p
}

// percentile returns a percentile of sorted durations, by the nearest-rank method.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// gpuHistory is the utilization of the devices in the last steps, in percent; -1 if it isn't known.
type gpuHistory struct {
	mu      sync.Mutex
	devices map[string]*levels // by UUID
}

func (h *gpuHistory) record(now time.Time, devices []GPU) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.devices
	h.devices = map[string]*levels{}
	for _, d := range devices {
		l := before[d.UUID]
		if l == nil {
			l = new(levels)
			l.fill(now, -1)
		}
		l.roll(now)
		l.recent[l.at%steps] = int32(min(d.Utilization, 100))
		h.devices[d.UUID] = l
	}
}

// utilization returns the history of a device, the oldest step first.
func (h *gpuHistory) utilization(uuid string, now time.Time) []int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.devices[uuid]; l != nil {
		return l.recentLevels(now)
	}
	return nil
}

// currentGPUs returns the devices. Their holders are taken from the workers, because a worker may have got
// or lost a device between the two reads: a device in a worker's row mustn't be free in its own row.
func (p *Page) currentGPUs(workers []Worker) GPUs {
	now := p.Clock.Now()
	holders := map[string]string{}
	for _, w := range workers {
		for _, d := range w.Devices {
			holders[d.UUID] = w.ID
		}
	}
	out := p.Source.GPUs()
	p.gpus.record(now, out.Devices)
	for i := range out.Devices {
		d := &out.Devices[i]
		d.Holder = cmp.Or(holders[d.UUID], d.Holder)
		d.Past = p.gpus.utilization(d.UUID, now)
	}
	return out
}
