//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// A batch outlives kills of the jobrunner: as a draft, right after it was finalized, and
// while its requests run. Each request completes.
func TestBatchSurvivesKill(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	p := serve(t, environment(home))
	key := strings.TrimSpace(prints(t, environment(home), "keys", "add", "test"))
	c := p.client(key)
	e, err := c.Endpoints.Create(t.Context(), api.Endpoint{
		Name: "batched", Type: "QUEUE", Container: &api.Container{Image: new("builtin/conformance")}, Workers: api.Workers{Max: 2}, Scaling: api.Scaling{Type: "REQUEST_COUNT", RequestCount: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	const n = 40
	var inputs []json.RawMessage
	for i := range n {
		inputs = append(inputs, json.RawMessage(fmt.Sprintf(`{"op": "sleep", "ms": 50, "n": %d}`, i)))
	}
	b, err := c.Jobs.CreateBatch(t.Context(), e.ID)
	if err == nil {
		_, err = c.Jobs.AddRequests(t.Context(), e.ID, b.ID, inputs)
	}
	if err != nil {
		t.Fatal(err)
	}
	again := func() {
		p.kill()
		p = serve(t, environment(home))
		c = p.client(key)
	}
	again()
	if b, err = c.Jobs.Batch(t.Context(), e.ID, b.ID); err != nil || b.Status != "DRAFT" || b.Total != n {
		t.Fatalf("after the kill the draft is %+v, %v", b, err)
	}
	if _, err := c.Jobs.FinalizeBatch(t.Context(), e.ID, b.ID); err != nil {
		t.Fatal(err)
	}
	again()
	for b.Completed == 0 {
		if b, err = c.Jobs.Batch(t.Context(), e.ID, b.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // another process runs the batch, in real time
	}
	again()
	for deadline := time.Now().Add(time.Minute); !b.Done() && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) { // as above
		if b, err = c.Jobs.Batch(t.Context(), e.ID, b.ID); err != nil {
			t.Fatal(err)
		}
	}
	if b.Completed != n || b.Status != "FINALIZED" {
		t.Errorf("in the end it is %+v", b)
	}
	file := filepath.Join(home, "inputs.jsonl")
	put(t, file, "{\"op\": \"echo\", \"n\": 1}\n\n{\"op\": \"fail\", \"message\": \"no luck\"}\n")
	j := jobCommands{t, append(environment(home), "GPUCLOUD_BASE_URL="+p.exported("GPUCLOUD_BASE_URL"), "GPUCLOUD_API_KEY="+key)}
	out, errs, status := j.runs("", "batch", "run", "batched", file, "--name", "nightly")
	if status != 1 || !strings.Contains(out, `"n":1`) || !strings.Contains(out, "no luck") || !strings.Contains(errs, "1 of 2 requests COMPLETED") {
		t.Errorf("batch run exited with %d\n%s%s", status, out, errs)
	}
	if out, _, status := j.runs("", "batch", "list", "batched"); status != 0 || !strings.Contains(out, "2 of 2 requests have ended  nightly") || strings.Count(out, "\n") != 2 {
		t.Errorf("batch list: %d %s", status, out)
	}
	if _, errs, status := j.runs("not JSON", "batch", "run", "batched", "-"); status != 2 || !strings.Contains(errs, "line 1 isn't a JSON object") {
		t.Errorf("batch run of no JSON: %d %s", status, errs)
	}
}
