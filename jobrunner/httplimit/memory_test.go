package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

func reserve(t *testing.T, m *httplimit.Memory, bytes int64) *httplimit.Hold {
	t.Helper()
	h, err := m.Reserve(bytes)
	must.Succeed(t, err, "reserving", bytes)
	return h
}

func expectFull(t *testing.T, m *httplimit.Memory, bytes int64) {
	t.Helper()
	must.FailWith(t, must.Err(m.Reserve(bytes)), httplimit.ErrMemory, "reserving", bytes, "expected ErrMemory")
}

func TestMemory(t *testing.T) {
	m := httplimit.NewMemory(100)
	a := reserve(t, m, 60)
	expectFull(t, m, 41)
	b := reserve(t, m, 40)
	expectFull(t, m, 1)
	a.Release()
	a.Release() // the second call is a no-op
	expectFull(t, m, 61)
	c := reserve(t, m, 60)
	b.Resize(10)
	c.Release()
	reserve(t, m, 90).Release()
	b.Release()
	oversized := reserve(t, m, 1000) // accepted as the only one
	expectFull(t, m, 1)
	oversized.Release()
	var unbounded *httplimit.Memory
	reserve(t, unbounded, 1<<60).Release()
}

// Waiters are served in order, and later requests don't overtake them.
func TestMemoryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := httplimit.NewMemory(100)
		a := reserve(t, m, 80)
		served := make(chan string, 2)
		wait := func(name string, bytes int64) {
			go func() {
				h, err := m.Wait(t.Context(), bytes)
				must.Hold(t, err == nil, err)
				served <- name
				time.Sleep(time.Second)
				h.Release()
			}()
			synctest.Wait()
		}
		wait("large", 90)
		wait("small", 20)
		expectFull(t, m, 20)
		a.Release()
		first, second := <-served, <-served
		must.Hold(t, first == "large" && second == "small", "served", first, second)
		time.Sleep(3 * time.Second)

		a = reserve(t, m, 100)
		start := time.Now()
		_, err := m.Wait(t.Context(), 1)
		must.Hold(t, errors.Is(err, httplimit.ErrMemory) && time.Since(start) == 30*time.Second, "after", time.Since(start), err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.FailWith(t, must.Err(m.Wait(ctx, 1)), context.DeadlineExceeded)
		a.Release()
		reserve(t, m, 100) // waiters that gave up reserve nothing
	})
}

// A Content-Length beyond the limit is rejected before a buffer of that size is allocated, even if the
// budget is unused.
func TestReadBodyBeyondLimit(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("x"))
	r.ContentLength = 1 << 40
	_, _, err := httplimit.NewMemory(5_000_000).ReadBody(r, r.Body, 1<<20, 1, false)
	tooLarge := new(http.MaxBytesError)
	must.Hold(t, errors.As(err, &tooLarge) && tooLarge.Limit == 1<<20, err)
}

// A body with a Content-Length reserves its memory at the start. Any other body reserves memory for
// the part that has arrived.
func TestReadBody(t *testing.T) {
	text := strings.Repeat("x", 1_000_000)
	for _, known := range []bool{true, false} {
		m := httplimit.NewMemory(5_000_000)
		r := httptest.NewRequest("POST", "/", strings.NewReader(text))
		if !known {
			r.ContentLength = -1
		}
		body, hold, err := m.ReadBody(r, iotest.HalfReader(r.Body), 1<<20, 1, false)
		must.Require(t, err == nil && string(body) == text, "length known:", known, len(body), "bytes,", err)
		expectFull(t, m, 5_000_000-1_000_000+1)
		hold.Release()
		reserve(t, m, 5_000_000)

		m = httplimit.NewMemory(500_000)
		reserve(t, m, 1)
		r.Body = io.NopCloser(strings.NewReader(text))
		_, _, err = m.ReadBody(r, r.Body, 1<<20, 1, false)
		must.Hold(t, errors.Is(err, httplimit.ErrMemory), "length known:", known, err)
		reserve(t, m, 499_999) // nothing is still reserved
	}
	m := httplimit.NewMemory(100_000)
	r := httptest.NewRequest("POST", "/", nil)
	r.ContentLength = 50_000
	broken := errors.New("broken")
	_, _, err := m.ReadBody(r, io.MultiReader(bytes.NewReader(make([]byte, 100)), iotest.ErrReader(broken)), 1<<20, 1, false)
	must.Hold(t, errors.Is(err, broken), err)
	reserve(t, m, 100_000)
}

func TestMachineMemory(t *testing.T) {
	budget := httplimit.DefaultMemory()
	must.Hold(t, budget >= 64<<20 && budget <= 4<<30, "the default budget is", budget)
}
