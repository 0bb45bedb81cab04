package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// conformanceInput is the input of builtin/conformance. The comment of a field names the ops that use it.
type conformanceInput struct {
	Op      string
	MS      int64             // sleep: milliseconds to wait; stream: before each chunk; beacon: until the end
	N       int               // stream: chunks; bytes: length of the text
	Bytes   int               // stream: length of each chunk's text, 0 for {"n": 0}, {"n": 1} …; fail: length of an error that replaces message
	Times   *int              // crash, fail: how many dispatches crash or fail before a dispatch echoes; nil: all
	Message string            // fail: the error; stream: the error at its end, "" for success
	Output  json.RawMessage   // sleep, fail, stream, beacon: the job's output
	Outputs []json.RawMessage // stream: the chunks themselves
	URL     string            // beacon: called when the job begins; it must be on this machine
	Names   []string          // env: variables whose values are the output
	Every   int64             // beacon: milliseconds between further calls, for ms; 0: none
}

// read decodes the fields above. The input may have megabytes of other members.
func (o *conformanceInput) read(input []byte) error {
	fields := map[string]any{
		"op": &o.Op, "ms": &o.MS, "n": &o.N, "bytes": &o.Bytes, "times": &o.Times, "message": &o.Message,
		"output": &o.Output, "outputs": &o.Outputs, "url": &o.URL, "names": &o.Names, "every": &o.Every,
	}
	names := slices.Collect(maps.Keys(fields))
	members, ok := rawjson.Members(input, append(names, "openai_input")...)
	// In a request to /openai, the member openai_input has the body.
	if body, isOpenAI := members["openai_input"]; isOpenAI && string(body) != "null" {
		members, ok = rawjson.Members(body, names...)
	}
	if !ok {
		return errors.New("expected a JSON object")
	}
	for name, field := range fields {
		if text, ok := members[name]; ok {
			if err := json.Unmarshal(text, field); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// Bounds of an input, so that no job fills the memory.
const (
	maxOpBytes  = 64 << 20
	maxOpChunks = 100_000
	maxOpMS     = 7 * 24 * 60 * 60 * 1000
)

// ops are the ops of builtin/conformance.
var ops = map[string]func(ctx context.Context, job run.Job, o conformanceInput) ([]byte, error){
	"echo": func(_ context.Context, job run.Job, _ conformanceInput) ([]byte, error) { return job.Input, nil },
	"sleep": func(ctx context.Context, job run.Job, o conformanceInput) ([]byte, error) {
		return o.Output, pause(ctx, job, o)
	},
	"fail":   fail,
	"stream": stream,
	"bytes":  func(_ context.Context, _ run.Job, o conformanceInput) ([]byte, error) { return text(o.N), nil },
	"crash":  crash,
	"beacon": beacon,
	"env":    environ,
}

// conformance runs the op that its input names. It is for tests of a deployment.
func conformance(ctx context.Context, job run.Job) ([]byte, error) {
	var o conformanceInput
	if err := o.read(job.Input); err != nil {
		return nil, fmt.Errorf("invalid input of builtin/conformance: %w", err)
	}
	op, ok := ops[o.Op]
	switch {
	case !ok:
		return nil, fmt.Errorf("no such op: %q", o.Op)
	case o.N < 0 || o.Bytes < 0 || o.MS < 0 || o.MS > maxOpMS, o.Every < 0 || o.Every > maxOpMS,
		max(o.N, o.Bytes) > maxOpBytes, o.Op == "stream" && o.N > maxOpChunks:
		return nil, errors.New("n, bytes, ms or every is out of bounds")
	}
	return op(ctx, job, o)
}

func pause(ctx context.Context, job run.Job, o conformanceInput) error {
	if o.MS == 0 {
		return ctx.Err()
	}
	return job.Clock.Sleep(ctx, time.Duration(o.MS)*time.Millisecond)
}

func fail(_ context.Context, job run.Job, o conformanceInput) ([]byte, error) {
	if o.succeedsNow(job) {
		return job.Input, nil
	}
	switch {
	case o.Bytes > 0:
		o.Message = strings.Repeat("x", o.Bytes)
	case o.Message == "":
		o.Message = "failed as ordered"
	}
	return o.Output, errors.New(o.Message)
}

func crash(_ context.Context, job run.Job, o conformanceInput) ([]byte, error) {
	if o.succeedsNow(job) {
		return job.Input, nil
	}
	return nil, ErrCrashed
}

// succeedsNow reports whether the job was dispatched often enough to succeed. It is dispatched
// again after its worker's death or a client's retry.
func (o conformanceInput) succeedsNow(job run.Job) bool {
	return o.Times != nil && job.Attempt > *o.Times
}

func stream(ctx context.Context, job run.Job, o conformanceInput) ([]byte, error) {
	for i := range o.N {
		if err := pause(ctx, job, o); err != nil {
			return nil, err
		}
		chunk := fmt.Appendf(nil, `{"n":%d}`, i)
		switch {
		case i < len(o.Outputs):
			chunk = o.Outputs[i]
		case o.Bytes > 0:
			chunk = text(o.Bytes)
		}
		if err := job.Chunk(chunk); err != nil {
			return nil, err
		}
	}
	if o.Message != "" {
		return o.Output, errors.New(o.Message)
	}
	return o.Output, nil
}

// environ returns variables of the worker's environment.
func environ(_ context.Context, job run.Job, o conformanceInput) ([]byte, error) {
	values := map[string]string{}
	for _, name := range o.Names {
		values[name] = job.Spec.Env[name]
	}
	return json.Marshal(values)
}

// text returns a JSON string of n characters.
func text(n int) []byte {
	return slices.Concat([]byte{'"'}, bytes.Repeat([]byte{'x'}, n), []byte{'"'})
}

// ErrCrashed means that the worker died while it ran the job.
var ErrCrashed = errors.New("the worker crashed")

// builtin has the handlers of the images that need no set-up.
var builtin = map[string]run.Handler{
	"builtin/echo":        func(_ context.Context, job run.Job) ([]byte, error) { return job.Input, nil },
	"builtin/conformance": conformance,
}

// programs resolves the built-in images, and other images as run.Programs does.
type programs struct{ run.Programs }

// Program resolves an image. No configuration overrides a built-in image.
func (p programs) Program(image string) (run.Program, error) {
	if handle, ok := builtin[image]; ok {
		return run.Program{Handle: handle, FollowsClock: true, NeedsNoResources: true}, nil
	}
	return p.Programs.Program(image)
}

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
	defer job.Clock.BeginWork()()
	body, err := json.Marshal(map[string]any{"id": job.ID, "attempt": job.Attempt, "n": n})
	if err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(callCtx, http.MethodPost, to, bytes.NewReader(body))
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

// loopbackClient connects only to loopback, whatever a name resolves to, and follows no redirects.
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
