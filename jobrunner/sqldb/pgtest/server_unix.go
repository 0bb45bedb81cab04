//go:build unix

package pgtest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Server is a PostgreSQL server that a test can stop, kill and restart.
type Server struct {
	URL string // of its database

	t       testing.TB
	cluster cluster
	running *exec.Cmd
	stopper io.Closer // closing it stops the server, and so does the end of the test binary
}

// serve runs the server until it exits or the pipe from the test binary is closed.
const serve = `"$1" -D "$2/data" -p "$3" -k "$2" -c listen_addresses=127.0.0.1 -c client_min_messages=warning >>"$2/log" 2>&1 </dev/null &
server=$!
(read -r _ <&3; kill -QUIT $server) 2>/dev/null &
wait $server
kill $! 2>/dev/null
true`

// NewServer starts a server until the end of the test. Like the function Start, it skips the test if PostgreSQL is missing.
func NewServer(t testing.TB) *Server {
	t.Helper()
	c, err := initCluster()
	requireInstalled(t, err)
	s := &Server{URL: c.url(), t: t, cluster: c}
	t.Cleanup(func() {
		if s.running != nil {
			s.End(syscall.SIGQUIT)
		}
		if err := os.RemoveAll(c.dir); err != nil {
			t.Error(err)
		}
	})
	s.Start()
	return s
}

// Start starts the server and waits until it accepts connections.
func (s *Server) Start() {
	s.t.Helper()
	read, write, err := os.Pipe()
	must.Succeed(s.t, err)
	cmd := command(s.cluster.runAs, s.cluster.dir, "sh", "-c", serve, "sh", s.cluster.postgres, s.cluster.dir, strconv.Itoa(s.cluster.port))
	cmd.ExtraFiles = []*os.File{read}
	must.Succeed(s.t, cmd.Start())
	_ = read.Close() // the server has its own copy
	s.running, s.stopper = cmd, write
	must.Succeed(s.t, s.cluster.await())
}

// Processes returns the ids of the server's processes, which include one per connection.
func (s *Server) Processes() []int { return append([]int{s.pid()}, s.children()...) }

// End sends a signal and awaits the exit. SIGINT shuts down; SIGQUIT and SIGKILL crash the child processes, too.
func (s *Server) End(signal syscall.Signal) {
	s.t.Helper()
	pids := []int{s.pid()}
	if signal == syscall.SIGKILL { // the next start fails if a child process is alive
		_ = syscall.Kill(s.pid(), syscall.SIGSTOP) // so that it starts no child process meanwhile
		pids = s.Processes()
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Fatal(err)
		}
	}
	if err := s.running.Wait(); err != nil {
		s.t.Errorf("the supervisor of the server: %v", err)
	}
	for _, pid := range pids[1:] { // child processes detach their shared memory as they exit
		for tries := 0; tries < 100 && syscall.Kill(pid, 0) == nil; tries++ {
			time.Sleep(10 * time.Millisecond)
		}
	}
	_ = s.stopper.Close()
	s.running = nil
}

// Hang pauses the server's processes until resume is called.
func (s *Server) Hang() (resume func()) {
	s.t.Helper()
	pids := append(s.children(), s.pid())
	send := func(signal syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				s.t.Error(err)
			}
		}
	}
	send(syscall.SIGSTOP)
	return func() { send(syscall.SIGCONT) }
}

// TakeConnections ends other clients' sessions, and takes all connections of the server until release is called.
func (s *Server) TakeConnections() (release func()) {
	s.t.Helper()
	ctx := context.Background()
	var all []*pgx.Conn
	connectUntilRefused := func() (connected bool) {
		for {
			conn, err := pgx.Connect(ctx, s.URL)
			if err != nil {
				return connected
			}
			all, connected = append(all, conn), true
		}
	}
	for connectUntilRefused() {
		must.Do(all[0].Exec(ctx, terminate+" AND application_name <> ''"))(s.t)
	}
	return func() {
		for _, conn := range all {
			_ = conn.Close(ctx)
		}
	}
}

// Terminate terminates the sessions of all other clients.
func (s *Server) Terminate() {
	s.t.Helper()
	Exec(s.t, s.URL, terminate)
}

const terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"

func (s *Server) pid() int {
	s.t.Helper()
	text := must.Do(os.ReadFile(s.cluster.dir + "/data/postmaster.pid"))(s.t)
	first, _, _ := strings.Cut(string(text), "\n")
	return must.Do(strconv.Atoi(first))(s.t)
}

// children returns the ids of the server's child processes.
func (s *Server) children() (pids []int) {
	s.t.Helper()
	out := must.Do(exec.CommandContext(s.t.Context(), "ps", "-o", "pid=", "--ppid", strconv.Itoa(s.pid())).Output())(s.t)
	for field := range strings.FieldsSeq(string(out)) {
		pids = append(pids, must.Do(strconv.Atoi(field))(s.t))
	}
	return pids
}
