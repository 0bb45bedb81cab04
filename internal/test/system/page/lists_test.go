package page_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/chromedp/kb"
	"golang.org/x/sync/errgroup"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// With a thousand pods, the page counts all, lists some, and finds them by filter. Its data stays small.
func TestManyPods(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	n := 1000
	if testing.Short() {
		n = 150
	}
	oldest := d.createPod("pod-oldest")
	var group errgroup.Group
	group.SetLimit(8)
	for i := 1; i < n; i++ {
		group.Go(func() error { d.createPod(fmt.Sprintf("pod-%04d", i)); return nil })
	}
	must.Succeed(t, group.Wait())
	start := time.Now()
	text, data := d.snapshot(key, "")
	t.Logf("a snapshot of %d pods: %d bytes, %s", n, len(text), time.Since(start))
	must.Hold(t, data.Pods.Total == n && data.Pods.Found == n && len(data.Pods.List) == 50 && len(text) <= 40<<10,
		"the snapshot has", data.Pods.Total, "pods, finds", data.Pods.Found, "and lists", len(data.Pods.List), "in", len(text), "bytes; expected", n, "pods, 50 listed, in at most 40 KiB")
	for query, want := range map[string]int{"OLDEST": 1, oldest: 1, "builtin/echo": n, "error": 0, "pod-00": min(99, n)} {
		if _, data := d.snapshot(key, "?pods="+query); data.Pods.Found != want || len(data.Pods.List) != min(want, 50) || data.Pods.Total != n {
			t.Errorf("%q finds %d pods and lists %d of %d, expected %d", query, data.Pods.Found, len(data.Pods.List), data.Pods.Total, want)
		}
	}

	tab := d.openPage()
	tab.Until(`document.querySelectorAll('#pods tbody tr').length === 12`)
	tab.Shows("#pods-count", "newest 12 shown")
	tab.Click("#pods-more")
	tab.Until(`document.querySelectorAll('#pods tbody tr').length === 50`)
	tab.Shows("#pods-count", "newest 50 shown")
	tab.Eval(`(() => { const f = document.querySelector('#pods-filter'); f.value = 'nothing has this'; f.dispatchEvent(new Event('input')); })()`, nil)
	tab.Shows("#pods-none", "No pod matches.")
	tab.Eval(`(() => { const f = document.querySelector('#pods-filter'); f.value = 'pod-oldest'; f.dispatchEvent(new Event('input')); })()`, nil)
	tab.Until(`document.querySelectorAll('#pods tbody tr').length === 1`)
	tab.Shows("#pods-count", "1 match")
	tab.Click("#pods [data-op=stop]")
	tab.Shows("#confirm", "Stop pod pod-oldest?")
	tab.Click("#confirm-yes")
	tab.Shows("#pods tbody", "exited")
	tab.Shows("#pods-count", "1 exited")
	d.awaitPod(oldest, "EXITED")
	expectClean(t, tab, d.url)
}

type countedReads struct {
	*busyMachine
	reads atomic.Int32
}

func (c *countedReads) Objects(ctx context.Context) (page.Objects, error) {
	c.reads.Add(1)
	return c.busyMachine.Objects(ctx)
}

// Objects are read once a second for all viewers and after an action, even if the deployment's clock is stopped.
func TestObjectsAreReadOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(clock.Clock)
		c.Stop()
		source := &countedReads{busyMachine: newBusyMachine(c)}
		p := page.New(page.Config{
			Source: source, Keys: apikey.New(key), Clock: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			API: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
		})
		defer p.Close()
		send := func(method, path string) {
			t.Helper()
			w := ask(p, method, path)
			must.Require(t, w.Code == http.StatusOK, method, path, "was answered with", w.Code, w.Body)
		}
		expectReads := func(when string, want int32) {
			t.Helper()
			for range 20 {
				send("GET", "/ui/snapshot")
			}
			send("GET", "/ui/snapshot?endpoint=sdxl7k2m9q4w") // doesn't need the objects
			must.Equal(t, source.reads.Swap(0), want, "number of reads of the objects", when)
		}
		expectReads("at first", 1)
		time.Sleep(999 * time.Millisecond)
		expectReads("within a second", 0)
		time.Sleep(time.Millisecond)
		expectReads("after a second", 1)
		send("POST", "/ui/call?op=stop-pod&id=x")
		expectReads("after an action", 1)
	})
}

