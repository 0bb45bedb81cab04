package jobapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
)

// limitedRequests have a rate limit and end at once.
var limitedRequests = []struct {
	method, path, body string
	rate               int
}{
	{"POST", "purge-queue", "", 2},
	{"POST", "run", `{"input": {}}`, 1000},
	{"POST", "runsync", `{"input": 1}`, 2000}, // a rejected body counts too
	{"GET", "status/unknown", "", 2000},
	{"GET", "stream/unknown", "", 2000},
	{"POST", "cancel/unknown", "", 100},
	{"POST", "openai/v1/completions", "1", 2000}, // a rejected body
	{"GET", "requests", "", 10},
}

// addUsers adds the user "other", and a user whose key is only for the endpoint "ep2".
func addUsers(t *testing.T) (configure func(*jobapi.Config), otherKey, ep2Key string) {
	t.Helper()
	file := apikey.FileIn(t.TempDir())
	otherKey = must.Do(file.Add(apikey.Key{Name: "other"}))(t)
	ep2Key = must.Do(file.Add(apikey.Key{Name: "ep2", Endpoints: []string{"ep2"}}))(t)
	return func(c *jobapi.Config) {
		c.Keys = must.Do(c.Keys.With(file, time.Now, slog.New(slog.DiscardHandler)))(t)
	}, otherKey, ep2Key
}

// countAccepted sends requests until a 429, and returns their number and its Retry-After in seconds.
func (d *deployment) countAccepted(method, path, body string) (n int, retryAfter string) {
	d.t.Helper()
	for {
		a := d.do(method, path, body)
		if a.status == 429 {
			must.Hold(d.t, a.body["error"] != nil && len(a.body) == 1 && !a.closes, path, "the error lacks the cause, or closes the connection:", a.raw, a.closes)
			return n, a.header.Get("Retry-After")
		}
		n++
	}
}

// The limit counts one user's requests to an operation of an endpoint, until ten seconds after the first.
func TestRateLimits(t *testing.T) {
	for i, op := range limitedRequests {
		configure, otherKey, _ := addUsers(t)
		bubble(t, func(t *testing.T, d *deployment) {
			d.workersMax = 100
			path := "/v2/ep/" + op.path
			n, retryAfter := d.countAccepted(op.method, path, op.body)
			must.Require(t, n == op.rate && retryAfter == "10", path, n, "were accepted, then Retry-After was", retryAfter)
			before := d.engine.Counts("ep")
			validBody := strings.Replace(op.body, "1", "{}", 1) // 1 makes a body invalid
			a := d.do(op.method, path, validBody)
			must.Hold(t, a.status == 429 && d.engine.Counts("ep") == before, path, a.status, "the counts were", before, "and are", d.engine.Counts("ep"))
			a = d.do(op.method, path, op.body, "Authorization", "Bearer "+otherKey)
			must.Hold(t, a.status != 429, path, "another user is limited", a.raw)
			a = d.do(op.method, "/v2/ep2/"+op.path, op.body)
			must.Hold(t, a.status != 429, path, "another endpoint is limited", a.raw)
			next := limitedRequests[(i+1)%len(limitedRequests)]
			a = d.do(next.method, "/v2/ep/"+next.path, next.body)
			must.Hold(t, a.status != 429, path, next.path, "is limited", a.raw)
			must.Equal(t, d.do("GET", "/v2/ep/health", "").status, 200, "the status of /health while", path, "is limited")
			sleep(0.5)
			_, retryAfter = d.countAccepted(op.method, path, op.body)
			must.Hold(t, retryAfter == "10", path, "after 0.5 s Retry-After was", retryAfter)
			sleep(9.499)
			n, retryAfter = d.countAccepted(op.method, path, op.body)
			must.Hold(t, n == 0 && retryAfter == "1", path, "after 9.999 s", n, "were accepted, then Retry-After was", retryAfter)
			sleep(0.001)
			a = d.do(op.method, path, op.body)
			must.Hold(t, a.status != 429, path, "after 10 s", a.raw)
		}, configure)
	}
}

func (d *deployment) holdRequests(ctx context.Context, n int, path string, body func() io.Reader) (openRequests *sync.WaitGroup) {
	openRequests = new(sync.WaitGroup)
	for range n {
		openRequests.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, "POST", "http://deployment"+path, body())
			req.Header.Set("Authorization", "Bearer "+key)
			resp, err := d.client.Do(req)
			if err != nil {
				must.Hold(d.t, ctx.Err() != nil, err)
				return
			}
			resp.Body.Close()
			must.Hold(d.t, resp.StatusCode == 200, "a request that was held was answered", resp.StatusCode)
		})
	}
	synctest.Wait()
	return openRequests
}

