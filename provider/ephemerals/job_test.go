package ephemerals_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// drive returns the provider, a client, and the id of an endpoint whose handler performs its job's input.
func drive(t *testing.T) (*tfdrive.Provider, *api.Client, string) {
	t.Helper()
	d := acctest.DeployLocal(t, "the jobs are made for a handler that is built into the jobrunner")
	p := tfdrive.Start(t, provider.New("test")(), d.Settings(api.V2))
	must.Succeed(t, p.ConfigureDiagnostics.Err())
	c := d.Client(t, api.V2)
	return p, c, makeEndpoint(t, c)
}

func makeEndpoint(t *testing.T, c *api.Client) (id string) {
	t.Helper()
	return must.Do(c.Endpoints.Create(t.Context(), api.Endpoint{Name: "jobs", Type: "QUEUE", Workers: api.Workers{Max: 1}, Container: &api.Container{Image: new("builtin/conformance")}}))(t).ID
}

func TestJob(t *testing.T) {
	p, _, id := drive(t)
	opened, diags := p.Open("gpucloud_job", map[string]any{
		"endpoint_id": id, "input": `{"op":"echo","a":[1,null]}`, "timeout": "1m", "policy": map[string]any{"execution_timeout": 5000, "low_priority": false},
	})
	must.Succeed(t, diags.Err())
	var output any
	err := json.Unmarshal([]byte(opened.Get("output").(string)), &output)
	must.Hold(t, err == nil && reflect.DeepEqual(output, map[string]any{"op": "echo", "a": []any{1.0, nil}}), "output", opened.Get("output"), err)
	must.Hold(t, opened.Get("id") != "" && opened.Get("worker_id") != nil && opened.Get("delay_time") != nil && opened.Get("execution_time") != nil,
		"an attribute of the job is missing", opened.Value)
}

// Every setting of a job is sent. An error that repeats the settings shows no secret.
func TestJobSubmission(t *testing.T) {
	d := acctest.DeployLocal(t, "the job is made for a handler that is built into the jobrunner")
	id := makeEndpoint(t, d.Client(t, api.V2))
	var sentBody []byte
	rejects := false
	d.Intercept(t, func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/run") {
			sentBody = body
			if rejects {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_ = json.NewEncoder(w).Encode(map[string]any{"title": "Bad Request", "status": 400, "detail": "invalid: " + string(sentBody)})
				return
			}
		}
		forward.ServeHTTP(w, r)
	})
	p := tfdrive.Start(t, provider.New("test")(), d.Settings(api.V2))
	config := map[string]any{
		"endpoint_id": id, "input": `{"op":"echo"}`, "webhook": d.URL + "/called?token=a-planted-token",
		"policy":    map[string]any{"execution_timeout": 5000, "ttl": 60000, "low_priority": false},
		"s3_config": map[string]any{"access_id": "me", "access_secret": "a-planted-secret", "bucket_name": "results", "endpoint_url": "https://s3.example.com"},
	}
	tfdrive.Do(p.Open("gpucloud_job", config))(t)
	var got any
	want := map[string]any{
		"input": map[string]any{"op": "echo"}, "webhook": config["webhook"],
		"policy":   map[string]any{"executionTimeout": 5000.0, "ttl": 60000.0, "lowPriority": false},
		"s3Config": map[string]any{"accessId": "me", "accessSecret": "a-planted-secret", "bucketName": "results", "endpointUrl": "https://s3.example.com"},
	}
	err := json.Unmarshal(sentBody, &got)
	must.Hold(t, err == nil && reflect.DeepEqual(got, want), "sent", string(sentBody))
	rejects = true
	err = tfdrive.Err(p.Open("gpucloud_job", config))
	must.Hold(t, err != nil && strings.Contains(err.Error(), "could not be submitted") && !strings.Contains(err.Error(), "a-planted"), "refused", err)
}

