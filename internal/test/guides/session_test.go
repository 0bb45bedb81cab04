//go:build unix

package guides

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// patience bounds one command of a reader.
const patience = 2 * time.Minute

// session is the shell of a reader of one document.
type session struct {
	t     *testing.T
	cli   tfcli.CLI
	clone string   // folder of the project's clone
	dir   string   // working directory of the next command
	env   []string // environment of the next command
	url   string   // of the latest deployment, or ""
	key   string   // of the latest deployment

	runsConformance bool // whether conformance commands are run
	preparedHello   bool // whether the first guide's folder exists
}

// newSession starts in a clone whose programs are built in bin.
func newSession(t *testing.T, bin string, cli tfcli.CLI) *session {
	t.Helper()
	for _, program := range []string{"bash", "curl", "make", "python3"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
			t.Skipf("the documents use %s, which this machine lacks", program)
		}
	}
	base := t.TempDir()
	home, tools, clone := filepath.Join(base, "home"), filepath.Join(base, "tools"), filepath.Join(base, "clone")
	source := must.Do(filepath.Abs(root))(t)
	// This make doesn't build again. All targets besides build and install are a dry run.
	const makeScript = `#!/bin/sh
case "$*" in
*build|*install) exec %[1]s -s -o build -f %[2]s/Makefile "$@" ;;
*) cd %[2]s && exec %[1]s -n "$@" >/dev/null ;;
esac
`
	realMake := must.Do(exec.LookPath("make"))(t)
	must.Succeed(t, errors.Join(
		os.Mkdir(home, 0o700), os.Mkdir(tools, 0o700), os.Mkdir(clone, 0o700),
		os.WriteFile(filepath.Join(tools, "make"), fmt.Appendf(nil, makeScript, realMake, source), 0o700),
		os.Symlink(cli.Path, filepath.Join(tools, cli.Name)),
		os.Symlink(bin, filepath.Join(clone, "bin")),
		os.CopyFS(filepath.Join(clone, "examples"), os.DirFS(filepath.Join(source, "examples"))),
	))
	// The home folder is empty except for Go's build cache, which handlers in Go use.
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE").Output()
	caches := strings.Fields(string(out))
	must.Require(t, err == nil && len(caches) == 2, "go env printed", string(out), err, "expected two folders")
	must.Succeed(t, errors.Join(os.Mkdir(filepath.Join(home, ".cache"), 0o700), os.Symlink(caches[0], filepath.Join(home, ".cache", "go-build"))))
	// Telemetry is off, because its process writes to the home folder and may outlive the test.
	telemetry := filepath.Join(home, ".config", "go", "telemetry")
	must.Succeed(t, errors.Join(os.MkdirAll(telemetry, 0o700), os.WriteFile(filepath.Join(telemetry, "mode"), []byte("off"), 0o600)))
	s := &session{t: t, cli: cli, clone: clone, dir: clone}
	sdk := filepath.Join(clone, "runpod") // a stand-in for the public SDK, which the reader would install
	standIn := must.ReadFile(t, filepath.Join(root, "jobrunner/workerapi/testdata/standin.py"))
	must.Succeed(t, os.Mkdir(sdk, 0o700))
	for name, text := range map[string]string{"__init__.py": "from . import serverless\n", "serverless.py": string(standIn)} {
		must.Succeed(t, os.WriteFile(filepath.Join(sdk, name), []byte(text), 0o600))
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(v, "TF_") && !strings.HasPrefix(v, "GPUCLOUD_") && !strings.HasPrefix(v, "XDG_") && name != "HOME" && name != "PATH" {
			s.env = append(s.env, v)
		}
	}
	s.env = append(s.env, "HOME="+home, "PATH="+strings.Join([]string{tools, filepath.Join(clone, "bin"), os.Getenv("PATH")}, string(filepath.ListSeparator)), "CHECKPOINT_DISABLE=1", "GOMODCACHE="+caches[1])
	return s
}

var fileName = regexp.MustCompile(`^(?:#|//) ([\w./-]+\.\w+)$`)

// write writes the file that the first line of a block names.
func (s *session) write(b block) (name string) {
	s.t.Helper()
	first, _, _ := strings.Cut(b.text, "\n")
	found := fileName.FindStringSubmatch(first)
	path := filepath.Join(s.dir, found[1])
	must.Succeed(s.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(b.text), 0o600)))
	return found[1]
}

var comment = regexp.MustCompile(` +# .*$`)

