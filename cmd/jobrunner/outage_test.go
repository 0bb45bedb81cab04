//go:build unix

package main_test

import (
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// A result that a worker posted while the database was unavailable survives a kill of the jobrunner.
func TestResultOutlivesOutageAndKill(t *testing.T) {
	acctest.LeaveToCI(t, "jobrunner.TestResultsOnAFullDisk has the spool")
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
	if begins := h.lines("begins"); len(begins) != 2 {
		t.Errorf("starts of jobs: %v", begins)
	}
	if reports, _ := filepath.Glob(filepath.Join(h.home, "data", "reports", "*")); len(reports) > 0 {
		t.Errorf("delivered reports are left: %v", reports)
	}
	h.interrupt()
	for _, words := range h.lines("starts") {
		if pid, _ := strconv.Atoi(words[0]); runs(pid) {
			t.Errorf("the worker %d survived its deployment", pid)
		}
	}
}
