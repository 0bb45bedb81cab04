package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// serveInBubble runs a test against a server with a handler, in a synctest bubble.
func serveInBubble(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := pipenet.Listen()
		listener := httplimit.Listen(network, httplimit.Config{})
		server := &http.Server{
			Handler: httplimit.LimitBodies(handler), ConnState: listener.ConnState, ConnContext: listener.ConnContext,
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		}
		go server.Serve(listener)
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				c.Close()
			}
			server.Close()
			time.Sleep(25 * time.Hour) // until every sender has noticed the close
		}()
		test(t, func() net.Conn {
			c := must.Do(network.Dial(t.Context(), "", ""))(t)
			conns = append(conns, c)
			return c
		})
	})
}

// send writes a body in pieces, one per interval, until a write fails.
func send(c net.Conn, length, piece int, interval time.Duration) {
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", length); err != nil {
		return
	}
	for rest := length; rest > 0; rest -= piece {
		if rest < length {
			time.Sleep(interval)
		}
		if _, err := io.WriteString(c, strings.Repeat("x", min(piece, rest))); err != nil {
			return
		}
	}
}

func readAnswer(t *testing.T, from *bufio.Reader) (status int, body string, closes bool) {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	must.Succeed(t, err, "reading the answer:")
	text, err := io.ReadAll(resp.Body)
	must.Succeed(t, err, "reading the answer's body:")
	return resp.StatusCode, string(text), resp.Close
}

// expectClosed expects that a connection is closed within seconds.
func expectClosed(t *testing.T, c net.Conn, from *bufio.Reader, seconds int) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Duration(seconds) * time.Second))
	b, err := from.ReadByte()
	must.Hold(t, errors.Is(err, io.EOF), "the connection is still open: a read returned", b, err)
}

// readAll is a handler that answers with the body's length, or 408 if the body is slow.
func readAll(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if errors.Is(err, httplimit.ErrSlowBody) {
		http.Error(w, err.Error(), http.StatusRequestTimeout)
		return
	}
	fmt.Fprint(w, len(body))
}

// A body must arrive at 4 KiB/s. Slightly above that rate it may take hours.
func TestMinimumRate(t *testing.T) {
	for name, c := range map[string]struct {
		length, piece int
		interval      time.Duration
		status        int
		seconds       float64 // until the answer
	}{
		"a byte a minute":        {1000, 1, time.Minute, 408, 20},
		"a byte, then nothing":   {1000, 1, 24 * time.Hour, 408, 20},
		"3 KiB/s":                {20 << 20, 3 << 10, time.Second, 408, 20},
		"fast, and then nothing": {1<<20 + 1, 1 << 20, 24 * time.Hour, 408, 20},
		"5 KiB/s":                {20 << 20, 5 << 10, time.Second, 200, 4095},
		"in bursts":              {20 << 20, 100 << 10, 19 * time.Second, 200, 204 * 19},
		"small and late":         {2, 1, 19 * time.Second, 200, 19},
	} {
		t.Run(name, func(t *testing.T) {
			serveInBubble(t, readAll, func(t *testing.T, dial func() net.Conn) {
				conn, start := dial(), time.Now()
				go send(conn, c.length, c.piece, c.interval)
				from := bufio.NewReader(conn)
				status, body, closes := readAnswer(t, from)
				duration := time.Since(start).Seconds()
				must.Hold(t, status == c.status && duration == c.seconds && closes == (status == 408),
					"got", status, body, "after", duration, "s, closing the connection:", closes, "; want", c.status, "after", c.seconds, "s")
				if status == 408 {
					expectClosed(t, conn, from, 2)
				}
			})
		})
	}
}

// An answer that doesn't need the body doesn't wait for the body, and the connection is closed.
func TestUnreadBody(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	for name, handler := range map[string]http.HandlerFunc{"refuses": refuse, "writes nothing": func(http.ResponseWriter, *http.Request) {}} {
		for _, length := range []int{1000, 20 << 20} {
			t.Run(fmt.Sprint(name, " ", length), func(t *testing.T) {
				serveInBubble(t, handler, func(t *testing.T, dial func() net.Conn) {
					conn, start := dial(), time.Now()
					go send(conn, length, 1, time.Minute)
					from := bufio.NewReader(conn)
					_, _, closes := readAnswer(t, from)
					duration := time.Since(start)
					must.Hold(t, duration <= time.Second && closes, "answered after", duration, "closing the connection:", closes)
					expectClosed(t, conn, from, 2)
				})
			})
		}
	}
}

// A connection is reused after a body that has arrived, read or unread.
func TestConnectionIsReused(t *testing.T) {
	serveInBubble(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" {
			io.Copy(io.Discard, r.Body)
		}
		w.WriteHeader(http.StatusForbidden)
	}, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		from := bufio.NewReader(conn)
		for _, path := range []string{"/read", "/", "/read", "/"} {
			go fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", path)
			status, _, closes := readAnswer(t, from)
			must.Hold(t, status == 403 && !closes, path, "answered", status, "closing the connection:", closes)
			time.Sleep(time.Minute)
		}
	})
}

// A request whose body has arrived may take long. It isn't cancelled, nor is the next request of its connection.
func TestLongRequestIsNotCancelled(t *testing.T) {
	serveInBubble(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(5 * time.Minute):
		case <-r.Context().Done():
			w.WriteHeader(http.StatusTeapot)
		}
	}, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		from := bufio.NewReader(conn)
		for range 3 {
			go send(conn, 1000, 500, 3*time.Second)
			status, _, _ := readAnswer(t, from)
			must.Hold(t, status == 200, "the request was cancelled:", status)
		}
	})
}