// A client that disconnects frees its request's place.
func TestOpenRunSyncRequests(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		ctx, disconnect := context.WithCancel(t.Context())
		defer disconnect()
		const path, body = "/v2/ep/runsync?wait=5000", `{"input": {}}`
		reader := func() io.Reader { return strings.NewReader(body) }
		disconnectingRequest := d.holdRequests(ctx, 1, path, reader)
		openRequests := d.holdRequests(t.Context(), 399, path, reader)
		n, retryAfter := d.countAccepted("POST", path, body)
		must.Hold(t, n == 0 && retryAfter == "1" && d.engine.Counts("ep").InQueue == 400, "with 400 open", n, "were accepted, then Retry-After was", retryAfter, d.engine.Counts("ep"))
		disconnect()
		disconnectingRequest.Wait()
		synctest.Wait()
		d.expectAnswer("200 …", "POST", "/v2/ep/runsync?wait=1000", body)
		openRequests.Wait()
	})
}

// A request whose body is still arriving counts as open.
func TestOpenRunRequests(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		var mu sync.Mutex
		var senders []*io.PipeWriter
		openRequests := d.holdRequests(t.Context(), 200, "/v2/ep/run", func() io.Reader {
			body, sender := io.Pipe()
			mu.Lock()
			defer mu.Unlock()
			senders = append(senders, sender)
			return body
		})
		n, retryAfter := d.countAccepted("POST", "/v2/ep/run", `{"input": {}}`)
		must.Hold(t, n == 0 && retryAfter == "1", "with 200 open", n, "were accepted, then Retry-After was", retryAfter)
		must.Equal(t, d.engine.Counts("ep").InQueue, 0, "jobs in the queue")
		for i, sender := range senders {
			must.Equal(t, must.Err(sender.Write([]byte(`{"input": {}}`))), nil)
			sender.Close()
			if i == 0 {
				synctest.Wait()
				d.expectAnswer("200 …", "POST", "/v2/ep/run", `{"input": {}}`) // after one has ended
			}
		}
		openRequests.Wait()
		must.Equal(t, d.engine.Counts("ep").InQueue, 201, "jobs in the queue")
	})
}

// A queue accepts a job while it holds at most 50 jobs, or 500 for each worker that its endpoint may have.
func TestQueueFull(t *testing.T) {
	for _, c := range []struct{ workersMax, jobs int }{{0, 51}, {1, 501}, {3, 1501}} {
		bubble(t, func(t *testing.T, d *deployment) {
			d.workersMax = c.workersMax
			n, retryAfter := 0, ""
			for accepted := 1000; accepted == 1000; time.Sleep(10 * time.Second) { // the limit of requests
				accepted, retryAfter = d.countAccepted("POST", "/v2/ep/run", `{"input": {}}`)
				n += accepted
			}
			must.Require(t, n == c.jobs && retryAfter != "", c.workersMax, "workers:", n, "jobs were accepted, then Retry-After was", retryAfter)
			a := d.do("POST", "/v2/ep/runsync?wait=1000", `{"input": {}}`)
			must.Hold(t, a.status == 429 && strings.Contains(a.raw, "queue"), c.workersMax, "workers: runsync answers", a.status, a.raw)
			must.Equal(t, d.engine.Counts("ep").InQueue, c.jobs, c.workersMax, "workers", "jobs in the queue")
			a = d.do("POST", "/v2/ep2/run", `{"input": {}}`)
			must.Hold(t, a.status == 200, c.workersMax, "workers: another endpoint is limited", a.raw)
			d.take("ep")
			n, _ = d.countAccepted("POST", "/v2/ep/run", `{"input": {}}`)
			must.Hold(t, n == 1, c.workersMax, "workers: after one job was taken, jobs accepted:", n)
		})
	}
}

// A key for one endpoint is valid only there. For others it gets 403, or 404 if they don't exist.
func TestKeysOfEndpoints(t *testing.T) {
	configure, otherKey, ep2Key := addUsers(t)
	bubble(t, func(t *testing.T, d *deployment) {
		id := d.submit(`{"input": {}}`)
		for _, op := range []struct{ method, path, body string }{
			{"POST", "run", `{"input": {}}`}, {"POST", "runsync?wait=1000", `{"input": {}}`}, {"GET", "status/" + id, ""}, {"POST", "cancel/" + id, ""}, {"GET", "health", ""},
		} {
			for endpoint, want := range map[string]int{"ep": 403, "nowhere": 404} {
				a := d.do(op.method, "/v2/"+endpoint+"/"+op.path, op.body, "Authorization", "Bearer "+ep2Key)
				text, _ := a.body["error"].(string)
				must.Hold(t, a.status == want && text != "" && !strings.Contains(a.raw, ep2Key), op.method, op.path, "at", endpoint, a.status, a.raw)
			}
			a := d.do(op.method, "/v2/ep2/"+op.path, op.body, "Authorization", "Bearer "+ep2Key)
			must.Hold(t, a.status != 403 && a.status != 401, op.method, op.path, "at its own endpoint", a.status, a.raw)
		}
		got := d.engine.Counts("ep")
		must.Hold(t, got.InQueue == 1, "the counts after requests with a key for another endpoint are", got)
		a := d.do("GET", "/v2/ep/status/"+id, "", "Authorization", "Bearer "+otherKey)
		must.Hold(t, a.status == 200, "a key for all endpoints", a.status, a.raw)
	}, configure)
}

