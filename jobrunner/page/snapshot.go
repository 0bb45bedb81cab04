package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

const (
	maxJobs    = 50
	maxError   = 200 // bytes of a job's error in the list
	maxWorkers = 200
	maxOutput  = 64 << 10 // bytes of a job's output
	maxRead    = 1 << 20  // bytes of an output that is read to show its start, each second
)

// workerStates are the states of workers in the order of the page.
var workerStates = []string{"RUNNING", "IDLE", "INITIALIZING", "THROTTLED", "UNHEALTHY"}

// Died is the state of a worker that ended unexpectedly.
const Died worker.State = "DIED"

// Times are milliseconds since 1970, and durations milliseconds, unless their types say otherwise.
type (
	snapshot struct {
		Now             int64           `json:"now"`
		Wall            int64           `json:"wall"` // time of day, if it jumped
		Started         int64           `json:"started"`
		Version         string          `json:"version"`
		Step            int64           `json:"step"`            // length of a step in Past
		PercentileSteps int             `json:"percentileSteps"` // steps per percentile
		States          []string        `json:"states"`
		Endpoints       []endpoint      `json:"endpoints"`
		Endpoint        string          `json:"endpoint"` // id of the shown endpoint; "" for all
		Past            recentHistory   `json:"past"`
		Jobs            []jobJSON       `json:"jobs"`
		Workers         []Worker        `json:"workers"`
		GPUs            GPUs            `json:"gpus"`
		Costs           Costs           `json:"costs"`
		User            apikey.Identity `json:"user"`        // the signed-in user
		Nodes           []string        `json:"nodes"`       // the jobrunners whose workers and GPUs are shown, if there are several
		Unreachable     []string        `json:"unreachable"` // jobrunners that don't answer

		// Only in the overview.
		Pods     *pods                           `json:"pods,omitempty"`
		Clusters *beginning[cluster]             `json:"clusters,omitempty"`
		Volumes  *beginning[store.NetworkVolume] `json:"volumes,omitempty"`
		Keys     *keysJSON                       `json:"keys,omitempty"`

		// Only for one endpoint.
		Releases *beginning[release]             `json:"releases,omitempty"`
		Batches  *beginning[jobapi.BatchSummary] `json:"batches,omitempty"`
	}
	endpoint struct {
		ID        string         `json:"id"`
		Name      string         `json:"name"`
		Type      string         `json:"type"`
		Image     string         `json:"image"`
		Min       int64          `json:"min"` // workers
		Max       int64          `json:"max"`
		Queued    int            `json:"queued"`
		Running   int            `json:"running"`
		Completed int            `json:"completed"`
		Failed    int            `json:"failed"`
		Workers   map[string]int `json:"workers"` // by state
		Queue     []int32        `json:"queue"`   // recent lengths; a single value if it didn't change
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
)

// serveSnapshot serves GET /ui/snapshot: the overview, or with ?endpoint=ID the data of an endpoint.
func (p *Page) serveSnapshot(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	endpoints, err := p.Source.Endpoints(r.Context())
	if err != nil {
		return p.newRefusal(r, err)
	}
	endpointID := r.URL.Query().Get("endpoint")
	thisNode, now := p.ownNode(endpoints, endpointID), p.Clock.Now()
	nodes, unreachable := p.withOthers(r, thisNode)
	s := snapshot{
		Now: now.UnixMilli(), Wall: p.Clock.Wall().UnixMilli(), Started: p.started.UnixMilli(), Version: p.Version, Step: step.Milliseconds(), PercentileSteps: percentileSteps, States: workerStates,
		Endpoint: endpointID, Endpoints: []endpoint{}, Jobs: []jobJSON{}, Workers: []Worker{}, Nodes: []string{}, Unreachable: unreachable,
	}
	var total, counts engine.Counts
	found := endpointID == ""
	for _, e := range endpoints {
		c := p.Source.Counts(e.ID)
		s.Endpoints = append(s.Endpoints, endpoint{
			e.ID, e.Name, e.Type, e.Image, e.WorkersMin, e.WorkersMax,
			c.InQueue, c.InProgress, c.Completed, c.Failed, statesOf(e.ID, nodes), p.history.queue(e.ID, c),
		})
		total.InQueue += c.InQueue
		total.InProgress += c.InProgress
		if endpointID == e.ID {
			found, counts = true, c
		}
	}
	if !found {
		return httpanswer.Refuse(http.StatusNotFound, "This endpoint does not exist, or was deleted.")
	}
	var others []events
	for i, node := range nodes {
		s.addNode(node)
		if i > 0 {
			others = append(others, node.Events)
		}
	}
	byVersion := s.sortWorkers()
	p.history.recordCounts("", total)
	s.Past = p.history.recentOf(endpointID, counts, others...)
	if s.Costs, err = p.costs.get(costsAge, func() (Costs, error) { return p.Source.Costs(r.Context()) }); err != nil {
		return p.newRefusal(r, err)
	}
	s.User, _ = p.Keys.Authorize(r)
	if endpointID == "" {
		err = p.addObjects(&s, r)
	} else if s.Releases, err = p.releases(r.Context(), endpointID, byVersion); err == nil {
		s.Batches, err = p.batches(r.Context(), endpointID)
	}
	if err != nil {
		return p.newRefusal(r, err)
	}
	jobs, err := p.Source.Newest(r.Context(), endpointID, maxJobs, 0)
	if err != nil {
		return p.newRefusal(r, err)
	}
	for _, j := range jobs {
		s.Jobs = append(s.Jobs, describeJob(j))
	}
	httpanswer.JSON(w, http.StatusOK, s)
	return nil
}

// sortWorkers sorts the workers by state and truncates the list. byVersion counts the live workers.
func (s *snapshot) sortWorkers() (byVersion map[int64]int) {
	slices.SortStableFunc(s.Workers, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)), a.StartedAt.Compare(b.StartedAt))
	})
	byVersion = map[int64]int{}
	for _, w := range s.Workers {
		if w.State != Died {
			byVersion[w.Version]++
		}
	}
	s.Workers = s.Workers[:min(len(s.Workers), maxWorkers)]
	return byVersion
}

