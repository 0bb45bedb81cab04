//go:build unix

package main_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// A result that a worker posted while the database was unavailable survives a kill of the jobrunner.
func TestResultOutlivesOutageAndKill(t *testing.T) {
	acctest.LeaveToCI(t, "jobrunner.TestResultsOnAFullDisk covers the spool")
	t.Parallel()
	server := pgtest.NewServer(t)
	engine := "--engine=" + server.URL
	h := serveHandlers(t, `"cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 2, "max": 2}`, engine)
	first, second := h.run("first", "go"), h.run("second", "go")
	h.until("two jobs", func() bool { return len(h.lines("begins")) == 2 })
	server.End(syscall.SIGINT)
	h.release("go")
	h.until("two reports on the disk", func() bool {
		reports, _ := filepath.Glob(filepath.Join(h.home, "data", "reports", "*.report"))
		return len(reports) == 2
	})
	h.kill()
	server.Start()
	h.start(t, engine)
	for _, id := range []string{first, second} {
		if _, _, retries := h.awaitResult(id); retries != 0 {
			t.Errorf("the job was retried")
		}
	}
	begins := h.lines("begins")
	must.Hold(t, len(begins) == 2, "starts of jobs", begins)
	if reports, _ := filepath.Glob(filepath.Join(h.home, "data", "reports", "*")); len(reports) > 0 {
		t.Errorf("delivered reports are left: %v", reports)
	}
	h.expectCleanStop(h.interrupt)
}

// A job whose jobrunner dies whenever it runs is dispatched only twice.
func TestJobThatKillsItsJobrunner(t *testing.T) {
	acctest.LeaveToCI(t, "TestSurvivesKills kills a jobrunner")
	t.Parallel()
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	data := "--data=" + t.TempDir()
	p := serve(t, env, data)
	endpoint := p.endpoint("builtin/conformance")
	job := must.Do(p.client("k").Jobs.Run(t.Context(), endpoint, api.Submission{Input: []byte(`{"op":"sleep","ms":600000}`)}))(t)
	for kills := 0; ; {
		got := must.Do(p.client("k").Jobs.Status(t.Context(), endpoint, job.ID))(t)
		if got.Finished() {
			must.Hold(t, got.Status == "FAILED" && strings.Contains(got.Error, "the jobrunner that ran it was killed") && kills == 2, "after", kills, "kills", got)
			break
		}
		if got.Status != "IN_PROGRESS" {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		must.Equal(t, got.Retries, kills, "retries after", "kills")
		if kills++; kills > 3 {
			t.Fatal("the job is dispatched endlessly")
		}
		p.kill()
		p = serve(t, env, data)
	}
	p.interrupt()
}
