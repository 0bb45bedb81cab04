//go:build unix

package main_test

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// runDoctor returns the findings by check, and the exit status.
func runDoctor(t *testing.T, env []string, args ...string) (findings map[string]struct{ Status, Text, Remedy string }, code int) {
	t.Helper()
	out, stderr, code := execute(t, env, "", append([]string{"doctor", "--json"}, args...)...)
	findings = map[string]struct{ Status, Text, Remedy string }{}
	for line := range strings.Lines(out) {
		var f struct{ Check, Status, Text, Remedy string }
		must.Succeed(t, json.Unmarshal([]byte(line), &f), line, "stderr", stderr)
		must.Hold(t, f.Status == "ok" || f.Remedy != "", "the finding", f, "lacks a remedy")
		findings[f.Check] = struct{ Status, Text, Remedy string }{f.Status, f.Text, f.Remedy}
	}
	return findings, code
}

// If the machine doesn't meet a check's condition, the check warns or fails with the reason.
func TestDoctor(t *testing.T) {
	t.Parallel()
	takenListener := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer takenListener.Close()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "bad.yaml"), "rules: [{image: a, nonsense: 1}]\n")
	writeFile(t, filepath.Join(dir, "good.yaml"), "engine: none\nrules: [{image: a, command: {run: [/bin/cat]}}]\n")
	writeFile(t, filepath.Join(dir, "rules.yaml"), "rules: [{image: a, command: {run: [/bin/cat]}}]\n")
	writeFile(t, filepath.Join(dir, "file"), "")
	writeFile(t, filepath.Join(dir, "damaged", "jobrunner.db"), strings.Repeat("damaged", 1000))
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch q := r.URL.Query(); {
		case q.Has("sendInitialEvents"):
			w.WriteHeader(http.StatusUnprocessableEntity)
		case q.Has("watch"):
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","labels":{"nvidia.com/gpu.product":"NVIDIA-L4"}},"status":{"allocatable":{"nvidia.com/gpu":"2"}}}]}`)
		case strings.HasSuffix(r.URL.Path, "/pods"):
			io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		default:
			io.WriteString(w, `{"gitVersion":"v1.36.0"}`)
		}
	}))
	defer cluster.Close()
	writeFile(t, filepath.Join(dir, "kubeconfig"), `{"clusters":[{"name":"c","cluster":{"server":"`+cluster.URL+`"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`)
	writeFile(t, filepath.Join(dir, "kubernetes.yaml"), "executor: kubernetes\nkubernetes: {url: 'http://jobrunner:8420', kubeconfig: kubeconfig}\n")
	writeFile(t, filepath.Join(dir, "label.yaml"), "executor: kubernetes\nkubernetes: {url: 'http://jobrunner:8420', kubeconfig: kubeconfig, gpu_label: absent}\n")
	minimalEnv := []string{"PATH=" + dir, "HOME=" + dir}
	checks := []string{"GPUs", "PostgreSQL", "Python", "Terraform", "address", "clock", "data folder", "database", "images", "open files"}
	for name, c := range map[string]struct {
		args   []string
		check  string
		status string
		text   string
		remedy string
		code   int
	}{
		"a free address":             {check: "address", status: "ok", text: "is free"},
		"an address in use":          {args: []string{"--listen", takenListener.Addr().String()}, check: "address", status: "fail", text: "is in use", code: 1},
		"no address":                 {args: []string{"--listen", "8420"}, check: "address", status: "fail", text: "invalid --listen 8420", code: 1},
		"a new folder":               {args: []string{"--data", filepath.Join(dir, "new", "er")}, check: "data folder", status: "", text: filepath.Join("new", "er") + " can be written"},
		"no folder":                  {args: []string{"--data", filepath.Join(dir, "file", "in")}, check: "data folder", status: "fail", text: "can't be written", code: 1},
		"no folder of a database":    {args: []string{"--data", filepath.Join(dir, "file", "in")}, check: "database", status: "fail", text: "not a directory", remedy: "choose another one with --data", code: 1},
		"a damaged database":         {args: []string{"--data", filepath.Join(dir, "damaged")}, check: "database", status: "fail", text: "is damaged", remedy: "before the repair", code: 1},
		"a bad file":                 {args: []string{"--config", filepath.Join(dir, "bad.yaml")}, check: "images", status: "fail", text: "bad.yaml:1", code: 1},
		"a good file":                {args: []string{"--config", filepath.Join(dir, "good.yaml")}, check: "images", status: "ok", text: "1 × command"},
		"no container engine":        {check: "images", status: "warn", text: "neither docker nor podman is on PATH", remedy: "or map images to programs"},
		"rules, no container engine": {args: []string{"--config", filepath.Join(dir, "rules.yaml")}, check: "images", status: "warn", text: "1 × command; containers: neither docker", remedy: "or add rules for them"},
		"a cluster":                  {args: []string{"--config", filepath.Join(dir, "kubernetes.yaml")}, check: "images", status: "ok", text: "Kubernetes v1.36.0"},
		"a cluster's GPUs":           {args: []string{"--config", filepath.Join(dir, "kubernetes.yaml")}, check: "GPUs", status: "ok", text: "nodes: 2 × NVIDIA L4"},
		"GPUs without a label":       {args: []string{"--config", filepath.Join(dir, "label.yaml")}, check: "GPUs", status: "warn", text: "has no label absent", remedy: "GPU feature discovery"},
		"GPUs of a bad file":         {args: []string{"--config", filepath.Join(dir, "bad.yaml")}, check: "GPUs", status: "warn", text: "unknown", code: 1},
		"no database":                {args: []string{"--engine", "postgres://u:secret@127.0.0.1:1/x"}, check: "PostgreSQL", status: "fail", text: "127.0.0.1:1", code: 1},
		"a bad setting":              {args: []string{"--engine", "postgres://u:secret@127.0.0.1:1/x?sslmode=on"}, check: "PostgreSQL", status: "fail", text: "the address of the database: failed to configure TLS (sslmode", code: 1},
		"a bad --engine-file":        {args: []string{"--engine-file", filepath.Join(dir, "file")}, check: "PostgreSQL", status: "fail", text: "invalid --engine-file", code: 1},
		"no Python":                  {check: "Python", status: "warn", text: "python3"},
		"no Terraform":               {check: "Terraform", status: "warn", text: "neither terraform nor tofu is on PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			args := c.args
			if c.check != "address" || len(args) == 0 {
				args = append(args, "--listen=127.0.0.1:0")
			}
			findings, code := runDoctor(t, minimalEnv, args...)
			f := findings[c.check]
			if c.status == "" && code == 0 { // a nearly full disk may cause a warning
				c.status = f.Status
			}
			must.Hold(t, f.Status == c.status && strings.Contains(f.Text, c.text) && !strings.Contains(f.Text, "secret") &&
				strings.Contains(f.Remedy, c.remedy) && code == c.code, "exit status", code, "and finding", f, "want exit status", c.code, c.status, c.text, c.remedy)
			names := slices.Sorted(maps.Keys(findings))
			must.Hold(t, slices.Equal(names, checks), "the checks are", names, "want", checks)
		})
	}
	must.Equal(t, must.Do(filepath.Glob(filepath.Join(dir, ".gpucloud*")))(t), nil, "files that doctor left")
}

