// Package pgtest runs PostgreSQL for tests. Each test binary has a server on a loopback
// port, which stops when the binary exits or crashes. Each test has an empty schema in it.
package pgtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Password is the password in every URL. Tests check that it isn't leaked.
const Password = "planted password"

const (
	user         = "postgres"
	nobody       = 65534 // PostgreSQL refuses to run as root: if the tests run as root, the server gets this user id
	startTimeout = time.Minute
	pollInterval = 50 * time.Millisecond
)

var (
	once    sync.Once
	server  string    // URL of its database
	stdin   io.Closer //nolint:unused // of script, open until this process ends
	failure error
	schemas atomic.Int64
)

var errNotInstalled = errors.New("no PostgreSQL is installed: initdb and postgres are neither in PATH nor in /usr/lib/postgresql (Debian: apt-get install postgresql)")

// Start returns the URL of an empty schema, which is dropped when the test ends. If no
// PostgreSQL is installed, it skips the test, or fails it if the variable CI is set.
func Start(t testing.TB) string {
	t.Helper()
	once.Do(func() { server, failure = start() })
	requireInstalled(t, failure)
	schema := fmt.Sprintf("test_%d", schemas.Add(1))
	Exec(t, server, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { Exec(t, server, "DROP SCHEMA "+schema+" CASCADE") })
	return server + "&search_path=" + schema
}

func requireInstalled(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNotInstalled) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	must.Succeed(t, err)
}

func Exec(t testing.TB, address, statement string) {
	t.Helper()
	ctx := context.Background() // the test's context has ended during cleanup
	conn := must.Do(pgx.Connect(ctx, address))(t)
	defer func() { _ = conn.Close(ctx) }()
	_, err := conn.Exec(ctx, statement)
	must.Hold(t, err == nil, statement, err)
}

// script runs the server until its standard input is closed, at the end of the test binary.
const script = `"$1" -D "$2/data" -p "$3" -k "$2" -c listen_addresses=127.0.0.1 -c max_connections=300 -c client_min_messages=warning >"$2/log" 2>&1 </dev/null &
read -r _
kill -QUIT $!
wait
rm -rf "$2"`

func start() (address string, err error) {
	c, err := initCluster()
	if err != nil {
		return "", err
	}
	supervisor := command(c.runAs, c.dir, "sh", "-c", script, "sh", c.postgres, c.dir, strconv.Itoa(c.port))
	if stdin, err = supervisor.StdinPipe(); err != nil {
		return "", err
	}
	if err := supervisor.Start(); err != nil {
		return "", err
	}
	return c.url(), c.await()
}

// cluster is the data folder of a server.
type cluster struct {
	postgres string   // path of the program
	runAs    []string // command prefix that runs it as another user than root, or nil
	dir      string
	port     int
}

func (c cluster) url() string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, Password), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)), Path: "/postgres", RawQuery: "sslmode=disable"}
	return u.String()
}

func initCluster() (c cluster, err error) {
	initdb, postgres, err := findInstalled()
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
		c.runAs = []string{"setpriv", fmt.Sprint("--reuid=", nobody), fmt.Sprint("--regid=", nobody), "--clear-groups"}
	}
	password := filepath.Join(c.dir, "password")
	if err := os.WriteFile(password, []byte(Password), 0o644); err != nil { //nolint:gosec // the password of a local test server
		return c, err
	}
	if err := c.initData(initdb, "-U", user, "--pwfile="+password, "-A", "password", "--no-locale", "-E", "UTF8", "--no-sync"); err != nil {
		return c, err
	}
	c.port, err = run.FreePort(context.Background())
	return c, err
}

// initData creates the data folder. It caches the result of initdb in the user's cache folder, because a copy
// is ten times faster.
func (c cluster) initData(initdb string, args ...string) error {
	program, err := os.Stat(initdb)
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	// args[2] is the password file, whose path differs in each run.
	key := sha256.Sum256(fmt.Append(nil, initdb, program.Size(), program.ModTime(), c.runAs, args[:2], args[3:], Password))
	data, cached := filepath.Join(c.dir, "data"), filepath.Join(cache, "gpucloud", "pgtest", hex.EncodeToString(key[:8]))
	if _, err := os.Stat(cached); err == nil {
		return output(command(nil, c.dir, "cp", "-a", cached, data))
	}
	if err := output(command(c.runAs, c.dir, append([]string{initdb, "-D", data}, args...)...)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(cached), 0o755); err != nil {
		return err
	}
	copied := filepath.Join(filepath.Dir(cached), filepath.Base(c.dir)) // a unique name
	defer func() { _ = os.RemoveAll(copied) }()
	if err := output(command(nil, c.dir, "cp", "-a", data, copied)); err != nil {
		return err
	}
	_ = os.Rename(copied, cached) // fails if another process has just filled the cache
	return nil
}

// output runs a command. The error contains the command's output.
func output(c *exec.Cmd) error {
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", c.Path, err, out)
	}
	return nil
}

// findInstalled finds the programs in PATH, or else the newest version where Debian installs it.
func findInstalled() (initdb, postgres string, err error) {
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
		n, _ := strconv.Atoi(strings.Split(path, "/")[4]) // 0 if it isn't a version
		return n
	}
	postgres = slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Join(filepath.Dir(postgres), "initdb"), postgres, nil
}

func command(runAs []string, dir string, args ...string) *exec.Cmd {
	args = slices.Concat(runAs, args)
	c := exec.Command(args[0], args[1:]...) //nolint:noctx // the server outlives the test that starts it
	c.Dir = dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	return c
}

// await waits until the server accepts connections.
func (c cluster) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.url())
		if err == nil {
			return conn.Close(ctx)
		}
		text, _ := os.ReadFile(filepath.Join(c.dir, "log")) //nolint:gosec // the log of the test server
		if ctx.Err() != nil || bytes.Contains(text, []byte("FATAL:  could not")) {
			return fmt.Errorf("PostgreSQL did not start: %w\n%s", err, text)
		}
		time.Sleep(pollInterval)
	}
}
