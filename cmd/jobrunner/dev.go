package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
)

// dev is a deployment with one endpoint, whose workers run a file.
type dev struct {
	File         string   `arg:"" help:"The handler: a Python file, a script, or any executable."`
	Listen       string   `placeholder:"ADDRESS" help:"Address of this machine to listen on; port 0 selects a free one. Default: 127.0.0.1:8420, and a free port with --once."`
	Workers      int      `default:"1" help:"Maximum number of workers, at least 1."`
	GPUs         *int     `name:"gpus" placeholder:"N" help:"GPUs of each worker. Default: 1 if the machine has any."`
	SimulateGPUs string   `name:"simulate-gpus" placeholder:"FILE|PRESET" help:"Simulate GPUs: a file (docs/reference/gpu.md), or one of ${gpu_presets}."`
	Env          []string `placeholder:"NAME=VALUE" sep:"none" help:"Variable of the worker's environment. May be repeated."`
	Input        string   `placeholder:"FILE|JSON|-" help:"Send a job with this input at the start and after each change, and show its result."`
	Once         bool     `help:"Send one job, print its output on stdout, and exit with its status: 0 COMPLETED, 1 FAILED, 2 the handler does not start, 3 TIMED_OUT, 4 anything else, such as no output."`
	Watch        []string `placeholder:"PATH" sep:"none" help:"Another file, folder or pattern to watch. May be repeated. The handler, the pyproject.toml of uv or poetry, and files with the handler's suffix in and below its folder are always watched, except behind links to folders."`
	LogLevel     string   `name:"log-level" default:"info" enum:"debug,info,warn,error" help:"Lowest level of log lines to show (debug, info, warn, error). Output that a handler prints is always shown."`
}

// devImage is the endpoint's image. Each version of the file has its own tag, which causes a release.
const devImage = "dev/handler"

func (dev) Help() string {
	return `A Python file that imports the public worker SDK runs as a worker. Any other program runs once per job: it
reads the input from stdin, and the last line of JSON that it prints is the output.

Examples:
  jobrunner dev handler.py
  jobrunner dev handler.py --input test_input.json --watch prompts
  jobrunner dev handler.sh --input '{"prompt": "hello"}' --once

Exit status with --once: 0 the job is COMPLETED, 1 FAILED, 2 the handler does not start or the input is
invalid, 3 TIMED_OUT, 4 anything else.`
}

// Run runs the deployment. With --once, errors without an exit status exit with exitNoResult.
func (d *dev) Run() error {
	err := d.run()
	if _, ok := errors.AsType[*exitError](err); d.Once && err != nil && !ok {
		return &exitError{exitNoResult, errorText(err)}
	}
	return err
}

