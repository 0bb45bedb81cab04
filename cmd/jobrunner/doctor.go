package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/front"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/kubernetes"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// doctor checks what a deployment needs on this machine, also while one runs. It changes nothing.
type doctor struct {
	Listen        string `default:"127.0.0.1:8420" help:"Address that serve will listen on."`
	Data          string `placeholder:"DIR" help:"Folder of the state. Default: the default of serve."`
	Config        string `placeholder:"FILE" env:"GPUCLOUD_JOBRUNNER_CONFIG" help:"Configuration of the programs that run images. Default: jobrunner.yaml in the data folder, if it exists."`
	databaseFlags `embed:""`
	JSON          bool `name:"json" help:"Print JSON, a line for each check."`

	programs *host.Executor // set by checkImages if the configuration is valid
}

// Help lists the checks and explains their results.
func (doctor) Help() string {
	return `Checks the address, the data folder, its disk and database, the clock, open files, container engines or the Kubernetes
cluster of jobrunner.yaml, GPUs, PostgreSQL, Python for handlers, and Terraform.
Use the values that serve gets for these flags and variables.

"warn" means that something works with limits, "fail" that serve or its workers will fail.

Example:
  jobrunner doctor --config examples/quickstart/jobrunner.yaml

Exit status: 0, or 1 if a check fails.`
}

type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn or fail
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"` // what to do
}

func ok(format string, args ...any) finding {
	return finding{Status: "ok", Text: fmt.Sprintf(format, args...)}
}

