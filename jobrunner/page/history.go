package page

import (
	"cmp"
	"maps"
	"math/rand/v2"
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
	groups          = steps / percentileSteps

	maxTimings = 100 // of a group; each further one replaces a random one
)

// history is the activity of the last ten minutes. Events write it: between two events, the numbers of an
// endpoint's jobs don't change. If several jobrunners change jobs, a ticker writes the numbers (Page.sample).
type history struct {
	now func() time.Time

	mu           sync.Mutex
	allEndpoints *series
	endpoints    map[string]*series // by id
}

// series is the recent history of an endpoint, or of all.
type series struct {
	queued, running levels
	delays          []timing
	executions      []timing
	outcomes        []outcomes
	updatedAt       time.Time
}

// levels keeps the highest level of each step.
type levels struct {
	lastStep int64 // number of the last written step
	highest  [steps]int32
	level    int32
}

type timing struct {
	At   int64         `json:"at"` // milliseconds since 1970
	Took time.Duration `json:"took"`
}

// outcomes are the numbers of jobs that ended in each state in a step.
type outcomes struct {
	step   int64 // its number
	states map[engine.State]int
}

func newHistory(now func() time.Time) *history {
	return &history{now: now, allEndpoints: new(series), endpoints: map[string]*series{}}
}

func stepOf(t time.Time) int64 { return t.UnixNano() / int64(step) }

func (l *levels) set(now time.Time, level int) {
	l.roll(now)
	l.level = int32(level)
	l.highest[l.lastStep%steps] = max(l.highest[l.lastStep%steps], l.level)
}

// roll copies the level into the steps that began since the last call.
func (l *levels) roll(now time.Time) {
	current := stepOf(now)
	l.lastStep = max(l.lastStep, current-steps)
	for l.lastStep < current {
		l.lastStep++
		l.highest[l.lastStep%steps] = l.level
	}
}

func (l *levels) recentLevels(now time.Time) []int32 {
	l.roll(now)
	out := make([]int32, 0, steps)
	for i := l.lastStep - steps + 1; i <= l.lastStep; i++ {
		out = append(out, l.highest[(i%steps+steps)%steps])
	}
	return out
}

// chart returns the highest level of each past step, and then the current level.
func (l *levels) chart(now time.Time) []int32 {
	out := l.recentLevels(now)
	out[steps-1] = l.level
	return out
}

func (l *levels) fill(now time.Time, level int) {
	l.lastStep, l.level = stepOf(now), int32(level)
	for i := range l.highest {
		l.highest[i] = l.level
	}
}

// recordEvent records an event and the endpoint's counts after it. If other processes change jobs too,
// counts is nil, and recordCounts records them.
func (h *history) recordEvent(e engine.Event, counts *engine.Counts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	queued, running := delta(e)
	s, isNew := h.getOrCreate(e.Endpoint, now)
	if isNew && counts != nil {
		s.fill(now, counts.InQueue-queued, counts.InProgress-running)
	}
	if counts != nil {
		s.set(now, counts.InQueue, counts.InProgress)
		h.allEndpoints.set(now, int(h.allEndpoints.queued.level)+queued, int(h.allEndpoints.running.level)+running)
	}
	s.record(now, e)
	h.allEndpoints.record(now, e)
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
	s.updatedAt = now
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
	if n := len(s.outcomes); n == 0 || s.outcomes[n-1].step != at {
		s.outcomes = slices.DeleteFunc(s.outcomes, func(o outcomes) bool { return o.step <= at-steps })
		s.outcomes = append(s.outcomes, outcomes{at, map[engine.State]int{}})
	}
	s.outcomes[len(s.outcomes)-1].states[e.To]++
}

func appendTiming(list []timing, t timing) []timing {
	n, group := len(list), t.group()
	if n >= maxTimings && list[n-maxTimings].group() == group {
		list[n-1-rand.IntN(maxTimings)] = t
		return list
	}
	if n > 0 && list[n-1].group() != group {
		list = slices.DeleteFunc(list, func(old timing) bool { return old.group() < group-groups })
	}
	return append(list, t)
}

// group returns the number of the timing's group, which begins at a fixed time.
func (t timing) group() int64 { return stepOf(time.UnixMilli(t.At)) / percentileSteps }

