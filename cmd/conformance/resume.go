package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// deferredSchema is the version of the file's form.
const deferredSchema = "gpucloud-conformance-deferred/1"

// deferred is the file of a run that goes on later: all but the keys.
type deferred struct {
	Schema string            `json:"schema"`
	Run    run               `json:"run"`
	State  conformance.State `json:"state"`
	Report *report.Report    `json:"report"`
}

func readDeferred(path string) (*deferred, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := new(deferred)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if d.Schema != deferredSchema || d.Report == nil {
		return nil, fmt.Errorf("%s is not of `conformance run --defer`, or of another version of it", path)
	}
	return d, nil
}

// write leaves the whole file or the one before.
func (d *deferred) write(path string) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-") // 0600
	if err != nil {
		return fmt.Errorf("keeping what is put off: %w", err)
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keeping what is put off: %w", err)
	}
	return nil
}

// store keeps what is to go on later, and says when.
func (d *deferred) store(path string) error {
	if len(d.State.Journals) == 0 {
		return nil
	}
	if err := d.write(path); err != nil {
		return err
	}
	fmt.Fprintf(d.Run.terminal(), "%d cases go on later: conformance resume %s, from %s on\n", len(d.State.Journals), path, d.State.Due().Local().Format(time.DateTime))
	return nil
}

type resume struct {
	File string `arg:"" type:"existingfile" help:"The file of run --defer."`

	reports `embed:""`
}

func (r *resume) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := r.check(); err != nil {
		return err
	}
	d, err := readDeferred(r.File)
	if err != nil {
		return err
	}
	d.Run.reports = r.reports // of both runs
	o, err := d.Run.options()
	if err != nil {
		return err
	}
	var end func()
	if o.Target, end, err = d.Run.resolveTarget(ctx); err != nil {
		return err
	}
	defer end()
	o.Pace = pace(&o.Target)
	o.Defer, o.Select = &d.State, d.State.Select()
	if len(o.Select) == 0 {
		return fmt.Errorf("nothing is left to go on with in %s", r.File)
	}
	shown := newProgress(os.Stderr)
	o.Progress = shown.show
	after, err := conformance.Judge(ctx, o)
	shown.end()
	if err != nil {
		return err
	}
	if after.Preflight != "" { // what was put off can still go on
		return d.Run.reportProgress(after)
	}
	conformance.Merge(d.Report, after)
	if len(d.State.Journals) > 0 {
		err = d.store(r.File)
	} else {
		err = os.Remove(r.File)
	}
	return errors.Join(err, d.Run.reportProgress(d.Report))
}
