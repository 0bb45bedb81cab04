package jobapi

import (
	"net/http"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// queueReason is the header that says why a job waits whose endpoint has no
// worker that can work. The body of such a job has no place for it.
const queueReason = "X-Queue-Reason"

// failure is why no worker of an endpoint can work, "" for none.
func (a *api) failure(endpoint string) string {
	if a.Failure == nil {
		return ""
	}
	return a.Failure(endpoint)
}

// explainWait says in the header of an answer why its job waits, where no worker
// can work.
func (a *api) explainWait(w http.ResponseWriter, t target, job engine.Job) {
	if job.State != engine.InQueue {
		return
	}
	if reason := a.failure(t.endpoint); reason != "" {
		w.Header().Set(queueReason, headerText(reason))
	}
}

// maxReason bounds a reason in a header, in bytes.
const maxReason = 500

// headerText makes a text fit for a header, where other than visible ASCII is
// read in many ways.
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
