package jobrunner_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// webServers are programs in this process that serve HTTP at their PORT.
type webServers struct {
	serve     http.HandlerFunc
	unhealthy atomic.Bool // their health checks fail
	lastSpec  atomic.Pointer[run.Spec]
	// address is the processes' address; "" is the loopback address.
	address string
}

func (s *webServers) Program(image string) (run.Program, error) {
	if image != "test/web" {
		return run.Program{}, errors.New("no such image: " + image)
	}
	return run.Program{Start: func(_ context.Context, spec run.Spec) (run.Process, error) {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", spec.Port))
		if err != nil {
			return nil, err
		}
		s.lastSpec.Store(&spec)
		p := &webServer{done: make(chan struct{}), address: s.address}
		p.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Worker", spec.ID)
			if r.URL.Path == "/up" && s.unhealthy.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			} else if r.URL.Path != "/up" {
				s.serve(w, r)
			}
		})}
		fmt.Fprintln(spec.Log, "listening, as", spec.Env["WHO"])
		go func() { _ = p.server.Serve(listener) }()
		return p, nil
	}}, nil
}

type webServer struct {
	server *http.Server
	done   chan struct{}
	once   sync.Once

	address string
}

func (p *webServer) Address() string       { return p.address }
func (p *webServer) Done() <-chan struct{} { return p.done }
func (p *webServer) Exit() run.Exit        { return run.Exit{Text: "killed"} }
func (p *webServer) Usage() run.Usage      { return run.Usage{} }
func (p *webServer) Stop(time.Duration)    { p.once.Do(func() { _ = p.server.Close(); close(p.done) }) }

// deployBalanced deploys a load-balancing endpoint whose workers run serve, one for each open request.
func deployBalanced(t *testing.T, serve http.HandlerFunc) (d *deployment, programs *webServers, id string) {
	programs = &webServers{serve: serve}
	d = deployWith(t, jobrunner.Config{Programs: programs, URL: "http://127.0.0.1:1", AdminClock: true})
	return d, programs, d.createObject("/v2/serverless", `{"name": "web", "type": "LOAD_BALANCER", "image": "test/web", "env": {"WHO": "one", "HEALTH_CHECK_PATH": "/up"},
		"workers": {"min": 0, "max": 2}, "scaling": {"type": "REQUEST_COUNT", "requestCount": 1}}`)
}

func TestRequestsBehindALoadBalancer(t *testing.T) {
	d, _, id := deployBalanced(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method, " ", r.URL) })
	for _, path := range []string{"/any/path?x=1", "/run", "/ping/me", "/job-take/me"} {
		code, _, body := d.do("POST", "/v2/"+id+path, "{}")
		must.Hold(t, code == http.StatusOK && body == "POST "+path, "POST", path, "is answered", code, body, "want 200 and the method and path")
	}
	d.must(http.StatusNotFound, "GET", "/live/v2/"+id+"/health", "")
}

// Two open requests start a second worker, which gets the next request: it has fewer open requests.
func TestOpenRequestsStartWorkers(t *testing.T) {
	arrived, finish := make(chan string, 2), make(chan struct{})
	d, _, id := deployBalanced(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- w.Header().Get("X-Worker")
			<-finish
		}
	})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { d.do("GET", "/v2/"+id+"/slow", "") })
	}
	first := <-arrived
	if other := <-arrived; other == first {
		awaitIdleWorker(d, id)
		_, header, _ := d.do("GET", "/v2/"+id+"/quick", "")
		must.Hold(t, header.Get("X-Worker") != first, "the worker with two open requests got the next one, too")
	}
	close(finish)
	group.Wait()
}

// awaitIdleWorker waits until a worker is ready and has no open request.
func awaitIdleWorker(d *deployment, endpoint string) {
	d.t.Helper()
	waitFor(d.t, func() (bool, any) {
		_, _, body := d.do("GET", "/v2/serverless/"+endpoint+"/workers", "")
		return strings.Contains(body, `"IDLE"`), body
	})
}

