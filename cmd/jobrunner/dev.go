package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/executor"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// dev is serve with one endpoint, whose workers run a file.
type dev struct {
	File         string   `arg:"" help:"Program of the handler: a Python file, a script, anything executable."`
	Listen       string   `default:"127.0.0.1:8420" help:"Address of this machine to listen on; port 0 takes a free one."`
	Workers      int      `default:"1" help:"Workers at most."`
	GPUs         int      `name:"gpus" default:"0" help:"GPUs of a worker."`
	SimulateGPUs string   `name:"simulate-gpus" placeholder:"FILE|PRESET" help:"Show GPUs that are not there: a file (docs/gpu.md), or one of ${gpu_presets}."`
	Env          []string `placeholder:"NAME=VALUE" sep:"none" help:"Variable of the worker's environment. May be repeated."`
	Input        string   `placeholder:"FILE|JSON" help:"Send a job with this input at the start and after each change, and show what comes of it."`
	Once         bool     `help:"Send one job and end with its exit status: 0 COMPLETED, 1 FAILED, 2 the handler does not start, 3 TIMED_OUT, 4 anything else. Its output alone is on stdout."`
	Watch        []string `placeholder:"PATH" sep:"none" help:"File, folder or pattern whose change counts, too. May be repeated. Default: files of the handler's kind in its folder and below."`
	LogLevel     string   `name:"log-level" default:"info" enum:"debug,info,warn,error" help:"Lines of loggers that are shown (debug, info, warn, error). What a handler prints is shown always."`
}

// devImage is the endpoint's image; each version of the file has a tag of its
// own, so that it makes a release.
const devImage = "dev/handler"

