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

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// beacon calls a URL at its start, and then at regular intervals while it runs. A test that
// listens at the URL can count executions, and notice when they stop. The URL must be on this
// machine, where the test runs.
func beacon(ctx context.Context, job run.Job, input conformanceInput) ([]byte, error) {
	if u, err := url.Parse(input.URL); err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("invalid url: expected an http address of this machine")
	}
	end := job.Clock.Now().Add(time.Duration(input.MS) * time.Millisecond)
	for n := 0; ; n++ {
		if err := callBeacon(ctx, job, input.URL, n); err != nil {
			return nil, err
		}
		remaining := end.Sub(job.Clock.Now())
		if remaining <= 0 {
			return input.Output, nil
		}
		wait := time.Duration(input.Every) * time.Millisecond
		if wait == 0 || wait > remaining {
			return input.Output, job.Clock.Sleep(ctx, remaining)
		}
		if err := job.Clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// callBeacon makes the nth call. The job ignores a failed call.
func callBeacon(ctx context.Context, job run.Job, to string, n int) error {
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
	resp, err := loopbackClient.Do(req)
	switch {
	case errors.Is(err, errNotLoopback):
		return errNotLoopback
	case err == nil:
		_, _ = io.CopyN(io.Discard, resp.Body, 1<<10) // so that the connection can be used again
		_ = resp.Body.Close()
	}
	return ctx.Err()
}

var errNotLoopback = errors.New("invalid url: expected an address of this machine")

// loopbackClient connects only to loopback addresses, whatever a name resolves to, and follows
// no redirects.
var loopbackClient = &http.Client{
	Transport: &http.Transport{
		DialContext: (&net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
			if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
				return errNotLoopback
			}
			return nil
		}}).DialContext,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
