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
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

type workerV2 struct {
	ID            string     `json:"id"`
	Status        string     `json:"status"`
	IsStale       bool       `json:"isStale"`
	Version       int64      `json:"version"`
	GPUCount      int        `json:"gpuCount"`
	Image         string     `json:"image"`
	UptimeSeconds *int64     `json:"uptimeSeconds"`
	GPUTypeID     *string    `json:"gpuTypeId"`
	DataCenterID  *string    `json:"dataCenterId"` // null without a catalog file
	StartedAt     *time.Time `json:"startedAt"`

	// The v2 document doesn't have the following members.
	Reason      *string       `json:"reason"` // why it is THROTTLED or UNHEALTHY
	CPUSeconds  *float64      `json:"cpuSeconds"`
	MemoryBytes *int64        `json:"memoryBytes"`
	GPUs        []workerGPUV2 `json:"gpus"`
}

// workerGPUV2 has the current metrics of a GPU, null if the GPU doesn't report them.
type workerGPUV2 struct {
	ID                 string   `json:"id"` // as in CUDA_VISIBLE_DEVICES
	TypeID             string   `json:"typeId"`
	MemoryBytes        int64    `json:"memoryBytes"`
	Utilization        *float64 `json:"utilization"` // from 0 to 1
	MemoryUsedBytes    *float64 `json:"memoryUsedBytes"`
	PowerWatts         *float64 `json:"powerWatts"`
	TemperatureCelsius *float64 `json:"temperatureCelsius"`
}

type workerSummaryV2 struct {
	worker.Counts
	Total int `json:"total"`
}

type workerListV2 struct {
	Workers         []workerV2      `json:"workers"`
	Summary         workerSummaryV2 `json:"summary"`
	EndpointVersion int64           `json:"endpointVersion"`
}

func (c *call) newWorkerV2(info worker.Info) workerV2 {
	out := workerV2{
		ID: info.ID, Status: string(info.State), IsStale: info.Stale, Version: info.Version, GPUCount: len(info.Devices), Image: info.Image,
		Reason: nilIfEmpty(info.Reason), GPUs: convertAll(info.Devices, c.newWorkerGPUV2),
	}
	if c.Catalog != nil {
		out.DataCenterID = nilIfEmpty(info.Placement.DataCenter)
	}
	if len(info.Devices) > 0 {
		out.GPUTypeID = &info.Devices[0].TypeID
	}
	if !info.StartedAt.IsZero() {
		started, seconds := info.StartedAt.UTC(), int64(c.Clock.Now().Sub(info.StartedAt)/time.Second)
		out.StartedAt, out.UptimeSeconds = &started, &seconds
	}
	if info.Usage != (run.Usage{}) { // the worker is a process or container
		out.CPUSeconds, out.MemoryBytes = new(info.Usage.CPU.Seconds()), &info.Usage.Memory
	}
	return out
}

func (c *call) newWorkerGPUV2(d gpu.Device) workerGPUV2 {
	out := workerGPUV2{ID: d.UUID, TypeID: d.TypeID, MemoryBytes: d.Memory}
	sample, err := c.Sample(d.UUID)
	if err != nil { // the GPU was removed meanwhile
		return out
	}
	scale := func(raw int64, unit float64) *float64 {
		if raw < 0 {
			return nil
		}
		return new(float64(raw) / unit)
	}
	out.Utilization, out.MemoryUsedBytes = scale(int64(sample.Utilization), 100), scale(sample.MemoryUsed, 1)
	out.PowerWatts, out.TemperatureCelsius = scale(int64(sample.Power), 1000), scale(int64(sample.Temperature), 1)
	return out
}

func (c *call) listWorkersV2() (out workerListV2, err error) {
	e, err := c.Store.Endpoint(c.ctx(), c.id)
	if err != nil {
		return out, err
	}
	out = workerListV2{Workers: []workerV2{}, EndpointVersion: e.Version}
	for _, info := range c.Workers.Workers(e.ID) {
		out.Workers = append(out.Workers, c.newWorkerV2(info))
		out.Summary.Add(info.State)
	}
	out.Summary.Total = len(out.Workers)
	return out, nil
}

const eventStream = "text/event-stream"

// The sources of log lines: the worker's output, and the deployment's messages about it.
const (
	fromContainer = "container"
	fromSystem    = "system"
)

// The number of past lines that a stream begins with.
const (
	defaultTail = 100
	maxTail     = 5000
)

// logStream sends a log as server-sent events until the worker or pod ends or the client disconnects.
type logStream struct {
	log       *run.Log
	firstLine int64     // number of the first line
	since     time.Time // omits older lines
	tail      int64     // number of the latest existing lines to send; -1 for all
	source    string    // omits lines of other sources; "" for both sources
}

