package page_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// A sign-out aborts the snapshot that is in flight.
func TestSignOutAbortsTheSnapshot(t *testing.T) {
	c := new(clock.Clock)
	p := page.New(page.Config{Source: newBusyMachine(c), Keys: apikey.New(key), Clock: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	defer p.Close()
	local := page.Local(false, p)
	var hold atomic.Bool
	held, aborted := make(chan struct{}, 1), make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ui/snapshot" && hold.CompareAndSwap(true, false) {
			held <- struct{}{}
			<-r.Context().Done()
			aborted <- struct{}{}
			return
		}
		local.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close) // after the browser, whose tab may hold a request
	tab := chromium.Open(t).Tab(t, 800, 600, false)
	tab.Visit(server.URL + "/#code=" + p.Code())
	tab.Shows("#status", "Live")
	hold.Store(true)
	wait(t, held, "the page requests no further snapshot")
	tab.Click("#signout")
	wait(t, aborted, "the request for a snapshot continues after the sign-out")
	tab.Shows("#status", "Signed out")
	clean(t, tab, server.URL)
}

func wait(t *testing.T, event <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(time.Minute):
		t.Fatal(otherwise)
	}
}
