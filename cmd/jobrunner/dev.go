package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
)

// dev is serve with one endpoint, whose workers run a file.
type dev struct {
	File         string   `arg:"" help:"Program of the handler: a Python file, a script, anything executable."`
	Listen       string   `default:"127.0.0.1:8420" help:"Address of this machine to listen on; port 0 takes a free one."`
	Workers      int      `default:"1" help:"Workers at most."`
	GPUs         int      `name:"gpus" default:"0" help:"GPUs of a worker."`
	SimulateGPUs string   `name:"simulate-gpus" placeholder:"FILE|PRESET" help:"Show GPUs that are not there: a file (docs/gpu.md), or one of ${gpu_presets}."`
	Env          []string `placeholder:"NAME=VALUE" sep:"none" help:"Variable of the worker's environment. May be repeated."`
}

// devImage is the endpoint's image; each version of the file has a tag of its
// own, so that it makes a release.
const devImage = "dev/handler"

func (d *dev) Run() (err error) {
	if err := (&serve{Listen: d.Listen}).local(); err != nil {
		return err
	}
	handler, err := executor.NewHandler(devImage, d.File)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	key, made, err := apiKey("")
	if err != nil {
		return err
	}
	programs, err := executor.New(ctx, executor.Config{Handlers: []executor.Handler{handler}, Logger: log})
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
		URL: url, Programs: programs, LogWorkers: os.Stdout,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	served := make(chan error, 1)
	go func() { served <- run(ctx, stop, listener, j) }()
	e := &devEndpoint{url: url, key: key, shown: key}
	if !made { // the user has it
		e.shown = "$" + keyVariable
	}
	if err = e.create(ctx, d); err == nil {
		d.greet(os.Stdout, e, handler, gpus)
		d.follow(ctx, e, handler)
	}
	stop()
	return errors.Join(err, <-served, j.Close())
}

func (d *dev) greet(w io.Writer, e *devEndpoint, h executor.Handler, gpus string) {
	how, change := "a worker on the public SDK", "a change of it restarts the worker"
	if h.PerJob {
		how, change = "a process for each job", "the next job runs it as it is then"
	}
	fmt.Fprintf(w, "%s runs as %s; %s\n", filepath.Base(h.File), how, change)
	if d.GPUs > 0 {
		fmt.Fprintf(w, "GPUs: %s\n", gpus)
	}
	fmt.Fprintf(w, "\nexport GPUCLOUD_BASE_URL=%s\n", e.url)
	if e.shown == e.key {
		fmt.Fprintf(w, "export %s=%s\n", keyVariable, e.key)
	}
	fmt.Fprintf(w, "\nSend it a job:  curl -H \"Authorization: Bearer %s\" -d '{\"input\": {}}' %s/v2/%s/runsync\n", e.shown, e.url, e.id)
	fmt.Fprintf(w, "Public SDKs:    %s/live/v2, endpoint %s\n", e.url, e.id)
	fmt.Fprintf(w, "In the browser: %s\n\n", e.url)
	fmt.Fprintf(w, "Ctrl-C ends it, and what it has. The workers' log follows.\n")
}

// devLook is how often the file is looked at.
const devLook = 300 * time.Millisecond

// follow makes each change of the file count.
func (d *dev) follow(ctx context.Context, e *devEndpoint, h executor.Handler) {
	ticker := time.NewTicker(devLook)
	defer ticker.Stop()
	for last := stamp(h.File); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := stamp(h.File)
		if now == last || now == "" { // editors take a file away for a moment
			continue
		}
		last = now
		switch is, err := executor.NewHandler(devImage, h.File); {
		case err != nil:
			fmt.Fprintf(os.Stderr, "%s changed: %v\n", filepath.Base(h.File), err)
		case is.PerJob != h.PerJob:
			fmt.Fprintf(os.Stderr, "%s changed, and runs in another way now: start jobrunner dev again\n", filepath.Base(h.File))
		case h.PerJob:
			fmt.Printf("%s changed: the next job runs it\n", filepath.Base(h.File))
		default:
			fmt.Printf("%s changed: the worker is replaced\n", filepath.Base(h.File))
			if err := e.release(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}

// stamp is another one after each change of a file; "" while there is none.
func stamp(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode())
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
	env := map[string]string{}
	for _, variable := range d.Env {
		name, value, ok := strings.Cut(variable, "=")
		if !ok || name == "" {
			return fmt.Errorf("--env %s: write it like NAME=VALUE", name)
		}
		env[name] = value
	}
	if len(env) > 0 {
		body["env"] = env
	}
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
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader(text))
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
	if text, err = io.ReadAll(response.Body); err != nil {
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
