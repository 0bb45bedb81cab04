// Package page_test opens a real jobrunner's page in a browser, and sends requests as other sites would.
package page_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

const key = "planted-key"

// deployment is a jobrunner behind an HTTP server.
type deployment struct {
	t    *testing.T
	dir  string
	url  string
	code string
	*api.Client
	Close func() // the end of the test calls it, too
}

func TestMain(m *testing.M) { os.Exit(chromium.Run(m)) }

func deploy(t *testing.T) *deployment {
	t.Helper()
	return deployWith(t, jobrunner.Config{})
}

func deployWith(t *testing.T, config jobrunner.Config) *deployment {
	t.Helper()
	dir := t.TempDir()
	config.APIKey, config.Version, config.DataDir = key, "1.2.3", dir
	j := must.Do(jobrunner.New(t.Context(), config))(t)
	server := httptest.NewServer(j.Handler())
	end := sync.OnceFunc(func() {
		server.Close()
		must.Equal(t, j.Close(), nil, "error of the jobrunner's end")
	})
	t.Cleanup(end)
	c := must.Do(api.New(api.Settings{BaseURL: server.URL, APIKey: key}))(t)
	return &deployment{t, dir, server.URL, j.PageCode(), c, end}
}

func (d *deployment) createEndpoint(name, image string, maxWorkers int64) string {
	d.t.Helper()
	e := must.Do(d.Endpoints.Create(d.t.Context(), api.Endpoint{
		Name: name, Type: "QUEUE", Container: &api.Container{Image: &image},
		Workers: api.Workers{Max: maxWorkers}, Scaling: api.Scaling{Type: "REQUEST_COUNT", RequestCount: 1},
	}))(d.t)
	return e.ID
}

func (d *deployment) submitJob(endpoint, input string) string {
	d.t.Helper()
	return must.Do(d.Jobs.Run(d.t.Context(), endpoint, api.Submission{Input: json.RawMessage(input)}))(d.t).ID
}

func (d *deployment) createBatch(endpoint, name string, inputs ...string) string {
	d.t.Helper()
	requests := make([]json.RawMessage, len(inputs))
	for i, input := range inputs {
		requests[i] = json.RawMessage(input)
	}
	b, err := d.Jobs.CreateBatch(d.t.Context(), endpoint)
	if err == nil {
		_, err = d.Jobs.AddRequests(d.t.Context(), endpoint, b.ID, requests)
	}
	if err == nil {
		_, err = d.Jobs.RenameBatch(d.t.Context(), endpoint, b.ID, name)
	}
	must.Succeed(d.t, err)
	return b.ID
}