func (d *dev) Run() (err error) {
	if err := (&serve{Listen: d.Listen}).checkListen(); err != nil {
		return err
	}
	if d.Once && d.Input == "" {
		d.Input = "{}"
	}
	if d.Input != "" {
		if _, err := submissionOf(d.Input); err != nil {
			return &ended{exitUnstarted, err.Error()}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	handler, python, err := d.handler(ctx)
	if err != nil {
		return &ended{exitUnstarted, err.Error()}
	}
	out := &terminal{least: levelOf(strings.ToUpper(d.LogLevel)), named: d.Workers > 1, to: stdout}
	if d.Once {
		out.to = stderr
	}
	key, made, err := apiKey("")
	if err != nil {
		return err
	}
	log := out.logger()
	programs, err := executor.New(ctx, executor.Config{Handlers: []executor.Handler{handler}, DataDir: registerFolder(), Optional: true, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, programs.Close()) }()
	inventory, gpus, err := inventoryOf(d.SimulateGPUs, log)
	if err != nil {
		return err
	}
	defer inventory.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", d.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (--listen takes another address)", d.Listen, err)
	}
	url := "http://" + listener.Addr().String()
	j, err := jobrunner.New(ctx, jobrunner.Config{
		APIKey: key, Logger: log, GPUs: inventory, NoJobLimits: true, Version: version,
		URL: url, Programs: programs, LogWorkers: out,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	served := make(chan error, 1)
	go func() {
		served <- run(ctx, stop, httplimit.Listen(listener, httplimit.Connections{Logger: log}), j, log)
	}()
	e := &devEndpoint{url: url, key: key, shown: key}
	if !made { // the user has it
		e.shown = "$" + keyVariable
	}
	err = e.create(ctx, d)
	switch {
	case err != nil:
	case d.Once:
		err = e.once(ctx, d.Input, out)
	default:
		d.greet(stdout, e, handler, python, j.PageCode(), gpus)
		err = d.follow(ctx, e, handler, python, out)
	}
	stop()
	return errors.Join(err, <-served, j.Close())
}

// handler finds out what runs the file, and whether that works.
func (d *dev) handler(ctx context.Context) (h executor.Handler, python *interpreter, err error) {
	if filepath.Ext(d.File) != ".py" {
		h, err = executor.NewHandler(devImage, d.File)
		return h, nil, err
	}
	file, err := filepath.Abs(d.File)
	if err != nil {
		return h, nil, err
	}
	folder := filepath.Dir(file)
	found := findPython(ctx, folder)
	if h, err = executor.NewHandler(devImage, d.File, found.command...); err != nil {
		return h, nil, err
	}
	return h, &found, found.check(ctx, folder, !h.PerJob)
}

func (d *dev) greet(w io.Writer, e *devEndpoint, h executor.Handler, python *interpreter, code, gpus string) {
	how, change := "a worker on the public SDK", "a change of it, or of files beside it, restarts the worker"
	if h.PerJob {
		how, change = "a process for each job", "the next job runs it as it is then"
	}
	fmt.Fprintf(w, "%s runs as %s; %s\n", filepath.Base(h.File), how, change)
	if python != nil {
		fmt.Fprintf(w, "%s\n", python)
	}
	if d.GPUs > 0 {
		fmt.Fprintf(w, "GPUs: %s\n", gpus)
	}
	fmt.Fprintf(w, "\nexport GPUCLOUD_BASE_URL=%s\n", e.url)
	if e.shown == e.key {
		fmt.Fprintf(w, "export %s=%s\n", keyVariable, e.key)
	}
	fmt.Fprintf(w, "\nSend it a job:  curl -H \"Authorization: Bearer %s\" -d '{\"input\": {}}' %s/v2/%s/runsync\n", e.shown, e.url, e.id)
	if d.Input == "" {
		fmt.Fprintf(w, "                or start with --input %s, which sends one after each change\n", testInput(h.File))
	}
	fmt.Fprintf(w, "Public SDKs:    %s/live/v2, endpoint %s\n", e.url, e.id)
	fmt.Fprintf(w, "In the browser: %s/#code=%s (once and within the hour)\n\n", e.url, code)
	fmt.Fprintf(w, "Ctrl-C ends it, and what it has. What the workers write follows; %s marks what the handler prints.\n", printed)
}

// testInput is what to give --input: the file that the public SDK reads in a
// local test, where there is one.
func testInput(handler string) string {
	if file := filepath.Join(filepath.Dir(handler), "test_input.json"); exists(file) {
		return file
	}
	return `'{"prompt": "…"}'`
}

// devLook is how often files are looked at.
const devLook = 300 * time.Millisecond

// follow makes each change of the files count, and sends the job again.
func (d *dev) follow(ctx context.Context, e *devEndpoint, h executor.Handler, python *interpreter, out *terminal) error {
	more := d.Watch
	if exists(d.Input) {
		more = append(more, d.Input)
	}
	files, err := newWatch(h.File, more)
	if err != nil {
		out.show("WARN", "", err.Error())
	}
	sent := &jobs{e: e, input: d.Input, to: out}
	if d.Input != "" {
		sent.resubmit(ctx)
		defer sent.wait()
	}
	ticker := time.NewTicker(devLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		names := files.changed()
		if len(names) == 0 {
			continue
		}
		if d.changed(ctx, e, h, python, strings.Join(names, ", "), out) && d.Input != "" {
			sent.resubmit(ctx)
		}
	}
}

// changed makes a change count, and tells whether it does.
func (d *dev) changed(ctx context.Context, e *devEndpoint, h executor.Handler, python *interpreter, names string, out *terminal) bool {
	var command []string
	if python != nil {
		command = python.command
	}
	switch is, err := executor.NewHandler(devImage, h.File, command...); {
	case err != nil:
		out.show("ERROR", "", fmt.Sprintf("%s changed: %v", names, err))
		return false
	case is.PerJob != h.PerJob:
		out.show("WARN", "", names+" changed, and the handler runs in another way now: start jobrunner dev again")
		return false
	case h.PerJob:
		out.show("DEV", "", names+" changed: the next job runs it")
		return true
	}
	out.show("DEV", "", names+" changed: the worker is replaced")
	if err := e.release(ctx); err != nil {
		if ctx.Err() == nil {
			out.show("ERROR", "", err.Error())
		}
		return false
	}
	return true
}

// devEndpoint is the endpoint, over the management API.
type devEndpoint struct {
	url, key string
	shown    string // instead of the key
	id       string
	version  int
}

func (e *devEndpoint) create(ctx context.Context, d *dev) error {
	body := map[string]any{
		"name": strings.TrimSuffix(filepath.Base(d.File), filepath.Ext(d.File)), "image": e.image(),
		"workers": map[string]any{"min": 1, "max": max(d.Workers, 1)},
		"scaling": map[string]any{"type": "QUEUE_DELAY", "queueDelay": 0.5},
	}
	if d.GPUs > 0 {
		body["gpu"] = map[string]any{"pools": allPools(), "count": d.GPUs}
	} else {
		body["cpu"] = []any{map[string]any{"id": "cpu3c", "vcpuCount": 2}}
	}
	level := strings.ToUpper(d.LogLevel)
	env := map[string]string{"RUNPOD_LOG_LEVEL": level, "RUNPOD_DEBUG_LEVEL": level} // what is not shown need not be written
	for _, variable := range d.Env {
		name, value, ok := strings.Cut(variable, "=")
		if !ok || name == "" {
			return fmt.Errorf("--env %s: write it like NAME=VALUE", name)
		}
		env[name] = value
	}
	body["env"] = env
	var made struct {
		ID string `json:"id"`
	}
	if err := e.call(ctx, http.MethodPost, "/v2/serverless", body, &made); err != nil {
		return fmt.Errorf("making the endpoint: %w", err)
	}
	e.id = made.ID
	return nil
}

func (e *devEndpoint) release(ctx context.Context) error {
	e.version++
	if err := e.call(ctx, http.MethodPatch, "/v2/serverless/"+e.id, map[string]any{"image": e.image()}, nil); err != nil {
		return fmt.Errorf("replacing the worker: %w", err)
	}
	return nil
}

func (e *devEndpoint) image() string { return fmt.Sprintf("%s:%d", devImage, e.version) }

func (e *devEndpoint) call(ctx context.Context, method, path string, body, answer any) error {
	var sent io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, e.url+path, sent)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+e.key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func allPools() (ids []string) {
	for _, p := range catalog.Pools {
		ids = append(ids, p.ID)
	}
	return ids
}