// getOrCreate returns the history of an endpoint, or of all endpoints if endpoint is "". Before it
// creates a history, it drops endpoints without events in the last ten minutes.
func (h *history) getOrCreate(endpoint string, now time.Time) (s *series, isNew bool) {
	if s = h.series(endpoint); s != nil {
		return s, false
	}
	maps.DeleteFunc(h.endpoints, func(_ string, old *series) bool { return now.Sub(old.updatedAt) > span })
	s = new(series)
	h.endpoints[endpoint] = s
	return s, true
}

// recordCounts records the counts of an endpoint that other processes change too; "" means all endpoints.
func (h *history) recordCounts(endpoint string, counts engine.Counts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	s, _ := h.getOrCreate(endpoint, now)
	if s.queued.lastStep == 0 { // the first count
		s.fill(now, counts.InQueue, counts.InProgress)
	}
	s.updatedAt = now
	s.set(now, counts.InQueue, counts.InProgress)
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

// events are job events that this jobrunner recorded in the last ten minutes. Other jobrunners record their own.
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
	now, s := h.now(), h.series(endpoint)
	if s == nil {
		s = new(series)
		s.fill(now, counts.InQueue, counts.InProgress)
	}
	merged := s.events(now)
	for _, o := range others {
		merged.Delays, merged.Executions = append(merged.Delays, o.Delays...), append(merged.Executions, o.Executions...)
		for state, n := range o.Ended {
			merged.Ended[state] += n
		}
	}
	return recentHistory{
		Queued: s.queued.chart(now), Running: s.running.chart(now),
		Delay: summarize(merged.Delays, now), Execution: summarize(merged.Executions, now),
		Ended: merged.Ended,
	}
}

// events returns the events of an endpoint, or of all for "".
func (h *history) events(endpoint string) events {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Or(h.series(endpoint), new(series)).events(h.now())
}

// series returns the history of an endpoint, or nil if it has none. "" stands for all endpoints.
func (h *history) series(endpoint string) *series {
	if endpoint == "" {
		return h.allEndpoints
	}
	return h.endpoints[endpoint]
}

func (s *series) events(now time.Time) events {
	out := events{Delays: slices.Clone(s.delays), Executions: slices.Clone(s.executions), Ended: map[engine.State]int{}}
	for _, o := range s.outcomes {
		if o.step > stepOf(now)-steps {
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
	if s := h.endpoints[endpoint]; s != nil {
		if list := s.queued.chart(h.now()); slices.Min(list) != slices.Max(list) {
			return list
		}
	}
	return []int32{int32(counts.InQueue)}
}

func summarize(list []timing, now time.Time) percentiles {
	var durations [groups][]time.Duration
	last := stepOf(now)
	for _, t := range list {
		if age := (last - stepOf(time.UnixMilli(t.At))) / percentileSteps; age >= 0 && age < groups {
			durations[groups-1-age] = append(durations[groups-1-age], t.Took)
		}
	}
	p := percentiles{make([]*int64, groups), make([]*int64, groups)}
	for i, group := range durations {
		if len(group) > 0 {
			slices.Sort(group)
			p.P50[i] = new(percentile(group, 50).Milliseconds())
			p.P95[i] = new(percentile(group, 95).Milliseconds())
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
	old := h.devices
	h.devices = map[string]*levels{}
	for _, d := range devices {
		l := old[d.UUID]
		if l == nil {
			l = new(levels)
			l.fill(now, -1)
		}
		l.roll(now)
		l.highest[l.lastStep%steps] = int32(min(d.Utilization, 100))
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

// currentGPUs returns the devices. It takes their owners from the workers, because a worker may have got a
// device between the two reads, and a device in a worker's row mustn't be free in its own row.
func (p *Page) currentGPUs(workers []Worker) GPUs {
	now := p.Clock.Now()
	owners := map[string]string{}
	for _, w := range workers {
		for _, d := range w.Devices {
			owners[d.UUID] = w.ID
		}
	}
	out := p.Source.GPUs()
	p.gpus.record(now, out.Devices)
	for i := range out.Devices {
		d := &out.Devices[i]
		d.Owner = cmp.Or(owners[d.UUID], d.Owner)
		d.Past = p.gpus.utilization(d.UUID, now)
	}
	return out
}
