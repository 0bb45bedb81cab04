package jobapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
)

const (
	// DefaultPage is the number of objects of a page if no limit is given.
	DefaultPage = 50
	maxPage     = 1000
	// pageOutput is the size in bytes up to which a page shows an output without another read.
	pageOutput = 4 << 10
	// pagePart is the size of the outputs of a page that are in memory together, in bytes.
	pagePart = 8 << 20
)

// maxBatchName is the maximum length of a batch's name, in characters.
const maxBatchName = 255

type BatchSummary struct {
	engine.Batch
	CreatedAt  int64    `json:"createdAt"` // milliseconds since 1970
	RequestIDs []string `json:"requestIds,omitempty"`
}

func Summarize(b engine.Batch) BatchSummary { return BatchSummary{b, b.Created.UnixMilli(), nil} }

// createBatch responds with {id, status} of the new batch, a DRAFT (RunPod's page on batch jobs, August 2026).
func (a *api) createBatch(w http.ResponseWriter, r *http.Request, t target) error {
	body, reservation, err := a.readBody(w, r, maxRun, 3)
	if err != nil {
		return err
	}
	defer reservation.Release()
	inputs, err := batchInputs(body, body, "the body")
	if err != nil {
		return err
	}
	b, err := a.Engine.CreateBatch(r.Context(), t.endpoint, inputs)
	if err == nil {
		err = a.dropIfDeleted(r.Context(), t.endpoint)
	}
	if err != nil {
		return err
	}
	httpanswer.JSON(w, http.StatusOK, map[string]any{"id": b.ID, "status": b.State})
	return nil
}

// dropIfDeleted deletes an endpoint's jobs and batches if the endpoint is deleted. A request that
// overlaps the deletion may have added some, and no other call deletes them.
func (a *api) dropIfDeleted(ctx context.Context, endpoint string) error {
	_, err := a.Endpoint(ctx, endpoint)
	if errors.Is(err, ErrNoEndpoint) {
		return errors.Join(err, a.Engine.DropEndpoint(ctx, endpoint))
	}
	return nil
}

func (a *api) addRequests(w http.ResponseWriter, r *http.Request, t target) error {
	body, reservation, err := a.readBody(w, r, maxRun, 3)
	if err != nil {
		return err
	}
	defer reservation.Release()
	members, ok := rawjson.Members(body, "requests")
	if !ok {
		return explainMalformed(body, `{"requests": [{"input": {…}}]}`)
	}
	inputs, err := batchInputs(members["requests"], body, "requests")
	if err != nil {
		return err
	}
	b, ids, err := a.Engine.AddRequests(r.Context(), t.endpoint, t.job, inputs)
	if err == nil {
		err = a.dropIfDeleted(r.Context(), t.endpoint)
	}
	if err != nil {
		return err
	}
	answer := Summarize(b)
	answer.RequestIDs = ids
	httpanswer.JSON(w, http.StatusOK, answer)
	return nil
}

// batchInputs returns the inputs of an array of requests, which is a part of the body.
func batchInputs(array json.RawMessage, body []byte, name string) ([][]byte, error) {
	var requests [engine.MaxBatchRequests + 1]json.RawMessage // the engine rejects one too many; further ones cost no memory
	if json.Unmarshal(array, &requests) != nil || isAbsent(bytes.TrimSpace(array)) {
		if !rawjson.Valid(body) {
			return nil, explainMalformed(body, `[{"input": {…}}, …]`)
		}
		return nil, httpanswer.Refuse(http.StatusBadRequest, "%s must be an array of requests: [{\"input\": {…}}, …]", name)
	}
	inputs := [][]byte{}
	for i, request := range requests[:] {
		if request == nil {
			break
		}
		members, ok := rawjson.Members(request, "input", "webhook", "policy", "s3Config")
		if !ok || !isObject(members["input"]) {
			return nil, httpanswer.Refuse(http.StatusBadRequest, "request %d must be an object with an input, which is an object: {\"input\": {…}}", i)
		}
		for _, member := range []string{"webhook", "policy", "s3Config"} {
			if !isAbsent(members[member]) {
				return nil, httpanswer.Refuse(http.StatusBadRequest, "request %d has the member %s: a request of a batch has only an input", i, member)
			}
		}
		inputs = append(inputs, members["input"])
	}
	return inputs, nil
}

// answerBatch responds with a batch after a change, or with the error.
func answerBatch(w http.ResponseWriter, b engine.Batch, err error) error {
	if err == nil {
		httpanswer.JSON(w, http.StatusOK, Summarize(b))
	}
	return err
}

func (a *api) removeRequest(w http.ResponseWriter, r *http.Request, t target) error {
	b, err := a.Engine.RemoveRequest(r.Context(), t.endpoint, t.job, t.request)
	return answerBatch(w, b, err)
}

func (a *api) renameBatch(w http.ResponseWriter, r *http.Request, t target) error {
	body, reservation, err := a.readBody(w, r, maxRun, 1)
	if err != nil {
		return err
	}
	defer reservation.Release()
	members, ok := rawjson.Members(body, "name")
	if !ok {
		return explainMalformed(body, `{"name": "…"}`)
	}
	var name string
	if raw, ok := members["name"]; !ok || isAbsent(raw) || json.Unmarshal(raw, &name) != nil || utf8.RuneCountInString(name) > maxBatchName {
		return httpanswer.Refuse(http.StatusBadRequest, "name must be a string of at most %d characters", maxBatchName)
	}
	b, err := a.Engine.RenameBatch(r.Context(), t.endpoint, t.job, name)
	return answerBatch(w, b, err)
}

