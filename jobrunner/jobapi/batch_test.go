package jobapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

func (d *deployment) createBatch(body string) (path, id string) {
	d.t.Helper()
	a := d.do("POST", "/v2/ep/batch", body)
	id, _ = a.body["id"].(string)
	must.Require(d.t, a.status == 200 && strings.TrimSpace(a.raw) == fmt.Sprintf(`{"id":%q,"status":"DRAFT"}`, id), "the creation of a batch was answered", a.status, a.raw)
	return "/v2/ep/batch/" + id, id
}

// expectAnswer sends a request and compares the answer's status and trimmed body. A want with … is the beginning.
func (d *deployment) expectAnswer(want, method, path, body string) {
	d.t.Helper()
	a := d.do(method, path, body)
	got := strings.TrimSpace(fmt.Sprint(a.status, " ", a.raw))
	must.Hold(d.t, got == want || strings.HasPrefix(got, strings.TrimSuffix(want, "…")), method, path, "answered", got, "want", want)
}

func TestBatch(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		createdAt := now()
		path, id := d.createBatch(`[{"input": {"n": 0}}, {"input": {"n":  1}}]`)
		summary := func(status string, total, running, completed, failed int) string {
			return fmt.Sprintf(`{"id":%q,"endpointId":"ep","status":%q,"requestTotal":%d,"requestInProgress":%d,"requestCompleted":%d,"requestFailed":%d,"createdAt":%d`, id, status, total, running, completed, failed, createdAt.UnixMilli())
		}
		a := d.do("POST", path+"/requests", `{"requests": [{"input": {}}, {"input": {}}]}`)
		ids, _ := a.body["requestIds"].([]any)
		must.Require(t, a.status == 200 && len(ids) == 2 && strings.HasPrefix(a.raw, summary("DRAFT", 4, 0, 0, 0)),
			"the requests were answered", a.status, a.raw)
		d.expectAnswer("200 "+summary("DRAFT", 3, 0, 0, 0)+"}", "DELETE", path+"/requests/"+ids[1].(string), "")
		d.expectAnswer("404 …", "DELETE", path+"/requests/"+ids[1].(string), "")
		d.expectAnswer("200 "+summary("FINALIZED", 3, 0, 0, 0)+"}", "POST", path+"/finalize", "")
		d.expectAnswer("200 "+summary("FINALIZED", 3, 0, 0, 0)+"}", "POST", path+"/finalize", "")
		d.expectAnswer("400 …", "DELETE", path+"/requests/"+ids[0].(string), "")
		d.expectAnswer("400 …", "POST", path+"/requests", `{"requests": []}`)
		a = d.do("GET", "/v2/ep/health", "")
		must.Hold(t, strings.Contains(a.raw, `"inQueue":0`), "the endpoint's health counts requests:", a.raw)
		d.expectAnswer(`200 {"removed":0,"status":"completed"}`, "POST", "/v2/ep/purge-queue", "")

		first := d.take("ep-batch")
		must.Equal(t, string(first.Input), `{"n": 0}`, "the input")
		d.expectAnswer("200 "+summary("FINALIZED", 3, 1, 0, 0)+"}", "GET", path, "")
		sleep(2)
		d.report(first, engine.Done([]byte(`{"v":  [1]}`)))
		large := strings.Repeat("x", 100_000)
		second := d.take("ep-batch")
		d.report(second, engine.Done([]byte(`"`+large+`"`)))
		third := d.take("ep-batch")
		d.report(third, engine.Fail(`no "luck"`, []byte(`1`)))
		d.expectAnswer("200 "+summary("FINALIZED", 3, 0, 2, 1)+"}", "GET", path, "")
		at := func(s int) string { return createdAt.Add(time.Duration(s) * time.Second).UTC().Format(time.RFC3339) }
		d.expectAnswer(fmt.Sprintf(`200 {"requests":[{"id":%q,"status":"COMPLETED","output":{"v":  [1]},"startedAt":%q,"completedAt":%q},{"id":%q,"status":"COMPLETED","output":%q,"startedAt":%q,"completedAt":%q},`+
			`{"id":%q,"status":"FAILED","error":"no \"luck\"","startedAt":%q,"completedAt":%q}],"total":3,"offset":0,"limit":50,"hasMore":false}`,
			first.ID, at(0), at(2), second.ID, large, at(2), at(2), third.ID, at(2), at(2)), "GET", path+"/requests", "")
		for query, want := range map[string]string{
			"?limit=2&offset=": `"total":3,"offset":0,"limit":2,"hasMore":true}`, "?limit=2&offset=2": `"total":3,"offset":2,"limit":2,"hasMore":false}`,
			"?offset=1&limit=1": second.ID, "?offset=3&limit=": `{"requests":[],"total":3,"offset":3,"limit":50,"hasMore":false}`,
		} {
			a := d.do("GET", path+"/requests"+query, "")
			must.Hold(t, a.status == 200 && strings.Contains(a.raw, want), "the query", query, "must return", want, "got", a.status, a.raw)
		}
		sleep(3 * 3600) // longer than results of /run are kept
		d.expectAnswer("200 "+summary("FINALIZED", 3, 0, 2, 1)+"}", "POST", path+"/cancel", "")
	})
}

