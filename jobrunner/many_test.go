//go:build unix

package jobrunner_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// BenchmarkManyEndpoints measures the processor time of listing 10,000 endpoints.
//
//	go test -run '^$' -bench ManyEndpoints -benchtime 5x ./jobrunner
func BenchmarkManyEndpoints(b *testing.B) {
	b.Cleanup(func() { debug.SetGCPercent(100) })
	debug.SetGCPercent(400) // as in cmd/jobrunner
	j := must.Do(jobrunner.New(b.Context(), jobrunner.Config{APIKey: "planted-key", Logger: slog.New(slog.DiscardHandler)}))(b)
	b.Cleanup(func() { _ = j.Close() })
	do := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(b.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer planted-key")
		w := httptest.NewRecorder()
		j.Handler().ServeHTTP(w, r)
		return w
	}
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for i := range 2500 {
				body := fmt.Sprintf(`{"name":"e-%d-%d","type":"QUEUE","image":"i","workers":{"min":0,"max":0},"env":{"A":"1","B":"2"}}`, c, i)
				if w := do("POST", "/v2/serverless", body); w.Code != http.StatusCreated {
					b.Errorf("creating an endpoint is answered %d %s", w.Code, w.Body)
					return
				}
			}
		})
	}
	clients.Wait()
	for _, path := range []string{"/v2/serverless", "/v1/endpoints", "/metrics"} {
		b.Run(path[1:], func(b *testing.B) {
			before, size := processorTime(), 0
			for b.Loop() {
				w := do("GET", path, "")
				n, _ := io.Copy(io.Discard, w.Body)
				size = int(n)
				must.Require(b, w.Code == http.StatusOK, "the list is answered", w.Code)
			}
			b.ReportMetric(float64(processorTime()-before)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
