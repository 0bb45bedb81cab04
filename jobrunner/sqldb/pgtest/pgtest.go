// Package pgtest gives tests a PostgreSQL of their own: one server for each
// test binary, on a loopback port, gone with the binary however it ends, and in
// it an empty schema for each test.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Password is that of every URL; tests look for it where it must not be.
const Password = "planted password"

const (
	user    = "postgres"
	nobody  = 65534 // runs the server where the tests run as root, whom it refuses
	startUp = time.Minute
	step    = 50 * time.Millisecond // of waiting for it
)

var (
	once    sync.Once
	server  string    // host:port
	alive   io.Closer //nolint:unused // holds the server's input open, which closes with this process and not before
	failure error
	schemas atomic.Int64
)

var errNotInstalled = errors.New("no PostgreSQL is installed: initdb and postgres are neither in PATH nor in /usr/lib/postgresql (Debian: apt-get install postgresql)")

// Start returns the URL of an empty schema, which is dropped when the test
// ends. Where no PostgreSQL is installed the test is skipped; under CI, where
// the variable CI is set, it fails.
func Start(t testing.TB) string {
	t.Helper()
	once.Do(func() { server, failure = start() })
	switch {
	case errors.Is(failure, errNotInstalled) && os.Getenv("CI") == "":
		t.Skip(failure)
	case failure != nil:
		t.Fatal(failure)
	}
	address := url.URL{Scheme: "postgres", User: url.UserPassword(user, Password), Host: server, Path: "/postgres", RawQuery: "sslmode=disable"}
	schema := fmt.Sprintf("test_%d", schemas.Add(1))
	Exec(t, address.String(), "CREATE SCHEMA "+schema)
	t.Cleanup(func() { Exec(t, address.String(), "DROP SCHEMA "+schema+" CASCADE") })
	address.RawQuery += "&search_path=" + schema
	return address.String()
}

// Exec runs a statement on a connection of its own.
func Exec(t testing.TB, address, statement string) {
	t.Helper()
	ctx := context.Background() // the test's has ended when it cleans up
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// run starts the server and ends it when the tests, who hold the other end of
// its input, are no more.
const run = `"$1" -D "$2/data" -p "$3" -k "$2" -c listen_addresses=127.0.0.1 -c max_connections=300 -c client_min_messages=warning >"$2/log" 2>&1 </dev/null &
read -r _
kill -QUIT $!
wait
rm -rf "$2"`

func start() (address string, err error) {
	c, err := initCluster()
	if err != nil {
		return "", err
	}
	supervisor := command(c.as, c.dir, "sh", "-c", run, "sh", c.postgres, c.dir, strconv.Itoa(c.port))
	if alive, err = supervisor.StdinPipe(); err != nil {
		return "", err
	}
	if err := supervisor.Start(); err != nil {
		return "", err
	}
	return c.address(), await(c.address(), c.log())
}

// cluster is the data of a server that does not run yet.
type cluster struct {
	postgres string   // the program
	as       []string // what runs it as another user, where root may not
	dir      string
	port     int
}

func (c cluster) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)) }
func (c cluster) log() string     { return filepath.Join(c.dir, "log") }

func initCluster() (c cluster, err error) {
	initdb, postgres, err := installed()
	if err != nil {
		return c, err
	}
	c.postgres = postgres
	if c.dir, err = os.MkdirTemp("", "pgtest-"); err != nil {
		return c, err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(c.dir, nobody, nobody); err != nil {
			return c, err
		}
		c.as = []string{"setpriv", fmt.Sprint("--reuid=", nobody), fmt.Sprint("--regid=", nobody), "--clear-groups"}
	}
	password := filepath.Join(c.dir, "password")
	if err := os.WriteFile(password, []byte(Password), 0o644); err != nil { //nolint:gosec // of a server for tests, on this machine
		return c, err
	}
	out, err := command(c.as, c.dir, initdb, "-D", filepath.Join(c.dir, "data"), "-U", user, "--pwfile="+password, "-A", "password", "--no-locale", "-E", "UTF8", "--no-sync").CombinedOutput()
	if err != nil {
		return c, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	c.port, err = freePort()
	return c, err
}

// installed finds the newest version that the machine has.
func installed() (initdb, postgres string, err error) {
	if initdb, err = exec.LookPath("initdb"); err == nil {
		if postgres, err = exec.LookPath("postgres"); err == nil {
			return initdb, postgres, nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", "", errNotInstalled
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4]) // 0 for what is no version
		return n
	}
	postgres = slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Join(filepath.Dir(postgres), "initdb"), postgres, nil
}

func command(as []string, dir string, args ...string) *exec.Cmd {
	args = append(slices.Clone(as), args...)
	c := exec.Command(args[0], args[1:]...) //nolint:noctx // the server outlives the test that starts it
	c.Dir = dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	return c
}

func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// await waits until the server takes connections.
func await(address, log string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startUp)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, (&url.URL{Scheme: "postgres", User: url.UserPassword(user, Password), Host: address, Path: "/postgres", RawQuery: "sslmode=disable"}).String())
		if err == nil {
			return conn.Close(ctx)
		}
		said, _ := os.ReadFile(log) //nolint:gosec // of the server for tests
		if ctx.Err() != nil || bytes.Contains(said, []byte("FATAL:  could not")) {
			return fmt.Errorf("PostgreSQL did not start: %w\n%s", err, said)
		}
		time.Sleep(step)
	}
}
