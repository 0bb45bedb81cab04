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

// log serves GET /ui/log?endpoint=ID&worker=ID or ?pod=ID, with &from and &until as limits.
func (p *Page) log(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	lines, ok := p.readLog(r, r.URL.Query())
	if !ok {
		return httpanswer.Refuse(http.StatusNotFound, "This log does not exist, was removed, or is another deployment's.")
	}
	httpanswer.JSON(w, http.StatusOK, logJSON{lines})
	return nil
}

// readLog reads a log of this jobrunner, or asks the one that has it.
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
		var found logJSON
		if other.Body != nil && json.Unmarshal(other.Body, &found) == nil {
			return found.Log, true
		}
	}
	return nil, false
}

func milliseconds(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

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
