//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A batch survives kills of the jobrunner as a draft, right after finalize, and while its requests run. Each
// request completes. No request runs at the second kill, because a job that loses two workers fails.
func TestBatchSurvivesKill(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := environment(home, "GPUCLOUD_API_KEY=k")
	p := serve(t, env)
	c := p.client("k")
	endpoint := createQueueEndpoint(t, c, "batched", "builtin/conformance", 0)
	const n = 40
	var inputs []json.RawMessage
	for i := range n {
		inputs = append(inputs, json.RawMessage(fmt.Sprintf(`{"op": "sleep", "ms": 50, "n": %d}`, i)))
	}
	b, err := c.Jobs.CreateBatch(t.Context(), endpoint)
	if err == nil {
		_, err = c.Jobs.AddRequests(t.Context(), endpoint, b.ID, inputs)
	}
	must.Succeed(t, err)
	restart := func() {
		p.kill()
		p = serve(t, env)
		c = p.client("k")
	}
	restart()
	b, err = c.Jobs.Batch(t.Context(), endpoint, b.ID)
	must.Require(t, err == nil && b.Status == "DRAFT" && b.Total == n, "after the kill the draft is", b, err)
	must.Do(c.Jobs.FinalizeBatch(t.Context(), endpoint, b.ID))(t)
	restart()
	before := must.Do(c.Endpoints.Get(t.Context(), endpoint))(t)
	after := before
	after.Workers.Max = 2
	must.Succeed(t, must.Err(c.Endpoints.Update(t.Context(), before, after)))
	awaitBatch(t, c, endpoint, b.ID, func(b api.Batch) bool { return b.Completed > 0 })
	restart()
	b = awaitBatch(t, c, endpoint, b.ID, api.Batch.Finished)
	must.Hold(t, b.Completed == n && b.Status == "FINALIZED", "the batch ended as", b)
	file := filepath.Join(home, "inputs.jsonl")
	writeFile(t, file, "{\"op\": \"echo\", \"n\": 1}\n\n{\"op\": \"fail\", \"message\": \"no luck\"}\n")
	j := jobCommands{t, append(env, "GPUCLOUD_BASE_URL="+p.url)}
	out, stderr, status := j.run("", "batch", "run", "batched", file, "--name", "nightly")
	must.Hold(t, status == 1 && strings.Contains(out, `"n":1`) && strings.Contains(out, "no luck") &&
		strings.Contains(stderr, "1 of 2 requests COMPLETED"), "batch run exited with", status, out, stderr)
	out, _, status = j.run("", "batch", "list", "batched")
	must.Hold(t, status == 0 && strings.Contains(out, "  2 requests: 1 completed, 1 failed  nightly") && strings.Count(out, "\n") == 2, "batch list:", status, out)
	for _, invalid := range []string{"not JSON", "{\"a\": \"\xff\"}"} {
		_, stderr, status = j.run(invalid, "batch", "run", "batched", "-")
		must.Hold(t, status == 2 && strings.Contains(stderr, "line 1 isn't a JSON object in UTF-8"), "batch run of", invalid, status, stderr)
	}
}

func awaitBatch(t *testing.T, c *api.Client, endpoint, id string, condition func(api.Batch) bool) api.Batch {
	t.Helper()
	var b api.Batch
	waitUntil(t, "the batch "+id, func() bool {
		b = must.Do(c.Jobs.Batch(t.Context(), endpoint, id))(t)
		return condition(b)
	})
	return b
}

// A batch sent to a node that doesn't lead its endpoint survives the leader's death: each request has one result.
func TestBatchAcrossNodes(t *testing.T) {
	acctest.LeaveToCI(t, "TestBatchSurvivesKill covers the kill on one node")
	c := startNodes(t, 2)
	endpoint := createQueueEndpoint(t, c.processes[0].client("k"), "batched", "builtin/conformance", 2)
	const n = 120
	// finalizeBatch finalizes a batch at the node that doesn't lead, and waits until some of its requests have completed.
	finalizeBatch := func(completed, ms int) (leader, follower int, b api.Batch, want map[string]string) {
		t.Helper()
		status, text := c.send(t.Context(), 0, "POST", "/v2/"+endpoint+"/runsync", `{"input":{"op":"echo"}}`)
		must.Require(t, status == 200, "runsync:", status, text)
		leader = c.leader(endpoint)
		follower = 1 - leader
		client := c.processes[follower].client("k")
		jobs := client.Jobs
		var inputs []json.RawMessage
		for i := range n {
			inputs = append(inputs, json.RawMessage(fmt.Sprintf(`{"op":"sleep","ms":%d,"output":{"n":%d}}`, ms, i)))
		}
		b, err := jobs.CreateBatch(t.Context(), endpoint)
		if err == nil {
			b, err = jobs.AddRequests(t.Context(), endpoint, b.ID, inputs)
		}
		want = map[string]string{}
		for i, id := range b.RequestIDs {
			want[id] = fmt.Sprintf(`{"n":%d}`, i)
		}
		if err == nil {
			_, err = jobs.FinalizeBatch(t.Context(), endpoint, b.ID)
		}
		must.Succeed(t, err, "the batch is", b)
		return leader, follower, awaitBatch(t, client, endpoint, b.ID, func(b api.Batch) bool { return b.Completed >= completed }), want
	}
	awaitEnd := func(node int, id string) api.Batch {
		t.Helper()
		return awaitBatch(t, c.processes[node].client("k"), endpoint, id, api.Batch.Finished)
	}
	// expectAtNodes compares each node's results with the wanted outputs and the batch's numbers.
	expectAtNodes := func(b api.Batch, want map[string]string) {
		t.Helper()
		for i, p := range c.processes {
			states, seenIDs := map[string]int{}, map[string]bool{}
			must.Succeed(t, p.client("k").Jobs.BatchRequests(t.Context(), endpoint, b.ID, func(r api.BatchRequest) error {
				must.Hold(t, !seenIDs[r.ID] && want[r.ID] != "" && (r.Status != "COMPLETED" || string(r.Output) == want[r.ID]), "node", i, "has the request", r, want[r.ID])
				seenIDs[r.ID] = true
				states[r.Status]++
				return nil
			}))
			got, err := p.client("k").Jobs.Batch(t.Context(), endpoint, b.ID)
			must.Hold(t, err == nil && fmt.Sprint(got) == fmt.Sprint(b), "node", i, "has the batch", got, err, "want", b)
			must.Hold(t, len(seenIDs) == n && states["COMPLETED"] == b.Completed && states["COMPLETED"]+states["CANCELLED"] == n &&
				b.InProgress+b.Failed == 0 && b.Total == n, "node", i, "has", len(seenIDs), "requests, by state", states, "the batch is", b)
		}
	}

	leader, follower, b, want := finalizeBatch(10, 30)
	c.processes[leader].kill()
	b = awaitEnd(follower, b.ID)
	must.Hold(t, b.Status == "FINALIZED" && b.Completed == n, "after the kill the batch ended as", b)
	c.start(leader)
	expectAtNodes(b, want)

	_, follower, b, want = finalizeBatch(1, 200)
	must.Do(c.processes[follower].client("k").Jobs.CancelBatch(t.Context(), endpoint, b.ID))(t)
	b = awaitEnd(follower, b.ID)
	must.Hold(t, b.Status == "CANCELLED" && b.Completed != 0 && b.Completed != n, "after the cancel the batch ended as", b)
	expectAtNodes(b, want)
}
