package api

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

type LogLine struct {
	Time   string `json:"ts"`     // RFC 3339
	Source string `json:"source"` // container or system
	Text   string `json:"line"`
	Number *int64 `json:"number,omitempty"` // in its log, from 0; only from a jobrunner
	Job    string `json:"jobId,omitempty"`  // the job that wrote it, if known; only from a jobrunner
	ID     string `json:"-"`                // id of its event
}

// LogQuery selects the lines of a log and limits the time to read it, because the API keeps the
// answer open for future lines.
type LogQuery struct {
	Source  string        // container or system; "" for both
	Tail    int64         // at most this many lines: the last ones, or the first ones after Since
	Since   string        // RFC 3339; "" for the last lines
	MaxTime time.Duration // to read
}

// quietLog is the silence after which a log counts as complete.
const quietLog = time.Second

// WorkerLog reads the log of an endpoint's worker (v2 only).
func (c *Client) WorkerLog(ctx context.Context, endpointID, workerID string, q LogQuery) ([]LogLine, error) {
	if err := cmp.Or(checkID("endpoint", endpointID), checkID("worker", workerID)); err != nil {
		return nil, err
	}
	if err := c.RedactEndpoint(ctx, endpointID); err != nil {
		return nil, err
	}
	return c.log(ctx, "/v2/serverless/"+endpointID+"/workers/"+workerID+"/logs", q)
}

// PodLog reads the log of a pod (v2 only).
func (c *Client) PodLog(ctx context.Context, podID string, q LogQuery) ([]LogLine, error) {
	if err := checkID("pod", podID); err != nil {
		return nil, err
	}
	if redact.FromContext(ctx) != nil {
		if _, err := c.Pods.Get(ctx, podID); err != nil { // adds its environment, which the log may contain, to the redact.Set
			return nil, err
		}
	}
	return c.log(ctx, "/v2/pods/"+podID+"/logs", q)
}

func (c *Client) log(ctx context.Context, path string, q LogQuery) (lines []LogLine, err error) {
	query := url.Values{}
	if q.Source != "" {
		query.Set("source", q.Source)
	}
	if q.Since != "" {
		query.Set("since", q.Since)
	} else {
		query.Set("tail", strconv.FormatInt(q.Tail, 10))
	}
	var malformed error // another try would get the same event
	_, err = c.deployment.Do(ctx, httpclient.Call{
		Method: http.MethodGet, URL: c.deployment.settings.BaseURL + path, Query: query, Accept: "text/event-stream", ExtraTime: q.MaxTime,
		Stream: func(answer *http.Response) (err error) {
			if lines, err = readEvents(answer, q); errors.Is(err, errEvent) {
				malformed, err = fmt.Errorf("GET %s: %w", answer.Request.URL, err), nil
			}
			return err
		},
	}, nil)
	if secrets := redact.FromContext(ctx); secrets != nil {
		for i := range lines {
			l := &lines[i]
			l.Time, l.Source, l.Text = secrets.Line(l.Time), secrets.Line(l.Source), secrets.Line(l.Text)
		}
	}
	return lines, cmp.Or(err, malformed)
}

// errEvent marks the errors of malformed events.
var errEvent = errors.New("an event of the log")

// readEvents reads server-sent events until the requested number is reached, the log ends or is
// silent for a while, or the time is up. A jobrunner announces the id of the last existing
// line: until that line arrives, silence doesn't end the read.
func readEvents(answer *http.Response, q LogQuery) (lines []LogLine, err error) {
	defer answer.Body.Close() // this ends the goroutine
	last := answer.Header.Get("Last-Event-ID")
	events, failed, done := make(chan LogLine), make(chan error, 1), make(chan struct{})
	defer close(done)
	go func() { failed <- scanEvents(answer.Body, events, done) }()
	end := time.NewTimer(q.MaxTime)
	defer end.Stop()
	silence := time.NewTimer(quietLog)
	defer silence.Stop()
	for int64(len(lines)) < q.Tail {
		select {
		case line := <-events:
			lines = append(lines, line)
			if line.ID == last {
				last = ""
			}
			silence.Reset(quietLog)
		case err := <-failed: // nil: the log ended
			return lines, err
		case <-silence.C:
			if last == "" {
				return lines, nil
			}
		case <-end.C:
			return lines, nil
		}
	}
	return lines, nil
}

// maxLogLine limits a line of an event, in bytes.
const maxLogLine = 1 << 20

func scanEvents(body io.Reader, events chan<- LogLine, done <-chan struct{}) error {
	scanner := bufio.NewScanner(body)
	scanner.Buffer(nil, maxLogLine)
	id := ""
	for scanner.Scan() {
		if value, ok := strings.CutPrefix(scanner.Text(), "id:"); ok {
			id = strings.TrimSpace(value)
		}
		data, ok := strings.CutPrefix(scanner.Text(), "data:")
		if !ok {
			continue
		}
		line := LogLine{ID: id}
		if err := httpclient.Decode([]byte(data), &line); err != nil {
			return fmt.Errorf("%w is not JSON: %w", errEvent, err)
		}
		select {
		case events <- line:
		case <-done:
			return nil
		}
	}
	if err := scanner.Err(); !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return fmt.Errorf("%w is larger than %d MiB: read only lines after it", errEvent, maxLogLine>>20)
}

// Texts that programs write are redacted on arrival if the context has a redact.Set, because
// Terraform stores and shows them. Other callers get them unchanged.

const maxReason = 2000 // characters

func redactTexts(secrets *redact.Set, texts ...*string) {
	for _, text := range texts {
		if secrets != nil && text != nil && *text != "" {
			*text = secrets.Text(*text, maxReason)
		}
	}
}

// RedactEndpoint adds the environment of an endpoint to the context's redact.Set, because its
// workers may print it.
func (c *Client) RedactEndpoint(ctx context.Context, id string) error {
	if redact.FromContext(ctx) == nil {
		return nil
	}
	_, err := c.Endpoints.Get(ctx, id)
	return err
}

// redactJob redacts the error of a job. It ignores a failure to read the endpoint, because a key
// that may run jobs need not have access to it.
func (j *Jobs) redactJob(ctx context.Context, endpointID string, job Job, err error) (Job, error) {
	if secrets := redact.FromContext(ctx); secrets != nil && job.Error != "" {
		_ = j.redactEndpoint(ctx, endpointID)
		job.Error = httpclient.FreeText(secrets.Lines(string(job.Error)))
	}
	return job, err
}
