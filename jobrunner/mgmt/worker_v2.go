package mgmt

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Workers are those of the deployment's endpoints.
type Workers interface {
	Workers(endpoint string) []worker.Info
	// Log is false for a worker that is not there, or ended too long ago.
	Log(endpoint, worker string) (*worker.Log, bool)
}

// noWorkers are those of a deployment without any.
type noWorkers struct{}

func (noWorkers) Workers(string) []worker.Info        { return nil }
func (noWorkers) Log(_, _ string) (*worker.Log, bool) { return nil, false }

// place is the data center that everything here is in. The deployment is on one
// machine, which has none.
var place *string

type workerV2 struct {
	ID            string     `json:"id"`
	Status        string     `json:"status"`
	IsStale       bool       `json:"isStale"`
	Version       int64      `json:"version"`
	GPUCount      int        `json:"gpuCount"`
	Image         string     `json:"image"`
	UptimeSeconds *int64     `json:"uptimeSeconds"`
	GPUTypeID     *string    `json:"gpuTypeId"`
	DataCenterID  *string    `json:"dataCenterId"`
	StartedAt     *time.Time `json:"startedAt"`

	// The v2 document knows none of these.
	Reason      *string       `json:"reason"` // why it is THROTTLED or UNHEALTHY
	CPUSeconds  *float64      `json:"cpuSeconds"`
	MemoryBytes *int64        `json:"memoryBytes"`
	GPUs        []workerGPUV2 `json:"gpus"`
}

// workerGPUV2 is a GPU that a worker has, and how it does now: null is what it
// does not tell.
type workerGPUV2 struct {
	ID                 string   `json:"id"` // as CUDA_VISIBLE_DEVICES names it
	TypeID             string   `json:"typeId"`
	MemoryBytes        int64    `json:"memoryBytes"`
	Utilization        *float64 `json:"utilization"` // from 0 to 1
	MemoryUsedBytes    *float64 `json:"memoryUsedBytes"`
	PowerWatts         *float64 `json:"powerWatts"`
	TemperatureCelsius *float64 `json:"temperatureCelsius"`
}

type workerSummaryV2 struct {
	Running      int `json:"running"`
	Idle         int `json:"idle"`
	Initializing int `json:"initializing"`
	Throttled    int `json:"throttled"`
	Unhealthy    int `json:"unhealthy"`
	Total        int `json:"total"`
}

type workerListV2 struct {
	Workers         []workerV2      `json:"workers"`
	Summary         workerSummaryV2 `json:"summary"`
	EndpointVersion int64           `json:"endpointVersion"`
}

func (s *server) newWorkerV2(w worker.Info) workerV2 {
	out := workerV2{
		ID: w.ID, Status: string(w.State), IsStale: w.Stale, Version: w.Version, GPUCount: len(w.Devices), Image: w.Image, DataCenterID: place,
		GPUs: []workerGPUV2{},
	}
	if len(w.Devices) > 0 {
		out.GPUTypeID = &w.Devices[0].TypeID
	}
	if !w.StartedAt.IsZero() {
		started, up := w.StartedAt.UTC(), int64(s.Clock.Now().Sub(w.StartedAt)/time.Second)
		out.StartedAt, out.UptimeSeconds = &started, &up
	}
	if w.Reason != "" {
		out.Reason = &w.Reason
	}
	if w.Usage != (worker.Usage{}) { // it is a process
		out.CPUSeconds, out.MemoryBytes = new(w.Usage.CPU.Seconds()), &w.Usage.Memory
	}
	for _, d := range w.Devices {
		out.GPUs = append(out.GPUs, s.newWorkerGPUV2(d))
	}
	return out
}

func (s *server) newWorkerGPUV2(d gpu.Device) workerGPUV2 {
	out := workerGPUV2{ID: d.UUID, TypeID: d.TypeID, MemoryBytes: d.Memory}
	if s.Sample == nil {
		return out
	}
	sample, err := s.Sample(d.UUID)
	if err != nil { // it went away meanwhile
		return out
	}
	tell := func(raw int64, unit float64) *float64 {
		if raw < 0 {
			return nil
		}
		return new(float64(raw) / unit)
	}
	out.Utilization, out.MemoryUsedBytes = tell(int64(sample.Utilization), 100), tell(sample.MemoryUsed, 1)
	out.PowerWatts, out.TemperatureCelsius = tell(int64(sample.Power), 1000), tell(int64(sample.Temperature), 1)
	return out
}

