package jobapi

import (
	"context"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// smallOutput is the most bytes of an output that is read without asking for
// memory first.
const smallOutput = 64 << 10

// look reads a job, but no large output.
func (a *api) look(ctx context.Context, t target) (engine.Job, int, error) {
	return a.Engine.GetUpTo(ctx, t.endpoint, t.job, smallOutput)
}

// answerJob answers a job whose output has a size. A large one that it does not
// have is read when there is memory for it; one that it has and that must wait
// for memory is read again.
func (a *api) answerJob(w http.ResponseWriter, r *http.Request, t target, job engine.Job, size int) error {
	a.explainWait(w, t, job)
	if size <= smallOutput {
		writeJob(w, job)
		return nil
	}
	need := int64(2 * size) // once more in the answer
	hold, err := a.Answers.Reserve(need)
	if err != nil {
		job.Output = nil
		hold, err = a.Answers.Wait(httplimit.Answering(r.Context()), need)
	}
	defer hold.Release()
	if err == nil && job.Output == nil {
		job, err = a.Engine.Get(httplimit.Answering(r.Context()), t.endpoint, t.job)
	}
	if err == nil {
		writeJob(w, job)
	}
	return err
}

// writeJob answers a job as it stands.
func writeJob(w http.ResponseWriter, job engine.Job) {
	write(w, job.AppendJSON(make([]byte, 0, 256+len(job.Output))))
}

// appendList appends a JSON array of what is JSON already.
func appendList[T any](b []byte, all []T, one func(b []byte, v T) []byte) []byte {
	b = append(b, '[')
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

func write(w http.ResponseWriter, body []byte) { httpanswer.Bytes(w, http.StatusOK, body) }
