package engine_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// A data folder of version 9, which that version's `jobrunner backup` copied after a kill, opens with its jobs in
// each state and a due webhook call.
func TestDataOfVersion9(t *testing.T) {
	const ep = "fuxc4a6ahmbm"
	dir := t.TempDir()
	packed := must.Do(os.Open("testdata/version9.db.gz"))(t)
	defer packed.Close()
	content := must.Do(io.ReadAll(must.Do(gzip.NewReader(packed))(t)))(t)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "jobrunner.db"), content, 0o600))
	synctest.Test(t, func(t *testing.T) {
		for start := range 2 {
			e := newTester(t, sqldb.Config{Dir: dir}, nil)
			expectJob := func(id, want string) engine.Job {
				t.Helper()
				j, err := e.Get(t.Context(), ep, id)
				got := fmt.Sprintf("%s %s %s %q", j.State, j.Worker, j.Output, j.Error)
				must.Hold(t, err == nil && got == want, "at start", start, "job", id, "is", got, err, "want", want)
				return j
			}
			expectJob("01a20dd3-5e4e-74bc-adbf-64ded1709694-q1", `COMPLETED w-recorded {"answer":42} ""`)
			expectJob("sync-01a20dd3-5e5a-7bdd-a81f-81d3401d85b4-q1", `FAILED w-recorded "partial" "handler raised"`)
			expectJob("01a20dd3-5e77-75b2-b964-0ffec001c929-q1", `CANCELLED   ""`)
			expectJob("01a20dd3-5e70-763a-8c7d-bcefb5efdfdc-q1", `COMPLETED w-recorded "hooked" ""`)
			expectJob("01a20dd3-5e5f-7e03-9c89-2cf85bfca001-q1", `COMPLETED w-recorded ["chunk 0"] ""`)
			expectJob("01a20dd3-5e93-7632-9aee-b6979d3af20f-q1", `FAILED w-recorded  "job timed out after 1 retries: the jobrunner that ran it was killed"`)
			if start == 0 {
				checkFirstStart(t, e.Engine, ep)
			} else if c := e.Counts(ep); c.InQueue != 2 || c.InProgress != 0 || c.Completed != 5 || c.Failed != 2 || c.Retried != 2 {
				t.Errorf("counts at the second start: %+v", c)
			}
			e.stop()
		}
	})
}

func checkFirstStart(t *testing.T, e *engine.Engine, ep string) {
	t.Helper()
	_, chunks, _, err := e.Drain(t.Context(), ep, "01a20dd3-5e5f-7e03-9c89-2cf85bfca001-q1", engine.MaxDrain)
	if got := fmt.Sprintf("%s", chunks); err != nil || got != `[{"output":"chunk 0"} {"output":"chunk 1"} {"output":"chunk 2"}]` {
		t.Errorf("the stream has %s, %v", got, err)
	}
	queues := e.CallQueues(nil)
	must.Require(t, len(queues) == 1 && queues[0].Owner == "owner-1", "the queues of calls are", queues)
	call, err := e.ClaimCall(t.Context(), queues[0], nil, time.Minute)
	must.Hold(t, err == nil && call != nil && call.URL == "http://127.0.0.1:9/hook" && string(call.Job.Output) == `"hooked"` &&
		string(call.Input) == `{"prompt":"recorded"}`, "the call is", call, err)
	e.RecordCall(call, time.Time{})
	var jobs []engine.Taken
	var got []string
	for _, n := range []int{3, 2} { // the job that was lost is taken alone
		taken := must.Do(e.TakeQueued(t.Context(), engine.Take{Endpoint: ep, Worker: "w", Max: n}))(t)
		for _, job := range taken {
			got = append(got, fmt.Sprintf("%s %d %d %s%s", job.ID, job.Attempt, job.Retries, job.Input, job.Rest))
		}
		jobs = append(jobs, taken...)
	}
	want := `[01a20dd3-5e7c-7db6-b52c-b6e745c73439-q1 2 1 {"prompt":"recorded"} 01a20dd3-5ea6-7b81-82ad-8a62fa1acc2c-q1 1 0 {"n":0}{"policy":{}} 01a20dd3-5eaf-7b3e-809b-6b9b93639460-q1 1 0 {"n":1}{"policy":{}}]`
	must.Require(t, fmt.Sprint(got) == want, "took", got, "want", want)
	for i, r := range []engine.Report{engine.Chunk([]byte("1"), nil), engine.Done([]byte("2"))} {
		for _, job := range jobs[:1+i] {
			must.Equal(t, must.Do(e.Report(t.Context(), job.Ref, r))(t), engine.Accepted, "the report returned")
		}
	}
	if _, chunks, _, err := e.Drain(t.Context(), ep, jobs[0].ID, engine.MaxDrain); err != nil || fmt.Sprintf("%s", chunks) != `[{"output":1}]` {
		t.Errorf("the stream of the job that ran again has %s, %v", chunks, err)
	}
}
