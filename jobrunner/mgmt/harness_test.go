package mgmt_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

const testKey = "k3y-0f-these-checks"

// deployment is a management API on its own port, with a transcript of its answers.
type deployment struct {
	*testing.T
	url string

	mu         sync.Mutex
	transcript strings.Builder
}

// reply is an answer. Its body is nil if the answer has none.
type reply struct {
	status int
	header http.Header
	body   any
	text   string
}

func newConfig(t testing.TB) mgmt.Config {
	t.Helper()
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
	t.Cleanup(func() { must.Equal(t, db.Close(), nil) })
	c, log := new(clock.Clock), slog.New(slog.DiscardHandler)
	meter := must.Do(billing.Open(t.Context(), billing.Config{DB: db, Clock: c, Logger: log}))(t)
	t.Cleanup(meter.Close)
	return mgmt.Config{
		DB: db, Store: must.Do(store.Open(t.Context(), db, c))(t), Keys: apikey.New(testKey), Clock: c, Logger: log, Workers: new(worker.Pools), Pods: new(pod.Pods),
		PodReason: func(p store.Pod) string { return p.Reason }, AskOtherNodes: func(*http.Request) ([][]byte, error) { return nil, nil }, PodPrice: func(store.Pod) float64 { return 0 }, Meter: meter,
		Bodies: httplimit.NewMemory(32 << 20) /* the smallest default */, Stock: func() map[string]catalog.Stock { return nil },
	}
}

func deploy(t *testing.T, configure ...func(*mgmt.Config)) *deployment {
	t.Helper()
	config := newConfig(t)
	for _, set := range configure {
		set(&config)
	}
	config.Store.UseCatalog(config.Catalog)
	server := httptest.NewServer(must.Do(mgmt.New(t.Context(), config))(t))
	t.Cleanup(server.Close)
	return &deployment{T: t, url: server.URL}
}

// send sends a request with the key; body is JSON text or a value, "" for no body.
func (d *deployment) send(method, path string, body any) reply {
	d.Helper()
	return d.sendWith(method, path, body, http.Header{"Authorization": {"Bearer " + testKey}})
}

func (d *deployment) sendWith(method, path string, body any, header http.Header) reply {
	d.Helper()
	text, ok := body.(string)
	if !ok {
		text = string(must.Do(json.Marshal(body))(d))
	}
	r := must.Do(http.NewRequestWithContext(d.Context(), method, d.url+path, strings.NewReader(text)))(d)
	r.Header = header
	answer := must.Do(http.DefaultClient.Do(r))(d)
	defer func() { _ = answer.Body.Close() }()
	raw := must.Do(io.ReadAll(answer.Body))(d)
	out := reply{status: answer.StatusCode, header: answer.Header, text: string(raw)}
	if len(raw) > 0 && !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		must.Succeed(d, json.Unmarshal(raw, &out.body), method, path, "answered invalid JSON:", string(raw))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var headers bytes.Buffer
	_ = answer.Header.Write(&headers)
	d.transcript.Write(headers.Bytes())
	d.transcript.Write(raw)
	return out
}

func (d *deployment) mustSend(status int, method, path string, body any) reply {
	d.Helper()
	got := d.send(method, path, body)
	must.Require(d, got.status == status, method, path, body, "got", got.status, got.text, "want", status)
	return got
}

func (d *deployment) create(path string, body any) string {
	d.Helper()
	status := http.StatusCreated
	if strings.HasPrefix(path, "/v1") && path != "/v1/pods" {
		status = http.StatusOK
	}
	id, _ := d.mustSend(status, "POST", path, body).get("id").(string)
	must.Require(d, id != "", "POST", path, "returned no id")
	return id
}

// expectRefusal sends a request that must fail with a status and a text in the error.
func (d *deployment) expectRefusal(status int, text, method, path string, body any) {
	d.Helper()
	got := d.send(method, path, body)
	must.Hold(d, got.status == status && strings.Contains(got.text, text), method, path, body, "got", got.status, got.text, "want", status, "with", text)
}

// get returns a member by its path, such as scaling.type or 0.id, or nil if it is absent.
func (r reply) get(path string) any {
	v := r.body
	for name := range strings.SplitSeq(path, ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[name]
		case []any:
			if i := int(name[0] - '0'); i < len(node) {
				v = node[i]
			} else {
				return nil
			}
		default:
			return nil
		}
	}
	return v
}

// has reports whether the object has a member.
func (r reply) has(name string) bool {
	_, ok := r.body.(map[string]any)[name]
	return ok
}

// expectMembers compares members of an answer with JSON texts; "" means absent or null.
func (d *deployment) expectMembers(got reply, members map[string]string) {
	d.Helper()
	for path, text := range members {
		var want any
		if text != "" {
			must.Succeed(d, json.Unmarshal([]byte(text), &want), text)
		}
		must.Equal(d, got.get(path), want, "the member", path, "of", got.text)
	}
}