func warn(remedy, format string, args ...any) finding {
	return finding{Status: "warn", Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

func fail(remedy, format string, args ...any) finding {
	return finding{Status: "fail", Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Run prints each finding as soon as it is known.
func (d *doctor) Run() (err error) {
	if d.Data, err = dataDir(d.Data); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), cli.StopSignals()...)
	defer stop()
	failed := 0
	for _, check := range []struct {
		name string
		find func(context.Context) finding
	}{
		{"address", d.checkAddress}, {"data folder", d.checkDataFolder}, {"database", d.checkDatabase}, {"clock", d.checkClock}, {"open files", d.checkOpenFiles},
		{"images", d.checkImages}, {"GPUs", d.checkGPUs}, {"PostgreSQL", d.checkPostgres}, {"Python", d.checkPython}, {"Terraform", d.checkTerraform},
	} {
		var f finding
		found := make(chan finding, 1)
		go func() { found <- check.find(ctx) }() // some, such as of a large database, ignore ctx
		select {
		case f = <-found:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return &exitError{exitFailed, "interrupted"}
		}
		f.Check = check.name
		if f.Status == "fail" {
			failed++
		}
		d.print(f)
	}
	if d.programs != nil {
		d.programs.Close()
	}
	if failed > 0 {
		return &exitError{exitFailed, fmt.Sprintf("%d of the checks failed", failed)}
	}
	return nil
}

func (d *doctor) print(f finding) {
	if d.JSON {
		_ = printJSON(f) // main reports a failed write
		return
	}
	remedy := ""
	if f.Remedy != "" {
		remedy = "\n                  → " + f.Remedy
	}
	fmt.Fprintf(stdout, "%-4s  %-11s %s%s\n", f.Status, f.Check, f.Text, remedy)
}

func (d *doctor) checkAddress(ctx context.Context) finding {
	if _, _, err := net.SplitHostPort(d.Listen); err != nil {
		return fail("give --listen an address such as 127.0.0.1:8420", "invalid --listen %s", d.Listen)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, listenNetwork(d.Listen), d.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && isJobrunner(d.Listen):
		return warn("choose another address with --listen for a second one", "a jobrunner runs at %s already", d.Listen)
	case errors.Is(err, syscall.EADDRINUSE):
		return fail("stop the program that listens there, or choose another address with --listen; port 0 is any free port", "%s is in use", d.Listen)
	case err != nil:
		return fail("choose another address with --listen", "%s", err)
	}
	listener.Close()
	return ok("%s is free", d.Listen)
}

func isJobrunner(address string) bool {
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get("http://" + address + front.AliveRoute) //nolint:noctx // local, at most 2 seconds
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK && answer.Header.Get(httpanswer.RequestID) != ""
}

// Free disk space, in bytes, below which doctor fails or warns.
const (
	failFreeDisk = 100 << 20
	warnFreeDisk = 1 << 30
)

func (d *doctor) checkDataFolder(context.Context) finding {
	existing := d.Data // or its nearest existing parent
	for !exists(existing) && existing != filepath.Dir(existing) {
		existing = filepath.Dir(existing)
	}
	probe, err := os.CreateTemp(existing, ".gpucloud-doctor-")
	if err != nil {
		return fail("let this user write there, or choose another folder with --data", "%s can't be written: %s", d.Data, err)
	}
	probe.Close()
	os.Remove(probe.Name())
	free, err := freeBytes(existing)
	switch {
	case err != nil:
		return warn("", "%s can be written; the free space on its disk is unknown: %s", d.Data, err)
	case free < failFreeDisk:
		return fail("free some space, or choose another folder with --data", "%s can be written, and its disk has %d MiB free", d.Data, free>>20)
	case free < warnFreeDisk:
		return warn("with a full disk, new jobs are rejected: free some space", "%s can be written, and its disk has %d MiB free", d.Data, free>>20)
	}
	return ok("%s can be written, %d GiB free", d.Data, free>>30)
}

// checkDatabase reads the whole database.
func (d *doctor) checkDatabase(context.Context) finding {
	if !sqldb.HasDatabase(d.Data) {
		return ok("%s has no database yet", d.Data)
	}
	err := sqldb.Check(d.Data)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return fail("let this user read the folder, or choose another one with --data", "%s", err)
	} else if err != nil {
		return fail("do that; stop the jobrunner before the repair of a database", "%s", err)
	}
	return ok("the database in %s is intact", d.Data)
}

// checkGPUs checks the GPUs of the cluster that runs the images or, without a cluster, of this machine.
func (d *doctor) checkGPUs(ctx context.Context) finding {
	if d.programs == nil {
		return warn("correct what the check of images found", "unknown: the configuration decides where images run")
	}
	inventory, line, err := new(serve).gpus(ctx, d.programs, slog.New(slog.DiscardHandler))
	if err != nil {
		return fail("give the jobrunner its rights (docs/guides/kubernetes.md)", "%s", err)
	}
	defer inventory.Close()
	if slices.ContainsFunc(inventory.Devices(), func(g gpu.Device) bool { return g.Fault == "" }) {
		return ok("%s", line)
	}
	remedy := "for GPUs of this machine, install NVIDIA's driver, and use a build with GPU support; otherwise --simulate-gpus tests placement"
	if d.programs.Cluster() != nil {
		remedy = "if the nodes have GPUs, install NVIDIA's device plugin and GPU feature discovery in the cluster"
	}
	return warn(remedy, "%s", line)
}

// checkImages opens the executor without a data folder, so that it doesn't end running processes.
func (d *doctor) checkImages(ctx context.Context) finding {
	file := (&serve{Config: d.Config}).configFile(d.Data)
	programs, err := host.New(ctx, host.Config{File: file, OpenCluster: kubernetes.Open, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fail("correct the configuration (docs/reference/jobrunner.md, docs/guides/kubernetes.md)", "%s", err)
	}
	d.programs = programs
	text := strings.Join(programs.Describe(), "; ")
	if programs.LacksEngine() {
		remedy := "install Docker or Podman, or map images to programs in jobrunner.yaml (docs/reference/jobrunner.md)"
		if programs.HasRules() {
			remedy = "images without a rule can't run: install Docker or Podman, or add rules for them (docs/reference/jobrunner.md)"
		}
		return warn(remedy, "%s", text)
	}
	return ok("%s", text)
}

const raiseDescriptors = "raise the limit, for example with 'ulimit -n 65536' or LimitNOFILE of systemd"

// enoughDescriptors is enough for serve's default number of connections, workers and the state.
const enoughDescriptors = 8192

func (d *doctor) checkOpenFiles(context.Context) finding {
	switch n := httplimit.Descriptors(); {
	case n < minDescriptors:
		return fail(raiseDescriptors, "at most %d: serve needs %d", n, minDescriptors)
	case n < enoughDescriptors:
		return warn(raiseDescriptors, "at most %d: serve lowers --max-connections accordingly", n)
	}
	return ok("enough")
}

// earliestTime is before any release of this program.
var earliestTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (d *doctor) checkClock(context.Context) finding {
	now := time.Now()
	if now.Before(earliestTime) {
		return fail("set the clock: certificates, retention and bills depend on it", "%s is wrong", now.UTC().Format(time.RFC3339))
	}
	if known, synchronized := clockState(); known && !synchronized {
		return warn("enable a time service such as chrony or systemd-timesyncd", "%s, not synchronized", now.UTC().Format(time.RFC3339))
	}
	return ok("%s", now.UTC().Format(time.RFC3339))
}

// warnSkew is a clock difference that is noticeable in the times of jobs.
const warnSkew = time.Second

func (d *doctor) checkPostgres(ctx context.Context) finding {
	url, err := d.databaseURL()
	switch {
	case err != nil:
		return fail("correct --engine-file", "%s", err)
	case url == "":
		return ok("not used: the state is in the data folder")
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	db, err := sqldb.Open(ctx, sqldb.Config{URL: url, Connections: sqldb.MinConnections, NoNotify: true})
	if err != nil {
		return fail("start it, or correct --engine or --engine-file", "%s", err)
	}
	defer db.Close()
	var version string
	err = db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow("SELECT current_setting('server_version')").Scan(&version)
	})
	lag, lagErr := db.MeasureClockLag(ctx, time.Now)
	if err := errors.Join(err, lagErr); err != nil {
		return fail("correct --engine or --engine-file", "%s", err)
	}
	if skew := lag.Abs(); skew > warnSkew {
		return warn("synchronize both clocks with a time service", "version %s; its clock differs by %s", version, skew.Round(time.Millisecond))
	}
	return ok("version %s", version)
}

func (d *doctor) checkPython(ctx context.Context) finding {
	folder, err := os.Getwd()
	if err != nil {
		return warn("", "%s", err)
	}
	python := findPython(folder)
	if python.createEnv != nil { // doctor changes nothing
		return ok("from %s, which prepares it when a handler starts", python.origin)
	}
	env := host.Handler{}.Environment(nil)
	if err := python.check(ctx, env, folder, "", false); err != nil {
		return warn("only handlers in Python need it: install Python 3", "%s", err)
	}
	if err := python.check(ctx, env, folder, "", true); err != nil {
		return warn("only handlers in Python need it: "+python.install, "%s, without %s", &python, sdkPackage)
	}
	return ok("%s, with %s", &python, sdkPackage)
}

func (d *doctor) checkTerraform(ctx context.Context) finding {
	for _, name := range []string{"terraform", "tofu"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		var output struct {
			Version string `json:"terraform_version"`
		}
		if json.Unmarshal([]byte(commandOutput(ctx, "", nil, path, "version", "-json")), &output) != nil || output.Version == "" {
			return warn("only the provider needs it: reinstall it", "%s doesn't print its version", path)
		}
		return ok("%s %s (%s)", name, output.Version, path)
	}
	return warn("only the provider needs one of them: install it", "neither terraform nor tofu is on PATH")
}