// rank returns the position of a state: dead workers come last.
func rank(state worker.State) int {
	if state == Died {
		return len(workerStates)
	}
	return slices.Index(workerStates, string(state))
}

func describeJob(j engine.Job) jobJSON {
	out := jobJSON{Endpoint: j.Endpoint, ID: j.ID, State: j.State, Queued: j.Queued.UnixMilli(), Worker: j.Worker, Retries: j.Retries, Error: truncate([]byte(logline.Headline(j.Error)), maxError)}
	if j.Worker != "" {
		out.Delay = new(j.Delay.Milliseconds())
		if j.State.Terminal() {
			out.Execution = new(j.Execution.Milliseconds())
		}
	}
	return out
}

// serveJob serves GET /ui/job?endpoint=ID&id=ID: a job, its output, and its worker's log during the run.
func (p *Page) serveJob(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	endpoint, id := r.URL.Query().Get("endpoint"), r.URL.Query().Get("id")
	j, err := p.Source.GetUpTo(r.Context(), endpoint, id, maxRead)
	if errors.Is(err, engine.ErrNotFound) {
		return httpanswer.Refuse(http.StatusNotFound, "The job is gone: it was purged, or its time to live or the retention of its result is over.")
	} else if err != nil {
		return p.newRefusal(r, err)
	}
	var body struct {
		jobJSON
		Output  string     `json:"output"`  // JSON, truncated if it is long
		Omitted int        `json:"omitted"` // bytes of the output that Output lacks
		Log     []lineJSON `json:"log"`
		HasLog  bool       `json:"hasLog"` // whether the worker's log exists
	}
	body.jobJSON = describeJob(j)
	body.Error = logline.ReadableFailure(j.Error)
	body.Output = truncate(j.Output, maxOutput)
	body.Omitted = j.Size - len(body.Output)
	body.Log = []lineJSON{}
	if j.Worker != "" {
		started := j.Queued.Add(j.Delay)
		query := url.Values{"endpoint": {endpoint}, "worker": {j.Worker}, "from": {formatUnixMilli(started.Truncate(time.Second))}}
		if j.State.Terminal() {
			query.Set("until", formatUnixMilli(started.Add(j.Execution+time.Second)))
		}
		if lines, ok := p.readLog(r, query); ok {
			body.Log, body.HasLog = lines, true
		}
	}
	httpanswer.JSON(w, http.StatusOK, body)
	return nil
}