// A worker whose address can't be reached is killed, with a reason.
func TestUnreachableWorkerIsKilled(t *testing.T) {
	d, programs, id := deployBalanced(t, func(http.ResponseWriter, *http.Request) {})
	programs.address = "224.0.0.1" // a multicast address, to which no connection is possible
	awaitReason(d, id, "can't reach it at 224.0.0.1:", 30*time.Second)
}

func TestUnreadyWorkerHasAReason(t *testing.T) {
	d, programs, id := deployBalanced(t, func(http.ResponseWriter, *http.Request) {})
	programs.unhealthy.Store(true)
	awaitReason(d, id, `"reason":"it takes no requests yet: GET /up at its PORT has to answer 200, and got 500"`, time.Second)
	programs.unhealthy.Store(false)
	d.do("POST", "/clock", `{"advance": 1000}`)
	awaitIdleWorker(d, id)
	_, _, body := d.do("GET", "/v2/serverless/"+id+"/workers", "")
	must.Hold(t, !strings.Contains(body, "takes no requests"), "a worker that is ready:", body)
}

// awaitReason starts a worker, and advances the clock in steps until the workers' list has the reason.
func awaitReason(d *deployment, endpoint, reason string, step time.Duration) {
	d.t.Helper()
	d.must(http.StatusOK, "PATCH", "/v2/serverless/"+endpoint, `{"workers": {"min": 1, "max": 1}}`)
	waitFor(d.t, func() (bool, any) {
		d.advance(step)
		_, _, body := d.do("GET", "/v2/serverless/"+endpoint+"/workers", "")
		return strings.Contains(body, reason), body
	})
}

func TestUnhealthyWorkerIsReplaced(t *testing.T) {
	d, programs, id := deployBalanced(t, func(http.ResponseWriter, *http.Request) {})
	_, header, _ := d.do("GET", "/v2/"+id+"/x", "")
	first := header.Get("X-Worker")
	programs.unhealthy.Store(true)
	waitFor(t, func() (bool, any) {
		d.advance(2 * time.Second)
		_, _, body := d.do("GET", "/v2/serverless/"+id+"/workers", "")
		return !strings.Contains(body, `"IDLE"`), body
	})
	programs.unhealthy.Store(false)
	d.advance(2 * time.Second) // the back-off
	code, header, _ := d.do("GET", "/v2/"+id+"/x", "")
	must.Hold(t, code == http.StatusOK && header.Get("X-Worker") != first, "after the back-off a request is answered", code, "by worker", header.Get("X-Worker"), "and the unhealthy worker was", first)
}

// A release doesn't interrupt open requests; the next request goes to a new worker.
func TestAReleaseKeepsOpenRequests(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	d, _, id := deployBalanced(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(began)
			<-finish
		}
	})
	slow := make(chan string, 1)
	go func() {
		_, header, _ := d.do("GET", "/v2/"+id+"/slow", "")
		slow <- header.Get("X-Worker")
	}()
	<-began
	d.must(http.StatusOK, "PATCH", "/v2/serverless/"+id, `{"env": {"WHO": "two", "HEALTH_CHECK_PATH": "/up"}}`)
	var list struct {
		EndpointVersion int64
		Releases        []struct {
			Version int64
			Diff    []struct {
				Field    string
				Old, New map[string]string
			}
		}
	}
	_, _, body := d.do("GET", "/v2/serverless/"+id+"/releases", "")
	must.Succeed(t, json.Unmarshal([]byte(body), &list), body)
	if r := list.Releases; len(r) != 2 || r[0].Version != list.EndpointVersion || len(r[0].Diff) != 1 || r[0].Diff[0].Field != "template.env" ||
		r[0].Diff[0].Old["WHO"] != "one" || r[0].Diff[0].New["WHO"] != "two" {
		t.Errorf("releases: %s", body)
	}
	awaitIdleWorker(d, id) // until then the old worker may get the next request, too
	must.Contain(t, d.must(200, "GET", "/v2/serverless/"+id+"/releases", "").text, `"rollout":{"inProgress":true,"workersOnLatest":1,"workersTotal":2,"percentOnLatest":50}`)
	_, _, body = d.do("GET", "/v2/serverless/"+id+"/workers", "")
	must.Hold(t, strings.Count(body, `"isStale":true`) == 1 && strings.Count(body, `"isStale":false`) == 1, "workers:", body)
	_, header, _ := d.do("GET", "/v2/"+id+"/x", "")
	close(finish)
	old := <-slow
	must.Hold(t, old != "" && old != header.Get("X-Worker"), "the open request had worker", old, "the next one", header.Get("X-Worker"))
}

