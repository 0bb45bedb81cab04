//go:build unix

package main_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/smalldisk"
)

// With a full disk, new jobs are rejected and none is lost. With free space, jobs are accepted again.
func TestFullDisk(t *testing.T) {
	acctest.LeaveToCI(t, "sqldb.TestFullDisk and jobrunner.TestResultsOnAFullDisk test its parts")
	t.Parallel()
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	disk := smalldisk.Mount(t, "12m")
	data := "--data=" + disk
	p := serve(t, env, data, "--limits=off")
	c := p.client("k")
	endpoint := p.createEndpointOfImage("unknown/image")
	submit := func(c *api.Client) (string, error) {
		job, err := c.Jobs.Run(t.Context(), endpoint, api.Submission{Input: fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 200_000))})
		return job.ID, err
	}
	var jobs []string
	fill := func(c *api.Client) error { // submits jobs until one is rejected
		for range 1000 {
			id, err := submit(c)
			if err != nil {
				return err
			}
			jobs = append(jobs, id)
		}
		t.Fatal("a full disk accepts any number of jobs")
		return nil
	}
	err := fill(c)
	must.Require(t, strings.Contains(err.Error(), "the disk that holds the database is full") && strings.Contains(err.Error(), fmt.Sprint(http.StatusInsufficientStorage)), "after", len(jobs), "jobs, a submission got the error", err)
	expectQueued := func(c *api.Client) {
		t.Helper()
		for _, id := range jobs {
			job, err := c.Jobs.Status(t.Context(), endpoint, id)
			must.Require(t, err == nil && job.Status == "IN_QUEUE", "the job", id, "of", len(jobs), "is", job.Status, err)
		}
	}
	expectQueued(c)
	p.kill()
	// The jobrunner starts on the full disk, and operations that free space still succeed.
	p = serve(t, env, data, "--limits=off")
	c = p.client("k")
	expectQueued(c)
	// The start may move the write-ahead log into the database, which frees space for a few jobs.
	fill(c)
	cancelledID := jobs[0]
	must.Equal(t, must.Err(c.Jobs.Cancel(t.Context(), endpoint, cancelledID)), nil, "cancelling on a full disk")
	jobs = jobs[1:]
	expectQueued(c)
	p.kill()
	if out, err := exec.Command("mount", "-o", "remount,size=24m", disk).CombinedOutput(); err != nil {
		t.Fatalf("freeing space: %s %s", err, out)
	}
	p = serve(t, env, data, "--limits=off")
	c = p.client("k")
	expectQueued(c)
	must.Equal(t, must.Err(submit(c)), nil, "a submission with free space again")
	fill(c)
	var purged struct{ Removed int }
	p.call(http.MethodPost, "/v2/"+endpoint+"/purge-queue", "", &purged)
	must.Hold(t, purged.Removed >= len(jobs), "purging a queue on a full disk removed", purged.Removed, "jobs, want at least", len(jobs))
	must.Equal(t, must.Err(submit(c)), nil, "a submission after the purge")
	fill(c)
	must.Equal(t, c.Endpoints.Delete(t.Context(), endpoint), nil, "deleting an endpoint on a full disk")
	p.interrupt()
}
