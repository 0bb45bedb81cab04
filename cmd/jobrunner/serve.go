package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/node"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/webhook"
)

type serve struct {
	Listen            string `default:"127.0.0.1:8420" help:"Address to listen on; port 0 selects a free one."`
	Data              string `placeholder:"DIR" help:"Folder of the state. Default: gpucloud/jobrunner in the user's state directory."`
	databaseFlags     `embed:""`
	EngineConnections int      `default:"24" help:"With --engine: maximum number of database connections, not counting one for notifications; at least 3."`
	NodeURL           string   `name:"node-url" placeholder:"URL" env:"GPUCLOUD_NODE_URL" help:"With --engine: address at which the other jobrunners reach this one. Default: its listen address."`
	Fsync             string   `default:"full" enum:"full,normal" help:"When a commit is flushed to disk: before it is acknowledged (full), or at the next checkpoint (normal), which is faster, survives kill -9, and may lose the latest commits when the machine loses power. With --engine, normal accepts a server with fsync or synchronous_commit off (full, normal)."`
	Ephemeral         bool     `help:"Keep the state in memory. It is lost when the process ends."`
	APIKeyFile        string   `name:"api-key-file" placeholder:"FILE" env:"GPUCLOUD_API_KEY_FILE" help:"File with the deployment's API key. Default: GPUCLOUD_API_KEY, or api-key in the data folder, which the first start creates."`
	Keys              string   `placeholder:"DIR" help:"Folder of the keys that 'jobrunner keys --data DIR' manages. Default: the data folder. With --engine they are moved to the database."`
	SecretsKeyFile    string   `name:"secrets-key-file" placeholder:"FILE" env:"GPUCLOUD_SECRETS_KEY_FILE" help:"File with the key that encrypts account secrets: 32 bytes in base64. Nodes on one --engine need the same key. Default: secrets.key in the data folder, which the first secret creates."`
	AllowRemote       bool     `help:"Allow an address that other machines can reach."`
	Limits            string   `default:"on" enum:"on,off" help:"Enforce the job API's limits on rates, open requests and queue length (on, off)."`
	ManagementLimits  string   `default:"off" enum:"on,off" help:"Enforce the rate limits of the management API (on, off)."`
	WebhookAllow      []string `placeholder:"HOST" sep:"none" help:"Call webhooks only at this host: example.com, *.example.com or an address, with :port or without. May be repeated. Default: public addresses and, without --allow-remote, this machine."`
	Clock             string   `default:"real" enum:"real,admin" help:"Clock of the deployment. With admin, clients can advance it at /clock, for tests on a loopback address (real, admin)."`
	Config            string   `placeholder:"FILE" env:"GPUCLOUD_JOBRUNNER_CONFIG" help:"Configuration of the programs that run images (docs/reference/jobrunner.md). Default: jobrunner.yaml in the data folder, if it exists."`
	GPUs              string   `name:"gpus" default:"auto" enum:"auto,off" help:"Give the machine's GPUs to workers (auto, off)."`
	SimulateGPUs      string   `name:"simulate-gpus" placeholder:"FILE|PRESET" help:"Simulate GPUs, to test placement: a file (docs/reference/gpu.md), or one of ${gpu_presets}."`
	Pprof             bool     `help:"Serve profiles of the process at /debug/pprof/, to clients on this machine."`
	Catalog           string   `placeholder:"FILE" env:"GPUCLOUD_CATALOG" help:"Catalog of the deployment: data centers, GPU types, pools, CPU flavors, prices and stock (docs/reference/catalog.md). It is read again when it changes. Default: the built-in one."`
	Logs              bool     `help:"Show the output of workers, after their ids."`
	httpLimits        `embed:""`
	LogFormat         string `default:"text" enum:"text,json" help:"Format of the log on stderr (text, json)."`
	StopWithStdin     bool   `hidden:"" env:"GPUCLOUD_STOP_WITH_STDIN" help:"Stop when stdin ends, so that the jobrunner doesn't outlive a killed program that started it."`
}

// A stop waits for running jobs, then for requests: together less than the limits of service managers.
const (
	drainTime    = 3 * time.Second
	shutdownTime = 5 * time.Second
)

func (serve) Help() string {
	return `Prints the variables that Terraform and other clients need. Ctrl-C stops it.

Examples:
  jobrunner serve
  jobrunner serve --ephemeral --config examples/quickstart/jobrunner.yaml --logs
  jobrunner serve --ephemeral --listen 127.0.0.1:0 --simulate-gpus h200x8
  jobrunner serve --allow-remote --listen 10.0.0.5:8420 --engine-file /etc/jobrunner/engine`
}

