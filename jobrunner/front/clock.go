package front

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// maxAdvance is the longest step of the clock, slightly more than a job's longest time to live.
const maxAdvance = 8 * 24 * time.Hour

// Clock serves the deployment's clock to clients with an unrestricted key. GET /clock reads it, POST
// /clock {"advance": milliseconds} advances it, and POST /clock {"stop": true} stops it between
// advances. The clock can't be advanced while a worker of the endpoint that offClock returns runs a
// job in real time, because the job would time out early. advanced is called after each step.
func Clock(c *clock.Clock, keys *apikey.Keys, offClock func() string, advanced func(ctx context.Context), next http.Handler) http.Handler {
	change := func(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
		var body struct {
			Advance int64 `json:"advance"`
			Stop    bool  `json:"stop"`
		}
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&body)
		if body.Stop && body.Advance == 0 && err == nil {
			c.Stop()
			return nil
		}
		if err != nil || body.Stop || body.Advance < 1 || body.Advance > maxAdvance.Milliseconds() {
			return httpanswer.Refuse(http.StatusBadRequest, "send {\"advance\": milliseconds}, from 1 to %d, or {\"stop\": true}", maxAdvance.Milliseconds())
		}
		if endpoint := offClock(); endpoint != "" {
			return httpanswer.Refuse(http.StatusConflict, "a worker of endpoint %s runs a job in real time: advance the clock when the job has ended", endpoint)
		}
		c.Advance(time.Duration(body.Advance) * time.Millisecond)
		advanced(r.Context())
		return nil
	}
	served := withKey(keys, "all users share the clock", func(w http.ResponseWriter, r *http.Request) {
		var refusal *httpanswer.Refusal
		switch r.Method {
		case http.MethodGet:
		case http.MethodPost:
			refusal = change(w, r)
		default:
			refusal = httpanswer.NotAllowed(r, http.MethodGet, http.MethodPost)
		}
		if refusal != nil {
			httpanswer.Error.Refuse(w, refusal)
			return
		}
		httpanswer.JSON(w, http.StatusOK, map[string]string{"now": c.Now().UTC().Format(time.RFC3339Nano)})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/clock" {
			served(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
