package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
)

// goodDescriptors is enough for serve's default number of connections, workers and the state.
const goodDescriptors = 8192

func (d *doctor) openFiles(context.Context) finding {
	if n := httplimit.Descriptors(); n < goodDescriptors {
		return warn("raise the limit, for example with 'ulimit -n 65536' or LimitNOFILE of systemd", "at most %d: serve lowers --max-connections accordingly", n)
	}
	return ok("enough")
}

// earliest is older than any release of this program.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (d *doctor) clock(context.Context) finding {
	now := time.Now()
	if now.Before(earliest) {
		return fail("set the clock: certificates, retention and bills depend on it", "%s is wrong", now.UTC().Format(time.RFC3339))
	}
	if known, synchronized := clockState(); known && !synchronized {
		return warn("enable a time service such as chrony or systemd-timesyncd", "%s, not synchronized", now.UTC().Format(time.RFC3339))
	}
	return ok("%s", now.UTC().Format(time.RFC3339))
}

// moderateSkew is a clock difference that is noticeable in the times of jobs.
const moderateSkew = time.Second

func (d *doctor) postgres(ctx context.Context) finding {
	engine, err := d.engineURL()
	switch {
	case err != nil:
		return fail("correct --engine-file", "%s", err)
	case engine == "":
		return ok("not used: the state is in the data folder")
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, engine)
	if err != nil {
		return fail("start it, or correct --engine or --engine-file", "%s", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var version string
	var theirs time.Time
	before := time.Now()
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version'), clock_timestamp()").Scan(&version, &theirs); err != nil {
		return fail("correct --engine or --engine-file", "%s", err)
	}
	ours := before.Add(time.Since(before) / 2)
	if skew := theirs.Sub(ours).Abs(); skew > moderateSkew {
		return warn("synchronize both clocks with a time service", "version %s; its clock differs by %s", version, skew.Round(time.Millisecond))
	}
	return ok("version %s", version)
}

func (d *doctor) python(ctx context.Context) finding {
	folder, err := os.Getwd()
	if err != nil {
		return warn("", "%s", err)
	}
	found := findPython(folder)
	if found.creates { // doctor changes nothing
		return ok("from %s, which prepares it when a handler starts", found.from)
	}
	env := host.Handler{}.Environment(nil)
	if err := found.check(ctx, env, folder, "", false); err != nil {
		return warn("only handlers in Python need it: install Python 3", "%s", err)
	}
	if err := found.check(ctx, env, folder, "", true); err != nil {
		return warn("only handlers in Python need it: "+found.install, "%s, without %s", &found, sdkPackage)
	}
	return ok("%s, with %s", &found, sdkPackage)
}

func (d *doctor) terraform(ctx context.Context) finding {
	for _, name := range []string{"terraform", "tofu"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		var about struct {
			Version string `json:"terraform_version"`
		}
		if json.Unmarshal([]byte(commandOutput(ctx, "", nil, path, "version", "-json")), &about) != nil || about.Version == "" {
			return warn("only the provider needs it: reinstall it", "%s doesn't print its version", path)
		}
		return ok("%s %s (%s)", name, about.Version, path)
	}
	return warn("only the provider needs one of them: install it", "neither terraform nor tofu is on PATH")
}