// check validates the flags. It returns the URL of the PostgreSQL database, or "".
func (s *serve) check() (dbURL string, err error) {
	if err := s.checkListen(); err != nil {
		return "", err
	}
	if _, err := webhook.NewPolicy(s.WebhookAllow, s.AllowRemote); err != nil {
		return "", usageErrorf("--webhook-allow: %s", err)
	}
	dbURL, err = s.databaseURL()
	switch {
	case err != nil:
		return "", err
	case s.Ephemeral && s.Data != "":
		return "", usageErrorf("--ephemeral and --data exclude each other: choose one")
	case s.Ephemeral && dbURL != "":
		return "", usageErrorf("--ephemeral and --engine (or GPUCLOUD_ENGINE, GPUCLOUD_ENGINE_FILE) exclude each other: choose one")
	case s.Ephemeral && s.Fsync == "normal":
		return "", usageErrorf("--ephemeral and --fsync=normal exclude each other: a state in memory isn't flushed")
	case s.SimulateGPUs != "" && s.GPUs == "off":
		return "", usageErrorf("--gpus=off and --simulate-gpus exclude each other: choose one")
	}
	if dbURL != "" {
		if err := sqldb.CheckURL(dbURL); err != nil {
			return "", usageErrorf("invalid --engine or --engine-file: %s", err)
		}
	}
	return dbURL, cmp.Or(checkFolder("--data", s.Data), checkFolder("--keys", s.Keys), s.checkNode(dbURL), s.checkFiles())
}

func (s *serve) Run() (err error) {
	dbURL, err := s.check()
	if err != nil {
		return err
	}
	connections, err := s.connections()
	if err != nil {
		return err
	}
	bodies := cmp.Or(int64(s.BodyMemory)<<20, httplimit.DefaultMemory())
	limitHeap(bodies, s.stateMemory())
	ctx, stop := untilStopped(s.StopWithStdin)
	defer stop()

	dir, key, generated, err := s.folderAndKey()
	if err != nil {
		return err
	}
	out := newAsyncWriter(stderr)
	defer out.Close()
	log := logger(out, s.LogFormat)
	connections.Logger = log
	s.warnOfPassword(log)
	warnOfOtherState(log, dir, dbURL)
	programs, err := s.openExecutor(ctx, dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, programs.Close()) }()
	inventory, gpus, err := s.gpus(ctx, programs, log)
	if err != nil {
		return err
	}
	defer inventory.Close()
	tcp, err := listen(ctx, s.Listen)
	if err != nil {
		return err
	}
	listener, url := httplimit.Listen(tcp, connections), localURL(s.Listen, tcp.Addr())
	var workerLogs io.Writer
	if s.Logs {
		workerLogs = map[string]io.Writer{"text": stderr, "json": workerLog{log}}[s.LogFormat]
	}
	j, err := jobrunner.New(ctx, jobrunner.Config{
		DataDir: dir, NoSync: s.Fsync == "normal", DatabaseURL: dbURL, DatabaseConnections: s.EngineConnections, NodeURL: cmp.Or(s.NodeURL, remoteURL(s.Listen, tcp.Addr())), APIKey: key, KeyDir: s.Keys, SecretKeyFile: s.SecretsKeyFile, Logger: log, GPUs: inventory,
		NoJobLimits: s.Limits == "off", ManagementLimits: s.ManagementLimits == "on", AdminClock: s.Clock == "admin",
		Catalog: s.Catalog, Remote: s.AllowRemote, Profile: s.Pprof, Version: version,
		WebhookAllow: s.WebhookAllow, BodyMemory: bodies, StateMemory: s.stateMemory(),
		URL: url, MakeTemp: programs.ScratchFolder, Programs: programs, Pods: programs, Volumes: programs.Cluster(), LogWorkers: workerLogs,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	listener.OnReject = j.RecordRejection
	var greeter sync.WaitGroup
	greeter.Go(func() { // waits until the container engines are probed
		s.greet(stdout, url, remoteURL(s.Listen, tcp.Addr()), dir, key, generated, j.PageCode(), gpus, programs.Describe)
	})
	defer greeter.Wait()
	return errors.Join(serveHTTP(ctx, stop, listener, j, log), j.Close())
}

// warnOfOtherState warns if the data folder belongs to a deployment whose state isn't used.
func warnOfOtherState(log *slog.Logger, dir, dbURL string) {
	switch hasDatabase := sqldb.HasDatabase(dir); {
	case dbURL != "" && hasDatabase:
		log.Warn("the jobs and objects in the data folder are not used: they were made without --engine, and can't be moved to PostgreSQL", "folder", dir)
	case dbURL == "" && dir != "" && !hasDatabase && exists(filepath.Join(dir, node.FolderIDFile)):
		log.Warn("the data folder was used before, but has no database: the deployment begins without jobs and objects. If they are in PostgreSQL, stop it and name the database with --engine", "folder", dir)
	}
}

// untilStopped returns a context that ends with a signal, or also with stdin. If the process
// doesn't react, for example because it waits for a pipe without a writer, a signal a second later kills it.
func untilStopped(withStdin bool) (ctx context.Context, stop context.CancelFunc) {
	cli.SurviveClosedPipe() // tee may end before the running jobs do
	ctx, stop = signal.NotifyContext(context.Background(), cli.StopSignals()...)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	if withStdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end, too
			stop()
		}()
	}
	return ctx, stop
}

