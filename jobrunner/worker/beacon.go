package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// beacon calls its URL when it begins, and then every so often while it runs:
// whoever listens there counts executions, and sees them stop. It calls this
// machine alone, where the test is.
func beacon(ctx context.Context, job Job, o order) ([]byte, error) {
	if u, err := url.Parse(o.URL); err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("invalid url: expected an http address of this machine")
	}
	end := job.Clock.Now().Add(time.Duration(o.MS) * time.Millisecond)
	for n := 0; ; n++ {
		if err := signal(ctx, job, o.URL, n); err != nil {
			return nil, err
		}
		left := end.Sub(job.Clock.Now())
		if left <= 0 {
			return o.Output, nil
		}
		wait := time.Duration(o.Every) * time.Millisecond
		if wait == 0 || wait > left {
			return o.Output, job.Clock.Sleep(ctx, left)
		}
		if err := job.Clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// signal makes the nth call. One that fails does not matter to the job.
func signal(ctx context.Context, job Job, to string, n int) error {
	defer job.Clock.Work()()
	body, err := json.Marshal(map[string]any{"id": job.ID, "attempt": job.Attempt, "n": n})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := beacons.Do(req)
	switch {
	case errors.Is(err, errNotHere):
		return errNotHere
	case err == nil:
		_, _ = io.CopyN(io.Discard, resp.Body, 1<<10) // so that the connection can be used again
		_ = resp.Body.Close()
	}
	return ctx.Err()
}

var errNotHere = errors.New("invalid url: expected an address of this machine")

// beacons makes the calls, at no address but the machine's own, whatever a name
// is looked up as and wherever an answer points.
var beacons = &http.Client{
	Transport: &http.Transport{
		DialContext: (&net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
			if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
				return errNotHere
			}
			return nil
		}}).DialContext,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
