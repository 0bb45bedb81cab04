package jobapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
)

// openAIWait is how long an /openai request waits for a worker to take its job, and how long a slow client may read
// after the job's end.
var openAIWait = engine.MaxWait // a variable, as engine.MaxWait is in builds with faults

// Only openAIModels and the routes below it allow GET.
const openAIModels = "/v1/models"

// openAI queues a job for an OpenAI-compatible handler, and responds with the handler's output
// instead of the job (field notes: /openai/{route}). Only this client waits for the job, so the job is
// cancelled when the client disconnects, and when no worker takes it in time.
func (a *api) openAI(w http.ResponseWriter, r *http.Request, t target) error {
	input, reservation, err := a.openAIInput(w, r, t.route)
	if err != nil {
		return err
	}
	job, watch, err := a.enqueue(r.Context(), engine.NewJob{Endpoint: t.endpoint, Input: input, Sync: true, Wait: openAIWait, Attached: true})
	reservation.Release()
	if err != nil {
		return err
	}
	watch.Stop() // relay starts its own watch
	t.job = job.ID
	p := &relayAnswer{w: w, memory: a.Answers}
	defer p.drop()
	if err := a.relay(r.Context(), p, t); err != nil {
		// This is a no-op if the job has already ended.
		_, cancelErr := a.Engine.Cancel(context.WithoutCancel(r.Context()), t.endpoint, t.job)
		if errors.Is(err, engine.ErrNotFound) {
			err, cancelErr = httpanswer.Refuse(http.StatusInternalServerError, "the job was removed before it ended"), nil
		}
		return p.fail(errors.Join(err, cancelErr))
	}
	return nil
}

func (a *api) openAIInput(w http.ResponseWriter, r *http.Request, route string) (_ []byte, reservation *httplimit.Reservation, err error) {
	var input bytes.Buffer
	routeJSON, _ := json.Marshal(route) // never fails for a string
	if r.Method == http.MethodPost {
		var body []byte
		if body, reservation, err = a.readBody(w, r, maxRunSync, 2); err != nil {
			return nil, nil, err
		}
		body = bytes.TrimSpace(body)
		if !rawjson.Valid(body) || !isObject(body) {
			reservation.Release()
			return nil, nil, explainMalformed(body, `{"model": …}`)
		}
		input.Grow(len(body) + len(routeJSON) + len(`{"openai_input":,"openai_route":}`))
		appendMember(&input, "openai_input", body)
	} else if route != openAIModels && !strings.HasPrefix(route, openAIModels+"/") {
		return nil, nil, httpanswer.NotAllowed(r, http.MethodPost)
	}
	appendMember(&input, "openai_route", routeJSON)
	input.WriteByte('}')
	return input.Bytes(), reservation, nil
}

// relay waits for a worker and passes on its chunks. After an error the caller must cancel the job.
func (a *api) relay(ctx context.Context, p *relayAnswer, t target) error {
	var job engine.Job
	err := a.waitUntil(ctx, a.Engine.Watch(t.endpoint, t.job), openAIWait, func() (taken bool, err error) {
		job, err = a.readJob(httplimit.AnswerContext(ctx), t)
		return job.State != engine.InQueue, err
	})
	if err != nil {
		return err
	}
	if job.State == engine.InQueue && !httplimit.ServerStops(ctx) {
		return httpanswer.Refuse(http.StatusGatewayTimeout, "no worker took the job within %s", openAIWait)
	}
	err = a.waitUntil(ctx, a.Engine.Watch(t.endpoint, t.job), engine.MaxTTL, func() (ended bool, err error) {
		for more := true; more; {
			var chunks [][]byte
			var reservation *httplimit.Reservation
			if job, chunks, more, reservation, err = a.drain(ctx, t, engine.MaxChunk); err == nil {
				err = p.pass(chunks, job.Retries)
			}
			reservation.Release()
			if err = cmp.Or(err, p.reserve()); err != nil {
				return false, err
			}
		}
		return job.State.Terminal(), nil
	})
	if err != nil {
		return err
	}
	switch job.State {
	case engine.InQueue, engine.InProgress:
		return httplimit.ErrStopping
	case engine.Completed:
		if !p.started && p.collected == nil {
			reservation, err := a.readOutput(httplimit.AnswerContext(ctx), t, &job)
			defer reservation.Release()
			if err != nil {
				return err
			}
		}
		return p.end(job.Output)
	case engine.TimedOut:
		return httpanswer.Refuse(http.StatusGatewayTimeout, "the job ran longer than its execution time-out")
	case engine.Cancelled:
		return httpanswer.Refuse(http.StatusInternalServerError, "the job was cancelled")
	}
	return httpanswer.Refuse(http.StatusInternalServerError, "%s", job.Error)
}