// folderAndKey returns the data folder, "" for a state in memory, and the deployment's API key.
func (s *serve) folderAndKey() (dir, key string, generated bool, err error) {
	if !s.Ephemeral {
		if dir, err = dataDir(s.Data); err != nil {
			return "", "", false, err
		}
	}
	key, generated, err = apiKey(s.APIKeyFile, dir)
	if err == nil {
		err = s.checkKey(key)
	}
	return dir, key, generated, err
}

// stateMemory returns the limit of a state in memory in bytes, or 0 for a stored state.
func (s *serve) stateMemory() int64 {
	if !s.Ephemeral {
		return 0
	}
	return int64(s.EphemeralMemory) << 20
}

// serveHTTP serves until ctx ends. A second signal ends running jobs at once. A third one kills the process.
func serveHTTP(ctx context.Context, stop func(), listener *httplimit.Listener, j *jobrunner.Jobrunner, log *slog.Logger) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(httplimit.ErrStopping)
	server := &http.Server{
		Handler:           j.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         listener.ConnState,
		ConnContext:       listener.ConnContext,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	serveErr := make(chan error, 1)
	go func() { serveErr <- server.Serve(listener) }()
	var outdated error
	select {
	case err := <-serveErr:
		return err
	case <-ctx.Done():
	case <-j.Outdated():
		outdated = errors.New("this jobrunner is older than the database: start the version that the other nodes run")
	}
	secondSignal, stopSecond := signal.NotifyContext(context.WithoutCancel(ctx), cli.StopSignals()...)
	defer stopSecond()
	context.AfterFunc(secondSignal, stopSecond)
	stop()
	if n := j.Running(); n > 0 {
		log.Warn(fmt.Sprintf("stopping: running jobs (%d) have %s to end, requests %s; Ctrl-C again ends them at once", n, drainTime, shutdownTime))
	}
	// During the drain, workers can still post results.
	drainCtx, cancelDrain := context.WithTimeout(secondSignal, drainTime)
	j.Drain(drainCtx)
	cancelDrain()
	time.AfterFunc(shutdownTime/2, func() { cancel(httplimit.ErrStopping) }) // ends held requests
	shutdownCtx, cancelShutdown := context.WithTimeout(secondSignal, shutdownTime)
	defer cancelShutdown()
	err := server.Shutdown(shutdownCtx)
	if shutdownCtx.Err() != nil && errors.Is(err, shutdownCtx.Err()) {
		err = server.Close()
	}
	return errors.Join(outdated, err)
}

// checkListen rejects an invalid address and, without --allow-remote, one that other machines can
// reach, because anyone with the key can run code on this machine.
func (s *serve) checkListen() error {
	host, port, err := net.SplitHostPort(s.Listen)
	if number, nameErr := strconv.Atoi(port); err != nil || nameErr == nil && (number < 0 || number > math.MaxUint16) {
		return usageErrorf("invalid --listen %s: expected an address such as 127.0.0.1:8420", s.Listen)
	}
	if s.AllowRemote && s.Clock == "admin" {
		return usageErrorf("--clock=admin (for tests on this machine) and --allow-remote exclude each other: choose one")
	}
	if s.AllowRemote || isLoopback(host) {
		return nil
	}
	return usageErrorf("other machines can reach --listen %s over plain HTTP, and anyone with the key can run code on this machine: "+
		"listen on 127.0.0.1, or allow this with jobrunner serve --allow-remote", s.Listen)
}

