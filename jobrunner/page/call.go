package page

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// idForm is what the id of an endpoint or a job may be: nothing in it changes
// which path a call reaches.
var idForm = regexp.MustCompile(`^[\w-]{1,100}$`)

// callOperations are the operations of the job API that the page calls, with their
// methods.
var callOperations = map[string]string{
	"run": http.MethodPost, "runsync": http.MethodPost, "cancel": http.MethodPost, "retry": http.MethodPost,
	"status": http.MethodGet, "stream": http.MethodGet,
}

// jobOperations are those that are about one job.
var jobOperations = []string{"cancel", "retry", "status", "stream"}

// call is POST /ui/call?endpoint=ID&op=OPERATION&id=JOB: an operation of the job
// API for who is signed in, answered as the public SDKs read it.
func (p *Page) call(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	query := r.URL.Query()
	endpoint, op, id := query.Get("endpoint"), query.Get("op"), query.Get("id")
	method, ok := callOperations[op]
	about := slices.Contains(jobOperations, op)
	if p.Jobs == nil || !ok || !idForm.MatchString(endpoint) || about != idForm.MatchString(id) || !about && id != "" {
		return httpanswer.Refuse(http.StatusNotFound, "There is no such operation: expected op=run, runsync, status, stream, cancel or retry, with endpoint and, for the last four, id.")
	}
	path := strings.TrimSuffix("/live/v2/"+endpoint+"/"+op+"/"+id, "/")
	inner := r.Clone(r.Context())
	inner.Method, inner.URL.Path, inner.URL.RawPath, inner.URL.RawQuery = method, path, "", ""
	inner.Header = http.Header{"Content-Type": {"application/json"}}
	if method == http.MethodGet {
		inner.Body, inner.ContentLength = http.NoBody, 0
	}
	p.Jobs(w, inner)
	return nil
}