// relayAnswer passes a handler's chunks to a client. The first chunk decides how: text is passed on as
// it comes, anything else is collected for a single answer.
type relayAnswer struct {
	w         http.ResponseWriter
	started   bool              // the answer has begun, as text
	retries   int               // of the job, in the run whose chunks are passed on
	collected []json.RawMessage // chunks for a single answer

	memory       *httplimit.Memory
	reservations []*httplimit.Reservation // of the collected chunks
	reserved     int                      // number of chunks that have a reservation
}

// drop discards the collected chunks.
func (p *relayAnswer) drop() {
	for _, r := range p.reservations {
		r.Release()
	}
	p.collected, p.reservations, p.reserved = nil, nil, 0
}

// chunkOverhead is about the memory of a collected chunk besides its text.
const chunkOverhead = 64

// reserve reserves memory for the chunks that were collected since the last call, and their part of the answer.
func (p *relayAnswer) reserve() error {
	size := 0
	for _, chunk := range p.collected[p.reserved:] {
		size += 2*len(chunk) + chunkOverhead
	}
	r, err := p.memory.Reserve(int64(size))
	if size > 0 && err == nil {
		p.reservations, p.reserved = append(p.reservations, r), len(p.collected)
	}
	return err
}

// pass passes on chunks of a job. retries is how often the job was dispatched again.
func (p *relayAnswer) pass(chunks [][]byte, retries int) error {
	if retries > p.retries {
		if p.started { // the client already has output of the earlier run
			return httpanswer.Refuse(http.StatusInternalServerError, "the worker died")
		}
		p.drop()
		p.retries = retries
	}
	var items []struct {
		Output json.RawMessage `json:"output"`
	}
	// An item may be several chunks, separated by commas.
	if err := json.Unmarshal(slices.Concat([]byte("["), bytes.Join(chunks, []byte(",")), []byte("]")), &items); err != nil {
		return err
	}
	for _, chunk := range items {
		var text string
		isText := json.Unmarshal(chunk.Output, &text) == nil
		switch {
		case isText && text == "":
		case p.collected != nil || !isText && !p.started:
			p.collected = append(p.collected, chunk.Output)
		default:
			if !isText {
				text = string(chunk.Output)
			}
			if err := p.write(text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *relayAnswer) write(text string) error {
	if !p.started {
		p.started = true
		p.w.Header().Set("Content-Type", textType(text))
		p.w.Header().Set("Cache-Control", "no-cache")
		p.w.Header().Set("X-Accel-Buffering", "no") // nginx buffers responses by default
	}
	if _, err := p.w.Write([]byte(text)); err != nil {
		return err
	}
	return http.NewResponseController(p.w).Flush()
}

const eventStream = "text/event-stream"

func textType(text string) string {
	switch {
	case slices.ContainsFunc([]string{"data:", "event:", "id:", "retry:", ":"}, func(field string) bool { return strings.HasPrefix(text, field) }):
		return eventStream
	case text[0] == '{' || text[0] == '[': // JSON that is too large for one chunk
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// end responds with the handler's whole output: its one chunk, the list of its chunks, or its result.
func (p *relayAnswer) end(output []byte) error {
	switch {
	case p.started:
		return nil
	case len(p.collected) == 1:
		output = p.collected[0]
	case len(p.collected) > 1:
		output = appendList(nil, p.collected, func(b []byte, v json.RawMessage) []byte { return append(b, v...) })
	case output == nil:
		output = []byte("null")
	}
	write(&yieldingWriter{ResponseWriter: p.w, memory: p.memory, limit: slowResult}, output)
	return nil
}

// fail reports an error after the answer has begun: by a last event, or by aborting the answer.
func (p *relayAnswer) fail(err error) error {
	if !p.started {
		return err
	}
	refusal, ok := errors.AsType[*httpanswer.Refusal](err)
	if !ok || p.w.Header().Get("Content-Type") != eventStream {
		panic(http.ErrAbortHandler)
	}
	return p.write("data: " + string(refusal.OpenAI()) + "\n\n")
}