// Without memory for answers, operations with large or many outputs respond with 503, /runsync with the unfinished job, and
// /stream with a chunk. Later they return everything, and a page of a batch needs no memory for all its outputs.
func TestAnswersWaitForMemory(t *testing.T) {
	memory := httplimit.NewMemory(40 << 20)
	bubble(t, func(t *testing.T, d *deployment) {
		large := `"` + strings.Repeat("x", 6<<20) + `"`
		finish := func(endpoint string) { d.report(d.take(endpoint), engine.Done([]byte(large))) }
		batch, _ := d.createBatch(`[{"input": {}}, {"input": {}}, {"input": {}}]`)
		d.do("POST", batch+"/finalize", "")
		finish("ep-batch")
		finish("ep-batch")
		finish("ep-batch")
		failures, _ := d.createBatch(`[{"input": {}}]`)
		d.do("POST", failures+"/finalize", "")
		d.report(d.take("ep-batch"), engine.Fail(large[:10_000], nil))
		small, _ := d.createBatch(`[` + strings.Repeat(`{"input": {}}, `, 19) + `{"input": {}}]`)
		d.do("POST", small+"/finalize", "")
		for range 20 {
			d.report(d.take("ep-batch"), engine.Done([]byte(large[:4000]+`"`)))
			d.submit(`{"input": {}}`)
			d.report(d.take("ep"), engine.Done([]byte(large[:4000]+`"`)))
		}
		id := d.submit(`{"input": {}}`)
		finish("ep")
		streamID := d.submit(`{"input": {}}`)
		d.report(d.take("ep"), engine.Chunk([]byte(large), nil))
		outputsOfPath := map[string]int{"/v2/ep/status/" + id: 1, "/live/v2/ep/status-sync/" + id: 1, batch + "/requests": 3, failures + "/requests": 0, small + "/requests": 0, "/v2/ep/requests": 0}
		submit := func(path, body string) answer {
			d.takeNextJob(func(job engine.Taken) { d.report(job, engine.Done([]byte(large))) })
			status, header, raw := d.sendText("POST", "/v2/ep/"+path, body)
			return answer{status: status, header: header, raw: raw}
		}

		reserved := must.Do(memory.Reserve(40 << 20))(t)
		for path := range outputsOfPath {
			a := d.do("GET", path, "")
			must.Hold(t, a.status == 503 && a.header.Get("Retry-After") == httplimit.RetryAfter, path, a.status, a.header)
		}
		a := submit("openai/v1/completions", "{}")
		must.Hold(t, a.status == 503 && a.header.Get("Retry-After") == httplimit.RetryAfter, "openai", a.status, a.header)
		a = submit("runsync", `{"input": {}}`)
		must.Hold(t, a.status == 200 && strings.Contains(a.raw, `"status":"IN_PROGRESS"`) && !strings.Contains(a.raw, "output"), "runsync", a.status, a.raw)
		_, syncID, _ := strings.Cut(a.raw, `"id":"`)
		syncID, _, _ = strings.Cut(syncID, `"`)
		outputsOfPath["/v2/ep/status/"+syncID] = 1
		_, _, chunk := d.sendText("GET", "/v2/ep/stream/"+streamID, "")
		must.Equal(t, strings.Count(chunk, "output"), 1, "chunks")

		reserved.Release()
		reserved = must.Do(memory.Reserve(24 << 20))(t)
		for path, outputs := range outputsOfPath {
			a := d.do("GET", path, "")
			must.Hold(t, a.status == 200 && strings.Count(a.raw, large) == outputs, path, a.status, len(a.raw))
		}
		a = submit("openai/v1/completions", "{}")
		must.Hold(t, a.status == 200 && a.raw == large, "openai", a.status, len(a.raw))
		a = submit("runsync", `{"input": {}}`)
		must.Hold(t, a.status == 200 && strings.Contains(a.raw, large), "runsync", a.status, len(a.raw))
		d.takeNextJob(func(job engine.Taken) {
			for range 9 {
				d.report(job, engine.Chunk([]byte(`[`+large[:1<<20-30]+`"]`), nil))
			}
		})
		status, _, raw := d.sendText("POST", chatRoute, "{}") // collects the chunks, which with the answer need 18 MiB
		must.Hold(t, status == 503, "collected chunks", status, len(raw))
		_, _, chunks := d.sendText("GET", "/v2/ep/stream/"+streamID, "")
		must.Equal(t, strings.Count(chunk+chunks, "x"), 6<<20, "characters of the stream")
		reserved.Release()
		idlePath := "/v2/ep/stream/" + d.submit(`{"input": {}}`)
		go d.sendText("GET", idlePath, "")
		synctest.Wait()
		must.Succeed(t, must.Err(memory.Reserve(40<<20)), "the memory isn't free while a stream waits")
		sleep(11) // until the stream's wait is over
	}, func(c *jobapi.Config) { c.Answers = memory })
}

