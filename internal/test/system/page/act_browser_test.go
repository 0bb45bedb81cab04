package page_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// openPage opens the page in a tab, signed in with the printed link.
func (d *deployment) openPage() *chromium.Tab {
	d.t.Helper()
	tab := chromium.Open(d.t, 1366, 900, false)
	tab.Visit(d.url + "/#code=" + d.code)
	tab.Until(`document.querySelector('#status').textContent === 'Live'`)
	return tab
}

// Stopping an endpoint, purging its queue and cancelling a job announce and report their effect, and do nothing else.
func TestBrowserActsOnEndpoint(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	work := d.createEndpoint("work", "builtin/conformance", 1)
	running := d.submitJob(work, `{"op": "sleep", "ms": 600000}`)
	tab := d.openPage()
	tab.Eval(fmt.Sprintf(`location.hash = '#/endpoint/%s'`, work), nil)
	tab.Until(`document.querySelector('#jobs [data-state=IN_PROGRESS]')`)
	d.submitJob(work, `{}`)
	d.submitJob(work, `{}`)
	tab.Until(`document.querySelector('[data-tile=queued] b').textContent === '2'`)

	tab.Click("#endpoint-purge")
	tab.Shows("#confirm", "Purge the queue of work?", "Removes 2 jobs that wait. They can’t be brought back", "1 job that runs is not affected")
	last := d.submitJob(work, `{}`)
	tab.Shows("#confirm", "Removes 3 jobs that wait")
	tab.Press(kb.Escape)
	tab.Until(`!document.querySelector('#confirm').open`)
	_, j := d.send("GET", "/v2/"+work+"/status/"+last, "", bearer(key))
	must.Hold(t, j["status"] == "IN_QUEUE", "after a purge that was not confirmed, a job is", j)
	tab.Click("#endpoint-purge")
	tab.Click("#confirm-yes")
	tab.Shows("#outcome", "Removed 3 jobs from the queue of work.")
	tab.Until(`document.querySelector('[data-tile=queued] b').textContent === '0'`)
	resp, _ := d.send("GET", "/v2/"+work+"/status/"+last, "", bearer(key))
	must.Hold(t, resp.StatusCode == http.StatusNotFound, "the status of a purged job is answered with", resp.StatusCode)

	waiting := d.submitJob(work, `{}`)
	tab.Until(`document.querySelector('[data-tile=queued] b').textContent === '1'`)
	tab.Click("#endpoint-stop")
	tab.Shows("#confirm", "Stop endpoint work?", "Sets workers.min (now 0) and workers.max (now 1) to 0", "its next apply undoes that", "1 job runs. Workers finish their jobs, and end", "1 job waits. Further jobs are accepted")
	tab.Picture("confirm")
	tab.Click("#confirm-yes")
	tab.Shows("#outcome", "Endpoint work is stopped: it can’t have workers. 1 job is being finished.")
	tab.Shows("#endpoint-stopped", "workers.max is 0")
	tab.AwaitFocus("#endpoint-purge") // the stop button is disabled
	tab.Picture("stopped")
	_, e := d.send("GET", "/v2/serverless/"+work, "", bearer(key))
	workers := e["workers"].(map[string]any)
	must.Hold(t, fmt.Sprint(workers["min"], workers["max"]) == "0 0" && e["image"] == "builtin/conformance" && e["name"] == "work", "the endpoint is", e)
	for id, want := range map[string]string{running: "IN_PROGRESS", waiting: "IN_QUEUE"} {
		_, j := d.send("GET", "/v2/"+work+"/status/"+id, "", bearer(key))
		must.Hold(t, j["status"] == want, "after the stop a job is", j["status"], "expected", want)
	}

	// Cancel a job from its dialog.
	tab.Click(`#jobs button[title="` + waiting + `"]`)
	tab.Click("#detail [data-op=cancel]")
	tab.Shows("#confirm", "Cancel job "+waiting+"?", "1 job is affected, which waits: it never runs.")
	tab.Click("#confirm-no")
	tab.AwaitFocus("#detail [data-op=cancel]")
	tab.Click("#detail [data-op=cancel]")
	tab.Click("#confirm-yes")
	tab.Until(`document.querySelector('#detail .badge').dataset.state === 'CANCELLED'`)
	tab.AwaitFocus("#detail-close")
	_, j = d.send("GET", "/v2/"+work+"/status/"+running, "", bearer(key))
	must.Hold(t, j["status"] == "IN_PROGRESS", "another job was cancelled:", j)
	expectClean(t, tab, d.url)
}

