package page

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// What one answer holds at most.
const (
	maxJobs    = 50
	maxWorkers = 200
	maxOutput  = 64 << 10 // bytes of a job's output
	maxLines   = 500      // of a log, the last ones
)

// States are those of workers, in the order in which the page shows them.
var States = []string{"RUNNING", "IDLE", "INITIALIZING", "THROTTLED", "UNHEALTHY"}

// Died is the state of a worker that is gone, and was not to end.
const Died = "DIED"

// The page's JSON. Times are milliseconds since 1970, and durations
// milliseconds.
type (
	snapshot struct {
		Now       int64          `json:"now"`
		Started   int64          `json:"started"`
		Version   string         `json:"version"`
		Step      int64          `json:"step"`  // of the past's levels
		Widen     int            `json:"widen"` // so many of them to one of percentiles
		States    []string       `json:"states"`
		Endpoints []endpointJSON `json:"endpoints"`
		Endpoint  string         `json:"endpoint"` // the one that the rest is about; "": all
		Past      past           `json:"past"`
		Jobs      []jobJSON      `json:"jobs"`
		Workers   []workerJSON   `json:"workers"`
		GPUs      gpusJSON       `json:"gpus"`
		Costs     costsJSON      `json:"costs"`
		Who       callerJSON     `json:"who"` // is signed in

		// Of the overview alone.
		Pods     *podsJSON          `json:"pods,omitempty"`
		Clusters *some[clusterJSON] `json:"clusters,omitempty"`
		Volumes  *some[volumeJSON]  `json:"volumes,omitempty"`
		Keys     *keysJSON          `json:"keys,omitempty"`
		Releases *some[releaseJSON] `json:"releases,omitempty"` // of one endpoint alone
	}
	endpointJSON struct {
		ID        string         `json:"id"`
		Name      string         `json:"name"`
		Type      string         `json:"type"`
		Image     string         `json:"image"`
		Min       int            `json:"min"`
		Max       int            `json:"max"`
		Created   int64          `json:"created"`
		Queued    int            `json:"queued"`
		Running   int            `json:"running"`
		Completed int            `json:"completed"`
		Failed    int            `json:"failed"`
		Workers   map[string]int `json:"workers"` // by state
		Queue     []int32        `json:"queue"`   // recent lengths; one where it was always the same
	}
	jobJSON struct {
		Endpoint  string       `json:"endpoint"`
		ID        string       `json:"id"`
		State     engine.State `json:"state"`
		Queued    int64        `json:"queued"`
		Delay     *int64       `json:"delay"`
		Execution *int64       `json:"execution"`
		Worker    string       `json:"worker"`
		Retries   int          `json:"retries"`
		Error     string       `json:"error"`
	}
	workerJSON struct {
		Endpoint string   `json:"endpoint"`
		ID       string   `json:"id"`
		State    string   `json:"state"`
		Reason   string   `json:"reason"`
		Advice   string   `json:"advice"`
		Stale    bool     `json:"stale"`
		Started  int64    `json:"started"`
		Devices  []string `json:"devices"`
		CPU      int64    `json:"cpu"`
		Memory   int64    `json:"memory"`
	}
	gpusJSON struct {
		Driver    string    `json:"driver"`
		CUDA      string    `json:"cuda"`
		Simulated bool      `json:"simulated"`
		Devices   []gpuJSON `json:"devices"`
	}
	gpuJSON struct {
		UUID        string `json:"uuid"`
		Index       int    `json:"index"`
		Type        string `json:"type"`
		MIG         string `json:"mig"`
		Fault       string `json:"fault"`
		Holder      string `json:"holder"`
		Memory      int64  `json:"memory"`
		MemoryUsed  int64  `json:"memoryUsed"`  // the rest is -1 where the device does not tell
		Utilization int    `json:"utilization"` // %
		Power       int    `json:"power"`       // mW
		Temperature int    `json:"temperature"` // °C
		Past        []int8 `json:"past"`        // utilization
	}
)

