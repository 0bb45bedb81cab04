package page_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// With a thousand pods, the page counts all, lists some, finds them by filter and acts on them.
// Its size stays bounded.
func TestManyPods(t *testing.T) {
	t.Parallel()
	b := chromium.Open(t)
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
	if data.Pods.Total != n || data.Pods.Found != n || len(data.Pods.List) != 50 || len(text) > 40<<10 {
		t.Errorf("%d pods, %d found, %d listed, %d bytes", data.Pods.Total, data.Pods.Found, len(data.Pods.List), len(text))
	}
	for query, want := range map[string]int{"OLDEST": 1, oldest: 1, "builtin/echo": n, "error": 0, "pod-00": min(99, n)} {
		if _, data := d.snapshot(key, "?pods="+query); data.Pods.Found != want || len(data.Pods.List) != min(want, 50) || data.Pods.Total != n {
			t.Errorf("%q finds %d pods and lists %d of %d, expected %d", query, data.Pods.Found, len(data.Pods.List), data.Pods.Total, want)
		}
	}

	tab := d.open(b)
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
	clean(t, tab, d.url)
}

// countedReads counts reads of the objects.
type countedReads struct {
	*busyMachine
	reads atomic.Int32
}

func (c *countedReads) Objects(ctx context.Context) (page.Objects, error) {
	c.reads.Add(1)
	return c.busyMachine.Objects(ctx)
}

// Objects are read once a second for all viewers, and once more after an action.
func TestObjectsAreReadOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(clock.Clock)
		source := &countedReads{busyMachine: newBusyMachine(c)}
		p := page.New(page.Config{
			Source: source, Keys: apikey.New(key), Clock: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			API: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
		})
		defer p.Close()
		send := func(method, path string) {
			t.Helper()
			r := httptest.NewRequest(method, path, nil)
			r.Header.Set("Authorization", "Bearer "+key)
			w := httptest.NewRecorder()
			if p.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
		look := func(when string, want int32) {
			t.Helper()
			for range 20 {
				send("GET", "/ui/snapshot")
			}
			send("GET", "/ui/snapshot?endpoint=sdxl7k2m9q4w") // doesn't need the objects
			must.Equal(t, source.reads.Swap(0), want, when, "the objects were read", "times")
		}
		look("at first", 1)
		time.Sleep(999 * time.Millisecond)
		look("within a second", 0)
		time.Sleep(time.Millisecond)
		look("after a second", 1)
		send("POST", "/ui/call?op=stop-pod&id=x")
		look("after an action", 1)
	})
}