// The hint installs the SDK into a virtual environment: Debian's own Python rejects packages.
func TestDoctorAdvisesAVirtualEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "python3")
	writeFile(t, program, "#!/bin/sh\necho 3.12.1 False\n")
	must.Succeed(t, os.Chmod(program, 0o700))
	for _, c := range []struct{ env, remedy string }{
		{"NONE=", "cd " + must.Do(os.Getwd())(t) + " && python3 -m venv .venv && .venv/bin/pip install runpod"},
		{"VIRTUAL_ENV=/somewhere", "python3 -m pip install runpod"},
	} {
		findings, _ := runDoctor(t, []string{"PATH=" + dir, "HOME=" + dir, c.env}, "--listen=127.0.0.1:0")
		f := findings["Python"]
		must.Hold(t, f.Status == "warn" && f.Remedy == "only handlers in Python need it: "+c.remedy, "with", c.env, "the finding is", f, "want the remedy", c.remedy)
	}
}

func TestDoctorBesideADeployment(t *testing.T) {
	acctest.LeaveToCI(t, "TestDoctor covers the checks")
	t.Parallel()
	engine := pgtest.Start(t)
	home := t.TempDir()
	p := serve(t, environment(home, "GPUCLOUD_API_KEY=k"))
	findings, code := runDoctor(t, environment(home), "--listen", strings.TrimPrefix(p.url, "http://"), "--engine", engine)
	f := findings["PostgreSQL"]
	must.Hold(t, f.Status == "ok" && strings.Contains(f.Text, "version 1"), "the finding for PostgreSQL is", f)
	f = findings["address"]
	must.Hold(t, f.Status == "warn" && strings.Contains(f.Text, "a jobrunner runs at") && code == 0, "exit status", code, "and the finding for the address", f)
	status, _ := p.get("/v2/templates")
	must.Hold(t, status == 200, "beside doctor, the deployment answers", status)
}
