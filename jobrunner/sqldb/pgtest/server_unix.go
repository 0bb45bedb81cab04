//go:build unix

package pgtest

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL of one test, which the test stops, kills and starts
// again.
type Server struct {
	URL string // of its database

	t       testing.TB
	cluster cluster
	running *exec.Cmd
	alive   io.Closer // ends the server when the test binary ends
}

// serve runs the server until it ends, or the one who holds the other end of its
// input does.
const serve = `"$1" -D "$2/data" -p "$3" -k "$2" -c listen_addresses=127.0.0.1 -c client_min_messages=warning >>"$2/log" 2>&1 </dev/null &
server=$!
(read -r _ <&3; kill -QUIT $server) 2>/dev/null &
wait $server
kill $! 2>/dev/null
true`

// NewServer starts a server, which ends with the test. It skips the test where
// Start does.
func NewServer(t testing.TB) *Server {
	t.Helper()
	c, err := initCluster()
	switch {
	case errors.Is(err, errNotInstalled) && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, Password), Host: c.address(), Path: "/postgres", RawQuery: "sslmode=disable"}
	s := &Server{URL: u.String(), t: t, cluster: c}
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

// Start starts the server again, and waits until it serves.
func (s *Server) Start() {
	s.t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := command(s.cluster.as, s.cluster.dir, "sh", "-c", serve, "sh", s.cluster.postgres, s.cluster.dir, strconv.Itoa(s.cluster.port))
	cmd.ExtraFiles = []*os.File{read}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	_ = read.Close() // the server has its own
	s.running, s.alive = cmd, write
	if err := await(s.cluster.address(), s.cluster.log()); err != nil {
		s.t.Fatal(err)
	}
}

// Processes are the server's own now, by id: one for each connection among them.
func (s *Server) Processes() []int { return append([]int{s.pid()}, s.parts()...) }

// End sends a signal, and waits until the server has ended: SIGINT stops it,
// SIGQUIT is a crash that its parts know of, SIGKILL one that they don't.
func (s *Server) End(signal syscall.Signal) {
	s.t.Helper()
	pids := []int{s.pid()}
	if signal == syscall.SIGKILL { // the parts, too, so that the next start finds none
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
	_ = s.alive.Close()
	s.running = nil
}

// Hang stops the server in its tracks, and lets it go on when what it answers is
// called.
func (s *Server) Hang() (goOn func()) {
	s.t.Helper()
	pids := append(s.parts(), s.pid())
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

// TakeConnections takes every connection that the server has, those of others
// too, and gives them back when what it answers is called.
func (s *Server) TakeConnections() (giveBack func()) {
	s.t.Helper()
	ctx := context.Background()
	var all []*pgx.Conn
	take := func() (some bool) {
		for {
			conn, err := pgx.Connect(ctx, s.URL)
			if err != nil {
				return some
			}
			all, some = append(all, conn), true
		}
	}
	for take() {
		if _, err := all[0].Exec(ctx, terminate+" AND application_name <> ''"); err != nil {
			s.t.Fatal(err)
		}
	}
	return func() {
		for _, conn := range all {
			_ = conn.Close(ctx)
		}
	}
}

// Terminate ends all sessions of others.
func (s *Server) Terminate() {
	s.t.Helper()
	Exec(s.t, s.URL, terminate)
}

const terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"

func (s *Server) pid() int {
	s.t.Helper()
	text, err := os.ReadFile(s.cluster.dir + "/data/postmaster.pid")
	if err != nil {
		s.t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// parts are the processes that the server has started.
func (s *Server) parts() (pids []int) {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), "ps", "-o", "pid=", "--ppid", strconv.Itoa(s.pid())).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(out)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			s.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