const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// The page shows endpoints, jobs and outputs, on a desktop and a phone, and never executes their content.
func TestBrowser(t *testing.T) {
	for _, screen := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"desk", 1366, 900, false}, {"phone", 390, 844, true}} {
		t.Run(screen.name, func(t *testing.T) {
			d := deploy(t)
			tab := chromium.Open(t, screen.width, screen.height, screen.dark)
			tab.Visit(d.url + "/#code=" + d.code)
			tab.Until(`document.querySelector('#status').textContent === 'Live'`)
			tab.Shows("#live", "There is no endpoint yet", d.url+"/v2/serverless")
			var address string
			tab.Eval("location.href", &address)
			must.Hold(t, !strings.Contains(address, d.code), "the code stays in the address", address)
			tab.Picture(screen.name + "-empty")

			work := d.createEndpoint(hostile, "builtin/conformance", 3)
			tab.Until(`document.querySelectorAll('#endpoints tbody tr').length === 1`)
			tab.Until(`document.querySelector('#endpoints tbody a').textContent === ` + quoted(hostile))
			stuck := d.createEndpoint("never starts", "example/unmapped", 0)
			d.submitJob(stuck, `{}`)
			d.submitJob(stuck, `{}`)
			tab.Until(`document.querySelector('[data-tile=queued] b').textContent === '2'`)
			failed := d.submitJob(work, `{"op": "fail", "message": `+quoted(hostile)+`, "output": {"left": `+quoted(hostile)+`}}`)
			d.submitJob(work, `{"op": "echo"}`)
			running := d.submitJob(work, `{"op": "sleep", "ms": 600000}`)
			tab.Until(`document.querySelector('[data-tile=running] b').textContent === '1'`)
			tab.Until(`document.querySelector('[data-tile=ended] b').textContent === '2'`)
			tab.Until(`document.querySelectorAll('#jobs tbody tr').length === 5`)
			for selector, want := range map[string]string{
				"#jobs tbody":                    hostile,
				"#endpoints tbody":               "never starts",
				"[data-tile=ended]":              "1 failed or timed out",
				"#chart-load":                    "Queue and running",
				"[data-series=execution]":        "Execution",
				"#facts, .brand":                 "jobrunner",
				"#jobs [data-state=IN_PROGRESS]": "in progress",
			} {
				tab.Shows(selector, want)
			}
			var label string
			if tab.Eval(`document.querySelector('#chart-load .plot').getAttribute('aria-label')`, &label); !strings.Contains(label, "In queue: now 2, highest") || !strings.Contains(label, "Running: now 1") {
				t.Errorf("the chart says %s", label)
			}
			tab.Shows("#costs-section", hostile, "$0.00", "Nothing used today has a price", "jobrunner serve --catalog")
			tab.CheckAccessibility("overview")
			tab.Picture(screen.name + "-overview")

			tab.Click(fmt.Sprintf(`#jobs button[title=%q]`, failed))
			tab.Until(`document.querySelector('#detail').open && document.querySelector('#detail .block')`)
			tab.Shows("#detail", hostile, `"left"`)
			tab.CheckAccessibility("job")
			tab.Picture(screen.name + "-job")
			tab.Do(chromedp.KeyEvent(kb.Escape))
			tab.Until(`!document.querySelector('#detail').open`)

			tab.Eval(fmt.Sprintf(`location.hash = '#/endpoint/%s'`, work), nil)
			tab.Until(`document.querySelector('#title').textContent === ` + quoted(hostile))
			tab.Until(`document.querySelectorAll('#jobs tbody tr').length === 3`)
			must.Do(d.Jobs.Cancel(t.Context(), work, running))(t)
			tab.Until(`document.querySelector('#jobs [data-state=CANCELLED]')`)
			tab.CheckAccessibility("endpoint")
			tab.Picture(screen.name + "-endpoint")
			must.Succeed(t, d.Endpoints.Delete(t.Context(), work))
			tab.Until(`document.querySelector('#title').textContent === 'Overview'`)
			tab.Until(`document.title === 'gpucloud jobrunner'`)
			tab.Visit(d.url + "/?invalid#/endpoint/%E0%A4")
			tab.Until(`location.hash === '#/' && document.querySelector('#status').textContent === 'Live'`)

			tab.Click("#signout")
			tab.Until(`document.querySelector('#status').textContent === 'Signed out'`)
			tab.Picture(screen.name + "-signin")
			tab.Eval(`document.querySelector('#key').value = 'wrong'; document.querySelector('#signin-form').requestSubmit()`, nil)
			tab.Until(`document.querySelector('#signin-error').textContent.includes('unknown')`)
			tab.Eval(`document.querySelector('#key').value = '`+key+`'; document.querySelector('#signin-form').requestSubmit()`, nil)
			tab.Until(`document.querySelector('#status').textContent === 'Live'`)

			expectClean(t, tab, d.url)
		})
	}
}

// expectClean expects no requests to other sites, and an empty console except for two errors and the provoked texts.
func expectClean(t *testing.T, tab *chromium.Tab, ownURL string, provoked ...string) {
	t.Helper()
	for _, u := range tab.Requests() {
		must.Hold(t, strings.HasPrefix(u, ownURL+"/"), "the page requests", u, "of another site")
		must.Hold(t, !strings.Contains(u, key), "the key is in the address", u)
	}
	for _, p := range tab.Problems() {
		if strings.Contains(p, "401") && strings.Contains(p, "/ui/s") || strings.Contains(p, "404") && strings.Contains(p, "/ui/snapshot?endpoint=") {
			continue // the wrong key, or no session; the endpoint that was deleted
		}
		if slices.ContainsFunc(provoked, func(text string) bool { return strings.Contains(p, text) }) {
			continue
		}
		t.Errorf("the console has %s", p)
	}
}

func (d *deployment) send(method, path, body string, header map[string]string) (*http.Response, map[string]any) {
	d.t.Helper()
	req := must.Do(http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body)))(d.t)
	for name, value := range header {
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	resp := must.Do(http.DefaultClient.Do(req))(d.t)
	defer resp.Body.Close()
	var decoded map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&decoded)
	return resp, decoded
}

