//go:build unix

package main_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
)

// The example workers work: one uses the worker protocol, one serves HTTP behind a load balancer.
func TestExampleWorkers(t *testing.T) {
	t.Parallel()
	python.Need(t)
	rules := must.Do(filepath.Abs("../../examples/jobrunner.yaml"))(t)
	home := t.TempDir()
	p := serve(t, environment(home, "GPUCLOUD_API_KEY=k"), "--ephemeral", "--config="+rules)
	c := p.client("k")
	ids := map[string]string{}
	for name, kind := range map[string]string{"protocol": "QUEUE", "web": "LOAD_BALANCER"} {
		e := api.Endpoint{Name: name, Type: kind, Container: &api.Container{Image: new("example/" + name)}, Workers: api.Workers{Max: 1}}
		e.Scaling = api.Scaling{Type: "REQUEST_COUNT", RequestCount: 1}
		created := must.Do(c.Endpoints.Create(t.Context(), e))(t)
		ids[name] = created.ID
	}
	j := jobCommands{t, environment(home, "GPUCLOUD_API_KEY=k", "GPUCLOUD_BASE_URL="+p.url)}
	if out, errs, code := j.run("", "run", "protocol", "--input", `{"text": "hello"}`, "--json"); code != 0 || !strings.Contains(out, `"output":{"text":"HELLO"}`) {
		t.Errorf("exit status %d, %s%s", code, out, errs)
	}
	if out, errs, code := j.run("", "run", "protocol", "--json"); code != 1 || !strings.Contains(out, `KeyError('text')`) {
		t.Errorf("exit status %d, %s%s", code, out, errs)
	}
	if status, body := p.get("/v2/" + ids["web"] + "/any?x=1"); status != http.StatusOK || body != `{"path": "/any?x=1"}` {
		t.Errorf("%d %s", status, body)
	}
	if _, errs, code := j.run("", "run", "web"); code != 2 || !strings.Contains(errs, "is a load balancer, which has no jobs: send your requests to its workers, at "+p.url+"/v2/"+ids["web"]) {
		t.Errorf("exit status %d, %s", code, errs)
	}
}
