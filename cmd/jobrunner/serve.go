package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

type serve struct {
	Listen           string   `default:"127.0.0.1:8420" help:"Address to listen on; port 0 takes a free one."`
	Data             string   `placeholder:"DIR" help:"Folder that holds the state. Default: gpucloud/jobrunner in the user's state directory."`
	Engine           string   `placeholder:"URL" env:"GPUCLOUD_ENGINE" help:"PostgreSQL database that holds the state instead of the folder, like postgres://user@host:5432/name; several jobrunners may share it."`
	Ephemeral        bool     `help:"Keep nothing: the state is in memory and ends with the process."`
	Keys             string   `placeholder:"DIR" help:"Folder of the further keys, as of 'jobrunner keys --data DIR'. Default: the data folder."`
	AllowRemote      bool     `help:"Allow an address that other machines reach."`
	Limits           string   `default:"on" enum:"on,off" help:"Enforce the job API's limits of rates, open requests and queue length (on, off)."`
	ManagementLimits string   `default:"off" enum:"on,off" help:"Enforce the rate limits of the management API (on, off)."`
	WebhookAllow     []string `placeholder:"HOST" sep:"none" help:"Call webhooks at this host alone: example.com, *.example.com or an address, with :port or without. May be repeated. Default: public addresses and, without --allow-remote, this machine."`
	Clock            string   `default:"real" enum:"real,admin" help:"Whose clock: admin lets clients advance it at /clock, for tests; on a loopback address only (real, admin)."`
	Config           string   `placeholder:"FILE" env:"GPUCLOUD_JOBRUNNER_CONFIG" help:"What runs the images of templates (docs/jobrunner.md). Default: jobrunner.yaml in the data folder, where there is one."`
	GPUs             string   `name:"gpus" default:"auto" enum:"auto,off" help:"Give the machine's GPUs to workers (auto, off)."`
	SimulateGPUs     string   `name:"simulate-gpus" placeholder:"FILE|PRESET" help:"Show GPUs that are not there, to try placement: a file (docs/gpu.md), or one of ${gpu_presets}."`
	Pprof            bool     `help:"Serve profiles of the process at /debug/pprof/, to whoever is on this machine."`
	Logs             bool     `help:"Show what workers write, behind their ids."`
	httpLimits       `embed:""`
	LogFormat        string `default:"text" enum:"text,json" help:"Format of the log on stderr (text, json)."`
}

// A stop waits so long for jobs that run, and then for requests under way.
// Together that is less than what service managers allow.
const (
	drainTime    = 3 * time.Second
	shutdownTime = 5 * time.Second
)

