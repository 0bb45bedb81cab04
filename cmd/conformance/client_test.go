package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// runAsClient is the main function of this test binary when it runs as a client.
func runAsClient(args []string) int {
	switch args[0] {
	case "get": // reads a path, and prints with escape codes
		r, err := http.NewRequest(http.MethodGet, os.Getenv("GPUCLOUD_BASE_URL")+args[1], nil)
		if err != nil {
			return 9
		}
		r.Header.Set("Authorization", "Bearer "+os.Getenv("GPUCLOUD_API_KEY"))
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.Body.Close() != nil {
			return 9
		}
		fmt.Printf("\x1b[1m\x1b[31manswered %d\x1b[0m\x1b[K\n", resp.StatusCode)
		if resp.StatusCode != http.StatusOK {
			return 1
		}
	case "hold": // starts a child; both keep a connection open until they are killed or the test closes it
		if os.Getenv("STUBBORN") != "" {
			signal.Ignore(syscall.SIGTERM)
		}
		if len(args) == 2 {
			if err := exec.Command(os.Args[0], append([]string{"as", "hold"}, args[1], "child")...).Start(); err != nil {
				return 9
			}
		}
		c, err := net.Dial("tcp", args[1])
		if err != nil {
			return 9
		}
		_, _ = io.Copy(io.Discard, c) // until the test closes it
	}
	return 0
}

// client returns the command that judges a script, which can call "get PATH" and "hold ADDRESS".
func client(t *testing.T, script string, options ...string) *exec.Cmd {
	t.Helper()
	self := must.Do(os.Executable())(t)
	script = "get() { " + self + " as get \"$1\"; }\nhold() { exec " + self + " as hold \"$1\"; }\n" + script
	cmd := command(t, append(append([]string{"client"}, options...), "--", "sh", "-c", script)...)
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir(), "HOME="+t.TempDir())
	return cmd
}

// envValue returns a variable of a command's environment.
func envValue(cmd *exec.Cmd, name string) string {
	for _, v := range slices.Backward(cmd.Env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	list := must.Do(os.ReadDir(dir))(t)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o755))
	}
}

// tracingClient is a client that needs files of the directory, and fails if it finds a trace of another scenario.
const tracingClient = `
test -e trace -o -e terraform.tfstate -o -e "$HOME/trace" -o -e "$TMPDIR/trace" && exit 7
test "$(cat input.txt)" = input -a "$(./bin/tool)" = tool -a -r ../beside.txt -a "$PWD" = "$(pwd)" || exit 8
for dir in . "$HOME" "$TMPDIR"; do echo x > "$dir/trace"; done
mkdir -p terraform.tfstate.d/a; echo changed > input.txt
echo "$CONFORMANCE_SCENARIO $PWD $HOME $TMPDIR" >> "$LOG"
get /v2/templates`

const scenarioCount = 13

// Concurrent scenarios have their own directories, homes and temporary files. Nothing remains.
func TestClientHasItsOwnDirectory(t *testing.T) {
	t.Parallel()
	for _, parallel := range []string{"--parallel=1", "--parallel=13"} {
		parent := t.TempDir()
		dir, log := filepath.Join(parent, "here"), filepath.Join(t.TempDir(), "log")
		write(t, parent, map[string]string{
			"here/input.txt": "input", "here/bin/tool": "#!/bin/sh\necho tool\n", "beside.txt": "", "here/terraform.tfstate": "{}", "here/.git/HEAD": "",
		})
		cmd := client(t, tracingClient, parallel)
		cmd.Dir, cmd.Env = dir, append(cmd.Env, "LOG="+log)
		output := runExpecting(t, cmd, 0)
		must.Hold(t, strings.Contains(output, "not copied: terraform.tfstate") && !strings.Contains(output, "seed"), parallel, "must name terraform.tfstate as not copied, and no seed, which only a report on a deployment has, but says", output)
		text := must.ReadFile(t, log)
		scenarios := strings.Split(strings.TrimSpace(string(text)), "\n")
		for i, column := range []string{"scenario", "directory", "home", "temporary directory"} {
			seen := map[string]bool{}
			for _, line := range scenarios {
				seen[strings.Fields(line)[i]] = true
			}
			must.Equal(t, len(seen), scenarioCount, parallel, "scenarios have a", column, "of their own", text)
		}
		got := fileNames(t, envValue(cmd, "TMPDIR"))
		must.Hold(t, len(got) == 0, parallel, "left", got)
		got = fileNames(t, envValue(cmd, "HOME"))
		must.Hold(t, len(got) == 0, parallel, "left", got, "at home")
		must.Equal(t, fileNames(t, dir), []string{".git", "bin", "input.txt", "terraform.tfstate"}, parallel, "left")
	}
}