// listWorkersV2 shows an endpoint's workers, and counts them by what they do.
func (s *server) listWorkersV2(c *call) (any, error) {
	e, err := s.store.Endpoint(c.ctx(), c.id)
	if err != nil {
		return nil, err
	}
	out := workerListV2{Workers: []workerV2{}, EndpointVersion: e.Version}
	for _, w := range s.Workers.Workers(e.ID) {
		out.Workers = append(out.Workers, s.newWorkerV2(w))
		out.Summary.add(w.State)
	}
	return out, nil
}

func (w *workerSummaryV2) add(state worker.State) {
	w.Total++
	switch state {
	case worker.Running:
		w.Running++
	case worker.Idle:
		w.Idle++
	case worker.Initializing:
		w.Initializing++
	case worker.Throttled:
		w.Throttled++
	case worker.Unhealthy:
		w.Unhealthy++
	}
}

// The sources of a log: what the worker wrote, and what the deployment says of
// it, such as how its process ended.
const (
	fromContainer = "container"
	fromSystem    = "system"
)

// Lines that come before those to be followed.
const (
	defaultTail = 100
	maxTail     = 5000
)

// logStream is a worker's log, sent as server-sent events as long as the worker
// and the reader are there.
type logStream struct {
	log  *worker.Log
	from int64     // the first line
	at   time.Time // that is not older than this
	only string    // the source that was asked for; "": both
}

// workerLogsV2 opens the log of a worker. Last-Event-ID goes before since, and
// since before tail.
func (s *server) workerLogsV2(c *call) (any, error) {
	if _, err := s.store.Endpoint(c.ctx(), c.id); err != nil {
		return nil, err
	}
	log, ok := s.Workers.Log(c.id, c.worker)
	if !ok {
		return nil, httpanswer.Refuse(http.StatusNotFound, "endpoint %q has no worker %q: it never was, or ended too long ago", c.id, c.worker)
	}
	out := logStream{log: log}
	query := c.http.URL.Query()
	switch source := query.Get("source"); source {
	case "", fromContainer, fromSystem:
		out.only = source
	default:
		return nil, httpanswer.Refuse(http.StatusBadRequest, "source is %s or %s, not %q", fromContainer, fromSystem, short(source))
	}
	since := c.http.Header.Get("Last-Event-ID")
	if number, err := lineOf(since); err == nil {
		out.from = number + 1
		return out, nil
	}
	if since == "" {
		since = query.Get("since")
	}
	if since != "" {
		at, err := time.Parse(time.RFC3339Nano, since)
		if err != nil {
			return nil, httpanswer.Refuse(http.StatusBadRequest, "since is a time like 2026-06-01T12:05:04Z, not %q", short(since))
		}
		out.at = at
		return out, nil
	}
	tail := int64(defaultTail)
	if text := query.Get("tail"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > maxTail {
			return nil, httpanswer.Refuse(http.StatusBadRequest, "tail is a number of lines from 0 to %d, not %q", maxTail, short(text))
		}
		tail = n
	}
	lines, _ := log.Lines(0)
	if n := int64(len(lines)); n > 0 {
		out.from = lines[0].Number + max(0, n-tail)
	}
	return out, nil
}

// idOf names a line for those who come again: its time, and its number, which
// tells lines of the same moment apart.
func idOf(l worker.Line) string {
	return fmt.Sprintf("%s/%012d", l.Time.UTC().Format(time.RFC3339Nano), l.Number)
}

func lineOf(id string) (number int64, err error) {
	i := slices.Index([]byte(id), '/')
	if i < 0 {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(id[i+1:], 10, 64)
}

// ServeHTTP sends what there is and what comes.
func (l logStream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("Connection", "keep-alive")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	out := http.NewResponseController(w)
	from := l.from
	for {
		lines, more := l.log.Lines(from)
		for _, line := range lines {
			from = line.Number + 1
			source := fromContainer
			if line.System {
				source = fromSystem
			}
			if line.Time.Before(l.at) || l.only != "" && l.only != source {
				continue
			}
			data, err := json.Marshal(map[string]string{"source": source, "line": line.Text, "ts": line.Time.UTC().Format(time.RFC3339Nano)})
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %s\ndata: %s\n\n", idOf(line), data); err != nil {
				return
			}
		}
		if err := out.Flush(); err != nil || more == nil {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}
