package jobrunner_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// hangingReceivers are servers that accept a webhook and do not answer.
type hangingReceivers struct {
	urls  []string
	calls chan struct{} // one for each call that began

	open, most atomic.Int64
	first      sync.Once
	began      time.Time // of the first call
}

func startHanging(t *testing.T, n int) *hangingReceivers {
	t.Helper()
	h := &hangingReceivers{calls: make(chan struct{}, 10_000)}
	end := make(chan struct{})
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		h.first.Do(func() { h.began = time.Now() })
		now := h.open.Add(1)
		defer h.open.Add(-1)
		for most := h.most.Load(); now > most && !h.most.CompareAndSwap(most, now); most = h.most.Load() {
		}
		h.calls <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-end:
		}
	})
	for range n {
		server := httptest.NewServer(hang)
		t.Cleanup(server.Close)
		h.urls = append(h.urls, server.URL)
	}
	t.Cleanup(func() { close(end) })
	return h
}

// Receivers that hang, at a hundred endpoints of one owner, delay no call of
// another owner.
func TestHangingReceiversOfAnotherOwner(t *testing.T) { onEach(t, testHangingReceivers) }

func testHangingReceivers(t *testing.T, c jobrunner.Config) {
	endpoints := 100
	if testing.Short() {
		endpoints = 40
	}
	hanging := startHanging(t, endpoints)
	arrived := make(chan time.Time, 10)
	good := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- time.Now() }))
	t.Cleanup(good.Close)
	c.KeyDir, c.NoJobLimits = t.TempDir(), true
	d := deployWith(t, c)
	keys := map[string]string{}
	for _, owner := range []string{"hangs", "good"} {
		key, err := apikey.At(c.KeyDir).Add(owner, nil)
		if err != nil {
			t.Fatal(err)
		}
		keys[owner] = key
	}
	submit := func(owner, endpoint, url string) {
		t.Helper()
		if status, _ := d.as(keys[owner], "POST", "/v2/"+endpoint+"/run", `{"input": {}, "webhook": "`+url+`/x"}`); status != 200 {
			t.Fatalf("a submission of %s: %d", owner, status)
		}
	}
	var ids []string
	for i := range endpoints + 1 {
		e := echo(fmt.Sprint("e", i))
		e.Workers.Max = 1
		made, err := d.client(api.V2).Endpoints.Create(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	for i, url := range hanging.urls {
		submit("hangs", ids[i], url)
	}
	for range 32 { // an owner's share
		select {
		case <-hanging.calls:
		case <-time.After(time.Minute):
			t.Fatalf("%d receivers are called at a time", hanging.most.Load())
		}
	}
	submit("good", ids[endpoints], good.URL) // an endpoint of its own
	submit("good", ids[0], good.URL)         // and one of the other owner
	for range 2 {
		select {
		case at := <-arrived: // no call had timed out by then
			if after := at.Sub(hanging.began); after >= 9*time.Second {
				t.Errorf("a call came %s after the first that hangs, expected less than nine: the time-out is ten", after)
			} else {
				t.Logf("a call came %s after the first that hangs", after)
			}
		case <-time.After(time.Minute):
			t.Fatal("no call comes")
		}
	}
	if most := hanging.most.Load(); most > 32 {
		t.Errorf("%d calls of one owner at a time, expected 32 at most", most)
	}
}
