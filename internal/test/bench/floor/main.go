// Command floor is the simplest possible job API: a map, a channel, eight goroutines
// and JSON behind net/http. Benchmarks compare the jobrunner with it.
//
// It stores nothing and checks neither keys nor limits.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "worker" {
		log.Fatal(work())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // for the life of the process
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, newFloor().routes())) //nolint:gosec // serves one local client, so it needs no time-outs
}

// workers is the number of goroutines that run jobs, equal to the workers of the jobrunner's endpoint.
const workers = 8

// keptBytes bounds the inputs of kept jobs. The oldest are dropped first.
const keptBytes = 256 << 20

type job struct {
	ID        string          `json:"id"`
	Status    string          `json:"status"`
	Delay     int64           `json:"delayTime"`
	Execution int64           `json:"executionTime"`
	Output    json.RawMessage `json:"output,omitempty"`

	input     json.RawMessage
	queuedAt  time.Time
	startedAt time.Time
	stream    streamInput
	done      chan struct{}
	chunks    chan chunk // only of streaming jobs
}

type chunk struct {
	Output json.RawMessage `json:"output"`
}

// streamInput is the part of an input that the stream handler reads.
type streamInput struct {
	Op string
	N  int
}

type floor struct {
	mu       sync.Mutex
	jobs     map[string]*job
	keptJobs []*job // oldest first
	keptSize int    // bytes of the inputs of keptJobs
	lastID   int    // of the latest job

	queue     chan *job // for the goroutines
	httpQueue chan *job // for HTTP workers
}

func newFloor() *floor {
	f := &floor{jobs: map[string]*job{}, queue: make(chan *job, 1<<20), httpQueue: make(chan *job, 1<<20)}
	for range workers {
		go func() {
			for j := range f.queue {
				j.markStarted()
				f.finish(j, j.handle())
			}
		}()
	}
	return f
}

func (f *floor) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST /v2/{endpoint}/run", f.run)
	m.HandleFunc("POST /v2/{endpoint}/runsync", f.runSync)
	m.HandleFunc("GET /v2/{endpoint}/status/{job}", f.status)
	m.HandleFunc("GET /v2/{endpoint}/stream/{job}", f.stream)
	m.HandleFunc("POST /v2/{endpoint}/purge-queue", f.purge)
	m.HandleFunc("GET /v2/{endpoint}/health", f.health)
	m.HandleFunc("GET /v2/{endpoint}/job-take/{worker}", f.take)
	m.HandleFunc("POST /v2/{endpoint}/job-done/{worker}/{job}", f.report)
	return m
}

// submit queues a job. HTTP workers run the jobs of the endpoint "http".
func (f *floor) submit(w http.ResponseWriter, r *http.Request) *job {
	var body struct{ Input json.RawMessage }
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil || len(body.Input) == 0 || body.Input[0] != '{' {
		http.Error(w, `{"error": "invalid submission: expected an object with an input that is an object"}`, http.StatusBadRequest)
		return nil
	}
	j := &job{Status: "IN_QUEUE", input: body.Input, queuedAt: time.Now(), done: make(chan struct{})}
	if err := json.Unmarshal(j.input, &j.stream); err == nil && j.stream.Op == "stream" {
		j.chunks = make(chan chunk, j.stream.N)
	}
	f.mu.Lock()
	f.lastID++
	j.ID = strconv.Itoa(f.lastID)
	f.jobs[j.ID] = j
	f.keptJobs = append(f.keptJobs, j)
	for f.keptSize += len(j.input); f.keptSize > keptBytes; f.keptJobs = f.keptJobs[1:] {
		f.keptSize -= len(f.keptJobs[0].input)
		delete(f.jobs, f.keptJobs[0].ID)
	}
	f.mu.Unlock()
	if r.PathValue("endpoint") == "http" {
		f.httpQueue <- j
	} else {
		f.queue <- j
	}
	return j
}

func (f *floor) run(w http.ResponseWriter, r *http.Request) {
	if j := f.submit(w, r); j != nil {
		answer(w, map[string]string{"id": j.ID, "status": "IN_QUEUE"})
	}
}

func (f *floor) runSync(w http.ResponseWriter, r *http.Request) {
	if j := f.submit(w, r); j != nil {
		<-j.done
		answer(w, j)
	}
}

func (f *floor) find(w http.ResponseWriter, r *http.Request) *job {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.jobs[r.PathValue("job")]
	if j == nil {
		http.Error(w, `{"error": "no such job"}`, http.StatusNotFound)
	}
	return j
}

func (f *floor) status(w http.ResponseWriter, r *http.Request) {
	j := f.find(w, r)
	if j == nil {
		return
	}
	f.mu.Lock()
	shown := *j
	f.mu.Unlock()
	answer(w, &shown)
}

// stream returns the chunks so far. If there are none, it waits for the first.
func (f *floor) stream(w http.ResponseWriter, r *http.Request) {
	j := f.find(w, r)
	if j == nil {
		return
	}
	list := []chunk{}
	for open := j.chunks != nil; open && (len(list) == 0 || len(j.chunks) > 0); {
		var c chunk
		if c, open = <-j.chunks; open {
			list = append(list, c)
		}
	}
	answer(w, list)
}

func (f *floor) purge(w http.ResponseWriter, _ *http.Request) {
	removed := 0
	for range len(f.queue) {
		select {
		case <-f.queue:
			removed++
		default:
		}
	}
	answer(w, map[string]any{"removed": removed, "status": "completed"})
}

func (f *floor) health(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{"jobs": map[string]int{"inQueue": len(f.queue) + len(f.httpQueue), "inProgress": 0}})
}

// take returns a job to an HTTP worker (worker protocol).
func (f *floor) take(w http.ResponseWriter, r *http.Request) {
	select {
	case j := <-f.httpQueue:
		j.markStarted()
		answer(w, map[string]any{"id": j.ID, "input": j.input})
	case <-r.Context().Done():
	}
}

func (f *floor) report(w http.ResponseWriter, r *http.Request) {
	var body struct{ Output json.RawMessage }
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if j := f.find(w, r); j != nil && err == nil {
		f.finish(j, body.Output)
		answer(w, map[string]string{})
	}
}

func (j *job) markStarted() { j.startedAt = time.Now() }

// handle echoes the input, or streams n chunks.
func (j *job) handle() json.RawMessage {
	if j.chunks == nil {
		return j.input
	}
	for i := range j.stream.N {
		j.chunks <- chunk{json.RawMessage(`{"n":` + strconv.Itoa(i) + `}`)}
	}
	return nil
}

func (f *floor) finish(j *job, output json.RawMessage) {
	f.mu.Lock()
	j.Status, j.Output = "COMPLETED", output
	j.Delay, j.Execution = j.startedAt.Sub(j.queuedAt).Milliseconds(), time.Since(j.startedAt).Milliseconds()
	f.mu.Unlock()
	if j.chunks != nil {
		close(j.chunks)
	}
	close(j.done)
}

func answer(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text)
}
