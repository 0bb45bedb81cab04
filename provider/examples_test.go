package provider_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// ephemeral matches the end of an ephemeral variable whose default is missing or null.
var ephemeral = regexp.MustCompile(`(?m)^(  ephemeral += true\n)(?:  default += null.*\n)?}`)

// exampleFiles returns the examples that match patterns, by name.
func exampleFiles(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	examples := map[string]string{}
	for _, pattern := range patterns {
		found, err := filepath.Glob("../examples/" + pattern)
		must.Require(t, err == nil && len(found) != 0, "no examples at", pattern, err)
		for _, file := range found {
			text := string(must.ReadFile(t, file))
			// Users set the secret; the test needs a default.
			examples[filepath.Base(filepath.Dir(file))] = ephemeral.ReplaceAllString(text, "${1}  default = \"token\"\n}")
		}
	}
	return examples
}

// writeExample writes an example into a folder of a workspace, which requires the provider.
func writeExample(w *acctest.Workspace, folder, example string) {
	if strings.Contains(example, "required_providers") {
		w.Write(filepath.Join(folder, "providers.tf"), "")
	} else if folder != "." {
		w.Write(filepath.Join(folder, "providers.tf"), "terraform {\n  required_providers {\n    gpucloud = { source = \"gpucloud/gpucloud\" }\n  }\n}\n")
	}
	w.Write(filepath.Join(folder, "main.tf"), example)
}

// writeModules writes examples as modules of one configuration, named after the examples.
func writeModules(w *acctest.Workspace, examples, variables map[string]string) {
	var main strings.Builder
	for name, example := range examples {
		writeExample(w, name, strings.Replace(example, "provider \"gpucloud\" {}\n", "", 1))
		fmt.Fprintf(&main, "module %q {\n  source = \"./%s\"\n", name, name)
		for variable, value := range variables {
			if strings.Contains(example, "variable \""+variable+"\" {") {
				fmt.Fprintf(&main, "  %s = %q\n", variable, value)
			}
		}
		main.WriteString("}\n")
	}
	w.Write("main.tf", main.String())
	w.MustRun("get")
}

// Every example of a resource can be applied and destroyed, and its next plan is empty.
func TestExamples(t *testing.T) {
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		w := acctest.Deploy(t).Workspace(t, cli, api.V2)
		writeModules(w, exampleFiles(t, "resources/*/resource.tf", "quickstart/main.tf", "runpod/main.tf"), nil)
		w.MustRun("apply", "-auto-approve")
		w.MustRun("plan", "-detailed-exitcode")
		w.MustRun("destroy", "-auto-approve")
	})
}

// Every example of a data source and of a function can be applied.
func TestDataSourceAndFunctionExamples(t *testing.T) {
	acctest.LeaveToCI(t, "package datasources tests each data source")
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		catalog := acctest.CatalogFile(t, "builds:\n  - {endpoint: inference, id: b1, status: COMPLETED, image_name: \"registry.example.com/you/worker:1\"}\n")
		d := acctest.DeployWith(t, func(c *jobrunner.Config) { c.Catalog = catalog })
		ids := makeExisting(t, d)
		w := d.Workspace(t, cli, api.V2)
		examples := exampleFiles(t, "data-sources/*/data-source.tf", "functions/*/function.tf")
		if d.Remote {
			delete(examples, "gpucloud_endpoint_build") // without a repository, only a catalog file gives an endpoint builds
		}
		writeModules(w, examples, ids)
		w.MustRun("apply", "-auto-approve")
		w.MustRun("plan", "-detailed-exitcode")
	})
}

// The example of the ephemeral resource runs a job on an existing endpoint.
func TestEphemeralExample(t *testing.T) {
	text := string(must.ReadFile(t, "../examples/ephemeral-resources/gpucloud_job/ephemeral-resource.tf"))
	example := strings.Replace(text, `{ scope = "models:read" }`, `{ op = "echo", scope = "models:read", token = "t" }`, 1) // the built-in worker echoes
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		d := acctest.DeployLocal(t, "the job needs a handler that is built into the jobrunner")
		endpointID := makeEndpoint(t, d)
		w := d.Workspace(t, cli, api.V2)
		w.Write("main.tf", example)
		w.MustRun("apply", "-auto-approve", "-var=endpoint_id="+endpointID)
		expect(t, w.MustRun("plan", "-var=endpoint_id="+endpointID), "No changes.")
	})
}

