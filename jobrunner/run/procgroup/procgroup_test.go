//go:build unix

package procgroup_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

func awaitLines(t *testing.T, log *livelog.Log, n int) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(log.Await(t, "\n", n), "\n"), "\n")
}

func start(t *testing.T, c procgroup.Command) *procgroup.Group {
	t.Helper()
	c.Path, c.Env = must.Do(exec.LookPath(c.Args[0]))(t), append(c.Env, "PATH="+os.Getenv("PATH"))
	g := must.Do(procgroup.Start(c))(t)
	t.Cleanup(g.Kill)
	return g
}

func startShell(t *testing.T, script string, log io.Writer) *procgroup.Group {
	t.Helper()
	return start(t, procgroup.Command{Args: []string{"sh", "-c", script}, Output: log})
}

func awaitEnd(t *testing.T, g *procgroup.Group) {
	t.Helper()
	select {
	case <-g.Done():
	case <-time.After(3 * time.Minute):
		t.Fatal("the group has not ended within 3 minutes")
	}
}

// alive reports whether a process runs. An unreaped process accepts signals, so its state is read too.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

func parsePIDs(t *testing.T, lines []string) (all []int) {
	t.Helper()
	for _, line := range lines {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		must.Succeed(t, err, line, "isn't a process id")
		all = append(all, pid)
	}
	return all
}

func expectGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("the process %d still runs", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); slices.ContainsFunc(pids, alive); time.Sleep(time.Millisecond) { // the kernel notifies only the parent
		must.Require(t, !time.Now().After(end), "one of", pids, "still runs")
	}
}

func TestExit(t *testing.T) {
	killed := "SIGKILL, not from the jobrunner: often because the machine is out of memory"
	if runtime.GOOS == "linux" { // Linux counts the processes that it kills for lack of memory
		killed = "SIGKILL, neither from the jobrunner nor for lack of memory"
	}
	for script, want := range map[string]string{
		"exit 0":               "exit status 0",
		"exit 3":               "exit status 3",
		"kill -SEGV $$":        "SIGSEGV",
		"kill -KILL $$":        killed,
		"exit 137":             "exit status 137: killed by SIGKILL, often because the machine is out of memory",
		"exit 139":             "exit status 139: killed by SIGSEGV",
		"exit 255":             "exit status 255",
		"nosuchcommand-at-all": "exit status 127",
	} {
		g := startShell(t, script, io.Discard)
		awaitEnd(t, g)
		must.Equal(t, g.Exit(), want, script)
		must.Equal(t, g.Succeeded(), want == "exit status 0", "Succeeded of", script)
	}
}

// The error of a failed start names the missing program, folder or interpreter.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o700)) //nolint:gosec // an executable file
		return path
	}
	for want, c := range map[string]procgroup.Command{
		"the program /nosuchfolder/x cannot be started: no such file": {Args: []string{"x"}, Path: "/nosuchfolder/x"},
		"its working folder /nosuchfolder isn't a folder":             {Args: []string{"sh"}, Path: "/bin/sh", Dir: "/nosuchfolder"},
		"an argument has a NUL character":                             {Args: []string{"sh", "a\x00"}, Path: "/bin/sh"},
		"the program /nosuchfolder/y cannot be started":               {Args: []string{"x"}, Path: "/nosuchfolder/y", Stdin: strings.NewReader("x"), Output: io.Discard, Stdout: io.Discard},
		"the interpreter in its first line":                           {Args: []string{"x"}, Path: script("x", "#!/nosuchfolder/sh\n")},
		"it isn't a program for this machine":                         {Args: []string{"y"}, Path: script("y", "echo")},
		"permission denied":                                           {Args: []string{"z"}, Path: dir},
	} {
		_, err := procgroup.Start(c)
		must.Hold(t, err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "fork/exec"), "got the error", err, "expected one with", want)
	}
}

func TestKillReachesGrandchildren(t *testing.T) {
	log := new(livelog.Log)
	g := startShell(t, `sh -c 'echo $$; sleep 1000 & echo $!; wait' & echo $$; wait`, log)
	all := parsePIDs(t, awaitLines(t, log, 3))
	g.Kill()
	g.Kill()
	expectGone(t, all)
	must.Equal(t, g.Exit(), "stopped by the jobrunner", "exit")
}