// truncate keeps whole characters.
func truncate(output []byte, limit int) string {
	n := min(len(output), limit)
	for n > 0 && n < len(output) && !utf8.RuneStart(output[n]) {
		n--
	}
	return string(output[:n])
}

func (p *Page) newRefusal(r *http.Request, err error) *httpanswer.Refusal {
	if sqldb.Classify(err) != sqldb.Fault {
		return httpanswer.Refuse(http.StatusServiceUnavailable, "The deployment's database is not available at the moment.")
	}
	if r.Context().Err() == nil {
		p.Logger.ErrorContext(r.Context(), "the page could not be filled", "path", r.URL.Path, "error", err)
	}
	return httpanswer.Refuse(http.StatusInternalServerError, "The deployment failed to answer: its log says why.")
}

const maxLines = 500 // last lines of a log

type (
	logJSON struct {
		Log []lineJSON `json:"log"`
	}
	lineJSON struct {
		Time   int64  `json:"time"`
		Level  string `json:"level"` // "" if no logger wrote the line
		Text   string `json:"text"`
		System bool   `json:"system"`
	}
)

// serveLog serves GET /ui/log?endpoint=ID&worker=ID or ?pod=ID, with &from and &until as limits.
func (p *Page) serveLog(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	lines, ok := p.readLog(r, r.URL.Query())
	if !ok {
		return httpanswer.Refuse(http.StatusNotFound, "This log does not exist, was removed, or is on a jobrunner that does not answer.")
	}
	httpanswer.JSON(w, http.StatusOK, logJSON{lines})
	return nil
}

// readLog reads a log of this jobrunner, or else asks the other jobrunners for it.
func (p *Page) readLog(r *http.Request, query url.Values) ([]lineJSON, bool) {
	lines, ok := p.Source.Log(query.Get("endpoint"), query.Get("worker"))
	if pod := query.Get("pod"); pod != "" {
		lines, ok = p.Source.PodLog(pod)
	}
	if ok {
		from, until := queryTime(query, "from"), queryTime(query, "until")
		return describeLog(slices.DeleteFunc(slices.Clone(lines), func(l run.Line) bool {
			return l.Time.Before(from) || !until.IsZero() && l.Time.After(until)
		})), true
	}
	others, _ := p.ask(r, "/ui/log", query)
	for _, other := range others {
		var answer logJSON
		if other.Body != nil && json.Unmarshal(other.Body, &answer) == nil {
			return answer.Log, true
		}
	}
	return nil, false
}

func formatUnixMilli(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// queryTime returns a time in milliseconds since 1970, or zero.
func queryTime(query url.Values, name string) time.Time {
	ms, err := strconv.ParseInt(query.Get(name), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func describeLog(lines []run.Line) []lineJSON {
	out := []lineJSON{}
	for _, l := range lines[max(0, len(lines)-maxLines):] {
		line := logline.Line{Text: l.Text}
		if !l.System {
			line = logline.Parse(l.Text)
		}
		out = append(out, lineJSON{l.Time.UnixMilli(), line.Level, line.Text, l.System})
	}
	return out
}