func logger(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// workerLog logs lines of workers and pods, each with its worker's id before it.
type workerLog struct{ *slog.Logger }

func (l workerLog) Write(line []byte) (int, error) {
	id, text, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
	l.Info(text, "worker", id)
	return len(line), nil
}

// greet prints the variables to export. It prints the key only if the user can't know it. If it doesn't print
// the key, it doesn't print a sign-in link into the log of a service or container either.
func (s *serve) greet(w io.Writer, url, remote, dir, key string, generated bool, pageCode, gpus string, describe func() []string) {
	fmt.Fprintf(w, "The deployment runs at %s\n", url)
	if remote != "" {
		fmt.Fprintf(w, "Other machines reach it at %s\n", remote)
	}
	fmt.Fprintf(w, "GPUs: %s\n", gpus)
	for _, line := range describe() {
		fmt.Fprintf(w, "Images: %s\n", line)
	}
	switch {
	case s.Engine != "" || s.EngineFile != "":
		fmt.Fprintf(w, "Its state is in PostgreSQL, this node's files are in %s\n", dir)
	case dir != "":
		fmt.Fprintf(w, "Its state is in %s\n", dir)
	}
	fmt.Fprintf(w, "\nexport GPUCLOUD_BASE_URL=%s\n", url)
	logsToJournal := os.Getenv("JOURNAL_STREAM") != ""
	printsKey := generated && (dir == "" || !logsToJournal)
	switch file := cmp.Or(s.APIKeyFile, filepath.Join(dir, keyFile)); {
	case printsKey:
		fmt.Fprintf(w, "export GPUCLOUD_API_KEY=%s\n", key)
	case s.APIKeyFile == "" && os.Getenv(keyVariable) != "":
		fmt.Fprintf(w, "Its API key is in %s, which is already set here\n", keyVariable)
	default:
		if absolute, err := filepath.Abs(file); err == nil { // the reader's shell may be in another folder
			file = absolute
		}
		fmt.Fprintf(w, "export %s=\"$(cat %s)\"\n", keyVariable, startcmd.Join([]string{file}))
	}
	page := fmt.Sprintf("%s/#code=%s (the link works once, within an hour)", url, pageCode)
	if !printsKey && (logsToJournal || os.Getpid() == 1) {
		page = url + " (it asks for the API key)"
	}
	fmt.Fprintf(w, "\nIn the browser: %s\n", page)
	fmt.Fprintf(w, "Public SDKs of the job API use %s/live/v2\n", url)
	fmt.Fprintf(w, "Next: export these variables where you run Terraform. Ctrl-C stops the deployment.\n")
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, listenNetwork(address), address)
	remedy := "choose another address with --listen; port 0 is any free port"
	if errors.Is(err, syscall.EADDRINUSE) {
		remedy = "stop the program that listens there, or " + remedy
	}
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w (%s)", address, err, remedy)
	}
	return listener, nil
}

// listenNetwork returns the network for a listen address: IPv4 for 0.0.0.0 and IPv6 for ::. With
// the network tcp, Go would listen on both.
func listenNetwork(listen string) string {
	host, _, _ := net.SplitHostPort(listen) // "" if listen is invalid
	switch ip, err := netip.ParseAddr(host); {
	case err != nil:
		return "tcp"
	case ip.Unmap().Is4():
		return "tcp4"
	}
	return "tcp6"
}

// localURL returns the URL at which this machine reaches a listener on the address of --listen.
func localURL(listen string, address net.Addr) string {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		for _, loopback := range []string{"127.0.0.1", "::1"} {
			hostPort := net.JoinHostPort(loopback, fmt.Sprint(tcp.Port))
			if c, err := net.DialTimeout(listenNetwork(listen), hostPort, time.Second); err == nil { //nolint:noctx // local, at most a second
				_ = c.Close()
				return "http://" + hostPort
			}
		}
	}
	return "http://" + address.String()
}

// remoteURL returns the URL at which other machines may reach a listener on all addresses of --listen's
// family, or of both. For other listeners, or if no address is known, it returns "".
func remoteURL(listen string, address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return ""
	}
	network := listenNetwork(listen)
	addresses, _ := net.InterfaceAddrs() // nil on error
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (network == "tcp" || (network == "tcp4") == (n.IP.To4() != nil)) {
			return "http://" + net.JoinHostPort(n.IP.String(), fmt.Sprint(tcp.Port))
		}
	}
	return ""
}