// Otherwise a process that the SDK starts beside the worker would survive the worker's crash.
func TestNothingOutlivesTheCommand(t *testing.T) {
	log := new(livelog.Log)
	g := startShell(t, `sleep 1000 & echo $!; exit 7`, log)
	awaitEnd(t, g)
	expectGone(t, parsePIDs(t, awaitLines(t, log, 1)))
	must.Equal(t, g.Exit(), "exit status 7", "exit")
}

// daemon leaves its group, session and parent, and closes its files.
const daemon = `
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        sys.stdout.write("%d\n" % os.getpid()); sys.stdout.flush()
        for fd in range(64):
            try: os.close(fd)
            except OSError: pass
        import time
        while True: time.sleep(1000)
    os._exit(0)
os.wait()
import time
while True: time.sleep(1000)
`

func TestKillFindsProcessesThatLeftTheGroup(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux finds them")
	}
	log := new(livelog.Log)
	g := start(t, procgroup.Command{Args: []string{"python3", "-c", daemon}, Output: log})
	all := parsePIDs(t, awaitLines(t, log, 1))
	g.Kill()
	expectGone(t, all)
}

func TestOutputIsWholeAndInOrder(t *testing.T) {
	log := new(livelog.Log)
	awaitEnd(t, startShell(t, `i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done`, log))
	var want strings.Builder
	for i := range 2000 {
		want.WriteString("out " + strconv.Itoa(i) + "\nerr " + strconv.Itoa(i) + "\n")
	}
	must.Equal(t, log.String(), want.String(), "the log")
}

func TestSeparateStdoutAndStdin(t *testing.T) {
	input := strings.Repeat("0123456789abcdef", 1<<16) // more than a pipe holds
	out, log := new(livelog.Log), new(livelog.Log)
	g := start(t, procgroup.Command{
		Args: []string{"sh", "-c", "echo to the log >&2; cat"}, Stdin: strings.NewReader(input), Stdout: out, Output: log,
	})
	awaitEnd(t, g)
	must.Hold(t, out.String() == input && log.String() == "to the log\n",
		"stdout has", len(out.String()), "bytes, want", len(input), "stderr", log)
}

func TestUnreadStdin(t *testing.T) {
	g := start(t, procgroup.Command{Args: []string{"true"}, Stdin: strings.NewReader(strings.Repeat("x", 1<<20))})
	awaitEnd(t, g)
	must.Hold(t, g.Succeeded(), "a command that reads no stdin ends with", g.Exit())
}

// slowWriter blocks until release is closed.
type slowWriter struct {
	release chan struct{}
	text    livelog.Log
}

func (s *slowWriter) Write(p []byte) (int, error) {
	<-s.release
	return s.text.Write(p)
}

func TestSlowReaderGetsAllOutputAfterExit(t *testing.T) {
	log := &slowWriter{release: make(chan struct{})}
	// This fits into a pipe and the buffer, so that the command can end before anything is read.
	g := startShell(t, `head -c 60000 /dev/zero | tr '\0' x`, log)
	select {
	case <-g.Done():
		t.Fatal("it is done before its output was read")
	default:
	}
	close(log.release)
	awaitEnd(t, g)
	must.Equal(t, len(log.text.String()), 60000, "the length of the log")
}

func TestKillEndlessWriter(t *testing.T) {
	log := new(livelog.Log)
	g := startShell(t, `yes`, log)
	awaitLines(t, log, 100)
	g.Kill()
}

func TestFailingWriterDoesNotEndTheCommand(t *testing.T) {
	r, w := io.Pipe()
	_ = r.Close()
	g := start(t, procgroup.Command{Args: []string{"sh", "-c", "echo x; exit 4"}, Stdout: w})
	awaitEnd(t, g)
	must.Equal(t, g.Code(), 4, "exit", g.Exit())
}

