package page

import (
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// idForm matches the id of an endpoint, a job, a batch or a pod: an id can't change which path a call
// reaches.
var idForm = regexp.MustCompile(`^[\w-]{1,100}$`)

// operation is a request to an API. {endpoint} and {id} in its path are replaced by those of the call.
// If it has no body, the call's is used.
type operation struct{ method, path, body string }

// callOperations are all operations that the page can perform. An endpoint is stopped as a client
// would stop it: without workers, its jobs wait.
var callOperations = map[string]operation{
	"run":         {http.MethodPost, "/live/v2/{endpoint}/run", ""},
	"runsync":     {http.MethodPost, "/live/v2/{endpoint}/runsync", ""},
	"purge-queue": {http.MethodPost, "/live/v2/{endpoint}/purge-queue", ""},
	"cancel":      {http.MethodPost, "/live/v2/{endpoint}/cancel/{id}", ""},
	"retry":       {http.MethodPost, "/live/v2/{endpoint}/retry/{id}", ""},
	"status":      {http.MethodGet, "/live/v2/{endpoint}/status/{id}", ""},
	"stream":      {http.MethodGet, "/live/v2/{endpoint}/stream/{id}", ""},

	"cancel-batch": {http.MethodPost, "/v2/{endpoint}/batch/{id}/cancel", ""},

	"stop-endpoint": {http.MethodPatch, "/v2/serverless/{endpoint}", `{"workers":{"min":0,"max":0}}`},

	"start-pod":   {http.MethodPost, "/v2/pods/{id}/action", `{"action":"start"}`},
	"stop-pod":    {http.MethodPost, "/v2/pods/{id}/action", `{"action":"stop"}`},
	"restart-pod": {http.MethodPost, "/v2/pods/{id}/action", `{"action":"restart"}`},
}

// fits reports whether a call has a value exactly if the path needs it.
func (o operation) fits(name, value string) bool {
	return strings.Contains(o.path, name) && idForm.MatchString(value) || !strings.Contains(o.path, name) && value == ""
}

// call serves POST /ui/call?op=OPERATION&endpoint=ID&id=ID: a request to an API with the authority of
// the signed-in user. The answer is the API's; for the job API in the form that the public SDKs
// expect.
func (p *Page) call(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	query := r.URL.Query()
	endpoint, id := query.Get("endpoint"), query.Get("id")
	op, ok := callOperations[query.Get("op")]
	if p.API == nil || !ok || !op.fits("{endpoint}", endpoint) || !op.fits("{id}", id) {
		return httpanswer.Refuse(http.StatusNotFound, "The operation is unknown, or it needs other ids: run, runsync, purge-queue and stop-endpoint need endpoint; status, stream, cancel, retry and cancel-batch endpoint and id; start-pod, stop-pod and restart-pod id.")
	}
	inner := r.Clone(r.Context())
	inner.Method, inner.URL.RawPath, inner.URL.RawQuery = op.method, "", ""
	inner.URL.Path = strings.NewReplacer("{endpoint}", endpoint, "{id}", id).Replace(op.path)
	inner.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {r.Header.Get("Authorization")}}
	switch {
	case op.method == http.MethodGet:
		inner.Body, inner.ContentLength = http.NoBody, 0
	case op.body != "":
		inner.Body, inner.ContentLength = io.NopCloser(strings.NewReader(op.body)), int64(len(op.body))
	}
	p.API(w, inner)
	p.objects.drop() // so that the user sees the result
	return nil
}