// The examples of actions run on existing objects, with a CLI that has actions.
func TestActionExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/actions/*/action.tf")
	must.Require(t, err == nil && len(files) != 0, "no examples", err)
	clis := must.Do(tfcli.All(t.Context()))(t)
	i := slices.IndexFunc(clis, tfcli.CLI.HasActionsAndQueries)
	if i < 0 {
		t.Skip("no CLI on this machine knows actions: make clis builds one")
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := acctest.DeployLocal(t, "jobs and pods need programs that are built into the jobrunner")
			example := string(must.ReadFile(t, file))
			w, args := d.Workspace(t, clis[i], api.V2), []string{"apply", "-auto-approve"}
			switch name {
			case "gpucloud_job_run":
				example = strings.Replace(example, "{ width", `{ op = "echo", width`, 1) // the built-in worker echoes
				args = append(args, "-var=image=builtin/conformance")
			case "gpucloud_pod_restart", "gpucloud_pod_start", "gpucloud_pod_stop":
				args = append(args, "-var=pod_id="+makeRunningPod(t, d))
			default:
				id := makeEndpoint(t, d)
				args = append(args, "-var=endpoint_id="+id)
				if strings.Contains(example, "job_id") {
					args = append(args, "-var=job_id="+makeFailedJob(t, d, id))
				}
			}
			if invoke := regexp.MustCompile(`-invoke=\S+`).FindString(example); invoke != "" {
				args = append(args, invoke)
			}
			w.Write("main.tf", example)
			must.Contain(t, w.MustRun(args...), "Action complete: ", "complete!")
		})
	}
}

func makeRunningPod(t *testing.T, d *acctest.Deployment) (id string) {
	t.Helper()
	c := d.Client(t, api.V2)
	pod, err := c.Pods.Create(t.Context(), api.Pod{Name: "p", Container: &api.Container{Image: new("builtin/echo"), Disk: new(int64(5))}, CPU: &api.PodCPU{ID: "cpu3c", VCPUCount: 2}, Cloud: "SECURE"})
	for err == nil && pod.Status != api.PodRunning {
		time.Sleep(10 * time.Millisecond)
		pod, err = c.Pods.GetFresh(t.Context(), pod.ID)
	}
	must.Succeed(t, err)
	return pod.ID
}

// makeFailedJob runs a job that fails, and that completes when it is retried.
func makeFailedJob(t *testing.T, d *acctest.Deployment, endpointID string) (id string) {
	t.Helper()
	job, err := d.Client(t, api.V2).Jobs.RunToEnd(t.Context(), endpointID, api.Submission{Input: json.RawMessage(`{"op":"fail","times":1}`)}, time.Minute, func(api.Job) {})
	must.Require(t, err != nil, "job", job.ID, "is", job.Status, "expected FAILED")
	return job.ID
}

// makeExisting creates the objects that data sources' examples look up. It returns the examples' variables.
func makeExisting(t *testing.T, d *acctest.Deployment) map[string]string {
	t.Helper()
	c, ctx := d.Client(t, api.V2), t.Context()
	must.Do(c.NetworkVolumes.Create(ctx, api.NetworkVolume{Name: "models", Size: 10, DataCenter: "EU-RO-1"}))(t)
	must.Do(c.GlobalVolumes.Create(ctx, api.GlobalVolume{Name: "models"}))(t)
	must.Do(c.Secrets.Create(ctx, api.Secret{Name: "hub_token", Value: "token"}))(t)
	must.Do(c.RegistryAuths.Create(ctx, api.RegistryAuth{Name: "ci", Username: "u", Password: "p"}))(t)
	must.Do(c.Templates.Create(ctx, api.Template{Name: "worker", Image: "builtin/echo", Disk: 5, Serverless: true}))(t)
	endpoint := must.Do(c.Endpoints.Create(ctx, api.Endpoint{
		Name: "inference", Type: "QUEUE", Container: &api.Container{Image: new("builtin/echo")},
		Workers: api.Workers{Min: 1, Max: 1}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 4},
	}))(t)
	must.Do(c.Delegations.Create(ctx, api.Delegation{Name: new("app"), Resource: "arn:aws:ecr:us-east-2:123456789012:repository/team/app"}))(t)
	must.Do(c.SSHKeys.Edit(ctx, nil, func([]string, []string) []string {
		return []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@example.com"}
	}))(t)
	must.Do(c.Clusters.Create(ctx, api.Cluster{
		Name: "training", Type: "TRAINING", Image: "builtin/echo", Compute: api.ClusterCompute{GPUTypeID: "NVIDIA L4", GPUCountPerPod: 1, PodCount: 2},
	}))(t)
	must.Do(c.Pods.Create(ctx, api.Pod{Name: "notebook", Container: &api.Container{Image: new("builtin/echo"), Command: api.Command{Args: new("print hello")}}, CPU: &api.PodCPU{ID: "cpu3c", VCPUCount: 2}}))(t)
	job := must.Do(c.Jobs.RunToEnd(ctx, endpoint.ID, api.Submission{Input: json.RawMessage(`{}`)}, time.Minute, func(api.Job) {}))(t)
	return map[string]string{"job_id": job.ID, "build_id": "b1"}
}

func TestEveryDataSourceHasAnExample(t *testing.T) {
	clearVariables(t)
	for name := range start(t, map[string]any{"base_url": "http://127.0.0.1:1", "api_key": "k"}).DataSchemas() {
		must.Do(os.Stat(filepath.Join("../examples/data-sources", name, "data-source.tf")))(t)
	}
}
