package jobrunner

import (
	"context"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// pageWait is how long a page waits for the other jobrunners: it is drawn every second.
const pageWait = time.Second

// askPages asks the other jobrunners for what only they have. Who has used the printed
// link has the authority of the deployment's own key, which is the same for all.
func (j *Jobrunner) askPages(key string) func(*http.Request, string) ([]page.Answer, []string) {
	return func(r *http.Request, path string) (answers []page.Answer, silent []string) {
		ctx, cancel := context.WithTimeout(r.Context(), pageWait)
		defer cancel()
		authorization := r.Header.Get("Authorization")
		if authorization == "" {
			authorization = "Bearer " + key
		}
		for _, one := range j.askOthers(ctx, http.Header{"Authorization": {authorization}}, path) {
			switch {
			case one.err != nil:
				silent = append(silent, one.node.URL)
			case one.status == http.StatusNotFound:
				answers = append(answers, page.Answer{Node: one.node.URL})
			default:
				answers = append(answers, page.Answer{Node: one.node.URL, Body: one.body})
			}
		}
		return answers, silent
	}
}

// forwardPage passes the requests of a browser on to the jobrunner at which it signed in:
// behind a load balancer they come to any.
func (j *Jobrunner) forwardPage(next http.Handler) http.Handler {
	if !j.db.Shared() {
		return next
	}
	pass := j.forwarder(forwardAnswer, false)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := page.SignedInAt(r)
		if at == "" || at == j.machine || r.Header.Get(forwarded) != "" {
			next.ServeHTTP(w, r)
			return
		}
		for _, node := range j.engine.Nodes() {
			if node.Machine == at {
				pass.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forwardKey{}, node.URL)))
				return
			}
		}
		next.ServeHTTP(w, r) // that one is gone, and with it the session
	})
}
