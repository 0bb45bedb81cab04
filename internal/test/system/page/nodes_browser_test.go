package page_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// With several jobrunners, the page shows the node of each worker and GPU and names nodes that
// don't answer.
func TestBrowserOfSeveralNodes(t *testing.T) {
	c := new(clock.Clock)
	config := page.Config{Keys: apikey.New(key), Clock: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Version: "1.2.3"}
	there := config
	there.Source = newBusyMachine(c)
	other := page.New(there)
	t.Cleanup(other.Close)
	here := newBusyMachine(c)
	for i := range here.endpoints {
		here.endpoints[i].Workers = map[string]int{"RUNNING": 0}
	}
	here.workers = nil
	for i := range here.gpus {
		here.gpus[i].Holder = ""
	}
	config.Source, config.Node = here, "http://10.0.0.5:8420"
	config.Others = func(_ *http.Request, path string) ([]page.Answer, []string) {
		ask := httptest.NewRequest("GET", path, nil)
		ask.Header.Set("Authorization", "Bearer "+key)
		answer := httptest.NewRecorder()
		other.ServeHTTP(answer, ask)
		found := page.Answer{Node: "http://10.0.0.6:8420"}
		if answer.Code == http.StatusOK {
			found.Body = answer.Body.Bytes()
		}
		return []page.Answer{found}, []string{"http://10.0.0.7:8420"}
	}
	p := page.New(config)
	t.Cleanup(p.Close)
	server := httptest.NewServer(page.Local(false, p))
	t.Cleanup(server.Close)
	tab := chromium.Open(t).Tab(t, 1366, 900, false)
	tab.Visit(server.URL + "/#code=" + p.Code())
	for selector, wants := range map[string][]string{
		"#status":          {"Live"},
		"#facts":           {"2 jobrunners"},
		"#silent":          {"http://10.0.0.7:8420 does not answer", "workers, GPUs and logs there are missing"},
		"#gpus-count":      {"16 · driver"},
		"#gpus":            {"NVIDIA H200 · 10.0.0.5:8420", "NVIDIA H200 · 10.0.0.6:8420"},
		"[data-tile=gpus]": {"7 of 16"},
		"#workers tbody":   {"w1llm-run", "10.0.0.6:8420", "GPU 5, 6"},
		"#endpoints tbody": {"4 running"},
	} {
		tab.Shows(selector, wants...)
	}
	tab.Click(`[aria-label="Log of worker w1llm-run"]`)
	tab.Shows("#detail .log", "step 30 of 30", hostile)
	tab.Readable("log")
	tab.Picture("several-nodes")
	clean(t, tab, server.URL)
}
