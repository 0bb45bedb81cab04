package workerapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
)

func (a *api) stream(w http.ResponseWriter, r *http.Request, t target) error {
	p, reservation, err := a.readPost(r)
	defer reservation.Release()
	if err == nil && p.output == nil {
		err = newUnusableError(nil, "the chunk has no output: post {\"output\": …}")
	}
	if unusable, ok := errors.AsType[*unusableError](err); ok {
		t.Note("a chunk of job " + t.job + " was rejected and is lost: " + unusable.Error())
	}
	if err != nil {
		return err
	}
	return a.report(w, r, t, engine.Chunk(p.output, p.metrics), false)
}

// done reports a result or progress. A worker doesn't send a rejected result again, so the job fails with the
// reason.
func (a *api) done(w http.ResponseWriter, r *http.Request, t target) error {
	defer t.BeginPost(t.job)()
	p, reservation, err := a.readPost(r)
	defer reservation.Release()
	switch unusable, ok := errors.AsType[*unusableError](err); {
	case ok && unusable.progress:
		t.Note("a progress update of job " + t.job + " was rejected and is lost: " + unusable.Error())
	case ok:
		text := "the worker's result was rejected: " + unusable.Error()
		if err := t.Report(context.WithoutCancel(r.Context()), t.job, engine.Fail(text, nil), false); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return a.report(w, r, t, p.report(), p.replace)
}

// report answers 200 even if the report changed nothing, because the worker can't
// correct that. The report counts even if the worker disconnects.
func (a *api) report(w http.ResponseWriter, r *http.Request, t target, report engine.Report, replace bool) error {
	err := t.Report(context.WithoutCancel(r.Context()), t.job, report, replace)
	if err == nil {
		httpanswer.Bytes(w, http.StatusOK, []byte("{}"))
	}
	return err
}

// post is the JSON that a worker posts about a job, under any content type.
type post struct {
	output   json.RawMessage // nil if there is no output
	metrics  json.RawMessage // nil or an object
	err      string          // error of a failed job
	progress bool            // a progress update; the job continues
	replace  bool            // a fresh worker replaces this worker
}

func (p post) report() engine.Report {
	switch {
	case p.progress:
		return engine.Progress(p.output)
	case p.err != "":
		return engine.Fail(p.err, p.output)
	}
	return engine.Done(p.output)
}

// unusableError rejects an invalid body with 400.
type unusableError struct {
	*httpanswer.Refusal
	progress bool // the body starts as a progress update
}

func (e *unusableError) Unwrap() error { return e.Refusal }

func newUnusableError(body []byte, format string, args ...any) error {
	return &unusableError{httpanswer.Refuse(http.StatusBadRequest, format, args...), startsAsProgress(body)}
}

// readPost returns an *unusableError for an invalid body, but not for an incomplete body, which the worker
// posts again. The caller must release the reservation, also after an error.
func (a *api) readPost(r *http.Request) (p post, reservation *httplimit.Reservation, err error) {
	if r.ContentLength > maxBody { // ReadBody would reject the body, but startsAsProgress needs its start
		r.ContentLength = maxBody + 1
	}
	body, reservation, err := a.Bodies.ReadBody(r, io.LimitReader(r.Body, maxBody+1), maxBody+1, 1, true)
	if err != nil {
		return p, nil, httpanswer.BodyRefused(r.Context(), err)
	}
	if len(body) > maxBody {
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
		return p, reservation, newUnusableError(body, "the body is larger than %d bytes: return a reference to the data instead, such as a URL", maxBody)
	}
	if !utf8.Valid(body) { // ToValidUTF8 always copies
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	members, ok := rawjson.Members(body, "output", "metrics", "status", "stopPod", "error")
	if !ok {
		if fault := rawjson.Fault(body); fault != nil {
			return p, reservation, newUnusableError(body, "the body is not a JSON object, %s", fault)
		}
		return p, reservation, newUnusableError(body, "the body is not a JSON object")
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
	return p, reservation, nil
}

// errorText converts an error of any JSON type to a text, as clients expect.
func errorText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return cmp.Or(text, "the handler failed without an error message")
}

// startsAsProgress reports whether an invalid body starts like a progress update, in which the public
// SDK writes the status first. After such an update, the job continues.
func startsAsProgress(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	for _, want := range []json.Token{json.Delim('{'), "status", "IN_PROGRESS"} {
		if got, err := d.Token(); err != nil || got != want {
			return false
		}
	}
	return true
}

// ping records a heartbeat, or a worker's report that it is unhealthy.
func (a *api) ping(w http.ResponseWriter, r *http.Request, t target) (err error) {
	if t.query.Get("status") == "unhealthy" {
		t.ReportUnhealthy(unhealthyReason(t.query.Get("check"), t.query.Get("reason")))
	} else {
		err = t.Ping(r.Context(), jobIDs(t.query["job_id"]))
	}
	if release := t.query.Get("runpod_version"); err == nil && release != "" && len(release) <= maxRelease {
		t.SetSDK(release)
	}
	if err == nil {
		httpanswer.Bytes(w, http.StatusOK, []byte("{}"))
	}
	return err
}

// unhealthyReason returns a human-readable text about a worker's failed check.
func unhealthyReason(check, reason string) string {
	text := "the worker reports itself unhealthy"
	if check != "" {
		text += ": its check " + check + " failed"
	}
	if reason != "" {
		text += ": " + reason
	}
	if len(text) > maxReason {
		text = text[:maxReason] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// jobIDs lists the job ids of a ping, from one parameter or several.
func jobIDs(params []string) (ids []string) {
	for _, param := range params {
		for id := range strings.SplitSeq(param, ",") {
			if id = strings.TrimSpace(id); id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
