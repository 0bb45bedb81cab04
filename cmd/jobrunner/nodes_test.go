//go:build unix

package main_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// nodes are jobrunners on one database, each with its own data folder. The database's password is in a file.
type nodes struct {
	t        *testing.T // the current subtest
	lifetime *testing.T // the test whose end stops the nodes
	server   *pgtest.Server
	env      []string
	args     []string
	dirs     []string

	mu        sync.Mutex // the test restarts nodes while clients use others
	processes []*process
}

func (c *nodes) node(i int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[i]
}

func startNodes(t *testing.T, n int) *nodes {
	t.Helper()
	c := &nodes{t: t, lifetime: t, server: pgtest.NewServer(t)}
	u := must.Do(url.Parse(c.server.URL))(t)
	home := t.TempDir()
	password := filepath.Join(home, "pgpass")
	writeFile(t, password, u.Host+":*:"+u.User.Username()+":"+pgtest.Password+"\n")
	u.User = url.User(u.User.Username())
	c.env = environment(home, "GPUCLOUD_API_KEY=k", "PGPASSFILE="+password)
	c.args = []string{"--limits=off", "--engine=" + u.String(), "--engine-connections=6"}
	for i := range n {
		c.dirs = append(c.dirs, t.TempDir())
		c.processes = append(c.processes, nil)
		c.start(i)
	}
	return c
}

