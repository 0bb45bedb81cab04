//go:build unix

package jobrunner_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// Probes need no key. A stopping jobrunner, or one whose database is unavailable, is alive
// but not ready, and its response doesn't name the database.
func TestHealth(t *testing.T) {
	j := must.Do(jobrunner.New(t.Context(), jobrunner.Config{DataDir: t.TempDir(), APIKey: "planted-key"}))(t)
	server := httptest.NewServer(j.Handler())
	t.Cleanup(func() {
		server.Close()
		err := j.Close()
		must.Hold(t, err == nil, err)
	})
	d := &deployment{t: t, url: server.URL}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, text := d.get(path, ""); status != http.StatusOK || text != "ok\n" {
			t.Errorf("%s: %d %s", path, status, text)
		}
		if status, _, _ := d.do(http.MethodPost, path, ""); status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, status)
		}
	}
	j.Drain(t.Context())
	if status, text := d.get("/readyz", ""); status != http.StatusServiceUnavailable || !strings.Contains(text, "stopping") {
		t.Errorf("while it stops: %d %s", status, text)
	}
	if status, text := d.get("/healthz", ""); status != http.StatusOK {
		t.Errorf("while it stops: %d %s", status, text)
	}
}

func TestHealthWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	o := startOutage(t)
	o.becomes(http.StatusOK)
	o.server.End(syscall.SIGQUIT)
	text := o.becomes(http.StatusServiceUnavailable)
	must.Hold(t, strings.Contains(text, "the database does not answer") && !strings.Contains(text, "127.0.0.1"), "without the database", text)
	if status, text := o.get("/healthz", ""); status != http.StatusOK {
		t.Errorf("without the database: %d %s", status, text)
	}
	o.server.Start()
	o.becomes(http.StatusOK)
}

// becomes waits for a status of the readiness probe.
func (o *outage) becomes(status int) (text string) {
	o.t.Helper()
	waitFor(o.t, func() (bool, any) {
		var got int
		got, text = o.get("/readyz", "")
		return got == status, text
	})
	return text
}