// A key that may only read gets an error, and the action has no effect.
func TestBrowserRefusesReaders(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	pod := d.createPod("notebook")
	d.awaitPod(pod, "RUNNING")
	d.addKey(apikey.Key{Name: "bob"})
	reader := d.addKey(apikey.Key{Name: "reader", Owner: "ada", Management: apikey.Read, Jobs: apikey.Read})
	tab := chromium.Open(t, 1366, 900, false)
	tab.Visit(d.url)
	tab.Until(`!document.querySelector('#signin').hidden`)
	tab.Eval(`document.querySelector('#key').value = `+quoted(reader)+`; document.querySelector('#signin-form').requestSubmit()`, nil)
	tab.Shows("#user", "ada · management read, jobs read")
	tab.Shows("#keys tbody", "reader")
	text := tab.Text("#keys tbody")
	must.Hold(t, !strings.Contains(text, "bob") && !strings.Contains(text, "own"), "a reader sees the keys of others in", text)
	tab.Click("#pods [data-op=stop]")
	tab.Click("#confirm-yes")
	tab.Shows("#confirm-error", "this API key may only read from the management API: use a key with --management all")
	tab.CheckAccessibility("rejection")
	tab.Until(`document.querySelector('#confirm').open`)
	tab.Picture("refused")
	d.awaitPod(pod, "RUNNING")
	tab.Press(kb.Escape)
	tab.AwaitFocus("#pods [data-op=stop]")
	must.Succeed(t, apikey.FileIn(d.dir).Remove("reader"))
	tab.Shows("#signin-error", "The session is over")
	tab.AwaitFocus("#key")
}