func (c *nodes) start(i int) {
	c.t.Helper()
	p := serve(c.lifetime, c.env, append([]string{"--data=" + c.dirs[i]}, c.args...)...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[i] = p
}

func (c *nodes) send(ctx context.Context, node int, method, path, body string) (status int, text string) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	resp, text, err := send(ctx, method, c.node(node).url+path, "k", body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, text
}

func (c *nodes) query(dest any, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.server.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.QueryRow(ctx, query, args...).Scan(dest)
}

// leader returns the node that leads an endpoint.
func (c *nodes) leader(endpoint string) (leader int) {
	c.t.Helper()
	waitUntil(c.t, "a node to lead the endpoint "+endpoint, func() bool {
		var leaderURL string
		err := c.query(&leaderURL, "SELECT url FROM leads JOIN processes ON processes.id = leads.process WHERE endpoint = $1", endpoint)
		leader = slices.IndexFunc(c.processes, func(p *process) bool { return p.url == leaderURL })
		return err == nil && leader >= 0
	})
	return leader
}

// submitJobs submits jobs to all nodes in turn until ctx ends. wait returns the expected outputs of
// the acknowledged jobs whose response had no output yet, by id.
func (c *nodes) submitJobs(ctx context.Context, endpoint string, clients int) (wait func() map[string]string) {
	var mu sync.Mutex
	outputs := map[string]string{}
	var submitters sync.WaitGroup
	var number atomic.Int64
	for range clients {
		submitters.Go(func() {
			for ctx.Err() == nil {
				n := number.Add(1)
				output := fmt.Sprintf(`{"n":%d}`, n)
				operation := []string{"run", "runsync"}[rand.IntN(2)]
				body := fmt.Sprintf(`{"input":{"op":"sleep","ms":%d,"output":%s}}`, rand.IntN(150), output)
				status, text := c.send(ctx, int(n)%len(c.processes), http.MethodPost, "/v2/"+endpoint+"/"+operation, body)
				var job struct {
					ID     string
					Output json.RawMessage
				}
				switch {
				case status == http.StatusOK && json.Unmarshal([]byte(text), &job) == nil && job.ID != "":
					if job.Output == nil || string(job.Output) != output { // an output is checked now, because it is kept for only a minute
						mu.Lock()
						outputs[job.ID] = output
						mu.Unlock()
					}
				case status != 0 && status != http.StatusServiceUnavailable && ctx.Err() == nil:
					c.t.Errorf("a submission returned %d %s", status, text)
				default:
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
	return func() map[string]string { submitters.Wait(); return outputs }
}

// awaitAll expects that each job completes with its output, and was retried at most once.
func (c *nodes) awaitAll(endpoint string, outputs map[string]string) jobCounts {
	c.t.Helper()
	counts := jobCounts{acknowledged: len(outputs), takes: map[int]int{}}
	for id, output := range outputs {
		var job struct {
			Status  string
			Output  json.RawMessage
			Retries int
		}
		for deadline, n := time.Now().Add(waitTimeout), 0; ; n++ {
			status, text := c.send(c.t.Context(), n%len(c.processes), http.MethodGet, "/v2/"+endpoint+"/status/"+id, "")
			if status == http.StatusOK {
				job.Output = nil
				must.Succeed(c.t, json.Unmarshal([]byte(text), &job))
			}
			if job.Status == "COMPLETED" && string(job.Output) == output && job.Retries <= 1 {
				counts.completed++
				break
			}
			if job.Status == "COMPLETED" || job.Status == "FAILED" || time.Now().After(deadline) {
				c.t.Errorf("job %s: %d %s, want %s", id, status, text, output)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		counts.retried += job.Retries
	}
	var takes string
	err := c.query(&takes, `SELECT COALESCE(CAST(json_object_agg(attempt, n) AS TEXT), '{}') FROM (SELECT attempt, COUNT(*) AS n FROM jobs WHERE endpoint = $1 AND id = ANY($2) GROUP BY attempt) AS counted`,
		endpoint, slices.Collect(maps.Keys(outputs)))
	if err == nil {
		err = json.Unmarshal([]byte(takes), &counts.takes)
	}
	must.Succeed(c.t, err, "counting takes")
	return counts
}

type jobCounts struct {
	acknowledged, completed int
	retried                 int         // jobs that ran again, because their node or worker died
	takes                   map[int]int // jobs by number of takes; a stop of a node returns its jobs to the queue
}

func (a *jobCounts) add(b jobCounts) {
	if a.takes == nil {
		a.takes = map[int]int{}
	}
	a.acknowledged, a.completed, a.retried = a.acknowledged+b.acknowledged, a.completed+b.completed, a.retried+b.retried
	for n, jobs := range b.takes {
		a.takes[n] += jobs
	}
}

func (a jobCounts) String() string {
	return fmt.Sprintf("%d jobs acknowledged, %d completed, %d retried; jobs by number of takes: %v", a.acknowledged, a.completed, a.retried, a.takes)
}

// watchMaximum checks, until stop is called, that an endpoint runs no more jobs than its maximum of workers.
func (c *nodes) watchMaximum(endpoint string, maximum int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		seen := 0
		for ctx.Err() == nil {
			var running int
			err := c.query(&running, "SELECT COUNT(*) FROM jobs WHERE endpoint = $1 AND state = 'IN_PROGRESS'", endpoint)
			must.Hold(c.t, err != nil || running <= maximum, running, "jobs run at a time, and the endpoint has", maximum, "workers at most")
			seen = max(seen, running)
			time.Sleep(20 * time.Millisecond)
		}
		must.Hold(c.t, seen > 0, "no job ran while the maximum was watched")
	})
	return func() { cancel(); done.Wait() }
}

// If nodes, workers or the database fail under load, each acknowledged job completes and was retried
// at most once, and no endpoint exceeds its maximum of workers. NODES_ROUNDS=10 repeats each fault
// ten times (make nodes-faults).
func TestNodesUnderFaults(t *testing.T) {
	acctest.LeaveToCI(t, "engine.TestLeadership and the tests of node test its parts")
	const maxWorkers = 2
	rounds := max(1, must.Do(strconv.Atoi(cmp.Or(os.Getenv("NODES_ROUNDS"), "1")))(t))
	var endpoint string
	awaitTakeover := func(c *nodes, oldLeader int) {
		c.t.Helper()
		start := time.Now()
		waitUntil(c.t, "another node to take over", func() bool { return c.leader(endpoint) != oldLeader })
		c.t.Logf("another node leads after %s", time.Since(start).Round(100*time.Millisecond))
		time.Sleep(time.Second)
	}
	killAndRestart := func(c *nodes, node int) {
		isLeader := c.leader(endpoint) == node
		c.processes[node].kill()
		if isLeader {
			awaitTakeover(c, node)
		} else {
			time.Sleep(7 * time.Second) // the others declare it dead
		}
		c.start(node)
	}
	suspendAndResume := func(c *nodes, node int) {
		isLeader := c.leader(endpoint) == node
		c.processes[node].cmd.Process.Signal(syscall.SIGSTOP)
		if isLeader {
			awaitTakeover(c, node)
		} else {
			time.Sleep(8 * time.Second)
		}
		c.processes[node].cmd.Process.Signal(syscall.SIGCONT)
	}
	faults := []struct {
		name  string
		fault func(c *nodes, leader int)
	}{
		{"kill -9 of the leader", killAndRestart},
		{"kill -9 of another node", func(c *nodes, leader int) { killAndRestart(c, (leader+1)%len(c.processes)) }},
		{"the leader hangs", suspendAndResume},
		{"another node hangs", func(c *nodes, leader int) { suspendAndResume(c, (leader+1)%len(c.processes)) }},
		{"kill -9 of PostgreSQL", func(c *nodes, _ int) { c.server.End(syscall.SIGKILL); time.Sleep(time.Second); c.server.Start() }},
		{"PostgreSQL hangs", func(c *nodes, _ int) { resume := c.server.Hang(); time.Sleep(5 * time.Second); resume() }},
		{"a node shuts down gracefully", func(c *nodes, leader int) { c.processes[leader].interrupt(); c.start(leader) }},
	}
	if testing.Short() {
		faults = faults[:1]
	}
	c := startNodes(t, 3)
	runRound := func(t *testing.T, fault func(c *nodes, leader int)) jobCounts {
		c.t = t
		endpoint = createQueueEndpoint(t, c.processes[0].client("k"), "faults", "builtin/conformance", maxWorkers)
		ctx, endLoad := context.WithCancel(t.Context())
		defer endLoad()
		awaitSubmitters, stopWatching := c.submitJobs(ctx, endpoint, 6), c.watchMaximum(endpoint, maxWorkers)
		time.Sleep(time.Second)
		fault(c, c.leader(endpoint))
		time.Sleep(2 * time.Second)
		endLoad()
		counts := c.awaitAll(endpoint, awaitSubmitters())
		stopWatching()
		return counts
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			var total jobCounts
			for range rounds {
				total.add(runRound(t, f.fault))
			}
			t.Logf("%d times: %s", rounds, total)
		})
	}
	c.t = t
	for _, p := range c.processes {
		p.kill()
		must.Hold(t, !strings.Contains(p.stderr.String(), pgtest.Password), "the password is in the log")
	}
}

// A database password from a file isn't in a process's arguments or log. One in an argument causes a warning.
func TestEnginePassword(t *testing.T) {
	acctest.LeaveToCI(t, "sqldb.TestInvalidAddresses covers the password of an address")
	t.Parallel()
	engine := pgtest.Start(t)
	file := filepath.Join(t.TempDir(), "engine")
	writeFile(t, file, engine+"\n")
	u := must.Do(url.Parse(engine))(t)
	u.User = url.User(u.User.Username())
	for name, c := range map[string]struct {
		env, args []string
		warns     bool
	}{
		"file":         {nil, []string{"--engine-file=" + file}, false},
		"variable":     {[]string{"GPUCLOUD_ENGINE=" + engine}, nil, false},
		"PGPASSWORD":   {[]string{"PGPASSWORD=" + pgtest.Password}, []string{"--engine=" + u.String()}, false},
		"command line": {nil, []string{"--engine=" + engine}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, environment(t.TempDir(), append(c.env, "GPUCLOUD_API_KEY=k")...), append(c.args, "--data="+t.TempDir())...)
			if !c.warns {
				out, err := exec.CommandContext(t.Context(), "ps", "-o", "args=", "-p", fmt.Sprint(p.cmd.Process.Pid)).Output()
				arguments := string(out)
				must.Hold(t, err == nil && !strings.Contains(arguments, "planted"), "the list of processes has", arguments, err)
			}
			_, metrics := p.get("/metrics")
			p.interrupt()
			log := p.stderr.String()
			must.Equal(t, strings.Contains(log, "list of processes"), c.warns, "the log has a warning:", log)
			must.Hold(t, !strings.Contains(log+metrics+strings.Join(p.startupLines, "\n"), "planted"), "the log has the password")
		})
	}
}

// Each node accepts a new key and rejects a removed one. The keys of a node's data folder move to
// the database, and a removed key stays removed even if it is still in a folder.
func TestKeysOfNodes(t *testing.T) {
	acctest.LeaveToCI(t, "apikey.TestTableTakesOver and TestAddedKeyIsAcceptedAtOnce test its parts")
	t.Parallel()
	c := startNodes(t, 1)
	engine := strings.TrimPrefix(c.args[1], "--engine=")
	dir := t.TempDir()
	folderKey := must.Do(apikey.FileIn(dir).Add(apikey.Key{Name: "old", Management: apikey.Read}))(t)
	databaseKey := strings.TrimSpace(mustPrint(t, c.env, "keys", "add", "ci", "--engine", engine))
	c.dirs, c.processes = append(c.dirs, dir), append(c.processes, nil)
	c.start(1)
	// awaitStatus waits until each node answers a key with a status. A node accepts a new key soon after it was added, even if it has just rejected it.
	awaitStatus := func(key string, want int) {
		t.Helper()
		for i := range c.processes {
			for deadline := time.Now().Add(waitTimeout); ; time.Sleep(20 * time.Millisecond) {
				got := c.node(i).getStatus(key, "/v2/templates")
				if got == want {
					break
				}
				if want == 200 && got != 401 || time.Now().After(deadline) {
					t.Errorf("node %d returns %d, want %d", i, got, want)
					break
				}
			}
		}
	}
	awaitStatus(folderKey, 200)
	awaitStatus(databaseKey, 200)
	must.Contain(t, mustFail(t, c.env, "keys", "add", "lost", "--data", dir), "are in the deployment's database")
	must.Contain(t, mustFail(t, c.env, "keys", "add", "old", "--engine", engine), "exists already")
	must.Contain(t, mustPrint(t, append(c.env, "GPUCLOUD_ENGINE="+engine), "keys", "list"), "old ", "ci ")
	mustPrint(t, c.env, "keys", "remove", "old", "--engine", engine)
	awaitStatus(folderKey, 401)
	awaitStatus(databaseKey, 200)
	c.node(1).interrupt()
	c.start(1) // its folder still has the key
	awaitStatus(folderKey, 401)
	c.node(1).interrupt()
	must.Contain(t, mustFail(t, c.env, "serve", "--listen=127.0.0.1:0", "--data", dir), "are in the deployment's database")
	var stored string
	err := c.query(&stored, "SELECT string_agg(content || sha256, '') FROM api_keys")
	must.Hold(t, err == nil && !strings.Contains(stored, databaseKey) && !strings.Contains(stored, folderKey), "the database has", stored, err)
	// If its owner removes keys.json.moved, the folder's keys are valid again.
	must.Succeed(t, os.Remove(filepath.Join(dir, "keys.json.moved")))
	must.Equal(t, serve(t, c.env, "--data="+dir).getStatus(folderKey, "/v2/templates"), 200, "the status of a request with the folder's key")
}
