package jobapi

import (
	"net/http"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// queueReason is the header that says why a job waits if no worker of its endpoint can work. The job's
// body has no member for it.
const queueReason = "X-Queue-Reason"

// failure returns why no worker of an endpoint can start, or "".
func (a *api) failure(endpoint string) string {
	if a.Failure == nil {
		return ""
	}
	return a.Failure(endpoint)
}

// explainWait sets queueReason if the job waits and no worker can work.
func (a *api) explainWait(w http.ResponseWriter, t target, job engine.Job) {
	if job.State != engine.InQueue {
		return
	}
	if reason := a.failure(t.endpoint); reason != "" {
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