// A page of another site or port can't act through a signed-in browser.
func TestBrowserOnOtherSites(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	pod := d.createPod("notebook")
	d.awaitPod(pod, "RUNNING")
	tab := d.openPage()
	callURL := d.url + "/ui/call?op=stop-pod&id=" + pod
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>starting</title><iframe name="f"></iframe><form id="f" method="post" target="f" action=%q></form>`, callURL)
	}))
	t.Cleanup(evil.Close)
	for _, site := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		tab.Visit(site)
		tab.Eval(`Promise.allSettled([
			fetch(`+quoted(callURL)+`, { method: 'POST', mode: 'no-cors', credentials: 'include' }),
			fetch(`+quoted(callURL)+`, { method: 'POST', mode: 'cors', credentials: 'include', headers: { 'Content-Type': 'application/json' }, body: '{}' }),
			new Promise((done) => { document.querySelector('iframe').onload = done; document.querySelector('form').submit(); }),
		]).then(() => { document.title = 'done'; })`, nil)
		tab.Until(`document.title === 'done'`)
		d.awaitPod(pod, "RUNNING")
	}
	tab.Visit(d.url)
	tab.Until(`document.querySelector('#status').textContent === 'Live'`) // the browser is still signed in
	tab.Eval(`fetch(`+quoted(callURL)+`, { method: 'POST' }).then((r) => { document.title = 'own ' + r.status; })`, nil)
	d.awaitPod(pod, "EXITED")
}

// The page shows new, changed and deleted pods, clusters, network volumes and keys without a reload.
func TestBrowserShowsObjects(t *testing.T) {
	t.Parallel()
	machine := filepath.Join(t.TempDir(), "gpus.yaml")
	must.Succeed(t, os.WriteFile(machine, []byte("gpus: [{type: NVIDIA L4, count: 4}]"), 0o600))
	inventory := must.Do(gpu.Simulate(machine, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(inventory.Close)
	d := deployWith(t, jobrunner.Config{GPUs: inventory})
	tab := d.openPage()
	tab.Shows("#pods-section", "There is no pod yet", d.url+"/v2/pods")
	for _, hidden := range []string{"#clusters-section", "#volumes-section", "#releases-section"} {
		tab.Until(`document.querySelector('` + hidden + `').hidden`)
	}
	notebook := d.createPod(hostile)
	tab.Shows("#pods tbody", hostile, "running", "2 vCPU cpu3c", "Stop", "Restart")
	waitingPod := d.createObject("/v2/pods", `{"name":"waits","image":"example/unmapped",`+onCPU+`}`)
	tab.Shows("#pods tbody", "waits", "provisioning")
	tab.Shows("#pods-count", "2 · 1 running · 1 provisioning")
	cluster := d.createObject("/v2/clusters", `{"name":"train","type":"TRAINING","image":"builtin/echo","compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":2,"podCount":2}}`)
	tab.Until(`document.querySelectorAll('#clusters [data-state=RUNNING]').length === 2`)
	tab.Shows("#clusters", "train", "2 pods, each 2 × NVIDIA L4", "network 127.0.0.0/8")
	var ranks []string
	tab.Eval(`[...document.querySelectorAll('#clusters tbody tr')].map((tr) => tr.cells[1].textContent)`, &ranks)
	must.Hold(t, fmt.Sprint(ranks) == "[0 1]", "the pods of the cluster have the ranks", ranks)
	var actions int
	tab.Eval(`document.querySelectorAll('#clusters [data-op]').length`, &actions)
	must.Hold(t, actions == 0, "a member of a cluster offers", actions, "actions, which the API refuses")
	volume := d.createObject("/v2/network-volumes", `{"name":"weights","size":20,"dataCenter":"EU-RO-1"}`)
	tab.Shows("#volumes tbody", "weights", "20 GB", "EU-RO-1")
	d.send("PATCH", "/v2/network-volumes/"+volume, `{"size":30}`, bearer(key))
	tab.Shows("#volumes tbody", "30 GB")
	added := d.addKey(apikey.Key{Name: "ada", Management: apikey.Read, Endpoints: []string{"ep1", "ep2"}})
	tab.Shows("#keys tbody", "ada", "read", "ep1, ep2", "never", "The deployment’s own")
	tab.CheckAccessibility("objects")
	tab.Picture("objects")

	// A pod's log, and the actions that its state allows.
	tab.Click(`#pods [aria-label="Log of pod ` + strings.ReplaceAll(hostile, `"`, `\"`) + `"]`)
	tab.Shows("#detail .log", "hello")
	tab.Press(kb.Escape)
	row := `[...document.querySelectorAll('#pods tbody tr')].find((tr) => tr.cells[1].textContent.includes(` + quoted(notebook) + `))`
	expectButtons := func(want string) {
		t.Helper()
		tab.Until(`[...` + row + `.querySelectorAll('[data-op]')].filter((b) => !b.hidden).map((b) => b.textContent).join() === ` + quoted(want))
	}
	act := func(action, confirmation, outcome, buttons string) {
		t.Helper()
		tab.Eval(row+`.querySelector('[data-op=`+action+`]').click()`, nil)
		tab.Shows("#confirm", confirmation)
		tab.Click("#confirm-yes")
		tab.Shows("#outcome", outcome)
		expectButtons(buttons)
	}
	expectButtons("Stop,Restart")
	act("restart", "It keeps its GPUs", "is starting", "Stop,Restart")
	act("stop", "killed after 5 seconds", "is exited", "Start")
	act("start", "as soon as its compute is free (2 vCPU cpu3c)", "is provisioning", "Stop,Restart")

	// Another client stops the pod during the confirmation, which removes the focused button.
	tab.Eval(`(() => { const b = `+row+`.querySelector('[data-op=stop]'); b.focus(); b.click(); })()`, nil)
	resp, body := d.send("POST", "/v2/pods/"+notebook+"/action", `{"action":"stop"}`, bearer(key))
	must.Require(t, resp.StatusCode == 200, "stopping the pod was answered with", body)
	expectButtons("Start")
	tab.Press(kb.Enter)
	tab.Shows("#confirm-error", "can't stop: it allows start")
	tab.Press(kb.Escape)
	tab.AwaitFocus(`[data-op=start]`)

	d.send("PATCH", "/v2/pods/"+notebook, `{"name":"renamed"}`, bearer(key))
	tab.Until(`document.querySelector('#pods [aria-label="Log of pod renamed"]')`)
	tab.AwaitFocus(`[data-op=start]`)

	// The focus stays when a row above is removed.
	resp, body = d.send("DELETE", "/v2/pods/"+waitingPod, "", bearer(key))
	must.Require(t, resp.StatusCode == 204, "deleting the pod was answered with", body)
	tab.Until(`document.querySelectorAll('#pods tbody tr').length === 1`)
	tab.AwaitFocus(`[data-op=start]`)

	for _, path := range []string{"/v2/pods/" + notebook, "/v2/clusters/" + cluster, "/v2/network-volumes/" + volume} {
		resp, body := d.send("DELETE", path, "", bearer(key))
		must.Require(t, resp.StatusCode == 204, "deleting", path, "was answered with", body)
	}
	must.Succeed(t, apikey.FileIn(d.dir).Remove("ada"))
	tab.Shows("#pods-section", "There is no pod yet")
	tab.Until(`document.querySelector('#clusters-section').hidden && document.querySelector('#volumes-section').hidden && document.querySelectorAll('#keys tbody tr').length === 1`)
	var document string
	tab.Eval("document.documentElement.outerHTML", &document)
	must.Hold(t, !strings.Contains(document, added) && !strings.Contains(document, key), "the page contains a key:", document)
	expectClean(t, tab, d.url, "409 (Conflict)")
}