// Each route of the page checks key, method, host and origin.
func TestAccess(t *testing.T) {
	d := deploy(t)
	ownHost := strings.TrimPrefix(d.url, "http://")
	other := "http://127.0.0.1:1" // another port is another site
	auth := map[string]string{"Authorization": "Bearer " + key}
	withHeader := func(header map[string]string, name, value string) map[string]string {
		out := map[string]string{name: value}
		maps.Copy(out, header)
		return out
	}
	for _, c := range []struct {
		method, path, body string
		header             map[string]string
		status             int
	}{
		{"GET", "/", "", nil, 200},
		{"HEAD", "/", "", nil, 200},
		{"POST", "/", "", nil, 405},
		{"GET", "/ui/page.js", "", nil, 200},
		{"GET", "/ui/nothing.js", "", nil, 404},
		{"GET", "/ui/../page.go", "", nil, 404},
		{"GET", "/ui/snapshot", "", nil, 401},
		{"GET", "/ui/snapshot", "", map[string]string{"Authorization": "Bearer wrong"}, 401},
		{"GET", "/ui/snapshot", "", auth, 200},
		{"POST", "/ui/snapshot", "", auth, 405},
		{"GET", "/ui/snapshot?endpoint=nowhere", "", auth, 404},
		{"GET", "/ui/job?endpoint=nowhere&id=x", "", auth, 404},
		{"GET", "/ui/log?endpoint=nowhere&worker=x", "", auth, 404},
		{"GET", "/ui/log", "", nil, 401},
		{"GET", "/ui/job", "", nil, 401},
		{"POST", "/ui/session", `{"key":"wrong"}`, nil, 401},
		{"POST", "/ui/session", `{}`, nil, 401},
		{"POST", "/ui/session", `nonsense`, nil, 400},
		{"POST", "/ui/session", `{"key":"` + strings.Repeat("x", 5000) + `"}`, nil, 400},
		{"POST", "/ui/session", `{"key":"` + key + `"}`, map[string]string{"Origin": "http://" + ownHost}, 204},
		{"POST", "/ui/session", `{"key":"` + key + `"}`, map[string]string{"Origin": other}, 403},
		{"POST", "/ui/session", `{"key":"` + key + `"}`, map[string]string{"Origin": "null"}, 403},
		{"GET", "/ui/snapshot", "", withHeader(auth, "Sec-Fetch-Site", "same-origin"), 200},
		{"GET", "/ui/snapshot", "", withHeader(auth, "Sec-Fetch-Site", "same-site"), 403},
		{"GET", "/ui/snapshot", "", withHeader(auth, "Sec-Fetch-Site", "cross-site"), 403},
		{"GET", "/", "", map[string]string{"Host": "evil.example"}, 421},
		{"GET", "/ui/snapshot", "", withHeader(auth, "Host", "evil.example:8420"), 421},
		{"GET", "/metrics", "", map[string]string{"Host": "evil.example"}, 421},
		{"GET", "/", "", map[string]string{"Host": "localhost:8420"}, 200},
		{"GET", "/", "", map[string]string{"Host": "[::1]:8420"}, 200},
		{"GET", "/", "", map[string]string{"Host": "127.0.0.1"}, 200},
		{"GET", "/metrics", "", nil, 200},
		{"GET", "/debug/pprof/", "", auth, 404},
	} {
		resp, body := d.send(c.method, c.path, c.body, c.header)
		must.Equal(t, resp.StatusCode, c.status, "status of", c.method, c.path, "with", c.header, "and the answer", body)
		csp := resp.Header.Get("Content-Security-Policy")
		must.Hold(t, c.status == 421 || !strings.HasPrefix(c.path, "/ui/") && c.path != "/" || strings.Contains(csp, "default-src 'none'"), c.method, c.path, "has the policy", csp, "expected default-src 'none'")
	}
}