func TestJobFails(t *testing.T) {
	p, c, id := drive(t)
	for name, test := range map[string]struct {
		config map[string]any
		want   []string
	}{
		"failed":                              {map[string]any{"input": `{"op":"fail","message":"no such model"}`}, []string{"The job did not complete: job ", "ended as FAILED", "no such model", "endpoint " + id}},
		"too slow":                            {map[string]any{"input": `{"op":"sleep","ms":600000}`, "timeout": "1s"}, []string{"not finished after 1s; it was cancelled"}},
		"unknown endpoint":                    {map[string]any{"endpoint_id": "none", "input": "{}"}, []string{"the job could not be submitted to endpoint none"}},
		"not an id":                           {map[string]any{"endpoint_id": "a/b", "input": "{}"}, []string{"endpoint_id: Invalid endpoint_id", `got "a/b"`}},
		"not an object":                       {map[string]any{"input": "[]"}, []string{"input: Invalid input: Invalid input: expected a JSON object"}},
		"not JSON":                            {map[string]any{"input": "{"}, []string{"input: Invalid input"}},
		"not a duration":                      {map[string]any{"input": "{}", "timeout": "soon"}, []string{`timeout: Invalid timeout: expected a duration from 1s`, `got "soon"`}},
		"timeout below its minimum":           {map[string]any{"input": "{}", "timeout": "10ms"}, []string{`got "10ms"`}},
		"ttl below its minimum":               {map[string]any{"input": "{}", "policy": map[string]any{"ttl": 9999}}, []string{"policy.ttl: Invalid policy.ttl", "expected 10000 to 604800000 milliseconds (10 minutes are 600000), got 9999"}},
		"a fraction":                          {map[string]any{"input": "{}", "policy": map[string]any{"ttl": 60000.5}}, []string{"policy.ttl: Invalid value of policy.ttl: Invalid policy.ttl: expected a whole number, got 60000.5."}},
		"not a webhook":                       {map[string]any{"input": "{}", "webhook": "ftp://a-planted-token"}, []string{"webhook: Invalid webhook: Invalid webhook: expected an http or https URL"}},
		"not a storage":                       {map[string]any{"input": "{}", "s3_config": map[string]any{"endpoint_url": "storage"}}, []string{"s3_config.endpoint_url: Invalid s3_config.endpoint_url", "expected an http or https URL"}},
		"execution_timeout below its minimum": {map[string]any{"input": "{}", "policy": map[string]any{"execution_timeout": 1}}, []string{"policy.execution_timeout: ", "expected 5000 to"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := map[string]any{"endpoint_id": id}
			maps.Copy(config, test.config)
			_, diags := p.Open("gpucloud_job", config)
			must.ErrorContains(t, diags.Err(), test.want...)
			must.Hold(t, !strings.Contains(diags.String(), "a-planted-token"), "a diagnostic has a secret", diags)
		})
	}
	expectIdle(t, c, id)
}

func expectIdle(t *testing.T, c *api.Client, id string) {
	t.Helper()
	health, err := c.Jobs.Health(t.Context(), id)
	must.Hold(t, err == nil && health.Jobs.InQueue+health.Jobs.InProgress <= 0, "jobs are left", health.Jobs, err)
}

func TestJobIsCancelledOnInterrupt(t *testing.T) {
	p, c, id := drive(t)
	ended := make(chan error)
	go func() {
		ended <- tfdrive.Err(p.Open("gpucloud_job", map[string]any{"endpoint_id": id, "input": `{"op":"sleep","ms":600000}`}))
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		health, err := c.Jobs.Health(t.Context(), id)
		must.Require(t, err == nil && !time.Now().After(deadline), "the job does not run", err)
		if health.Jobs.InProgress > 0 {
			break
		}
	}
	p.Stop()
	must.ErrorContains(t, <-ended, "interrupted; it was cancelled")
	expectIdle(t, c, id)
}

// The output is sent as a write-only attribute, and isn't in the state.
func TestJobInTerraform(t *testing.T) {
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		d := acctest.DeployLocal(t, "the job is made for a handler that is built into the jobrunner")
		c := d.Client(t, api.V2)
		w := d.Workspace(t, cli, api.V2)
		w.Write("main.tf", `ephemeral "gpucloud_job" "token" {
  endpoint_id = "`+makeEndpoint(t, c)+`"
  input       = jsonencode({ op = "echo", token = "secret-of-a-job" })
}
resource "gpucloud_template" "t" {
  name           = "t"
  image          = "i"
  env_wo         = { TOKEN = jsondecode(ephemeral.gpucloud_job.token.output).token }
  env_wo_version = 1
}
`)
		w.MustRun("apply", "-auto-approve")
		templates, err := c.Templates.List(t.Context())
		must.Hold(t, err == nil && len(templates) == 1 && templates[0].Env["TOKEN"] == "secret-of-a-job", "the template lacks the output", templates, err)
		state := must.Do(os.ReadFile(filepath.Join(w.Dir, "terraform.tfstate")))(t)
		must.Hold(t, !strings.Contains(string(state), "secret-of-a-job"), "the state has the output", string(state))
	})
}
