//go:build unix

package scale_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// terraform runs a CLI in a working directory, which has a configuration and a state.
type terraform struct {
	t   testing.TB
	cli tfcli.CLI
	dir string
	env []string
	cpu time.Duration // processor time of all calls of run, including the providers'
}

// patience bounds one command.
const patience = 5 * time.Minute

const requiredProviders = `terraform {
  required_providers {
    gpucloud = { source = "gpucloud/gpucloud" }
  }
}
`

// newWorkspace creates a working directory whose CLI runs a provider binary against the deployment.
func newWorkspace(t testing.TB, d *deployment, pkg string, v api.Version) *terraform {
	t.Helper()
	cli := must.Do(findCLI())(t)
	dir := t.TempDir()
	bin := buildProvider(t, pkg)
	rc := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    %q = %q\n    %q = %q\n  }\n  direct {}\n}\n",
		"registry.terraform.io/gpucloud/gpucloud", bin, "registry.opentofu.org/gpucloud/gpucloud", bin)
	tf := &terraform{t: t, cli: cli, dir: dir}
	tf.write("terraformrc", rc)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TF_") && !strings.HasPrefix(v, "GPUCLOUD_") {
			tf.env = append(tf.env, v)
		}
	}
	tf.env = append(tf.env, "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "terraformrc"), "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1",
		"TMPDIR="+binFolder, // a killed provider leaves its socket behind
		"GPUCLOUD_BASE_URL="+d.url, "GPUCLOUD_API_KEY="+d.key, "GPUCLOUD_API_VERSION="+string(v))
	return tf
}

func (tf *terraform) write(name, text string) {
	tf.t.Helper()
	must.Succeed(tf.t, os.WriteFile(filepath.Join(tf.dir, name), []byte(text), 0o600))
}

func (tf *terraform) configure(blocks ...string) {
	tf.t.Helper()
	tf.write("main.tf", requiredProviders+strings.Join(blocks, "\n"))
}

// process is a running Terraform, in its own process group like under a shell.
type process struct {
	*exec.Cmd
	t     testing.TB
	args  string
	out   livelog.Log
	ended chan struct{}
	err   error
}

func (tf *terraform) start(args ...string) *process {
	tf.t.Helper()
	p := &process{t: tf.t, args: strings.Join(args, " "), ended: make(chan struct{})}
	p.Cmd = exec.Command(tf.cli.Path, append(args, "-no-color")...)
	p.Dir, p.Env, p.Stdout, p.Stderr = tf.dir, tf.env, &p.out, &p.out
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Succeed(tf.t, p.Start())
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	tf.t.Cleanup(func() {
		select {
		case <-p.ended:
		default:
			_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
			<-p.ended
		}
	})
	return p
}

// waitForExit waits for the end of the process, and returns its output.
func (p *process) waitForExit() (string, error) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("terraform %s still runs after %s:\n%s", p.args, patience, p.out.String())
	}
	return p.out.String(), p.err
}

// run runs a command that must succeed, and returns its output.
func (tf *terraform) run(args ...string) string {
	tf.t.Helper()
	p := tf.start(args...)
	out, err := p.waitForExit()
	must.Require(tf.t, err == nil, "terraform", strings.Join(args, " "), "failed:", err, out)
	tf.cpu += p.ProcessState.UserTime() + p.ProcessState.SystemTime()
	return out
}

func (tf *terraform) apply() string {
	tf.t.Helper()
	return tf.run("apply", "-auto-approve")
}

// expectEmptyPlan expects a plan without changes.
func (tf *terraform) expectEmptyPlan() {
	tf.t.Helper()
	tf.run("plan", "-detailed-exitcode")
}

// unwrap removes Terraform's frame and line breaks from a diagnostic.
func unwrap(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(text)), " ")
}

// ids lists the objects of the state as "TYPE ID", sorted.
func (tf *terraform) ids() (out []string) {
	tf.t.Helper()
	text, err := os.ReadFile(filepath.Join(tf.dir, "terraform.tfstate"))
	if os.IsNotExist(err) {
		return nil
	}
	must.Succeed(tf.t, err)
	var state struct {
		Resources []struct {
			Type      string
			Instances []struct{ Attributes struct{ ID string } }
		}
	}
	must.Succeed(tf.t, json.Unmarshal(text, &state))
	for _, r := range state.Resources {
		for _, i := range r.Instances {
			out = append(out, r.Type+" "+i.Attributes.ID)
		}
	}
	slices.Sort(out)
	return out
}

// configOf returns a configuration with n objects of each of four kinds, and the endpoints' template.
func configOf(n int) string {
	return baseTemplate + fmt.Sprintf(`
resource "gpucloud_template" "t" {
  count = %[1]d
  name  = "t-${count.index}"
  image = "registry.example/worker:1"
  env   = { A = "1", B = "2" }
  ports = ["80/http", "22/tcp"]
}
resource "gpucloud_network_volume" "v" {
  count       = %[1]d
  name        = "v-${count.index}"
  size        = 10
  data_center = "EU-RO-1"
}
resource "gpucloud_registry_auth" "r" {
  count    = %[1]d
  name     = "r-${count.index}"
  username = "robot"
  password = "token"
}
resource "gpucloud_endpoint" "e" {
  count       = %[1]d
  name        = "e-${count.index}"
  template_id = gpucloud_template.base.id
  gpu         = { type_ids = ["NVIDIA L4"] }
  workers     = { min = 0, max = 2 }
}
`, n)
}

// baseTemplate is the template that the endpoints use.
const baseTemplate = `
resource "gpucloud_template" "base" {
  name       = "base"
  image      = "registry.example/worker:1"
  serverless = true
}
`

// importCommand returns the import command that messages contain.
func (tf *terraform) importCommand(kind, id string) string {
	return fmt.Sprintf("terraform import %s.NAME %s", kind, id)
}