// With --shared-dir the scenarios run in the user's own directory, one after the other.
func TestClientSharesTheDirectory(t *testing.T) {
	cmd := client(t, `
mkdir lock || exit 7
get /v2/templates; code=$?
echo "$HOME" >> homes; rmdir lock; exit $code`, "--shared-dir")
	runExpecting(t, cmd, 0)
	text, err := os.ReadFile(filepath.Join(cmd.Dir, "homes"))
	must.Hold(t, err == nil && strings.Count(string(text), envValue(cmd, "HOME")+"\n") == scenarioCount, "the homes of the scenarios are", string(text), "instead of", envValue(cmd, "HOME"), err)
}

// With --keep-dirs the directories remain, and the report names them.
func TestClientKeepsTheDirectories(t *testing.T) {
	cmd := client(t, "echo x > trace; get /v2/templates", "--keep-dirs", "--select=works,retired")
	output := runExpecting(t, cmd, 0)
	roots, err := filepath.Glob(filepath.Join(envValue(cmd, "TMPDIR"), "conf-*"))
	must.Require(t, err == nil && len(roots) == 1 && strings.Contains(output, "are in "+roots[0]), "the directories", roots, "remain, and the output is", output, err)
	must.Equal(t, fileNames(t, roots[0]), []string{"retired", "works"})
}

