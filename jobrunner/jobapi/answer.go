package jobapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// smallOutput is the size in bytes up to which an output is read without reserving memory first.
const smallOutput = 64 << 10

// look reads a job, without its output if that is large.
func (a *api) look(ctx context.Context, t target) (engine.Job, int, error) {
	return a.Engine.GetUpTo(ctx, t.endpoint, t.job, smallOutput)
}

// answerJob answers a job whose output has a size. It reads a large output once there is memory for
// it. If it has to wait for memory, it drops the output and reads it again.
func (a *api) answerJob(w http.ResponseWriter, r *http.Request, t target, job engine.Job, size int) error {
	a.explainWait(w, t, job)
	if size <= smallOutput {
		writeJob(w, job)
		return nil
	}
	need := int64(2 * size) // the output and its copy in the answer
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

func writeJob(w http.ResponseWriter, job engine.Job) {
	write(w, job.AppendJSON(make([]byte, 0, 256+len(job.Output))))
}

// appendList appends a JSON array. appendItem appends an item, which is already JSON.
func appendList[T any](b []byte, all []T, appendItem func(b []byte, v T) []byte) []byte {
	b = append(b, '[')
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, v)
	}
	return append(b, ']')
}

func write(w http.ResponseWriter, body []byte) { httpanswer.Bytes(w, http.StatusOK, body) }

// queueReason is the header that says why a job waits if no worker of its endpoint can work. The job's
// body has no member for it.
const queueReason = "X-Queue-Reason"

// explainWait sets queueReason if the job waits and no worker can work.
func (a *api) explainWait(w http.ResponseWriter, t target, job engine.Job) {
	if job.State != engine.InQueue {
		return
	}
	if reason := a.Failure(t.endpoint); reason != "" {
		w.Header().Set(queueReason, headerText(reason))
	}
}

// maxReason is the maximum length of a reason in a header, in bytes.
const maxReason = 500

// headerText makes a text fit for a header: programs disagree on anything but visible ASCII.
func headerText(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r == 0x7f:
			return ' '
		case r > 0x7e:
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), maxReason)]
}
