package jobrunner_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// With --clock=admin a client can advance the clock by a ttl of seven days: the job expires
// exactly at its end.
func TestClockRoute(t *testing.T) {
	d := deployWith(t, jobrunner.Config{AdminClock: true})
	now := func() time.Time {
		t.Helper()
		status, _, body := d.do("GET", "/clock", "")
		var answer struct{ Now time.Time }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 {
			t.Fatalf("GET /clock: %d %s", status, body)
		}
		return answer.Now
	}
	advance := func(body string, want int) {
		t.Helper()
		if status, _, got := d.do("POST", "/clock", body); status != want {
			t.Errorf("POST /clock %s: %d %s", body, status, got)
		}
	}
	c := d.client(api.V2)
	id := d.create(withoutWorkers("e"))
	job := must.Do(c.Jobs.Run(t.Context(), id, api.Submission{Input: json.RawMessage(`{}`), Policy: &api.JobPolicy{TTL: new(int64(604800000))}}))(t)
	before := now()
	advance(`{"advance": 604740000}`, 200) // a minute less than seven days
	moved := now().Sub(before)
	must.Hold(t, moved >= 604740*time.Second && moved <= 604760*time.Second, "the clock moved by", moved)
	if _, err := c.Jobs.Status(t.Context(), id, job.ID); err != nil {
		t.Errorf("a minute before its end the job is gone: %s", err)
	}
	advance(`{"advance": 60000}`, 200)
	if _, err := c.Jobs.Status(t.Context(), id, job.ID); !api.IsNotFound(err) {
		t.Errorf("after its end the job is there: %v", err)
	}
	for _, body := range []string{``, `{}`, `{"advance": 0}`, `{"advance": -1}`, `{"advance": 691200001}`, `{"advance": "1"}`, `{"advance": 1.5}`} {
		advance(body, 400)
	}
	for _, body := range []string{`{"stop": true, "advance": 1}`, `{"stop": 1}`} {
		advance(body, 400)
	}
	advance(`{"stop": true}`, 200)
	if stopped := now(); !stopped.Equal(now()) {
		t.Error("a stopped clock goes on")
	} else if advance(`{"advance": 5}`, 200); now().Sub(stopped) != 5*time.Millisecond {
		t.Errorf("a stopped clock is %s on after 5 ms", now().Sub(stopped))
	}
	if status, header, _ := d.do("DELETE", "/clock", ""); status != 405 || header.Get("Allow") != "GET, POST" {
		t.Errorf("DELETE: %d %v", status, header)
	}
}

func TestNoClockRouteByDefault(t *testing.T) {
	d := deploy(t, "")
	if status, _, body := d.do("POST", "/clock", `{"advance": 1000}`); status != 404 || strings.Contains(body, "now") {
		t.Errorf("POST /clock: %d %s", status, body)
	}
}
