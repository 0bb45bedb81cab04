// Command quickstart is `make quickstart`: it starts a jobrunner, applies
// examples/quickstart to it with a real Terraform, runs a job, shows an empty plan
// and a refused one, and destroys everything. It needs bin/, and leaves no files.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// patience bounds the whole run.
const patience = 3 * time.Minute

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	started := time.Now()
	cli, err := tfcli.Default(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gpucloud-quickstart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	r, err := startJobrunner(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	printStep("a deployment runs at %s", r.url)

	tf, err := newTerraform(cli.Path, dir, r)
	if err != nil {
		return err
	}
	if _, err := tf.run(ctx, "apply", "-auto-approve"); err != nil {
		return err
	}
	defer func() { // also when a step fails: the state is thrown away with dir
		if _, e := tf.run(context.WithoutCancel(ctx), "destroy", "-auto-approve"); e != nil {
			err = errors.Join(err, e)
			return
		}
		if err == nil {
			printStep("%s destroy: all objects deleted, %.0f s in total", cli.Name, time.Since(started).Seconds())
			printStep("next: docs/guides/first-endpoint.md does the same by hand, and keeps it")
		}
	}()
	runURL, err := tf.run(ctx, "output", "-raw", "run_sync_url")
	if err != nil {
		return err
	}
	printStep("%s apply: a template, a network volume, a registry auth and an endpoint", cli.Name)

	output, err := r.job(ctx, strings.TrimSpace(runURL))
	if err != nil {
		return err
	}
	printStep("a job sent to the endpoint ran examples/quickstart/handler.go and returned %s", output)

	if _, err := tf.run(ctx, "plan", "-detailed-exitcode"); err != nil {
		return fmt.Errorf("the second plan is not empty: %w", err)
	}
	printStep("%s plan: no changes", cli.Name)

	refused, err := tf.run(ctx, "plan", "-var=volume_size=10")
	if err == nil {
		return fmt.Errorf("a plan that shrinks the volume was accepted:\n%s", refused)
	}
	if !strings.Contains(err.Error(), "can't shrink") {
		return fmt.Errorf("a plan that shrinks the volume failed for another reason: %w", err)
	}
	printStep("%s plan with a smaller volume: refused before anything was sent", cli.Name)
	return nil
}

func printStep(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }

// binaryPath returns the path of a binary that `make build` built.
func binaryPath(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join("bin", name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s not found: run make build", name)
	}
	return path, nil
}

// terraform runs the CLI on a copy of the example, so that the tree stays as
// it is.
type terraform struct {
	cli, dir string
	env      []string
}

func newTerraform(cli, dir string, r *runner) (*terraform, error) {
	config, err := os.ReadFile("examples/quickstart/main.tf")
	if err != nil {
		return nil, fmt.Errorf("run this from the root of the project: %w", err)
	}
	provider, err := binaryPath("terraform-provider-gpucloud")
	if err != nil {
		return nil, err
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	rc := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    %q = %q\n    %q = %q\n  }\n  direct {}\n}\n",
		"registry.terraform.io/gpucloud/gpucloud", filepath.Dir(provider), "registry.opentofu.org/gpucloud/gpucloud", filepath.Dir(provider))
	if err := errors.Join(
		os.WriteFile(filepath.Join(work, "main.tf"), config, 0o600),
		os.WriteFile(filepath.Join(dir, "terraformrc"), []byte(rc), 0o600),
	); err != nil {
		return nil, err
	}
	return &terraform{cli: cli, dir: work, env: append(os.Environ(),
		"TF_CLI_CONFIG_FILE="+filepath.Join(dir, "terraformrc"),
		"TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1",
		"GPUCLOUD_BASE_URL="+r.url, "GPUCLOUD_QUEUE_URL=", "GPUCLOUD_API_VERSION=", "GPUCLOUD_API_KEY="+r.key,
		"TF_VAR_registry_token="+rand.Text(),
	)}, nil
}

// run returns what the command printed; the error has its output.
func (tf *terraform) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, tf.cli, append(args, "-no-color")...)
	if args[0] == "output" {
		cmd.Args = append([]string{tf.cli}, args...)
	}
	cmd.Dir, cmd.Env = tf.dir, tf.env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(tf.cli), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// runner is a jobrunner process of this run's own.
type runner struct {
	cmd      *exec.Cmd
	url, key string
	log      *bytes.Buffer
}

func startJobrunner(ctx context.Context, data string) (*runner, error) {
	path, err := binaryPath("jobrunner")
	if err != nil {
		return nil, err
	}
	r := &runner{key: rand.Text(), log: new(bytes.Buffer)}
	r.cmd = exec.CommandContext(context.WithoutCancel(ctx), path, "serve", "--listen=127.0.0.1:0", "--data="+data,
		"--config=examples/quickstart/jobrunner.yaml")
	r.cmd.Env = append(os.Environ(), "GPUCLOUD_API_KEY="+r.key)
	r.cmd.Stderr = r.log
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), "GPUCLOUD_BASE_URL="); ok {
			r.url = strings.Trim(strings.TrimSpace(after), `"'`)
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if r.url == "" {
		return nil, errors.Join(fmt.Errorf("the jobrunner did not start: %s", r.log), r.stop())
	}
	return r, nil
}

func (r *runner) stop() error {
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("stopping the jobrunner: %w", err)
	}
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("the jobrunner failed: %w: %s", err, r.log)
	}
	return nil
}

// job sends one job and returns its status and output.
func (r *runner) job(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"input": {"samples": 3000000}}`))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var job struct {
		Status string          `json:"status"`
		Output json.RawMessage `json:"output"`
		Error  string          `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&job); err != nil || job.Status != "COMPLETED" {
		return "", fmt.Errorf("the job did not complete: HTTP %d, status %s %s", resp.StatusCode, job.Status, job.Error)
	}
	return fmt.Sprintf("%s with %s", job.Status, job.Output), nil
}
