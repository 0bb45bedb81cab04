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
)

// smallDisk mounts a small file system, which only root can do.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=0700,size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a small disk can't be mounted here: %s %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("unmounting: %s %s", err, out)
		}
	})
	return dir
}

// With a full disk, new jobs are rejected and none is lost. With free space, jobs are accepted
// again.
func TestFullDisk(t *testing.T) {
	acctest.LeaveToCI(t, "sqldb.TestFullDisk and jobrunner.TestResultsOnAFullDisk test its parts")
	t.Parallel()
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	disk := smallDisk(t, "12m")
	data := "--data=" + disk
	p := serve(t, env, data, "--limits=off")
	c := p.client("k")
	endpoint := p.endpoint("unknown/image")
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
	if err := fill(c); !strings.Contains(err.Error(), "the disk that holds the database is full") || !strings.Contains(err.Error(), fmt.Sprint(http.StatusInsufficientStorage)) {
		t.Fatalf("after %d jobs: %v", len(jobs), err)
	}
	there := func(c *api.Client) {
		t.Helper()
		for _, id := range jobs {
			if job, err := c.Jobs.Status(t.Context(), endpoint, id); err != nil || job.Status != "IN_QUEUE" {
				t.Fatalf("job %s of %d: %s, %v", id, len(jobs), job.Status, err)
			}
		}
	}
	there(c)
	p.kill()
	// The jobrunner starts on the full disk, and operations that free space work.
	p = serve(t, env, data, "--limits=off")
	c = p.client("k")
	there(c)
	// The start may move the write-ahead log into the database, which frees space for a few jobs.
	fill(c)
	cancelled := jobs[0]
	if _, err := c.Jobs.Cancel(t.Context(), endpoint, cancelled); err != nil {
		t.Errorf("cancelling on a full disk: %v", err)
	}
	jobs = jobs[1:]
	there(c)
	p.kill()
	if out, err := exec.Command("mount", "-o", "remount,size=24m", disk).CombinedOutput(); err != nil {
		t.Fatalf("freeing space: %s %s", err, out)
	}
	p = serve(t, env, data, "--limits=off")
	c = p.client("k")
	there(c)
	if _, err := submit(c); err != nil {
		t.Errorf("with free space again: %s", err)
	}
	fill(c)
	var purged struct{ Removed int }
	if p.call(http.MethodPost, "/v2/"+endpoint+"/purge-queue", "", &purged); purged.Removed < len(jobs) {
		t.Errorf("purging a queue on a full disk removed %d jobs of %d", purged.Removed, len(jobs))
	}
	if _, err := submit(c); err != nil {
		t.Errorf("after the purge: %s", err)
	}
	fill(c)
	err := c.Endpoints.Delete(t.Context(), endpoint)
	must.Hold(t, err == nil, "deleting an endpoint on a full disk", err)
	p.interrupt()
}
