package workerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
)

// stream passes on a chunk of a job's output.
func (a *api) stream(w http.ResponseWriter, r *http.Request, t target) error {
	p, hold, err := a.readPost(r)
	if err != nil {
		return err
	}
	defer hold.Release()
	if p.output == nil {
		return httpanswer.Refuse(http.StatusBadRequest, "the chunk has no output: post {\"output\": …}")
	}
	return a.report(w, r, t, engine.Chunk(p.output, p.metrics), false)
}

// done takes a result, or a progress update. A result that can't be taken is
// not posted again: the job has failed then, and says why.
func (a *api) done(w http.ResponseWriter, r *http.Request, t target) error {
	defer a.Workers.Posting(t.endpoint, t.worker, t.job)()
	p, hold, err := a.readPost(r)
	defer hold.Release()
	var unusable *unusableError
	if errors.As(err, &unusable) && !unusable.progress {
		text := "the worker's result was refused: " + unusable.Error()
		if err := a.Workers.Report(context.WithoutCancel(r.Context()), t.endpoint, t.worker, t.job, engine.Fail(text, nil), false); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return a.report(w, r, t, p.report(), p.replace)
}

// report answers 200 also where nothing changed: the worker could do nothing
// about it. What it has to say counts although it hangs up.
func (a *api) report(w http.ResponseWriter, r *http.Request, t target, report engine.Report, replace bool) error {
	err := a.Workers.Report(context.WithoutCancel(r.Context()), t.endpoint, t.worker, t.job, report, replace)
	if err == nil {
		httpanswer.Bytes(w, http.StatusOK, []byte("{}"))
	}
	return err
}

// post is what a worker posts of a job: JSON, whatever its label.
type post struct {
	output   json.RawMessage // nil: none
	metrics  json.RawMessage // nil, or an object
	err      string          // of a job that failed
	progress bool            // the job goes on
	replace  bool            // by a fresh worker
}

// report is what a post to job-done means.
func (p post) report() engine.Report {
	switch {
	case p.progress:
		return engine.Progress(p.output)
	case p.err != "":
		return engine.Fail(p.err, p.output)
	}
	return engine.Done(p.output)
}

// unusableError is of a body that says nothing: 400.
type unusableError struct {
	*httpanswer.Refusal
	progress bool // it would have been a progress update
}

func (e *unusableError) Unwrap() error { return e.Refusal }

func unusable(body []byte, format string, args ...any) error {
	return &unusableError{httpanswer.Refuse(http.StatusBadRequest, format, args...), beginsAsProgress(body)}
}

// readPost reads a body. What is wrong with it is an *unusableError; where it
// did not come whole the worker, if it lives, posts it again.
func (a *api) readPost(r *http.Request) (p post, hold *httplimit.Hold, err error) {
	if r.ContentLength > maxBody { // nothing but its beginning matters
		r.ContentLength = maxBody
	}
	body, hold, err := a.Bodies.ReadBody(r, io.LimitReader(r.Body, maxBody+1), 1, true)
	if errors.Is(err, httplimit.ErrMemory) {
		return p, nil, err // the connection is of use for the next try
	}
	if err != nil {
		return p, nil, httpanswer.BodyRefused(r.Context(), err)
	}
	if len(body) > maxBody {
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
		return p, hold, unusable(body, "it is larger than %d bytes: return a reference to the data instead, such as a URL", maxBody)
	}
	body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	members, ok := rawjson.Members(body, "output", "metrics", "status", "stopPod", "error")
	if !ok {
		if fault := rawjson.Fault(body); fault != nil {
			return p, hold, unusable(body, "it is not a JSON object, %s", fault)
		}
		return p, hold, unusable(body, "it is not a JSON object")
	}
	p.output, p.metrics = members["output"], members["metrics"]
	if len(p.metrics) > 0 && p.metrics[0] != '{' {
		p.metrics = nil
	}
	p.progress = string(members["status"]) == `"IN_PROGRESS"`
	p.replace = string(members["stopPod"]) == "true"
	if e := members["error"]; len(e) > 0 && string(e) != "null" {
		p.err = errorText(e)
		if string(p.output) == "null" {
			p.output = nil
		}
	}
	return p, hold, nil
}

// errorText makes the text of any JSON, for clients always see one.
func errorText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	if text == "" {
		text = "the handler failed and did not say why"
	}
	return text
}

// beginsAsProgress tells whether a body that can't be read began like a progress
// update, whose status the public SDK writes first: the job it is about goes on.
func beginsAsProgress(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	for _, want := range []json.Token{json.Delim('{'), "status", "IN_PROGRESS"} {
		if got, err := d.Token(); err != nil || got != want {
			return false
		}
	}
	return true
}