// snapshot is GET /ui/snapshot: everything, or with ?endpoint=ID what concerns
// that endpoint.
func (p *Page) snapshot(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	endpoints, err := p.Source.Endpoints(r.Context())
	if err != nil {
		return p.failed(r, err)
	}
	only := r.URL.Query().Get("endpoint")
	now := p.Clock.Now()
	s := snapshot{
		Now: now.UnixMilli(), Started: p.started.UnixMilli(), Version: p.Version, Step: step.Milliseconds(), Widen: percentileSteps, States: States,
		Endpoint: only, Endpoints: []endpointJSON{}, Jobs: []jobJSON{}, Workers: []workerJSON{},
	}
	var all, counts engine.Counts
	found := only == ""
	for _, e := range endpoints {
		c := p.Source.Counts(e.ID)
		s.Endpoints = append(s.Endpoints, describe(e, c, p.history.queue(e.ID, c)))
		all.InQueue += c.InQueue
		all.InProgress += c.InProgress
		if only == e.ID {
			found, counts = true, c
		}
		if only == "" || only == e.ID {
			for _, one := range p.Source.Workers(e.ID) {
				s.Workers = append(s.Workers, describeWorker(e.ID, one))
			}
		}
	}
	if !found {
		return httpanswer.Refuse(http.StatusNotFound, "There is no such endpoint, or none any more.")
	}
	slices.SortStableFunc(s.Workers, func(a, b workerJSON) int {
		return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)), cmp.Compare(a.Started, b.Started))
	})
	s.GPUs = p.gpusNow(now, s.Workers)
	s.Workers = s.Workers[:min(len(s.Workers), maxWorkers)]
	p.history.level("", all)
	s.Past = p.history.past(only, counts)
	costs, err := p.costs.get(now, costsAge, func() (Costs, error) { return p.Source.Costs(r.Context()) })
	if err != nil {
		return p.failed(r, err)
	}
	s.Costs = describeCosts(costs)
	s.Who = describeCaller(p.caller(r))
	if only == "" {
		err = p.addObjects(&s, r)
	} else {
		s.Releases, err = p.releases(r.Context(), only)
	}
	if err != nil {
		return p.failed(r, err)
	}
	jobs, err := p.Source.Latest(r.Context(), only, maxJobs)
	if err != nil {
		return p.failed(r, err)
	}
	for _, j := range jobs {
		s.Jobs = append(s.Jobs, describeJob(j))
	}
	httpanswer.JSON(w, http.StatusOK, s)
	return nil
}

// rank is the place of a state: those that are gone come last.
func rank(state string) int {
	if state == Died {
		return len(States)
	}
	return slices.Index(States, state)
}

func describe(e Endpoint, c engine.Counts, queue []int32) endpointJSON {
	return endpointJSON{
		ID: e.ID, Name: e.Name, Type: e.Type, Image: e.Image, Min: e.Min, Max: e.Max, Created: e.Created.UnixMilli(),
		Queued: c.InQueue, Running: c.InProgress, Completed: c.Completed, Failed: c.Failed, Workers: e.Workers, Queue: queue,
	}
}

func describeJob(j engine.Job) jobJSON {
	out := jobJSON{Endpoint: j.Endpoint, ID: j.ID, State: j.State, Queued: j.Queued.UnixMilli(), Worker: j.Worker, Retries: j.Retries, Error: logline.Headline(j.Error)}
	if j.Worker != "" {
		out.Delay = new(j.Delay.Milliseconds())
		if j.State.Terminal() {
			out.Execution = new(j.Execution.Milliseconds())
		}
	}
	return out
}

func describeWorker(endpoint string, w Worker) workerJSON {
	out := workerJSON{
		Endpoint: endpoint, ID: w.ID, State: w.State, Reason: w.Reason, Advice: w.Advice, Stale: w.Stale, Devices: w.Devices, CPU: w.CPU.Milliseconds(), Memory: w.Memory,
	}
	if !w.Started.IsZero() {
		out.Started = w.Started.UnixMilli()
	}
	if out.Devices == nil {
		out.Devices = []string{}
	}
	return out
}