func TestWorkersAndTheirLogs(t *testing.T) {
	d, _, id := deployBalanced(t, func(http.ResponseWriter, *http.Request) {})
	_, header, _ := d.do("GET", "/v2/"+id+"/x", "")
	var list struct {
		Workers []struct {
			ID, Status, Image string
			IsStale           bool
		}
		Summary struct{ Idle, Running, Total int }
	}
	_, _, body := d.do("GET", "/v2/serverless/"+id+"/workers", "")
	err := json.Unmarshal([]byte(body), &list)
	must.Require(t, err == nil && len(list.Workers) == 1, "the workers are answered with", err, body, "want one worker")
	w := list.Workers[0]
	must.Hold(t, w.ID == header.Get("X-Worker") && w.Image == "test/web" && !w.IsStale && list.Summary.Total == 1 &&
		list.Summary.Idle+list.Summary.Running == 1, "workers:", body)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := must.Do(http.NewRequestWithContext(ctx, "GET", d.url+"/v2/serverless/"+id+"/workers/"+w.ID+"/logs", nil))(t)
	r.Header.Set("Authorization", "Bearer planted-key")
	resp := must.Do(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan()
	event := lines.Text()
	must.Hold(t, strings.HasPrefix(event, "id: 20") && resp.Header.Get("Content-Type") == "text/event-stream", "the log's first event is", resp.Header.Get("Content-Type"), event, "want an event stream whose ids are times")
	lines.Scan()
	must.Contain(t, lines.Text(), `"line":"listening, as one"`, `"source":"container"`)
	for path, want := range map[string]int{
		"/v2/serverless/" + id + "/workers/nobody/logs":               http.StatusNotFound,
		"/v2/serverless/nothing/workers/" + w.ID + "/logs":            http.StatusNotFound,
		"/v2/serverless/nothing/workers":                              http.StatusNotFound,
		"/v2/serverless/nothing/releases":                             http.StatusNotFound,
		"/v2/serverless/" + id + "/workers/" + w.ID + "/logs?tail=-1": http.StatusBadRequest,
	} {
		code, header, body := d.do("GET", path, "")
		must.Hold(t, code == want && header.Get("Content-Type") == "application/problem+json", path, "is answered", code, body, "want", want)
	}
}

// Running counts every job of a worker that has several.
func TestRunning(t *testing.T) {
	programs := new(webServers)
	d := deployWith(t, jobrunner.Config{Programs: programs, URL: "http://127.0.0.1:1"})
	id := d.createObject("/v2/serverless", `{"name": "e", "image": "test/web", "workers": {"min": 1, "max": 1}}`)
	waitFor(t, func() (bool, any) { return programs.lastSpec.Load() != nil, "no process was started" })
	spec := programs.lastSpec.Load()
	for range 2 {
		d.must(200, "POST", "/v2/"+id+"/run", `{"input": {}}`)
	}
	d.send(spec.Env["RUNPOD_AI_API_KEY"], "GET", "/v2/"+id+"/job-take-batch/"+spec.ID+"?batch_size=2", "")
	must.Equal(t, d.Running(), 2, "running jobs")
}