// A client that fails, sends no request or gets only errors without injected faults isn't conformant.
func TestClientThatFailsWithoutFaults(t *testing.T) {
	acctest.LeaveToCI(t, "TestClientThatDoesNothing covers the judgement of a script")
	t.Parallel()
	for _, c := range []struct{ script, want string }{
		{
			`get /v2/templates; test $CONFORMANCE_SCENARIO != works || { echo "the last word of $GPUCLOUD_API_KEY"; exit 3; }`,
			"it failed: it ended with exit code 3; its last output:\n  answered 200\n  the last word of $GPUCLOUD_API_KEY\n",
		},
		{`test $CONFORMANCE_SCENARIO = works || get /v2/templates`, "it sent no request: it ended with exit code 0 and printed nothing"},
		{
			`get /v2/nothing-is-here; exit 0`,
			"none of its requests succeeded: it ended with exit code 0; its last output:\n  answered 404\n" +
				"  The deployment refused these requests of the client: GET /v2/nothing-is-here (404)",
		},
		{`get /v2/templates; kill -9 $$`, "a signal ended it"},
		{`get /v2/templates; test $CONFORMANCE_SCENARIO != works || sleep 60`, "it did not end in time"},
	} {
		cmd := client(t, c.script, "--timeout=10s")
		flags, files := artefacts(cmd.Dir)
		cmd.Args = slices.Insert(cmd.Args, 2, flags...)
		output := runExpecting(t, cmd, 1)
		must.Hold(t, strings.Contains(output, c.want) &&
			strings.Contains(output, "repeat: conformance client --keep-dirs --timeout 10s --select works -- "), c.script, "says", output, "and not", c.want)
		must.Equal(t, lastLine(output), "not conformant: the client fails even when no fault is injected", c.script, "ends with")
		texts := readFiles(t, files)
		texts["the terminal"] = output
		for file, text := range texts {
			must.Hold(t, !strings.Contains(text, "\x1b") && !strings.Contains(text, "[31m"), file, "has escape codes:", text)
			must.Hold(t, !regexp.MustCompile(`\b[A-Z2-7]{26}\b`).MatchString(text), file, "shows the key:", text)
		}
		for file, want := range map[string]string{
			"r.html": `<pre class="note bad">in the scenario works`, "r.xml": "the client works without faults", "r.md": "**Failed:**\n\n```text\nin the scenario works", "r.har": "in the scenario works",
			"r.json": `"failed": [`, "r.svg": "not conformant", "shield.json": `"color": "red"`,
		} {
			if !strings.Contains(texts[file], want) {
				t.Errorf("%s lacks %q:\n%.3000s", file, want, texts[file])
			}
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// A client that sends no request in any scenario isn't judged, whatever its exit status.
func TestClientThatDoesNothing(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{"true": "exit code 0 and printed nothing", "echo conformant; exit 7": "exit code 7; its last output:\nconformant"} {
		output := runExpecting(t, client(t, script), 3)
		must.Contain(t, output, "the client sent no request to the deployment: it must use the URL of GPUCLOUD_BASE_URL", want)
		must.Hold(t, !strings.HasPrefix(lastLine(output), "conformant as") && !strings.Contains(output, "PASS"), script, "is judged:", output)
	}
	output := runExpecting(t, client(t, "get /v2/templates", "--select=CLI-05"), 3)
	must.Hold(t, lastLine(output) == "inconclusive: nothing was judged" && strings.Contains(output, "the scenario works was not selected"),
		"expected a skipped clause and the missing scenario works, got", output)
}

// If the command can't be started or an option is invalid, the program exits at once with one line of explanation.
func TestClientThatCannotStart(t *testing.T) {
	for _, c := range []struct {
		files   map[string]string
		options []string
		command []string
		want    string
	}{
		{nil, nil, []string{"no-such-client"}, "can't run the client's command: exec: \"no-such-client\""},
		{nil, nil, []string{"./no-such-client"}, "no-such-client"},
		{map[string]string{"client": "#!/no/such/interpreter\n"}, nil, []string{"./client"}, "no such file"},
		{map[string]string{"client": "neither a script nor a program"}, nil, []string{"./client"}, "exec format error"},
		{nil, nil, nil, "the client's command is missing"},
		{nil, []string{"--timeout=-1s"}, []string{"true"}, "invalid timeout -1s"},
		{map[string]string{".terraform/terraform.tfstate": `{"backend":{"type":"s3"}}`}, nil, []string{"true"}, `in a backend of the type "s3"`},
	} {
		cmd := command(t, append(append(append([]string{"client"}, c.options...), "--"), c.command...)...)
		cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
		write(t, cmd.Dir, c.files)
		output := runExpecting(t, cmd, 2)
		must.Hold(t, strings.Contains(output, c.want) && strings.Count(output, "\n") == 1, cmd.Args, "says", output, "and not", c.want)
		got := fileNames(t, envValue(cmd, "TMPDIR"))
		must.Hold(t, len(got) == 0, cmd.Args, "left", got)
	}
}

// The command of docs/start/tools.md works twice with a real Terraform in the quickstart's directory.
func TestClientIsTerraform(t *testing.T) {
	t.Parallel()
	acctest.LeaveToCI(t, "the other tests judge scripts")
	cli := must.Do(tfcli.Find(t.Context()))(t)
	home := t.TempDir()
	must.Succeed(t, gobuild.Programs(t.Context(), home, "../.."))
	rc := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    %q = %q\n  }\n  direct {}\n}\n", "gpucloud/gpucloud", home)
	write(t, home, map[string]string{".terraformrc": rc, ".tofurc": rc})
	quickstart := must.Do(filepath.Abs("../../examples/quickstart"))(t)
	before := fileNames(t, quickstart)
	runs := 2 // the first run leaves nothing that breaks the second
	if testing.Short() {
		runs = 1
	}
	for range runs {
		cmd := command(t, "client", "--", cli, "apply", "-auto-approve", "-var", "registry_token=anything")
		cmd.Dir, cmd.Env = quickstart, append(cmd.Env, "HOME="+home, "TMPDIR="+t.TempDir())
		output := runExpecting(t, cmd, 0)
		must.Contain(t, output,
			"PASS CLI-01", "PASS CLI-02", "PASS CLI-05", "PASS CLI-06", "PASS CLI-07", "PASS CLI-08", "PASS CLI-11", ": CLI-03\n", ": CLI-04\n", ": CLI-09, CLI-10\n")
		must.Hold(t, lastLine(output) == "conformant in the judged clauses: 7 of 11 clauses" && !strings.Contains(output, "\x1b"),
			"expected 7 of 11 clauses without colours, got", output)
		got := fileNames(t, envValue(cmd, "TMPDIR"))
		must.Hold(t, len(got) == 0, "files remain:", got)
	}
	// A missing variable fails every scenario. The error has no colours.
	cmd := command(t, "client", "--", cli, "apply", "-auto-approve")
	cmd.Dir, cmd.Env = quickstart, append(cmd.Env, "HOME="+home)
	output := runExpecting(t, cmd, 3)
	must.Hold(t, strings.Contains(output, "No value for required variable") && !strings.Contains(output, "x1b") && !strings.Contains(output, "\x1b"), "expected Terraform's error without colours, got", output)
	must.Equal(t, before, fileNames(t, quickstart), "the user's directory has", "and had")
}

// An interrupted run kills the client and its processes, removes the directories, and reports no failure.
func TestClientIsInterrupted(t *testing.T) {
	enableHangups(t)
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		listener := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
		cmd := client(t, "get /v2/templates; hold "+listener.Addr().String(), "--parallel=2", "--json=r.json")
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		must.Succeed(t, cmd.Start())
		var conns []net.Conn
		for range 4 { // two clients, and a child of each
			conns = append(conns, must.Do(listener.Accept())(t))
		}
		must.Succeed(t, cmd.Process.Signal(signal))
		_ = cmd.Wait() // the exit code is checked below
		for _, c := range conns {
			_, _ = io.ReadAll(c) // returns when the process has exited
			c.Close()
		}
		listener.Close()
		must.Hold(t, cmd.ProcessState.ExitCode() == 130 && lastLine(output.String()) == "interrupted", signal, "ends the run with", cmd.ProcessState, "and the output", &output)
		must.Equal(t, strings.Join(fileNames(t, envValue(cmd, "TMPDIR")), " "), "", signal, "left")
		var report struct{ Counts map[string]int }
		err := json.Unmarshal(must.ReadFile(t, filepath.Join(cmd.Dir, "r.json")), &report)
		must.Hold(t, err == nil && report.Counts["FAIL"]+report.Counts["WARN"]+report.Counts["PASS"] <= 0 &&
			report.Counts["INCONCLUSIVE"] != 0, signal, "leaves a report with verdicts other than INCONCLUSIVE:", report.Counts, err)
	}
}