// A body that another program reads may pause for less than a minute.
func TestAllowPauses(t *testing.T) {
	for pause, want := range map[time.Duration]int{50 * time.Second: 200, 70 * time.Second: 408} {
		serveInBubble(t, func(w http.ResponseWriter, r *http.Request) {
			httplimit.AllowPauses(r)
			readAll(w, r)
			r.Body.Close()
		}, func(t *testing.T, dial func() net.Conn) {
			conn := dial()
			go send(conn, 3, 1, pause)
			from := bufio.NewReader(conn)
			status, body, _ := readAnswer(t, from)
			must.Hold(t, status == want, "with pauses of", pause, "the status is", status, "want", want)
			if want == 408 {
				must.Contain(t, body, "send at least 1 bytes in every 1m0s")
				expectClosed(t, conn, from, 2)
			}
		})
	}
}

// A client that reads its answer more slowly than 4 KiB/s is disconnected.
func TestSlowReaderIsDisconnected(t *testing.T) {
	const size = 4 << 20
	for name, c := range map[string]struct {
		interval time.Duration // of reads of 5 KiB
		want     int
	}{"5 KiB/s": {time.Second, size}, "2 KiB/s": {2500 * time.Millisecond, 0}, "nothing": {time.Hour, 0}} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan time.Time, 1)
			var writeErr error
			serveInBubble(t, func(w http.ResponseWriter, _ *http.Request) {
				_, writeErr = w.Write(make([]byte, size))
				ended <- time.Now()
			}, func(t *testing.T, dial func() net.Conn) {
				conn, start := dial(), time.Now()
				fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
				bytesRead := 0
				for piece := make([]byte, 5<<10); ; {
					time.Sleep(c.interval)
					n, err := io.ReadFull(conn, piece)
					if bytesRead += n; err != nil {
						break
					}
				}
				duration := (<-ended).Sub(start)
				must.Hold(t, c.want <= 0 || writeErr == nil && bytesRead >= c.want, "the client read", bytesRead, "bytes; the server", writeErr)
				must.Hold(t, c.want != 0 || writeErr != nil && duration >= 20*time.Second && duration <= 30*time.Second,
					"writing ended after", duration, "with the error", writeErr, "want an error after 20 to 30 s")
			})
		})
	}
}

func reserve(t *testing.T, m *httplimit.Memory, bytes int64) *httplimit.Reservation {
	t.Helper()
	r, err := m.Reserve(bytes)
	must.Succeed(t, err, "reserving", bytes)
	return r
}

func expectFull(t *testing.T, m *httplimit.Memory, bytes int64) {
	t.Helper()
	must.ErrorIs(t, must.Err(m.Reserve(bytes)), httplimit.ErrMemory, "reserving", bytes, "expected ErrMemory")
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
	b.Release()
	c.Release()
	oversized := reserve(t, m, 1000) // accepted as the only one
	expectFull(t, m, 1)
	oversized.Release()
}

// Waiters are served in order, and later requests don't overtake them.
func TestMemoryServesWaitersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := httplimit.NewMemory(100)
		a := reserve(t, m, 80)
		served := make(chan string, 2)
		startWaiter := func(name string, bytes int64) {
			go func() {
				r, err := m.ReserveWhenFree(t.Context(), bytes)
				must.Hold(t, err == nil, err)
				served <- name
				time.Sleep(time.Second)
				r.Release()
			}()
			synctest.Wait()
		}
		startWaiter("large", 90)
		startWaiter("small", 20)
		expectFull(t, m, 20)
		a.Release()
		first, second := <-served, <-served
		must.Hold(t, first == "large" && second == "small", "served the waiter", first, "before", second)
		time.Sleep(3 * time.Second)

		a = reserve(t, m, 100)
		start := time.Now()
		_, err := m.ReserveWhenFree(t.Context(), 1)
		must.Hold(t, errors.Is(err, httplimit.ErrMemory) && time.Since(start) == 30*time.Second, "gave up after", time.Since(start), err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.ErrorIs(t, must.Err(m.ReserveWhenFree(ctx, 1)), context.DeadlineExceeded)
		a.Release()
		reserve(t, m, 100) // waiters that gave up reserve nothing
	})
}

// A Content-Length beyond the limit is rejected before its buffer is allocated, even with a free budget.
func TestReadBodyBeyondLimit(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("x"))
	r.ContentLength = 1 << 40
	_, _, err := httplimit.NewMemory(5_000_000).ReadBody(r, r.Body, 1<<20, 1, false)
	tooLarge := new(http.MaxBytesError)
	must.Hold(t, errors.As(err, &tooLarge) && tooLarge.Limit == 1<<20, "a Content-Length of 1<<40 bytes returned", err)
}

// A Content-Length reserves its memory at the start. Other bodies reserve it as they arrive.
func TestReadBody(t *testing.T) {
	text := strings.Repeat("x", 1_000_000)
	for _, known := range []bool{true, false} {
		m := httplimit.NewMemory(5_000_000)
		r := httptest.NewRequest("POST", "/", strings.NewReader(text))
		if !known {
			r.ContentLength = -1
		}
		body, reservation, err := m.ReadBody(r, iotest.HalfReader(r.Body), 1<<20, 1, false)
		must.Require(t, err == nil && string(body) == text, "length known:", known, len(body), "bytes,", err)
		expectFull(t, m, 5_000_000-1_000_000+1)
		reservation.Release()
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
	must.Hold(t, errors.Is(err, broken), "a broken body returned", err)
	reserve(t, m, 100_000)
}
