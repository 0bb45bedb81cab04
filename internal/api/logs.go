package api

import (
	"bufio"
	"context"
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

// LogLine is a line of the log of a worker or pod.
type LogLine struct {
	Time   string `json:"ts" tfsdk:"ts"`         // RFC 3339
	Source string `json:"source" tfsdk:"source"` // container or system
	Text   string `json:"line" tfsdk:"line"`
	Job    string `json:"jobId,omitempty" tfsdk:"-"` // a jobrunner's: the job that wrote it, if that is known
	ID     string `json:"-" tfsdk:"-"`               // of its event
}

// Number counts a worker's lines from 0, as a jobrunner does at the end of an id; other
// deployments may have other ids.
func (l LogLine) Number() (n int64, known bool) {
	_, text, _ := strings.Cut(l.ID, "/")
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// LogQuery chooses the lines of a log, and bounds the time that reading it takes: the
// API keeps the answer open for lines to come.
type LogQuery struct {
	Source string        // container or system; "" for both
	Tail   int64         // lines at most; the last ones, or the first ones since Since
	Since  string        // RFC 3339; "" for the last lines
	For    time.Duration // the longest that is read
}

// quietLog is how long a log is silent before it counts as read to its end.
const quietLog = time.Second

// WorkerLog reads the log of an endpoint's worker (v2 only).
func (c *Client) WorkerLog(ctx context.Context, endpointID, workerID string, q LogQuery) ([]LogLine, error) {
	if !ValidID(endpointID) || !ValidID(workerID) {
		return nil, fmt.Errorf("%q and %q can't be the ids of an endpoint and its worker: an id has letters, digits, - and _ only", endpointID, workerID)
	}
	if err := c.LearnEndpoint(ctx, endpointID); err != nil {
		return nil, err
	}
	return c.log(ctx, "/v2/serverless/"+endpointID+"/workers/"+workerID+"/logs", q)
}

// PodLog reads the log of a pod (v2 only).
func (c *Client) PodLog(ctx context.Context, podID string, q LogQuery) ([]LogLine, error) {
	if !ValidID(podID) {
		return nil, fmt.Errorf("%q can't be the id of a pod: an id has letters, digits, - and _ only", podID)
	}
	if redact.FromContext(ctx) != nil {
		if _, err := c.Pods.Get(ctx, podID); err != nil { // its environment, which the log may repeat
			return nil, err
		}
	}
	return c.log(ctx, "/v2/pods/"+podID+"/logs", q)
}

func (c *Client) log(ctx context.Context, path string, q LogQuery) (lines []LogLine, err error) {
	query := url.Values{"tail": {strconv.FormatInt(q.Tail, 10)}}
	if q.Source != "" {
		query.Set("source", q.Source)
	}
	if q.Since != "" {
		query.Del("tail")
		query.Set("since", q.Since)
	}
	err = c.deployment.Do(ctx, httpclient.Call{
		Method: http.MethodGet, URL: c.deployment.settings.BaseURL + path, Query: query, Accept: "text/event-stream", ExtraTime: q.For,
		Stream: func(answer *http.Response) (err error) {
			lines, err = readEvents(answer, q)
			return err
		},
	}, nil)
	redactLog(ctx, lines)
	return lines, err
}

// readEvents reads server-sent events until there are as many as asked for, the log
// ends, is silent for a while, or the time is up. A jobrunner names the last line that
// existed when it answered: until that one arrives, silence isn't the end.
func readEvents(answer *http.Response, q LogQuery) (lines []LogLine, err error) {
	defer answer.Body.Close() // ends the goroutine
	last := answer.Header.Get("Last-Event-ID")
	events, failed, done := make(chan LogLine), make(chan error, 1), make(chan struct{})
	defer close(done)
	go func() { failed <- scanEvents(answer.Body, events, done) }()
	end := time.NewTimer(q.For)
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

// maxLogLine bounds a line, in bytes.
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
			return fmt.Errorf("an event of the log is not JSON: %w", err)
		}
		select {
		case events <- line:
		case <-done:
			return nil
		}
	}
	return scanner.Err()
}
