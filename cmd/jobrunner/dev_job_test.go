package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A worker that still starts isn't a failure of --once: a large model loads for minutes.
func TestOnceWaitsForAWorkerThatLoads(t *testing.T) {
	t.Parallel()
	for starting, want := range map[int]string{0: "the handler does not start: it has run for 30s", 1: ""} {
		var polls atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := "IN_QUEUE"
			if path.Base(r.URL.Path) == "health" {
				polls.Add(1)
			} else if polls.Load() > 2 {
				status = "COMPLETED"
			}
			fmt.Fprintf(w, `{"id":"j","status":%q,"reason":"it has run for 30s","workers":{"initializing":%d}}`, status, starting)
		}))
		t.Cleanup(server.Close)
		client, err := api.New(api.Settings{BaseURL: server.URL, Version: api.V2, APIKey: "k"})
		must.Succeed(t, err)
		e := &devEndpoint{client: client, id: "e"}
		job, err := e.await(t.Context(), api.Job{ID: "j", Status: "IN_QUEUE"}, true, &terminal{w: io.Discard})
		failure, _ := errors.AsType[*exitError](err)
		if want == "" && (err != nil || job.Status != "COMPLETED") || want != "" && (failure == nil || failure.status != exitNotStarted || failure.text != want) {
			t.Errorf("with %d starting workers: %s, %v", starting, job.Status, err)
		}
	}
}
