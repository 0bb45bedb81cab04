package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// If an endpoint's environment would run other code than its rule, the worker reports that and doesn't
// run it.
func TestTemplateEnvironmentRunsNoCode(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/bash"); err != nil && os.Getenv("CI") == "" {
		t.Skip("bash isn't installed")
	}
	dir := t.TempDir()
	mark, config := filepath.Join(dir, "mark"), filepath.Join(dir, "jobrunner.yaml")
	evil := filepath.Join(dir, "evil.sh")
	for file, text := range map[string]string{evil: "touch " + mark + "\n", config: "engine: none\nrules:\n  - image: a/b\n    command: {run: [/bin/bash, -c, 'echo 1']}\n"} {
		put(t, file, text)
	}
	p := serve(t, environment(dir, "GPUCLOUD_API_KEY=k"), "--ephemeral", "--config="+config)
	c := p.client("k")
	e := must.Do(c.Endpoints.Create(t.Context(), api.Endpoint{
		Name: "e", Type: "QUEUE", Container: &api.Container{Image: new("a/b"), Env: map[string]string{"BASH_ENV": evil}},
		Workers: api.Workers{Min: 1, Max: 1}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 4},
	}))(t)
	for {
		status, body := p.get("/v2/serverless/" + e.ID + "/workers")
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		if strings.Contains(body, `"status":"UNHEALTHY"`) {
			must.Contain(t, body, "has BASH_ENV, which can make a local command run other code")
			break
		}
	}
	must.Hold(t, must.Err(os.Stat(mark)) != nil, "the code ran")
	p.interrupt()
	must.Hold(t, strings.Contains(p.stderr.String(), "has BASH_ENV"), "the log lacks the reason", &p.stderr)
}
