package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

const maxLines = 500 // of a log, the last ones

// logRequest is GET /ui/log?endpoint=ID&worker=ID or ?pod=ID.
type logRequest struct {
	Endpoint, Worker, Pod string
	From, Until           time.Time // zero: all
}

type (
	logJSON struct {
		Log []lineJSON `json:"log"`
	}
	lineJSON struct {
		Time   int64  `json:"time"`
		Level  string `json:"level"` // "" for what no logger wrote
		Text   string `json:"text"`
		System bool   `json:"system"`
	}
)

func (p *Page) log(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	query := r.URL.Query()
	wanted := logRequest{
		Endpoint: query.Get("endpoint"), Worker: query.Get("worker"), Pod: query.Get("pod"), From: queryTime(query, "from"), Until: queryTime(query, "until"),
	}
	lines, ok := p.readLog(r, wanted)
	if !ok {
		return httpanswer.Refuse(http.StatusNotFound, "This log does not exist, was removed, or is another deployment's.")
	}
	httpanswer.JSON(w, http.StatusOK, logJSON{lines})
	return nil
}

// readLog reads a log here, or at the jobrunner that has it.
func (p *Page) readLog(r *http.Request, wanted logRequest) ([]lineJSON, bool) {
	lines, ok := p.Source.Log(wanted.Endpoint, wanted.Worker)
	if wanted.Pod != "" {
		lines, ok = p.Source.PodLog(wanted.Pod)
	}
	if ok {
		return describeLog(slices.DeleteFunc(slices.Clone(lines), func(l run.Line) bool {
			return l.Time.Before(wanted.From) || !wanted.Until.IsZero() && l.Time.After(wanted.Until)
		})), true
	}
	others, _ := p.ask(r, "/ui/log", wanted.query())
	for _, other := range others {
		var found logJSON
		if other.Body != nil && json.Unmarshal(other.Body, &found) == nil {
			return found.Log, true
		}
	}
	return nil, false
}

func (l logRequest) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"endpoint": l.Endpoint, "worker": l.Worker, "pod": l.Pod} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, value := range map[string]time.Time{"from": l.From, "until": l.Until} {
		if !value.IsZero() {
			query.Set(name, strconv.FormatInt(value.UnixMilli(), 10))
		}
	}
	return query
}

// queryTime is a time in milliseconds since 1970; zero for none.
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
		shown := lineJSON{Time: l.Time.UnixMilli(), Text: l.Text, System: l.System}
		if !l.System {
			line := logline.Parse(l.Text)
			shown.Level, shown.Text = line.Level, line.Text
		}
		out = append(out, shown)
	}
	return out
}
