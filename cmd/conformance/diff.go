package main

import (
	"fmt"
	"os"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
)

type diff struct {
	Before string `arg:"" type:"existingfile" help:"Report of the earlier run (--json)."`
	After  string `arg:"" type:"existingfile" help:"Report of the later run (--json)."`
	JSON   bool   `name:"json" help:"Print JSON, a line for each change and one for the counts."`
}

// Help is printed below the help of the flags.
func (*diff) Help() string {
	return "Examples:\n  conformance diff before.json after.json\n  conformance diff before.json after.json --json > changes.json\n\n" +
		"The exit code is 1 if something got worse: a clause that was kept or not judged is broken, a clause that was kept isn't judged now, " +
		"nothing is judged now, or a client now fails in the scenario without faults. Otherwise it is 0. A clause that an option excludes (--select, --profile, --allow, --max-wait) is listed, but isn't worse. Neither is " +
		"a changed observation of an UNSPEC clause. A list of known deviations makes nothing better or worse."
}

func (d *diff) Run() error {
	before, err := readReport(d.Before)
	if err != nil {
		return err
	}
	after, err := readReport(d.After)
	if err != nil {
		return err
	}
	changes := report.Compare(before, after)
	if d.JSON {
		err = report.WriteDiffJSON(os.Stdout, changes)
	} else {
		err = report.WriteDiff(os.Stdout, changes, cli.Colours(os.Stdout))
	}
	if err != nil {
		return err
	}
	if changes.GotWorse() {
		return exit(conformance.ExitFailed)
	}
	return nil
}

func readReport(path string) (*report.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := report.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s can't be compared: %w", path, err)
	}
	return r, nil
}