func (c *call) workerLogsV2(q logStream) (stream logStream, err error) {
	if _, err := c.Store.Endpoint(c.ctx(), c.id); err != nil {
		return stream, err
	}
	log, ok := c.Workers.Log(c.id, c.subID)
	if !ok {
		return stream, httpanswer.Refuse(http.StatusNotFound, "endpoint %q has no worker %q: it does not exist, or ended too long ago", c.id, c.subID)
	}
	return q.open(log), nil
}

// readLogQuery reads where the stream begins: Last-Event-ID takes precedence over since, and since over tail.
// The returned stream has no log yet.
func readLogQuery(q *query) logStream {
	out := logStream{source: q.values.Get("source"), tail: defaultTail}
	q.declare(openapi.Parameter{Name: "source", In: "query", Schema: &openapi.Schema{Type: "string", Enum: []any{fromContainer, fromSystem}}})
	q.refuseIf(q.has("source") && out.source != fromContainer && out.source != fromSystem,
		"invalid source: expected %s or %s, got %q", fromContainer, fromSystem, truncate(out.source))
	q.declare(openapi.Parameter{Name: lastEventID, In: "header", Description: "The id of the last event that the client has.", Schema: &openapi.Schema{Type: "string", Format: "date-time"}})
	q.declare(openapi.Parameter{Name: "since", In: "query", Schema: &openapi.Schema{Type: "string", Format: "date-time"}})
	q.declare(openapi.Parameter{Name: "tail", In: "query", Schema: &openapi.Schema{Type: "integer", Minimum: new(float64(0)), Maximum: new(float64(maxTail))}})
	var err error
	if q.has("tail") {
		out.tail, err = strconv.ParseInt(q.values.Get("tail"), 10, 64)
		q.refuseIf(err != nil || out.tail < 0 || out.tail > maxTail, "invalid tail: expected a number of lines from 0 to %d, got %q", maxTail, truncate(q.values.Get("tail")))
	}
	if q.has("since") {
		out.tail = -1
		out.since, err = parseTime(q.values.Get("since"))
		q.refuseIf(err != nil, "invalid since: expected a time such as 2026-06-01T12:05:04Z, got %q", truncate(q.values.Get("since")))
	}
	if eventID := q.http.Header.Get(lastEventID); eventID != "" {
		out.tail = -1
		out.since, err = parseTime(eventID)
		out.since = out.since.Add(1) // the client has the line of this time
		q.refuseIf(err != nil, "invalid Last-Event-ID: expected a time such as 2026-06-01T12:05:04Z, got %q", truncate(eventID))
	}
	return out
}

func (l logStream) open(log *run.Log) logStream {
	l.log = log
	lines, _ := log.Lines(0)
	lines = slices.DeleteFunc(lines, func(line run.Line) bool { return !l.includes(line) })
	if n := int64(len(lines)); l.tail >= 0 && n > l.tail {
		l.firstLine = lines[n-l.tail-1].Number + 1
	}
	return l
}

func lineSource(l run.Line) string {
	if l.System {
		return fromSystem
	}
	return fromContainer
}

func (l logStream) includes(line run.Line) bool {
	return l.source == "" || l.source == lineSource(line)
}

// lineID is a line's time, from which a client resumes: the lines of a log have different times.
func lineID(l run.Line) string { return l.Time.UTC().Format(time.RFC3339Nano) }

type event struct {
	Source string `json:"source"`
	Line   string `json:"line"`
	Time   string `json:"ts"`
	Number int64  `json:"number"` // in the log, from 0
	Job    string `json:"jobId,omitempty"`
}

// lastEventID is the header with the client's last event or, in a response, the latest one so far.
const lastEventID = "Last-Event-ID"

func (l logStream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-cache")
	h.Set("Connection", "keep-alive")
	h.Set("X-Accel-Buffering", "no")
	lines, updated := l.log.Lines(l.firstLine)
	for _, line := range slices.Backward(lines) {
		if l.includes(line) && !line.Time.Before(l.since) {
			h.Set(lastEventID, lineID(line))
			break
		}
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	controller := http.NewResponseController(w)
	next := l.firstLine
	for {
		for _, line := range lines {
			next = line.Number + 1
			if line.Time.Before(l.since) || !l.includes(line) {
				continue
			}
			data, err := json.Marshal(event{lineSource(line), line.Text, lineID(line), line.Number, line.Job})
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %s\ndata: %s\n\n", lineID(line), data); err != nil {
				return
			}
		}
		if err := controller.Flush(); err != nil || updated == nil {
			return
		}
		select {
		case <-updated:
		case <-r.Context().Done():
			return
		}
		lines, updated = l.log.Lines(next)
	}
}