// The page lists batches on a wide screen and on the smallest phone, with a button if the API can cancel them.
func TestBrowserShowsBatches(t *testing.T) {
	t.Parallel()
	for name, width := range map[string]int64{"desk": 1366, "phone": 320} {
		t.Run(name, func(t *testing.T) {
			d := deploy(t)
			work := d.createEndpoint("work", "builtin/conformance", 1)
			tab := chromium.Open(t, width, 900, false)
			tab.Visit(d.url + "/#code=" + d.code)
			tab.Until(`document.querySelector('#status').textContent === 'Live'`)
			tab.Until(`document.querySelector('#batches-section').hidden`)
			tab.Eval(fmt.Sprintf(`location.hash = '#/endpoint/%s'`, work), nil)
			tab.Until(`document.querySelector('#title').textContent === 'work'`)
			tab.Until(`document.querySelector('#batches-section').hidden`)

			ended := d.createBatch(work, "ended", `{"op": "echo"}`, `{"op": "fail", "message": "no luck"}`)
			must.Do(d.Jobs.FinalizeBatch(t.Context(), work, ended))(t)
			row := func(id string) string {
				return `[...document.querySelectorAll('#batches tbody tr')].find((tr) => tr.cells[1].textContent.includes(` + quoted(id) + `))`
			}
			expectBatch := func(id, state string, running, completed, failed, total int, mayCancel bool) {
				t.Helper()
				tab.Until(fmt.Sprintf(`[...(%s?.cells ?? [])].map((c, i) => i === 0 || i > 1 && i < 6 ? c.textContent : i === 7 ? !c.firstChild.hidden : '').join() === '%s,,%d,%d,%d,%d,,%t'`, row(id), state, running, completed, failed, total, mayCancel))
			}
			expectBatch(ended, "finalized", 0, 1, 1, 2, false)
			running := d.createBatch(work, hostile, `{"op": "sleep", "ms": 600000}`, `{}`, `{}`)
			expectBatch(running, "draft", 0, 0, 0, 3, true)
			must.Do(d.Jobs.FinalizeBatch(t.Context(), work, running))(t)
			expectBatch(running, "finalized", 1, 0, 0, 3, true)
			draft := d.createBatch(work, "a draft", `{}`)
			tab.Until(`document.querySelector('#batches tbody tr').cells[1].textContent.includes(` + quoted(draft) + `)`) // newest first
			tab.Until(`document.documentElement.scrollWidth === document.documentElement.clientWidth`)                    // nothing is cut off
			tab.Shows("#batches-count", "3")
			tab.Shows("#batches tbody", hostile, "ended", "just now")
			tab.CheckAccessibility("batches")
			tab.Picture("batches-" + name)

			press := func(id string) {
				t.Helper()
				tab.Eval(`(() => { const b = `+row(id)+`.querySelector('button'); b.focus(); b.click(); })()`, nil)
			}
			press(draft)
			tab.Shows("#confirm", "Cancel batch a draft?", "1 request waits: it never runs.", "No request runs.")
			tab.Press(kb.Escape)
			tab.Until(`!document.querySelector('#confirm').open`)
			expectBatch(draft, "draft", 0, 0, 0, 1, true)
			press(draft)
			tab.Click("#confirm-yes")
			tab.Shows("#outcome", "Batch a draft is cancelled.")
			expectBatch(draft, "cancelled", 0, 0, 0, 1, false)
			tab.AwaitFocus("#main")
			press(running)
			tab.Shows("#confirm", "2 requests wait: they never run.", "1 request runs, and ends before the batch is cancelled.")
			tab.CheckAccessibility("confirm")
			tab.Click("#confirm-yes")
			tab.Shows("#outcome", "is cancelled as soon as 1 request has ended.")
			expectBatch(running, "finalized", 1, 0, 0, 3, true)

			for i := range 60 {
				id := d.createBatch(work, fmt.Sprint("b", i))
				resp, body := d.send(http.MethodPost, "/v2/"+work+"/batch/"+id+"/cancel", "", bearer(key))
				must.Require(t, resp.StatusCode == http.StatusOK, "cancelling the batch was answered with", body)
			}
			tab.Shows("#batches-count", "newest 12 of 63")
			tab.Click("#batches-more")
			tab.Shows("#batches-count", "newest 50 of 63")
			expectClean(t, tab, d.url)
		})
	}
}

// With several jobrunners, the page shows each worker's and GPU's node, and names unreachable nodes.
func TestBrowserOfSeveralNodes(t *testing.T) {
	c := new(clock.Clock)
	config := page.Config{Keys: apikey.New(key), Key: key, Clock: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Version: "1.2.3"}
	_, other := newBusyPage(t)
	here := newBusyMachine(c)
	for id := range here.states {
		here.states[id] = map[string]int{"RUNNING": 1}
	}
	here.workers = nil
	for i := range here.gpus {
		here.gpus[i].Owner = ""
	}
	config.Source, config.Node = here, "http://10.0.0.5:8420"
	config.AskOthers = func(_ *http.Request, path string) ([]page.Answer, []string) {
		answer := ask(other, "GET", path)
		found := page.Answer{Node: "http://10.0.0.6:8420"}
		if answer.Code == http.StatusOK {
			found.Body = answer.Body.Bytes()
		}
		return []page.Answer{found}, []string{"http://10.0.0.7:8420"}
	}
	p := page.New(config)
	t.Cleanup(p.Close)
	url := serveLocally(t, p)
	tab := chromium.Open(t, 1366, 900, false)
	tab.Visit(url + "/#code=" + p.NewCode())
	for selector, wants := range map[string][]string{
		"#status":          {"Live"},
		"#facts":           {"2 jobrunners"},
		"#unreachable":     {"http://10.0.0.7:8420 does not answer", "workers, GPUs and logs there are missing"},
		"#gpus-count":      {"16 · driver"},
		"#gpus":            {"NVIDIA H200 · 10.0.0.5:8420", "NVIDIA H200 · 10.0.0.6:8420"},
		"[data-tile=gpus]": {"7 of 16"},
		"#workers tbody":   {"w1llm-run", "10.0.0.6:8420", "GPU 5, 6"},
		"#endpoints tbody": {"5 running"},
		"#workers-count":   {"9 of 13"},
	} {
		tab.Shows(selector, wants...)
	}
	tab.Click(`[aria-label="Log of worker w1llm-run"]`)
	tab.Shows("#detail .log", "step 600 of 600", hostile)
	tab.CheckAccessibility("log")
	tab.Picture("several-nodes")
	expectClean(t, tab, url)
}