func TestUsage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports it")
	}
	log := new(livelog.Log)
	g := start(t, procgroup.Command{Output: log, Args: []string{"python3", "-c", `
import os, sys, time
if os.fork() == 0:
    hold = bytearray(64 << 20)
    while time.process_time() < 0.3: pass
    print("used", flush=True)
    time.sleep(1000)
os.wait()
`}})
	awaitLines(t, log, 1)
	deadline := time.Now().Add(time.Minute)
	for {
		u := g.Usage()
		if u.CPU >= 250*time.Millisecond && u.Memory >= 64<<20 {
			break
		}
		must.Require(t, !time.Now().After(deadline), "usage", u)
		runtime.Gosched()
	}
	before := g.Usage().CPU
	g.Kill()
	u := g.Usage()
	must.Hold(t, u.Memory == 0 && u.CPU >= before, "after the end", u, "CPU before", before)
}

// folderVariable makes this test binary a jobrunner with a process group. Its value is the register's folder.
const folderVariable = "PROCGROUP_TEST_RUN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(folderVariable); dir != "" {
		fmt.Fprintln(os.Stderr, runGroup(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runGroup starts a group, and returns only if that fails.
func runGroup(dir string) error {
	r, err := procgroup.OpenRegister(dir)
	if err != nil {
		return err
	}
	if err := r.Note("a-note"); err != nil {
		return err
	}
	_, err = procgroup.Start(procgroup.Command{
		Path: "/bin/sh", Args: []string{"/bin/sh", "-c", `echo $$; sleep 1000 & echo $!; python3 -c "$DAEMON" & wait`}, Register: r,
		Env: []string{"PATH=" + os.Getenv("WORKER_PATH"), "DAEMON=" + daemon}, Output: os.Stdout,
	})
	if err != nil {
		return err
	}
	select {}
}

// The processes of a killed run end with it if the system has a shell, and otherwise when the next run starts.
func TestProcessesOfKilledRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux finds processes that left the group")
	}
	for name, path := range map[string]string{"with a shell": os.Getenv("PATH"), "without": "/nonexistent"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data[1]", "processes")
			log := new(livelog.Log)
			run := exec.Command(os.Args[0])
			run.Env = append(os.Environ(), folderVariable+"="+dir, "WORKER_PATH="+os.Getenv("PATH"), "PATH="+path)
			run.Stdout, run.Stderr = log, log
			must.Succeed(t, run.Start())
			all := parsePIDs(t, awaitLines(t, log, 3))
			r := must.Do(procgroup.OpenRegister(dir))(t)
			must.Equal(t, len(must.Do(r.KilledRuns())(t)), 0, "killed runs while it lives")
			stranger := startShell(t, "sleep 1000", nil) // of another run
			must.Succeed(t, run.Process.Kill())
			_ = run.Wait()
			awaitGone(t, all[:1]) // the kernel ends it with the run
			if name == "with a shell" {
				awaitGone(t, all)
			}
			killed := must.Do(r.KilledRuns())(t)
			must.Require(t, len(killed) == 1 && slices.Equal(killed[0].Notes, []string{"a-note"}), "left:", killed)
			n := killed[0].Kill()
			must.Hold(t, n >= 2 || name == "with a shell", n, "processes were killed")
			expectGone(t, all)
			select {
			case <-stranger.Done():
				t.Error("the process of another run was killed too")
			default:
			}
			must.Succeed(t, killed[0].Forget())
			must.Equal(t, must.Do(r.KilledRuns())(t), nil, "killed runs after Forget")
			must.Succeed(t, r.Close())
			files, _ := os.ReadDir(dir)
			must.Hold(t, len(files) == 0, "files are left:", files)
		})
	}
}

func TestClosedRunLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	first := must.Do(procgroup.OpenRegister(dir))(t)
	must.Do(procgroup.Start(procgroup.Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Register: first}))(t).Kill()
	must.Succeed(t, first.Close())
	second := must.Do(procgroup.OpenRegister(dir))(t)
	must.Equal(t, must.Do(second.KilledRuns())(t), nil, "killed runs after Close")
	must.Succeed(t, second.Close())
}

func TestRegisterWithoutFolder(t *testing.T) {
	r := must.Do(procgroup.OpenRegister(""))(t)
	must.Equal(t, must.Do(r.KilledRuns())(t), nil, "killed runs")
	must.Succeed(t, r.Note("word"))
	must.Succeed(t, r.Close())
}