func TestBatchList(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		d.expectAnswer(`200 {"batches":[],"total":0,"offset":0,"limit":50,"hasMore":false}`, "GET", "/v2/ep/batch", "")
		olderPath, _ := d.createBatch(`[]`)
		_, newerID := d.createBatch(`[]`)
		a := d.do("PUT", olderPath, `{"name": "nightly"}`)
		must.Hold(t, a.status == 200 && a.body["name"] == "nightly", "the rename answered", a.status, a.raw)
		a = d.do("GET", "/v2/ep/batch?limit=1", "")
		must.Hold(t, strings.Contains(a.raw, newerID) && strings.Contains(a.raw, `"total":2,"offset":0,"limit":1,"hasMore":true}`), "the first page is", a.raw)
		a = d.do("GET", "/v2/ep/batch?limit=1&offset=1", "")
		must.Hold(t, strings.Contains(a.raw, `"name":"nightly"`) && strings.Contains(a.raw, `"hasMore":false}`), "the second page is", a.raw)
		a = d.do("GET", "/v2/ep2/batch", "")
		must.Hold(t, strings.Contains(a.raw, `"total":0`), "another endpoint has", a.raw)
		for range 8 {
			d.createBatch(`[]`)
		}
		a = d.do("POST", "/v2/ep/batch", "[]")
		must.Hold(t, a.status == 429 && a.header.Get("Retry-After") == "", "the 11th active batch:", a.status, a.raw)
		d.do("POST", olderPath+"/finalize", "") // a finalized batch without requests isn't active
		d.createBatch(`[]`)
	})
}

func TestInvalidBatches(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		path, id := d.createBatch(`[]`)
		for _, c := range []struct{ status, method, path, body string }{
			{"400", "POST", "/v2/ep/batch", ""},
			{"400", "POST", "/v2/ep/batch", " null"},
			{"400", "POST", "/v2/ep/batch", `{"requests": []}`},
			{"400", "POST", "/v2/ep/batch", `[{"input": {}}`},
			{"400", "POST", "/v2/ep/batch", `[{"input": []}]`},
			{"400", "POST", "/v2/ep/batch", `[{}]`},
			{"400", "POST", "/v2/ep/batch", `[null]`},
			{"400", "POST", "/v2/ep/batch", `[{"input": {}, "webhook": "http://127.0.0.1/"}]`},
			{"400", "POST", "/v2/ep/batch", "[" + strings.Repeat(`{"input":{}},`, 5000) + `{"input":{}}]`},
			{"413", "POST", "/v2/ep/batch", `[{"input": {"x": "` + strings.Repeat("x", 10<<20) + `"}}]`},
			{"400", "POST", path + "/requests", `[]`},
			{"400", "POST", path + "/requests", `{}`},
			{"400", "POST", path + "/requests", `{"requests": {}}`},
			{"400", "POST", path + "/requests", `{"requests": [{"input": 1}]}`},
			{"413", "POST", path + "/requests", `{"requests": [{"input": {"x": "` + strings.Repeat("x", 10<<20) + `"}}]}`},
			{"400", "PUT", path, `{}`},
			{"400", "PUT", path, `{"name": 1}`},
			{"400", "PUT", path, `{"name": "` + strings.Repeat("ä", 256) + `"}`},
			{"400", "GET", path + "/requests?limit=0", ""},
			{"400", "GET", path + "/requests?limit=1001", ""},
			{"400", "GET", path + "/requests?offset=-1", ""},
			{"400", "GET", "/v2/ep/batch?offset=x", ""},
			{"404", "GET", "/v2/ep/batch/unknown", ""},
			{"404", "GET", "/v2/ep2/batch/" + id, ""},
			{"404", "GET", "/v2/ep2/batch/" + id + "/requests", ""},
			{"404", "POST", "/v2/ep2/batch/" + id + "/finalize", ""},
			{"404", "POST", "/v2/none/batch", "[]"},
			{"404", "GET", "/v2/ep-batch/health", ""},
			{"405", "PATCH", path, `{"name": "x"}`},
			{"405", "DELETE", path, ""},
		} {
			d.expectAnswer(c.status+" …", c.method, c.path, c.body)
		}
		allocations := testing.AllocsPerRun(1, func() {
			d.expectAnswer("400 …", "POST", "/v2/ep/batch", "["+strings.Repeat("1,", 1<<20)+"1]")
		})
		must.Hold(t, allocations < 10_000, "an array of numbers costs", allocations, "allocations")
		d.expectAnswer("200 …", "PUT", path, `{"name": "`+strings.Repeat("ä", 255)+`"}`)
		for range 2 {
			largest := `{"requests": [{"input": {"x": "` + strings.Repeat("x", 10<<20-36) + `"}}]}` // exactly the limit
			d.expectAnswer("200 …", "POST", path+"/requests", largest)
		}
		a := d.do("GET", path, "")
		must.Hold(t, a.body["requestTotal"] == 2.0, "the batch is", a.raw)
	})
}