// The page works with the keyboard: a stop button asks for confirmation, Escape and Close cancel and restore the focus, and
// Enter confirms. Holding a key down doesn't confirm.
func TestPageByKeyboard(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	pod := d.createPod("train")
	d.awaitPod(pod, "RUNNING")
	tab := chromium.Open(t, 1366, 900, false)
	tab.Visit(d.url)
	tab.Until(`!document.querySelector('#signin').hidden`)
	tab.CheckAccessibility("sign-in")
	tab.TabTo("#key")
	tab.Press(key, kb.Enter)
	tab.Shows("#pods tbody", "train", "running")
	const stop, start = `[data-op=stop][aria-label="Stop pod train"]`, `[data-op=start][aria-label="Start pod train"]`
	expectUnconfirmed := func() {
		t.Helper()
		tab.Until(`!document.querySelector('#confirm').open`)
		tab.AwaitFocus(stop)
		_, p := d.send("GET", "/v2/pods/"+pod, "", bearer(key))
		must.Require(t, p["status"] == "RUNNING", "the pod was stopped without a confirmation:", p)
	}
	tab.TabTo(stop)
	tab.Press(kb.Enter)
	tab.AwaitFocus("#confirm-yes")
	tab.Shows("#confirm", "Stop pod train?", "asked to end, and killed after 5 seconds")
	tab.CheckAccessibility("confirmation")
	tab.Press(kb.Escape)
	expectUnconfirmed()
	tab.Press(" ")
	tab.AwaitFocus("#confirm-yes")
	tab.Press(kb.Tab)
	tab.AwaitFocus("#confirm-no")
	tab.Press(kb.Enter)
	expectUnconfirmed()
	tab.Hold('\r')
	tab.AwaitFocus("#confirm-yes")
	tab.Until(`document.querySelector('#confirm').open`)
	tab.Press(kb.Escape)
	expectUnconfirmed()

	tab.Press(kb.Enter, kb.Enter)
	tab.Until(`document.querySelector('#outcome[role=status]').textContent === 'Pod train is exited.'`)
	tab.AwaitFocus(start)
	d.awaitPod(pod, "EXITED")
	tab.Press(kb.Enter, kb.Enter)
	d.awaitPod(pod, "RUNNING")
	tab.Shows("#pods tbody", "running")
	tab.TabTo(`#pods button.link`) // its log
	tab.Press(kb.Enter)
	tab.Shows("#detail .log", "hello")
	tab.Press(kb.Escape)
	tab.AwaitFocus(`#pods button.link`)
	for _, problem := range tab.Problems() {
		must.Hold(t, strings.Contains(problem, "401"), "expected only the 401 from before the sign-in in the console and got", problem)
	}
}