// gpusNow shows the devices. A worker may have got or left one between the look
// at the workers and the look at the devices: what the workers say counts, so
// that none is in a worker's row and free in its own.
func (p *Page) gpusNow(now time.Time, workers []workerJSON) gpusJSON {
	holders := map[string]string{}
	for _, w := range workers {
		for _, uuid := range w.Devices {
			holders[uuid] = w.ID
		}
	}
	g := p.Source.GPUs()
	p.gpus.record(now, g.Devices)
	out := gpusJSON{Driver: g.Driver.Version, CUDA: g.Driver.CUDA, Simulated: g.Simulated, Devices: []gpuJSON{}}
	for _, d := range g.Devices {
		if holder := holders[d.UUID]; holder != "" {
			d.Holder = holder
		}
		out.Devices = append(out.Devices, gpuJSON{
			UUID: d.UUID, Index: d.Index, Type: d.TypeID, MIG: d.MIG, Fault: d.Fault, Holder: d.Holder, Memory: d.Memory,
			MemoryUsed: d.MemoryUsed, Utilization: d.Utilization, Power: d.Power, Temperature: d.Temperature, Past: p.gpus.of(d.UUID, now),
		})
	}
	return out
}

// job is GET /ui/job?endpoint=ID&id=ID: a job with its output, and what its
// worker wrote while it ran.
func (p *Page) job(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	endpoint, id := r.URL.Query().Get("endpoint"), r.URL.Query().Get("id")
	j, err := p.Source.Job(r.Context(), endpoint, id)
	if errors.Is(err, engine.ErrNotFound) {
		return httpanswer.Refuse(http.StatusNotFound, "The job is gone: its time to live or the retention of its result is over.")
	} else if err != nil {
		return p.failed(r, err)
	}
	var body struct {
		jobJSON
		Output string     `json:"output"` // JSON, cut where it is long
		Cut    int        `json:"cut"`    // bytes of it that are left out
		Log    []lineJSON `json:"log"`
		Logged bool       `json:"logged"` // there is a log of that worker
	}
	body.jobJSON = describeJob(j)
	body.Error = logline.Failure(j.Error)
	body.Output, body.Cut = truncate(j.Output)
	body.Log = []lineJSON{}
	if j.Worker != "" {
		from := j.Queued.Add(j.Delay).Truncate(time.Second)
		until := p.Clock.Now()
		if j.State.Terminal() {
			until = j.Queued.Add(j.Delay + j.Execution + time.Second)
		}
		var lines []Line
		lines, body.Logged = p.Source.Log(endpoint, j.Worker)
		body.Log = describeLog(slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return l.Time.Before(from) || l.Time.After(until) }))
	}
	httpanswer.JSON(w, http.StatusOK, body)
	return nil
}

type lineJSON struct {
	Time   int64  `json:"time"`
	Level  string `json:"level"` // "" for what no logger wrote
	Text   string `json:"text"`
	System bool   `json:"system"`
}

func describeLog(lines []Line) []lineJSON {
	out := []lineJSON{}
	for _, l := range lines[max(0, len(lines)-maxLines):] {
		shown := lineJSON{Time: l.Time.UnixMilli(), Text: l.Text, System: l.System}
		if !l.System {
			line := logline.Parse(l.Text)
			shown.Level, shown.Text = line.Level, line.Text
		}
		out = append(out, shown)
	}
	return out
}

// log is GET /ui/log?endpoint=ID&worker=ID or ?pod=ID.
func (p *Page) log(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	query := r.URL.Query()
	lines, ok := p.Source.Log(query.Get("endpoint"), query.Get("worker"))
	if query.Has("pod") {
		lines, ok = p.Source.PodLog(query.Get("pod"))
	}
	if !ok {
		return httpanswer.Refuse(http.StatusNotFound, "This log does not exist, was removed, or is another deployment's.")
	}
	httpanswer.JSON(w, http.StatusOK, map[string]any{"log": describeLog(lines)})
	return nil
}

// truncate leaves whole characters, and says how many bytes it left out.
func truncate(output []byte) (text string, rest int) {
	n := min(len(output), maxOutput)
	for n > 0 && n < len(output) && !utf8.RuneStart(output[n]) {
		n--
	}
	return string(output[:n]), len(output) - n
}

func (p *Page) failed(r *http.Request, err error) *httpanswer.Refusal {
	if engine.OutageOf(err) != nil {
		return httpanswer.Refuse(http.StatusServiceUnavailable, "The deployment's database is not available at the moment.")
	}
	if r.Context().Err() == nil {
		p.Logger.ErrorContext(r.Context(), "the page could not be filled", "path", r.URL.Path, "error", err)
	}
	return httpanswer.Refuse(http.StatusInternalServerError, "The deployment failed to answer: its log says why.")
}