// batchHandler calls a function for the path's batch and responds with the batch.
func batchHandler(call func(e *engine.Engine, ctx context.Context, endpoint, batch string) (engine.Batch, error)) func(*api, http.ResponseWriter, *http.Request, target) error {
	return func(a *api, w http.ResponseWriter, r *http.Request, t target) error {
		b, err := call(a.Engine, r.Context(), t.endpoint, t.job)
		return answerBatch(w, b, err)
	}
}

// page has the members of a list's answer other than its objects.
type page struct {
	Total   int  `json:"total"`
	Offset  int  `json:"offset"`
	Limit   int  `json:"limit"`
	HasMore bool `json:"hasMore"`
}

func readPage(r *http.Request) (p page, err error) {
	if p.Offset, err = queryInteger(r, "offset", 0, 0, math.MaxInt32); err == nil {
		p.Limit, err = queryInteger(r, "limit", DefaultPage, 1, maxPage)
	}
	return p, err
}

// complete sets the total number, and whether there are more objects than the n of this page.
func (p *page) complete(n, total int) { p.Total, p.HasMore = total, p.Offset+n < total && n > 0 }

func queryInteger(r *http.Request, name string, defaultValue, low, high int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return defaultValue, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, httpanswer.Refuse(http.StatusBadRequest, "the query parameter %s must be an integer from %d to %d", name, low, high)
	}
	return n, nil
}

// batches lists the batches of an endpoint, the newest first.
func (a *api) batches(w http.ResponseWriter, r *http.Request, t target) error {
	p, err := readPage(r)
	if err != nil {
		return err
	}
	batches, total, err := a.Engine.Batches(r.Context(), t.endpoint, p.Offset, p.Limit)
	if err != nil {
		return err
	}
	p.complete(len(batches), total)
	summaries := make([]BatchSummary, len(batches))
	for i, b := range batches {
		summaries[i] = Summarize(b)
	}
	httpanswer.JSON(w, http.StatusOK, struct {
		Batches []BatchSummary `json:"batches"`
		page
	}{summaries, p})
	return nil
}

// batchResults lists the requests of a batch, in the order in which they were added. It reads large outputs
// in parts of the page, once there is memory for the largest part.
func (a *api) batchResults(w http.ResponseWriter, r *http.Request, t target) error {
	p, err := readPage(r)
	if err != nil {
		return err
	}
	ctx := httplimit.AnswerContext(r.Context())
	requests, total, err := a.Engine.Requests(ctx, t.endpoint, t.job, p.Offset, p.Limit, pageOutput)
	if err != nil {
		return err
	}
	parts, largestPart := splitPage(requests)
	if largestPart > 0 {
		reservation, err := a.Answers.ReserveWhenFree(ctx, int64(2*largestPart))
		if err != nil {
			return err
		}
		defer reservation.Release()
		w = a.yielding(w, slowAnswer)
	}
	p.complete(len(requests), total)
	b, separator, first := []byte(`{"requests":[`), "", 0
	for i, part := range parts {
		if hasLargeOutput(part[0]) {
			part, _, err = a.Engine.Requests(ctx, t.endpoint, t.job, p.Offset+first, len(part), math.MaxInt32)
		}
		if i > 0 && err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, err = w.Write(b)
			b = b[:0]
		}
		switch {
		case err != nil && i > 0: // the answer has begun
			panic(http.ErrAbortHandler)
		case err != nil:
			return err
		}
		for _, request := range part {
			b = appendRequest(append(b, separator...), request)
			separator = ","
		}
		first += len(part)
	}
	b = fmt.Appendf(b, `],"total":%d,"offset":%d,"limit":%d,"hasMore":%t}`, p.Total, p.Offset, p.Limit, p.HasMore)
	if len(parts) > 1 {
		_, _ = w.Write(b) // fails if the client has disconnected
		return nil
	}
	write(w, b)
	return nil
}

// hasLargeOutput reports whether a page reads a request's output separately.
func hasLargeOutput(request engine.Job) bool { return request.Size > pageOutput }

// splitPage splits a page into parts with at most pagePart bytes of outputs, or with only one output. Either all
// outputs of a part are large or none is: large outputs are read later, when other requests of the page may have ended.
// largestPart is the size of the largest part, or 0 if no output is large and all are small together.
func splitPage(requests []engine.Job) (parts [][]engine.Job, largestPart int) {
	size := 0
	for i, request := range requests {
		if size += request.Size; i == 0 || size > pagePart || hasLargeOutput(request) != hasLargeOutput(requests[i-1]) {
			parts, size = append(parts, nil), request.Size
		}
		last := &parts[len(parts)-1]
		if *last = append(*last, request); hasLargeOutput(request) || size > engine.SmallOutput {
			largestPart = max(largestPart, size)
		}
	}
	return parts, largestPart
}

// appendRequest appends a request with its output or error.
func appendRequest(b []byte, request engine.Job) []byte {
	b = fmt.Appendf(b, `{"id":%q,"status":%q`, request.ID, request.State)
	switch {
	case request.Error != "":
		text, _ := json.Marshal(request.Error) // never fails for a string
		b = append(append(b, `,"error":`...), text...)
	case request.Output != nil:
		b = append(append(b, `,"output":`...), request.Output...)
	}
	if !request.Started.IsZero() {
		b = request.Started.UTC().AppendFormat(append(b, `,"startedAt":"`...), time.RFC3339Nano+`"`)
	}
	if !request.Finished.IsZero() {
		b = request.Finished.UTC().AppendFormat(append(b, `,"completedAt":"`...), time.RFC3339Nano+`"`)
	}
	return append(b, '}')
}
