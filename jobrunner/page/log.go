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

const maxLines = 500 // last lines of a log

// logRequest has the parameters of GET /ui/log?endpoint=ID&worker=ID or ?pod=ID.
type logRequest struct {
	Endpoint, Worker, Pod string
	From, Until           time.Time // zero for no limit
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
	request := logRequest{
		Endpoint: query.Get("endpoint"), Worker: query.Get("worker"), Pod: query.Get("pod"), From: queryTime(query, "from"), Until: queryTime(query, "until"),
	}
	lines, ok := p.readLog(r, request)
	if !ok {
		return httpanswer.Refuse(http.StatusNotFound, "This log does not exist, was removed, or is another deployment's.")
	}
	httpanswer.JSON(w, http.StatusOK, logJSON{lines})
	return nil
}

// readLog reads a log of this jobrunner, or asks the one that has it.
func (p *Page) readLog(r *http.Request, request logRequest) ([]lineJSON, bool) {
	lines, ok := p.Source.Log(request.Endpoint, request.Worker)
	if request.Pod != "" {
		lines, ok = p.Source.PodLog(request.Pod)
	}
	if ok {
		return describeLog(slices.DeleteFunc(slices.Clone(lines), func(l run.Line) bool {
			return l.Time.Before(request.From) || !request.Until.IsZero() && l.Time.After(request.Until)
		})), true
	}
	others, _ := p.ask(r, "/ui/log", request.query())
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
		entry := lineJSON{Time: l.Time.UnixMilli(), Text: l.Text, System: l.System}
		if !l.System {
			line := logline.Parse(l.Text)
			entry.Level, entry.Text = line.Level, line.Text
		}
		out = append(out, entry)
	}
	return out
}