// An output that grows while its answer waits for memory isn't read into memory that isn't reserved.
func TestOutputGrowsDuringTheWait(t *testing.T) {
	memory := httplimit.NewMemory(40 << 20)
	bubble(t, func(t *testing.T, d *deployment) {
		small, large := []byte(`"`+strings.Repeat("x", 1<<17)+`"`), []byte(`"`+strings.Repeat("x", 6<<20)+`"`)
		path := "/v2/ep/status/" + d.submit(`{"input": {}}`)
		batch, _ := d.createBatch(`[{"input": {}}, {"input": {}}]`)
		d.do("POST", batch+"/finalize", "")
		job, done, request := d.take("ep"), d.take("ep-batch"), d.take("ep-batch")
		d.report(job, engine.Progress(small))
		d.report(done, engine.Done(small))
		reserved := must.Do(memory.Reserve(40 << 20))(t)
		page, status := make(chan *http.Response, 1), make(chan *http.Response, 1)
		go func() { page <- d.begin(t.Context(), "GET", batch+"/requests", nil) }()
		go func() { status <- d.begin(t.Context(), "GET", path, nil) }()
		synctest.Wait()
		d.report(job, engine.Done(large))
		d.report(request, engine.Done(large))
		reserved.Release()
		size := len(must.Do(io.ReadAll((<-page).Body))(t))
		must.Hold(t, size > len(small) && size < 2*len(small), "the page, for which", 2*len(small), "bytes were reserved, has", size)
		slow := <-status
		must.ErrorIs(t, must.Err(memory.Reserve(36<<20)), httplimit.ErrMemory, "the memory while a client reads the output")
		must.Hold(t, len(must.Do(io.ReadAll(slow.Body))(t)) > len(large), "the output isn't whole")
	}, func(c *jobapi.Config) { c.Answers = memory })
}

// A client that reads an output slowly may take long, unless other answers wait for memory.
func TestSlowReaderYields(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		id, output := d.submit(`{"input": {}}`), `"`+strings.Repeat("x", 20<<20)+`"`
		d.report(d.take("ep"), engine.Done([]byte(output)))
		createBatch := func(requests int) (path string) {
			path, _ = d.createBatch("[" + strings.Repeat(`{"input": {}},`, requests-1) + `{"input": {}}]`)
			d.do("POST", path+"/finalize", "")
			for range requests {
				d.report(d.take("ep-batch"), engine.Done([]byte(output)))
			}
			return path
		}
		batch, partsPath := createBatch(1), createBatch(8)+"/requests"
		for _, request := range []string{"GET /v2/ep/status/" + id, "GET " + batch + "/requests", "POST /v2/ep/runsync", "POST /v2/ep/openai/v1/x", "GET " + partsPath} {
			method, path, _ := strings.Cut(request, " ")
			bytesPerRead := map[bool]int64{false: 80 << 10, true: 3 << 20}[path == partsPath] // each part takes less than two minutes
			if method == "POST" {
				d.takeNextJob(func(job engine.Taken) { d.report(job, engine.Done([]byte(output))) })
			}
			slow, ended := d.begin(t.Context(), method, path, strings.NewReader(`{"input": {}}`)), make(chan error, 1)
			go func() {
				var err error
				for ; err == nil; sleep(15) {
					_, err = io.CopyN(io.Discard, slow.Body, bytesPerRead)
				}
				ended <- err
			}()
			sleep(600)
			must.Equal(t, len(ended), 0, "clients disconnected while no answer waited")
			status, _, _ := d.sendText("GET", batch+"/requests", "")
			must.Equal(t, status, 200, "the status for a client that waits for memory")
			must.ErrorIs(t, <-ended, io.ErrUnexpectedEOF, "the slow client's read")
		}
	})
}
