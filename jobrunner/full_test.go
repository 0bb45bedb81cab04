//go:build unix

package jobrunner_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/smalldisk"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// A result that doesn't fit on the disk is spooled until the disk has space.
func TestResultsOnAFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("built-in worker", func(t *testing.T) {
		d := startChecked(t, jobrunner.Config{DataDir: smalldisk.Mount(t, "30m"), AdminClock: true})
		d.testFullDisk("builtin/conformance", func() {
			status, text, err := d.call(t.Context(), http.MethodPost, "/clock", `{"advance":300000}`)
			must.Require(t, err == nil && status == http.StatusOK, "advancing the clock is answered", status, text, err)
		})
	})
	t.Run("process", func(t *testing.T) {
		release, ends, answered := make(chan struct{}), make(chan struct{}), make(chan int, 10)
		d := startChecked(t, jobrunner.Config{DataDir: smalldisk.Mount(t, "30m"), Programs: sdkWorkers{release, ends, answered}})
		d.testFullDisk("sdk/worker", func() {
			close(release)
			<-ends
			d.log.Await(t, "waits for the database in memory", 1)
			d.awaitJob(d.newestEndpoint, "IN_PROGRESS")
			if len(answered) > 0 { // the result would not outlive this process
				t.Errorf("the worker was answered %d before its result could be stored", <-answered)
			}
		})
		must.Equal(t, <-answered, http.StatusOK, "the status of the worker's post")
	})
}

// Clients whose uploads are slow, and fill the memory for bodies, don't delay the results of workers.
func TestResultsDuringSlowUploads(t *testing.T) {
	t.Parallel()
	release, ends, answered := make(chan struct{}), make(chan struct{}), make(chan int, 10)
	d := startChecked(t, jobrunner.Config{BodyMemory: 4 << 20, Programs: sdkWorkers{release, ends, answered}})
	endpoint := d.createEndpointOf("sdk/worker", 1)
	d.call(t.Context(), http.MethodPost, "/v2/"+endpoint+"/run", `{"input":{"output":1}}`)
	path := d.awaitJob(endpoint, "IN_PROGRESS")
	body, upload := io.Pipe()
	slow := must.Do(http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v2/"+endpoint+"/run", body))(t)
	slow.Header.Set("Authorization", "planted-key")
	slow.ContentLength = 10 << 20
	go http.DefaultClient.Do(slow) // fails when upload is closed
	defer upload.Close()
	waitFor(t, func() (bool, any) {
		status, _, _ := d.call(t.Context(), http.MethodPost, "/v2/"+endpoint+"/run", "1")
		return status == http.StatusServiceUnavailable, status
	})
	close(release)
	<-ends
	select {
	case status := <-answered:
		must.Equal(t, status, http.StatusOK, "the status of the worker's post")
	case <-time.After(10 * time.Second):
		t.Error("the worker's post isn't answered")
	}
	must.Equal(t, d.awaitJob(endpoint, "COMPLETED"), path)
}

// testFullDisk calls endJob, which ends a job, while the disk is full, and frees space later.
func (d *checkedDeployment) testFullDisk(image string, endJob func()) {
	t := d.t
	t.Helper()
	idleEndpoint, endpoint := d.createEndpointOf("unknown/image", 1), d.createEndpointOf(image, 1)
	d.newestEndpoint = endpoint
	output, ms := `"`+strings.Repeat("x", 1<<20)+`"`, 300_000
	if image == "sdk/worker" {
		ms = 0
	}
	status, text, err := d.call(t.Context(), http.MethodPost, "/v2/"+endpoint+"/run", fmt.Sprintf(`{"input":{"op":"sleep","ms":%d,"output":%s}}`, ms, output))
	must.Require(t, err == nil && status == http.StatusOK, "submitting a job is answered", status, text, err)
	path := d.awaitJob(endpoint, "IN_PROGRESS")
	for size := 1 << 20; size > 1<<10; size /= 2 { // until the smallest doesn't fit
		for status := http.StatusOK; status == http.StatusOK; {
			var err error
			status, _, err = d.call(t.Context(), http.MethodPost, "/v2/"+idleEndpoint+"/run", `{"input":{"x":"`+strings.Repeat("x", size)+`"}}`)
			must.Require(t, err == nil && (status == http.StatusOK || status == http.StatusInsufficientStorage), "a submission that fills the disk is answered", status, err, "want 200 or 507")
		}
	}
	endJob()
	if _, text, err := d.call(t.Context(), http.MethodGet, path, ""); err != nil || !strings.Contains(text, "IN_PROGRESS") {
		t.Errorf("while the disk is full: %.200s, %v", text, err)
	}
	status, text, err = d.call(t.Context(), http.MethodPost, "/v2/"+idleEndpoint+"/purge-queue", "")
	must.Hold(t, err == nil && status == http.StatusOK, "purging:", status, text, err)
	waitFor(t, func() (bool, any) {
		_, text, err := d.call(t.Context(), http.MethodGet, path, "")
		return err == nil && strings.Contains(text, "COMPLETED") && strings.Contains(text, output), fmt.Sprintf("the job is %.200s, %v", text, err)
	})
	d.expectEnded(&acknowledgedJobs{})
}

// The outcome of a webhook call is spooled during an outage, so that the receiver isn't called again.
func TestWebhookOutcomeOutlivesAnOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a call with an unknown outcome is due again")
	}
	d := startOnPostgres(t)
	endpoint := d.createEndpointOf("builtin/echo", 1)
	called, answer := make(chan struct{}, 10), make(chan struct{})
	var calls atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		called <- struct{}{}
		<-answer
	}))
	defer receiver.Close()
	status, text, err := d.call(t.Context(), http.MethodPost, "/v2/"+endpoint+"/run", fmt.Sprintf(`{"input":{},"webhook":%q}`, receiver.URL))
	must.Require(t, err == nil && status == http.StatusOK, "submitting a job is answered", status, text, err)
	<-called
	d.server.End(syscall.SIGINT)
	close(answer)
	sleep(t.Context(), 16*time.Second) // until the claim of the call has expired
	d.server.Start()
	conn := must.Do(pgx.Connect(t.Context(), d.server.URL))(t)
	defer conn.Close(context.Background())
	waitFor(t, func() (bool, any) {
		var n int
		must.Succeed(t, conn.QueryRow(t.Context(), "SELECT COUNT(*) FROM jobs WHERE call_at > 0").Scan(&n))
		return n == 0, n
	})
	must.Equal(t, calls.Load(), 1, "calls of the receiver")
}
