package jobrunner_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// hangingReceivers are servers that accept a webhook call and never respond.
type hangingReceivers struct {
	urls []string

	mu   sync.Mutex
	open map[*http.Request]time.Time // since when
	most int
}

// full waits until an owner's share of calls is open, and returns the start of the oldest.
func (h *hangingReceivers) full(t *testing.T) (began time.Time) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		h.mu.Lock()
		n := len(h.open)
		began = time.Now()
		for _, at := range h.open {
			if at.Before(began) {
				began = at
			}
		}
		h.mu.Unlock()
		if n >= 32 {
			return began
		}
	}
	t.Fatal("fewer than 32 receivers are called at a time")
	return began
}

func startHanging(t *testing.T, n int) *hangingReceivers {
	t.Helper()
	h := &hangingReceivers{open: map[*http.Request]time.Time{}}
	end := make(chan struct{})
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.open[r] = time.Now()
		h.most = max(h.most, len(h.open))
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.open, r)
		}()
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

// Hanging receivers at a hundred endpoints of one owner don't delay calls of another owner.
func TestHangingReceiversOfAnotherOwner(t *testing.T) {
	acctest.LeaveToCI(t, "webhook.TestOwnerWithHangingReceivers has it")
	onEach(t, testHangingReceivers)
}

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
	keys := map[string]string{}
	for _, owner := range []string{"hangs", "good"} { // before the start, which PostgreSQL takes them over at
		key, err := apikey.At(c.KeyDir).Add(apikey.Key{Name: owner})
		if err != nil {
			t.Fatal(err)
		}
		keys[owner] = key
	}
	d := deployWith(t, c)
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
		ids = append(ids, d.create(e))
	}
	for i, url := range hanging.urls {
		submit("hangs", ids[i], url)
	}
	// A call that waits for a hanging one comes only after its timeout of ten seconds. On a busy
	// machine any call may be that late, but a call that doesn't wait is faster in one of the
	// tries.
	sooner := func() bool {
		began := hanging.full(t)
		submit("good", ids[endpoints], good.URL) // an endpoint of its own
		submit("good", ids[0], good.URL)         // and one of the other owner
		var after time.Duration
		for range 2 {
			select {
			case at := <-arrived:
				after = max(after, at.Sub(began))
			case <-time.After(time.Minute):
				t.Fatal("no call comes")
			}
		}
		t.Logf("the calls came %s after the oldest that hangs", after)
		return after < 9*time.Second
	}
	for tries := 1; !sooner(); tries++ {
		if tries == 3 {
			t.Error("calls of another owner wait for those that hang")
			break
		}
	}
	hanging.mu.Lock()
	defer hanging.mu.Unlock()
	if hanging.most > 32 {
		t.Errorf("%d calls of one owner at a time, expected 32 at most", hanging.most)
	}
}