func makeFIFO(t *testing.T, path string) {
	t.Helper()
	must.Do(exec.CommandContext(t.Context(), "mkfifo", path).Output())(t)
}

// An interrupted client gets SIGTERM and can release its resources.
func TestClientGetsSIGTERM(t *testing.T) {
	cmd := client(t, `trap 'echo > released; exit 1' TERM; echo > ready; while :; do sleep 0.05; done`, "--select=works", "--shared-dir")
	ready := filepath.Join(cmd.Dir, "ready")
	makeFIFO(t, ready)
	must.Succeed(t, cmd.Start())
	must.Succeed(t, must.Err(os.ReadFile(ready))) // waits for the client
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit code is checked below
	_, err := os.Stat(filepath.Join(cmd.Dir, "released"))
	must.Hold(t, err == nil && cmd.ProcessState.ExitCode() == 130, "expected exit code 130 and the file released, got", cmd.ProcessState.ExitCode(), err)
}

// No process of a client remains, even if the client left it running or it ignores SIGTERM.
func TestClientLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	t.Run("a process in the background", func(t *testing.T) {
		expectNothingRunning(t, "hold %s >/dev/null 2>&1 & get /v2/templates; read line < ready", "1m", 0)
	})
	t.Run("a process that ignores SIGTERM", func(t *testing.T) {
		acctest.LeaveToCI(t, "package procgroup tests processes that ignore signals")
		const timeout = "20s" // the client needs some seconds to start
		expectNothingRunning(t, "get /v2/templates; STUBBORN=1; export STUBBORN; hold %s", timeout, 1)
	})
}

// expectNothingRunning runs a client with two processes that hold a connection, and expects that both end.
func expectNothingRunning(t *testing.T, script, timeout string, exit int) {
	t.Helper()
	listener := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	cmd := client(t, fmt.Sprintf(script, listener.Addr()), "--select=works", "--timeout="+timeout, "--shared-dir")
	makeFIFO(t, filepath.Join(cmd.Dir, "ready"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runExpecting(t, cmd, exit)
	}()
	var conns []net.Conn
	for range 2 { // a process and its child
		conn := must.Do(listener.Accept())(t)
		defer conn.Close()
		conns = append(conns, conn)
	}
	if exit == 0 { // lets the client exit
		must.Succeed(t, os.WriteFile(filepath.Join(cmd.Dir, "ready"), []byte("\n"), 0o600))
	}
	<-ended
	for _, conn := range conns {
		must.Succeed(t, conn.SetReadDeadline(time.Now().Add(3*time.Minute)))
		must.Hold(t, !errors.Is(must.Err(io.ReadAll(conn)), os.ErrDeadlineExceeded), script, "a process is still running")
	}
}
