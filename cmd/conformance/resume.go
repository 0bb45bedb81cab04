package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
)

// deferredSchema is the format version of the file that run --defer writes.
const deferredSchema = "gpucloud-conformance-deferred/1"

// deferredRun is the file of a run with deferred cases. It contains no API keys.
type deferredRun struct {
	Schema string                    `json:"schema"`
	Run    run                       `json:"run"`
	State  conformance.DeferredCases `json:"state"`
	Report *report.Report            `json:"report"`
}

func readDeferred(path string) (*deferredRun, error) {
	text, err := flagfile.Read(path)
	if err != nil {
		return nil, err
	}
	d := new(deferredRun)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if d.Schema != deferredSchema || d.Report == nil {
		return nil, fmt.Errorf("invalid file %s: expected a file that `conformance run --defer` of the same version wrote", path)
	}
	return d, nil
}

// checkDeferred rejects a file that can't be written. It also rejects an existing file, because it may
// have the deferred cases of another run.
func checkDeferred(path string) error {
	if path == "" {
		return nil
	}
	if path == "-" {
		return errors.New("invalid --defer -: expected a file for conformance resume")
	}
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("the file %s of --defer exists already: resume its run or remove it first", path)
	}
	if err := checkWritable(path); err != nil {
		return fmt.Errorf("the file %s of --defer can't be written: %w", path, err)
	}
	return nil
}

// store writes the deferred cases to a file, and prints when to resume. A resumed run without deferred
// cases is stored, too, until its reports are written.
func (d *deferredRun) store(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); err != nil && len(d.State.Journals) == 0 {
		fmt.Fprintln(d.Run.messageFile(), "0 cases deferred: there is nothing to resume")
		return nil
	}
	text, err := json.Marshal(d)
	if err == nil {
		err = writeFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("storing the deferred cases: %w", err)
	}
	if n := len(d.State.Journals); n > 0 {
		fmt.Fprintf(d.Run.messageFile(), "%s deferred: conformance resume %s, at %s or later\n", report.Count(n, "case"), path, d.State.Due().Local().Format(time.DateTime))
	}
	return nil
}

type resume struct {
	File string `arg:"" type:"existingfile" help:"The file that run --defer wrote."`

	reports `embed:""`
}

func (r *resume) Run() error {
	ctx, stop := interruptible()
	defer stop()
	d, err := readDeferred(r.File)
	if err != nil {
		return err
	}
	if err := r.checkReports(r.File, d.Run.Ledger, d.Run.Sign); err != nil {
		return err
	}
	d.Run.reports = r.reports // the flags of resume decide where the merged report is written
	o, stopTarget, err := d.Run.prepare(ctx)
	if err != nil {
		return err
	}
	defer stopTarget()
	o.Defer, o.Select = &d.State, d.State.Select()
	if len(o.Select) > 0 { // otherwise only the reports of an earlier resume are missing
		resumed, err := judge(ctx, o)
		if err != nil {
			return err
		}
		if resumed.Preflight != "" { // the deferred cases can still be resumed
			return d.Run.finish(resumed, nil)
		}
		conformance.Merge(d.Report, resumed)
	}
	err = d.Run.finish(d.Report, d.store(r.File))
	if _, isExit := errors.AsType[exitError](err); len(d.State.Journals) == 0 && (err == nil || isExit) {
		return cmp.Or(os.Remove(r.File), err) // only now, since neither a kill before nor a failed report may lose the run
	}
	return err
}