// typeAll runs the commands of a block as a reader would type them.
func (s *session) typeAll(b block) {
	s.t.Helper()
	typed, err := commands(b)
	must.Require(s.t, err == nil, "reading the commands of", b, "failed:", err)
	for _, c := range typed {
		c.text = comment.ReplaceAllString(c.text, "")
		switch program, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(c.text, "bin/"), "./"), " "); {
		case remotePrograms[program]:
			continue
		case program == "conformance" && !s.runsConformance:
			s.checkFlags(b, program, rest)
			continue
		case program == "jobrunner" && strings.HasPrefix(rest, "dev ") && !strings.Contains(rest, "--once"):
			c.text += " --once" // instead of Ctrl-C
		case program == "jobrunner" && strings.HasPrefix(rest, "doctor"):
			c.text += " --listen=127.0.0.1:0" // the default address may be in use
		case program == "jobrunner" && strings.HasPrefix(rest, "serve"):
			must.Equal(s.t, compare(c.shown, s.serve(c.text)), "", b, "$", c.text)
			continue
		}
		output, err := s.run(c.text)
		must.Require(s.t, (err != nil) == c.fails(), b, "$", c.text, "ended with the error", err, "and the document shows a failure:", c.fails(), lastLines(output))
		must.Equal(s.t, compare(c.shown, output), "", b, "$", c.text, "printed", lastLines(output))
	}
}

// remotePrograms are programs that need another machine or a container engine.
var remotePrograms = map[string]bool{"ssh": true, "scp": true, "docker": true}

var flag = regexp.MustCompile(`(?:^| )(--[a-z-]+)`)

// checkFlags checks that a program has the command and its flags, without running it.
func (s *session) checkFlags(b block, program, rest string) {
	s.t.Helper()
	rest, _, _ = strings.Cut(rest, " -- ")
	name, _, _ := strings.Cut(rest, " ")
	help, err := s.run(program + " " + name + " --help")
	must.Hold(s.t, err == nil, b, "uses the command", name, "which", program, "lacks:", help)
	for _, f := range flag.FindAllStringSubmatch(rest, -1) {
		must.Hold(s.t, strings.Contains(help, f[1]), b, "uses the flag", f[1], "which", program, name, "lacks")
	}
}

// run runs one command in a shell that keeps directory, variables and functions. It answers prompts with yes.
func (s *session) run(text string) (output string, err error) {
	s.t.Helper()
	text = strings.ReplaceAll(text, "terraform ", s.cli.Name+" ")
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	dir := s.t.TempDir()
	shellState, printed := filepath.Join(dir, "shell-state"), filepath.Join(dir, "printed")
	out := must.Do(os.Create(printed))(s.t)
	defer out.Close()
	if s.url != "" {
		text = strings.NewReplacer("http://127.0.0.1:8420", s.url, "https://cloud.example.com", s.url, "https://server.example.com", s.url, "the-key-of-your-account", s.key).Replace(text)
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -a\n"+text+"\nstatus=$?; { pwd; env -0; } >"+shellState+"; exit $status")
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.dir, s.env, strings.NewReader("yes\nyes\n"), out, out
	s.killAtEnd(cmd)
	err = cmd.Run()
	printedText := must.ReadFile(s.t, printed)
	if saved, readErr := os.ReadFile(shellState); readErr == nil {
		folder, variables, _ := bytes.Cut(saved, []byte("\n"))
		s.dir, s.env = string(folder), strings.Split(strings.TrimSuffix(string(variables), "\x00"), "\x00")
	}
	return string(printedText), err
}

// mustRun runs a command and fails the test if the command fails.
func (s *session) mustRun(text string) (output string) {
	s.t.Helper()
	output, err := s.run(text)
	must.Require(s.t, err == nil, "$", text, "failed:", err, lastLines(output))
	return output
}

// killAtEnd gives a command its own process group, and kills the group at the end of the test.
func (s *session) killAtEnd(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.t.Cleanup(func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if nothing is left
		}
	})
}

var exportLine = regexp.MustCompile(`(?m)^export (\w+)=(.+)$`)

// serve starts a deployment, like in a second terminal, and exports the variables that it prints.
func (s *session) serve(text string) (output string) {
	s.t.Helper()
	printed := filepath.Join(s.t.TempDir(), "printed")
	out := must.Do(os.Create(printed))(s.t)
	defer out.Close()
	cmd := exec.CommandContext(s.t.Context(), "bash", "-c", "exec "+text+" --listen=127.0.0.1:0")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, out, out
	s.killAtEnd(cmd)
	must.Succeed(s.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(patience):
			s.t.Error("the jobrunner doesn't stop")
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if output = string(must.ReadFile(s.t, printed)); strings.Contains(output, "Ctrl-C stops the deployment.") {
			break
		}
		must.Require(s.t, len(ended) == 0 && !time.Now().After(deadline), "the jobrunner did not start with $", cmd, "and printed", output)
	}
	for _, v := range exportLine.FindAllStringSubmatch(output, -1) {
		must.Do(s.run(v[0]))(s.t)
		switch v[1] {
		case "GPUCLOUD_BASE_URL":
			s.url = v[2]
		case "GPUCLOUD_API_KEY":
			s.key = v[2]
		}
	}
	return output
}

// lastLines returns the last lines of an output.
func lastLines(output string) string {
	lines := strings.SplitAfter(output, "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "")
}