// A session starts with a key or, once, the printed link's code. It ends with a sign-out, or when its key is removed.
func TestSession(t *testing.T) {
	d := deploy(t)
	signIn := func(body string) (*http.Response, string) {
		t.Helper()
		resp, _ := d.send("POST", "/ui/session", body, nil)
		set := resp.Header.Get("Set-Cookie")
		for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/ui"} {
			must.Hold(t, resp.StatusCode != 204 || strings.Contains(set, want), "expected", want, "in the cookie", set)
		}
		cookie, _, _ := strings.Cut(set, ";")
		return resp, cookie
	}
	isSignedIn := func(cookie string) bool {
		t.Helper()
		resp, _ := d.send("GET", "/ui/snapshot", "", map[string]string{"Cookie": cookie})
		return resp.StatusCode == 200
	}
	code := `{"code":"` + d.code + `"}`
	resp, first := signIn(code)
	must.Require(t, resp.StatusCode == 204 && isSignedIn(first) && !strings.Contains(first, d.code),
		"signing in with the code was answered with", resp.StatusCode, "and the cookie", first)
	resp, _ = signIn(code)
	must.Hold(t, resp.StatusCode == 401, "signing in with the used code was answered with", resp.StatusCode)
	_, second := signIn(`{"key":"` + key + `"}`)
	must.Hold(t, isSignedIn(second) && !strings.Contains(second, key) && !isSignedIn(second+"x") && !isSignedIn(""), "only the whole cookie may open the page, and not contain the key:", second)
	d.send("DELETE", "/ui/session", "", map[string]string{"Cookie": first})
	must.Hold(t, !isSignedIn(first) && isSignedIn(second), "a sign-out didn't end exactly its own session")
	keys := apikey.FileIn(d.dir)
	added := must.Do(keys.Add(apikey.Key{Name: "ada"}))(t)
	_, third := signIn(`{"key":"` + added + `"}`)
	must.Hold(t, isSignedIn(third), "an added key doesn't open the page")
	must.Succeed(t, keys.Remove("ada"))
	must.Hold(t, !isSignedIn(third) && isSignedIn(second), "removing a key didn't end exactly its session")
	scoped := must.Do(keys.Add(apikey.Key{Name: "some", Endpoints: []string{"ep"}}))(t)
	resp, _ = signIn(`{"key":"` + scoped + `"}`)
	must.Hold(t, resp.StatusCode == 403, "signing in with a key for one endpoint was answered with", resp.StatusCode)
	for range 64 {
		_, _ = signIn(`{"key":"` + key + `"}`)
	}
	must.Hold(t, !isSignedIn(second), "the number of sessions isn't bounded")
}

// If a worker gets its GPU while a snapshot is made, the snapshot is consistent.
func TestGPUIsNotFreeAndUsedAtOnce(t *testing.T) {
	b, p := newBusyPage(t)
	b.mu.Lock()          // the page samples the GPUs meanwhile
	b.gpus[0].Owner = "" // the state a moment ago
	b.mu.Unlock()
	var s struct {
		GPUs struct {
			Devices []struct{ UUID, Owner string }
		}
	}
	must.Succeed(t, json.Unmarshal(ask(p, "GET", "/ui/snapshot").Body.Bytes(), &s))
	got := s.GPUs.Devices[0]
	must.Hold(t, got.UUID == "GPU-0" && got.Owner == "w1sdxl-run", "the device of a running worker is", got)
}

func TestSignOutAbortsTheSnapshot(t *testing.T) {
	_, p := newBusyPage(t)
	local := page.RejectOtherHosts(false, p)
	var block atomic.Bool
	blocked, aborted := make(chan struct{}, 1), make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ui/snapshot" && block.CompareAndSwap(true, false) {
			blocked <- struct{}{}
			<-r.Context().Done()
			aborted <- struct{}{}
			return
		}
		local.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close) // after the browser, whose tab may hold a request
	tab := chromium.Open(t, 800, 600, false)
	tab.Visit(server.URL + "/#code=" + p.NewCode())
	tab.Shows("#status", "Live")
	block.Store(true)
	wait(t, blocked, "the page requests no further snapshot")
	tab.Click("#signout")
	wait(t, aborted, "the request for a snapshot continues after the sign-out")
	tab.Shows("#status", "Signed out")
	tab.Eval(`location.hash = `+quoted("#code="+p.NewCode()), nil) // a printed link in the same tab
	tab.Until(`document.querySelector('#status').textContent === 'Live' && !location.hash`)
	expectClean(t, tab, server.URL)
}

func wait(t *testing.T, happened <-chan struct{}, message string) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(time.Minute):
		t.Fatal(message)
	}
}