func (s *serve) Run() (err error) {
	if err := s.checkListen(); err != nil {
		return err
	}
	if s.Ephemeral && s.Data != "" {
		return errors.New("--ephemeral keeps nothing, and --data says where to keep it: choose one")
	}
	if s.Ephemeral && s.Engine != "" {
		return errors.New("--ephemeral keeps nothing, and --engine says where to keep it: choose one")
	}
	connections, err := s.connections()
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(ballast)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	dir := ""
	if !s.Ephemeral {
		var err error
		if dir, err = dataDir(s.Data); err != nil {
			return err
		}
	}
	key, made, err := apiKey(dir)
	if err != nil {
		return err
	}
	if err := s.checkKey(key); err != nil {
		return err
	}
	out := newLines(stderr)
	defer out.Close()
	log := logger(out, s.LogFormat)
	connections.Logger = log
	inventory, gpus, err := s.gpus(log)
	if err != nil {
		return err
	}
	defer inventory.Close()
	programs, err := s.executors(ctx, dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, programs.Close()) }()
	tcp, err := new(net.ListenConfig).Listen(ctx, network(s.Listen), s.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (--listen takes another address)", s.Listen, err)
	}
	listener := httplimit.Listen(tcp, connections)
	j, err := jobrunner.New(ctx, jobrunner.Config{
		DataDir: dir, Engine: s.Engine, APIKey: key, KeyDir: s.Keys, Logger: log, GPUs: inventory,
		NoJobLimits: s.Limits == "off", ManagementLimits: s.ManagementLimits == "on", AdminClock: s.Clock == "admin",
		Remote: s.AllowRemote, Profile: s.Pprof, Version: version,
		WebhookAllow: s.WebhookAllow,
		BodyMemory:   int64(s.BodyMemory) << 20, StateMemory: int64(s.EphemeralMemory) << 20,
		URL: localURL(listener.Addr()), Programs: programs, LogWorkers: s.workerLogs(),
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.greet(stdout, localURL(listener.Addr()), remoteURL(listener.Addr()), dir, key, made, j.PageCode(), gpus, programs.Engines())
	return errors.Join(run(ctx, stop, listener, j, log), j.Close())
}

// workerLogs is where the lines of workers are shown; nil: nowhere.
func (s *serve) workerLogs() io.Writer {
	if !s.Logs {
		return nil
	}
	return stderr
}

// run serves until ctx ends. A second signal ends the process at once, as
// signals do by default.
func run(ctx context.Context, stop func(), listener *httplimit.Listener, j *jobrunner.Jobrunner, log *slog.Logger) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(httplimit.ErrStopping)
	server := &http.Server{
		Handler:           j.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         listener.State,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop()
	// While workers still reach the deployment, jobs that are nearly done get
	// through with their results.
	work, worked := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	j.Drain(work)
	worked()
	time.AfterFunc(shutdownTime/2, func() { cancel(httplimit.ErrStopping) }) // requests that only wait learn that it is over
	patience, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer done()
	if err := server.Shutdown(patience); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	} else if err != nil {
		return err
	}
	return nil
}

// checkListen refuses an address that other machines reach, unless that is wanted:
// whoever holds the key runs code here.
func (s *serve) checkListen() error {
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s is not an address: write it like 127.0.0.1:8420", s.Listen)
	}
	ip, err := netip.ParseAddr(host)
	if s.AllowRemote && s.Clock == "admin" {
		return errors.New("--clock=admin is for tests on this machine, and --allow-remote opens the deployment to others: choose one")
	}
	if s.AllowRemote || host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--listen %s can be reached by other machines, over plain HTTP, and whoever has the key runs code on this one: "+
		"listen on 127.0.0.1, or add --allow-remote if you mean it", s.Listen)
}

func logger(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// greet prints what to export. The key is printed only when the user has no
// other way to know it.
func (s *serve) greet(w io.Writer, url, remote, dir, key string, made bool, code, gpus string, engines []string) {
	fmt.Fprintf(w, "The deployment runs at %s\n", url)
	if remote != "" {
		fmt.Fprintf(w, "Other machines reach it at %s\n", remote)
	}
	fmt.Fprintf(w, "GPUs: %s\n", gpus)
	for _, line := range engines {
		fmt.Fprintf(w, "Images: %s\n", line)
	}
	switch {
	case s.Engine != "":
		fmt.Fprintf(w, "Its state is in PostgreSQL, its keys are in %s\n", dir)
	case dir != "":
		fmt.Fprintf(w, "Its state is in %s\n", dir)
	}
	fmt.Fprintf(w, "\nexport GPUCLOUD_BASE_URL=%s\n", url)
	switch {
	case made:
		fmt.Fprintf(w, "export GPUCLOUD_API_KEY=%s\n", key)
	case dir != "" && os.Getenv(keyVariable) == "":
		fmt.Fprintf(w, "export GPUCLOUD_API_KEY=\"$(cat %q)\"\n", filepath.Join(dir, keyFile))
	}
	fmt.Fprintf(w, "\nIn the browser, once and within the hour: %s/#code=%s\n", url, code)
	fmt.Fprintf(w, "Public SDKs of the job API use %s/live/v2\n", url)
	fmt.Fprintf(w, "Next: terraform apply in examples/quickstart. Ctrl-C stops the deployment.\n")
}
