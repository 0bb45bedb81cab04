package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// The exit statuses of dev --once.
const (
	exitFailed    = 1 // the job FAILED
	exitUnstarted = 2 // no worker can start, or the input is of no use
	exitTimedOut  = 3
	exitWithout   = 4 // the job was cancelled, or is gone
)

// ended says with which status the process is to end.
type ended struct {
	status int
	text   string
}

func (e *ended) Error() string { return e.text }

// submissionOf makes a job's submission of what --input says: JSON, or the name
// of a file that has it. It is the input, or an object with the member input.
func submissionOf(input string) ([]byte, error) {
	text := []byte(strings.TrimSpace(input))
	if !bytes.HasPrefix(text, []byte("{")) {
		var err error
		if text, err = os.ReadFile(input); err != nil {
			return nil, fmt.Errorf("--input %s is neither a JSON object nor a file: %w", input, err)
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("--input %s: expected a JSON object: %w", input, err)
	}
	if inner, ok := members["input"]; ok && bytes.HasPrefix(bytes.TrimSpace(inner), []byte("{")) {
		return text, nil
	}
	return json.Marshal(map[string]json.RawMessage{"input": text})
}

// devJob is the job API's view of a job.
type devJob struct {
	ID            string          `json:"id"`
	Status        string          `json:"status"`
	DelayTime     int64           `json:"delayTime"`
	ExecutionTime int64           `json:"executionTime"`
	Output        json.RawMessage `json:"output"`
	Error         string          `json:"error"`
}

func (j devJob) isOver() bool { return j.Status != "IN_QUEUE" && j.Status != "IN_PROGRESS" }

// send sends a job and waits for its end. Where no worker can start, and once is
// set, it does not wait on.
func (e *devEndpoint) send(ctx context.Context, input string, once bool) (job devJob, err error) {
	body, err := submissionOf(input)
	if err != nil {
		return job, &ended{exitUnstarted, err.Error()}
	}
	if err := e.call(ctx, http.MethodPost, "/v2/"+e.id+"/run", json.RawMessage(body), &job); err != nil {
		return job, &ended{exitUnstarted, "the job was refused: " + err.Error()}
	}
	for !job.isOver() {
		// Short waits: meanwhile a worker may turn out not to start.
		if err := e.call(ctx, http.MethodPost, "/live/v2/"+e.id+"/status-sync/"+job.ID+"?wait=1000", struct{}{}, &job); err != nil {
			return job, err
		}
		if once && job.Status == "IN_QUEUE" {
			var health struct{ Reason string }
			if err := e.call(ctx, http.MethodGet, "/v2/"+e.id+"/health", nil, &health); err == nil && health.Reason != "" {
				return job, &ended{exitUnstarted, "the handler does not start: " + health.Reason}
			}
		}
	}
	return job, nil
}

// describe is a job's end in lines for people.
func (j devJob) describe() string {
	took := time.Duration(j.ExecutionTime) * time.Millisecond
	waited := time.Duration(j.DelayTime) * time.Millisecond
	text := fmt.Sprintf("%s in %s, after %s in the queue (job %s)", j.Status, took, waited, shortID(j.ID))
	if j.Error != "" {
		text += "\n" + logline.Failure(j.Error)
	}
	if len(j.Output) > 0 {
		text += "\n" + j.pretty()
	}
	return text
}

func (j devJob) pretty() string {
	var out bytes.Buffer
	if json.Indent(&out, j.Output, "", "  ") != nil {
		return string(j.Output)
	}
	return out.String()
}

// verdict is the exit status of --once as an error; nil is COMPLETED.
func (j devJob) verdict() error {
	status := map[string]int{"FAILED": exitFailed, "TIMED_OUT": exitTimedOut}[j.Status]
	switch {
	case j.Status == "COMPLETED":
		return nil
	case status == 0:
		status = exitWithout
	}
	text := "the job is " + j.Status
	if j.Error != "" {
		text += ": " + logline.Failure(j.Error)
	}
	return &ended{status, text}
}

// awaitRollout waits until no worker of an older version takes jobs any more.
func (e *devEndpoint) awaitRollout(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var list struct {
			Workers []struct{ IsStale bool }
		}
		if err := e.call(ctx, http.MethodGet, "/v2/serverless/"+e.id+"/workers", nil, &list); err != nil {
			return err
		}
		stale := false
		for _, w := range list.Workers {
			stale = stale || w.IsStale
		}
		if !stale {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// jobs sends a job again whenever it is told to, and shows what comes of it. A
// job that still runs then is cancelled.
type jobs struct {
	e     *devEndpoint
	input string
	to    *terminal
	stop  context.CancelFunc // of the one that runs
	done  chan struct{}
}

// wait waits for what is under way, which ends with its context.
func (s *jobs) wait() { <-s.done }

func (s *jobs) resubmit(ctx context.Context) {
	if s.stop != nil {
		s.stop()
		<-s.done
	}
	own, stop := context.WithCancel(ctx)
	s.stop, s.done = stop, make(chan struct{})
	go func() {
		defer close(s.done)
		if err := s.e.awaitRollout(own); err != nil {
			return
		}
		s.to.show("JOB", "", "sent")
		job, err := s.e.send(own, s.input, false)
		switch {
		case ctx.Err() != nil: // the end of all
		case own.Err() != nil && job.ID != "":
			ctx, cancel := context.WithTimeout(context.WithoutCancel(own), 5*time.Second)
			defer cancel()
			_ = s.e.call(ctx, http.MethodPost, "/v2/"+s.e.id+"/cancel/"+job.ID, struct{}{}, nil) // it may be over
		case own.Err() != nil:
		case err != nil:
			s.to.show("ERROR", "", err.Error())
		default:
			s.to.show("JOB", "", job.describe())
		}
	}()
}

// once sends one job, and answers what its end means for the exit status.
func (e *devEndpoint) once(ctx context.Context, input string, to *terminal) error {
	job, err := e.send(ctx, input, true)
	switch {
	case ctx.Err() != nil:
		return &ended{exitWithout, "interrupted"}
	case err != nil:
		if stop, ok := errors.AsType[*ended](err); ok {
			return stop
		}
		return &ended{exitWithout, err.Error()}
	}
	to.show("JOB", "", fmt.Sprintf("%s in %s", job.Status, time.Duration(job.ExecutionTime)*time.Millisecond))
	if len(job.Output) > 0 {
		fmt.Println(job.pretty())
	}
	return job.verdict()
}