func (d *dev) run() (err error) {
	env, err := d.readSettings()
	if err != nil {
		return err
	}
	ctx, stop := untilStopped(false)
	defer stop()
	handler, python, err := d.findHandler(ctx, env)
	if err != nil {
		return err
	}
	out := d.newTerminal()
	key, generated, err := apiKey("", "")
	if err != nil {
		return err
	}
	log := out.logger()
	programs, err := host.New(ctx, host.Config{Handlers: []host.Handler{handler}, DataDir: containerRecordDir(), OptionalDataDir: true, Logger: log})
	if err != nil {
		return &exitError{exitNotStarted, err.Error()}
	}
	defer func() { err = errors.Join(err, programs.Close()) }()
	inventory, gpus, err := openInventory(d.SimulateGPUs, log)
	if err != nil {
		return err
	}
	defer inventory.Close()
	if err := d.setGPUs(len(inventory.Devices()), gpus); err != nil {
		return err
	}
	listener, err := listen(ctx, d.Listen)
	if err != nil {
		return err
	}
	url, observer := "http://"+listener.Addr().String(), &jobObserver{ends: make(chan engine.Event, maxEnds), started: make(chan struct{}, 1), sentByDev: map[string]bool{}}
	j, err := jobrunner.New(ctx, jobrunner.Config{
		APIKey: key, Logger: log, GPUs: inventory, NoJobLimits: true, Version: version,
		URL: url, MakeTemp: programs.ScratchFolder, Programs: programs, LogWorkers: out, OnJob: observer.observe,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	connections, serveErr := httplimit.Listen(listener, httplimit.Config{Logger: log}), make(chan error, 1)
	go func() { serveErr <- serveHTTP(ctx, stop, connections, j, log) }()
	watcher, watchErr := d.watch(handler.File, python.packages) // before the worker reads the files
	e, err := d.createEndpoint(ctx, url, key, generated, env)
	switch {
	case err != nil:
	case d.Once:
		err = e.runOnce(ctx, d.Input, handler.PerJob, out)
	default:
		d.printStart(stdout, e, handler, python, j.PageCode(), gpus)
		go observer.show(ctx, e, out)
		if watchErr != nil {
			out.show("WARN", "", watchErr.Error())
		}
		err = d.followChanges(ctx, e, handler, python, out, observer, watcher)
	}
	stop()
	return errors.Join(err, <-serveErr, j.Close())
}

// setGPUs gives a worker one of the machine's GPUs, unless --gpus says how many.
func (d *dev) setGPUs(n int, description string) error {
	if d.GPUs == nil {
		d.GPUs = new(min(n, 1))
	}
	if *d.GPUs > n {
		return usageErrorf("invalid --gpus %d: expected at most %d, the number of GPUs (%s); --simulate-gpus simulates more", *d.GPUs, n, description)
	}
	return nil
}

func (d *dev) watch(handler, packages string) (*fileWatcher, error) {
	for _, file := range []string{d.Input, packages} {
		if exists(file) {
			d.Watch = append(d.Watch, file)
		}
	}
	return newFileWatcher(handler, d.Watch)
}

// createEndpoint creates the endpoint, whose workers have the environment env.
func (d *dev) createEndpoint(ctx context.Context, url, key string, generated bool, env map[string]string) (*devEndpoint, error) {
	e := &devEndpoint{url: url, key: key, displayedKey: key, name: cmp.Or(strings.TrimSuffix(filepath.Base(d.File), filepath.Ext(d.File)), filepath.Base(d.File))}
	if !generated { // the user knows the key
		e.displayedKey = "$" + keyVariable
	}
	want := api.Endpoint{
		Name: e.name, Type: "QUEUE", Container: &api.Container{Image: new(e.image()), Env: env},
		Workers: api.Workers{Min: 1, Max: int64(d.Workers)}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 0.5},
	}
	if *d.GPUs > 0 {
		want.GPU = &api.GPU{Count: int64(*d.GPUs)}
		for _, p := range contract.Pools {
			want.GPU.Pools = append(want.GPU.Pools, p.ID)
		}
	} else {
		want.CPU = []api.CPU{{ID: "cpu3c", VCPUCount: 2}}
	}
	var err error
	if e.client, err = api.New(api.Settings{BaseURL: url, Version: api.V2, APIKey: key, UserAgent: "jobrunner/" + version}); err != nil {
		return nil, err
	}
	if e.settings, err = e.client.Endpoints.Create(ctx, want); err != nil {
		return nil, fmt.Errorf("creating the endpoint: %w", err)
	}
	e.id = e.settings.ID
	return e, nil
}

// readSettings checks the flags, sets defaults, and returns the workers' environment.
func (d *dev) readSettings() (env map[string]string, err error) {
	if d.Listen == "" {
		d.Listen = "127.0.0.1:8420"
		if d.Once { // no other client needs the address
			d.Listen = "127.0.0.1:0"
		}
	}
	env, envErr := d.readEnvironment()
	switch err := cmp.Or((&serve{Listen: d.Listen}).checkListen(), envErr, checkWatch(d.Watch)); {
	case err != nil:
		return nil, err
	case d.Workers < 1:
		return nil, usageErrorf("invalid --workers: expected at least 1, got %d", d.Workers)
	case d.GPUs != nil && *d.GPUs < 0:
		return nil, usageErrorf("invalid --gpus: expected at least 0, got %d", *d.GPUs)
	}
	if d.Once && d.Input == "" {
		d.Input = "{}"
	}
	if d.Input != "" {
		text, err := submissionOf(d.Input)
		if err != nil {
			return nil, &exitError{exitNotStarted, err.Error()}
		}
		if info, err := os.Stat(d.Input); err != nil || !info.Mode().IsRegular() { // stdin and pipes can be read only once
			d.Input = string(text)
		}
	}
	return env, nil
}

func (d *dev) newTerminal() *terminal {
	out := &terminal{minLevel: levelOf(d.LogLevel), showIDs: d.Workers > 1, w: stdout}
	if d.Once {
		out.w = stderr
	}
	return out
}

// findHandler finds the program that runs the file, and checks it in the workers' environment.
func (d *dev) findHandler(ctx context.Context, env map[string]string) (h host.Handler, python interpreter, err error) {
	defer func() {
		switch {
		case ctx.Err() != nil:
			err = errors.New("interrupted")
		case err != nil:
			err = &exitError{exitNotStarted, err.Error()}
		}
	}()
	// Check the file before a project tool prepares Python, or scriptPython waits for a named pipe.
	if h, err = host.NewHandler(devImage, d.File); err != nil || filepath.Ext(d.File) != ".py" {
		return h, python, err
	}
	folder := filepath.Dir(h.File)
	python, ok := scriptPython(h.File)
	if !ok {
		python = findPython(folder)
	}
	if err := python.prepare(ctx, folder); err != nil {
		return h, python, err
	}
	if h, err = host.NewHandler(devImage, d.File, python.command...); err != nil {
		return h, python, err
	}
	program := ""
	if h.PerJob {
		program = h.File
	}
	err = python.check(ctx, h.Environment(env), folder, program, !h.PerJob)
	return h, python, err
}

func (d *dev) printStart(w io.Writer, e *devEndpoint, h host.Handler, python interpreter, pageCode, gpus string) {
	mode, effect := "a worker on the public SDK", "a change of it or of files next to it restarts the worker"
	if h.PerJob {
		mode, effect = "a process for each job", "each job runs its current version"
	}
	fmt.Fprintf(w, "%s runs as %s; %s\n", filepath.Base(h.File), mode, effect)
	if python.command != nil {
		fmt.Fprintf(w, "%s\n", &python)
	}
	if *d.GPUs > 0 {
		fmt.Fprintf(w, "GPUs: %s\n", gpus)
	}
	fmt.Fprintf(w, "\nexport GPUCLOUD_BASE_URL=%s\n", e.url)
	if e.displayedKey == e.key {
		fmt.Fprintf(w, "export %s=%s\n", keyVariable, e.key)
	}
	fmt.Fprintf(w, "\nSend it a job:  %s --input '{}'\n", commandLine("jobrunner", "job", "run", e.name))
	fmt.Fprintf(w, "                curl -H \"Authorization: Bearer %s\" -d '{\"input\": {}}' %s/v2/%s/runsync\n", e.displayedKey, e.url, e.id)
	if d.Input == "" {
		fmt.Fprintf(w, "                or start with --input %s, which sends a job after each change\n", testInput(h.File))
	}
	fmt.Fprintf(w, "Public SDKs:    %s/live/v2, endpoint %s\n", e.url, e.id)
	fmt.Fprintf(w, "In the browser: %s/#code=%s (the link works once, within an hour)\n\n", e.url, pageCode)
	fmt.Fprintf(w, "Ctrl-C stops the deployment and deletes its state. The workers' output follows; %s marks lines printed by the handler.\n", printedMark)
}

// testInput returns an example for --input: the file that the public SDK reads in a local test, if it exists.
func testInput(handler string) string {
	if file := filepath.Join(filepath.Dir(handler), "test_input.json"); exists(file) {
		return commandLine(file)
	}
	return `'{"prompt": "…"}'`
}

// watchPause returns the pause after a scan of the watched files. The scans of a large folder, such as a
// data set, use at most a tenth of the time.
func watchPause(scan time.Duration) time.Duration { return max(300*time.Millisecond, 9*scan) }

// followChanges applies each change of the files, and sends the job again.
func (d *dev) followChanges(ctx context.Context, e *devEndpoint, h host.Handler, python interpreter, out *terminal, observer *jobObserver, watcher *fileWatcher) error {
	loop := &jobLoop{e: e, input: d.Input, out: out, observer: observer}
	if d.Input != "" {
		loop.resubmit(ctx)
		defer func() { <-loop.done }()
	}
	for scanTime := time.Duration(0); httpclient.Sleep(ctx, watchPause(scanTime)) == nil; {
		start, problem := time.Now(), watcher.problem
		names := watcher.changed()
		scanTime = time.Since(start)
		if watcher.problem != nil && problem == nil {
			out.show("WARN", "", watcher.problem.Error())
		}
		if len(names) == 0 {
			continue
		}
		changed := listNames(names)
		if changed == watcher.name(d.Input) {
			out.show("DEV", "", changed+" changed: the job is sent again")
		} else if !d.applyChange(ctx, e, h, python, changed, out) {
			continue
		}
		if d.Input != "" {
			loop.resubmit(ctx)
		}
	}
	return nil
}

// applyChange makes the endpoint run the changed files. A worker on the SDK is replaced by a release; a process
// per job needs none. It reports whether it succeeded.
func (d *dev) applyChange(ctx context.Context, e *devEndpoint, h host.Handler, python interpreter, names string, out *terminal) bool {
	changedHandler, err := host.NewHandler(devImage, h.File, python.command...)
	if err == nil {
		err = python.prepare(ctx, filepath.Dir(h.File)) // the list of packages may have changed
	}
	switch {
	case err != nil:
		out.show("ERROR", "", fmt.Sprintf("%s changed: %v", names, err))
		return false
	case changedHandler.PerJob != h.PerJob:
		out.show("WARN", "", names+" changed how the handler runs: restart jobrunner dev")
		return false
	case h.PerJob:
		out.show("DEV", "", names+" changed: the next job runs it")
		return true
	}
	out.show("DEV", "", names+" changed: the worker is replaced once its jobs have ended")
	if err := e.release(ctx); err != nil {
		if ctx.Err() == nil {
			out.show("ERROR", "", err.Error())
		}
		return false
	}
	return true
}

type devEndpoint struct {
	client       *api.Client
	url, key     string
	displayedKey string // printed instead of the key
	name, id     string
	settings     api.Endpoint // as last read
	version      int
}

func (d *dev) readEnvironment() (map[string]string, error) {
	level := strings.ToUpper(d.LogLevel)
	env := map[string]string{"RUNPOD_LOG_LEVEL": level, "RUNPOD_DEBUG_LEVEL": level} // so that the SDK doesn't log lines that aren't shown
	for _, variable := range d.Env {
		name, value, ok := strings.Cut(variable, "=")
		switch {
		case !ok || name == "":
			return nil, usageErrorf("invalid --env %s: expected NAME=VALUE", name)
		case host.IsReserved(name) && name != host.VolumeVariable: // dev has no network volumes
			return nil, usageErrorf("invalid --env %s: the jobrunner sets this variable for each worker", name)
		}
		env[name] = value
	}
	return env, nil
}

func (e *devEndpoint) release(ctx context.Context) error {
	e.version++
	want, container := e.settings, *e.settings.Container
	container.Image, want.Container = new(e.image()), &container
	settings, err := e.client.Endpoints.Update(ctx, e.settings, want)
	switch {
	case api.IsNotFound(err):
		return errors.New("the endpoint was deleted: restart jobrunner dev")
	case err != nil:
		return fmt.Errorf("replacing the worker: %w", err)
	}
	e.settings = settings
	return nil
}

func (e *devEndpoint) image() string { return fmt.Sprintf("%s:%d", devImage, e.version) }
