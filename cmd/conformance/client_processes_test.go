package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

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
