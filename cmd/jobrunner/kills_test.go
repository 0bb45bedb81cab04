//go:build unix

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// shortenedCount returns a 25th of n in a short run, but at least one.
func shortenedCount(n int) int {
	if testing.Short() {
		return max(n/25, 1)
	}
	return n
}

// After a kill -9 at a random moment under load, all acknowledged objects exist, and all jobs complete.
func TestSurvivesKills(t *testing.T) {
	for _, fsync := range []string{"full", "normal"} {
		t.Run(fsync, func(t *testing.T) {
			if fsync == "normal" {
				acctest.LeaveToCI(t, "full tests the same: a kill loses nothing in either mode")
			}
			t.Parallel()
			testKills(t, shortenedCount(50), environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--fsync="+fsync)
		})
	}
}

// Only with --fsync=normal does a jobrunner use a server that may lose acknowledged commits.
func TestServerThatMayLoseCommits(t *testing.T) {
	acctest.LeaveToCI(t, "sqldb.TestAsynchronousCommitIsRejected covers the check")
	t.Parallel()
	engine := "--engine=" + pgtest.Start(t) + "&options=-c%20synchronous_commit%3Doff"
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	must.Contain(t, mustFail(t, env, "serve", "--listen=127.0.0.1:0", engine), "synchronous_commit is off", "--fsync=normal")
	serve(t, env, engine, "--fsync=normal").interrupt()
}

// With the state in PostgreSQL, running jobs continue once the death of their jobrunner is noticed.
func TestSurvivesKillsOnPostgres(t *testing.T) {
	acctest.LeaveToCI(t, "TestSurvivesKills tests it on SQLite")
	t.Parallel()
	testKills(t, shortenedCount(3), environment(t.TempDir(), "GPUCLOUD_API_KEY=k", "GPUCLOUD_ENGINE="+pgtest.Start(t)))
}

// testKills kills a jobrunner under load, several times, and expects all acknowledged volumes and jobs after each kill.
func testKills(t *testing.T, kills int, env []string, args ...string) {
	t.Helper()
	args = append(args, "--data="+t.TempDir(), "--limits=off")
	p := serve(t, env, args...)
	endpoint := createQueueEndpoint(t, p.client("k"), "killed", "builtin/conformance", 8)
	volumes, allJobs := map[string]int64{}, map[string]string{}
	for range kills {
		jobs := map[string]string{}
		loadAndKill(t, p, endpoint, volumes, jobs)
		maps.Copy(allJobs, jobs)
		p = serve(t, env, args...)
		c := p.client("k")
		sizes := map[string]int64{}
		for _, v := range must.Do(c.NetworkVolumes.List(t.Context()))(t) {
			sizes[v.ID] = v.Size
		}
		for id, size := range volumes { // it may also have the size that was requested when the jobrunner died
			must.Hold(t, sizes[id] >= size, "volume", id, "was acknowledged with", size, "GB and has", sizes[id])
		}
		for id, output := range jobs {
			awaitOutput(t, c, endpoint, id, output)
		}
	}
	for id, output := range allJobs { // results survive kills, too
		awaitOutput(t, p.client("k"), endpoint, id, output)
	}
	var health struct {
		Jobs struct{ Completed, Failed, InProgress, InQueue int }
	}
	waitUntil(t, "the end of the jobs that were not acknowledged", func() bool {
		p.call(http.MethodGet, "/v2/"+endpoint+"/health", "", &health)
		return health.Jobs.InQueue+health.Jobs.InProgress == 0
	})
	must.Hold(t, health.Jobs.Completed >= len(allJobs) && health.Jobs.Failed == 0, "the health is", health, "after", len(allJobs), "acknowledged jobs")
	t.Logf("%d volumes and %d jobs were acknowledged", len(volumes), len(allJobs))
	p.interrupt()
}

// loadAndKill sends requests from several clients, and kills the jobrunner after a random response.
func loadAndKill(t *testing.T, p *process, endpoint string, volumes map[string]int64, jobs map[string]string) {
	t.Helper()
	var mu sync.Mutex
	remaining := 1 + rand.IntN(150)
	ctx, stop := context.WithCancel(t.Context())
	recordResponse := func(record func()) {
		mu.Lock()
		defer mu.Unlock()
		record()
		if remaining--; remaining == 0 {
			p.kill()
			stop()
		}
	}
	var clients sync.WaitGroup
	for client := range 4 {
		c := p.client("k")
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("%d-%d", client, n)
				switch client {
				case 0:
					id, err := p.writeVolume(ctx, http.MethodPost, "", `{"name": "`+name+`", "size": 10, "dataCenter": "EU-RO-1"}`)
					if err != nil {
						return
					}
					recordResponse(func() { volumes[id] = 10 })
					if _, err := p.writeVolume(ctx, http.MethodPatch, "/"+id, `{"size": 20}`); err != nil {
						return
					}
					recordResponse(func() { volumes[id] = 20 })
				default:
					// Jobs run for different times, so that at the kill some are in every state.
					output := fmt.Sprintf(`%q`, name)
					input := fmt.Sprintf(`{"op":"sleep","ms":%d,"output":%s}`, rand.IntN(20), output)
					job, err := c.Jobs.Run(ctx, endpoint, api.Submission{Input: []byte(input)})
					if err != nil {
						return
					}
					recordResponse(func() { jobs[job.ID] = output })
				}
			}
		})
	}
	clients.Wait()
	p.kill()
}

// writeVolume creates or changes a network volume, without the API client's retries at a dead jobrunner.
func (p *process) writeVolume(ctx context.Context, method, path, body string) (id string, err error) {
	_, text, err := send(ctx, method, p.url+"/v2/network-volumes"+path, "k", body)
	if err != nil {
		return "", err
	}
	var created struct{ ID string }
	if err := json.Unmarshal([]byte(text), &created); err != nil || created.ID == "" {
		return "", fmt.Errorf("%s %s: %s, %w", method, path, text, err)
	}
	return created.ID, nil
}

// awaitOutput waits until a job completes with the output, after one kill at most, which counts as a retry.
func awaitOutput(t testing.TB, c *api.Client, endpoint, id, output string) {
	t.Helper()
	waitUntil(t, "the end of "+id, func() bool {
		job, err := c.Jobs.Status(t.Context(), endpoint, id)
		must.Require(t, err == nil && (!job.Finished() || job.Status == "COMPLETED" && string(job.Output) == output && job.Retries <= 1), "job", id, "is", job.Status, "with", string(job.Output), "after", job.Retries, "retries", err)
		return job.Finished()
	})
}
