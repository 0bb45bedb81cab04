package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
)

// reports has the flags for report files, which are written in addition to the terminal's output.
type reports struct {
	Report []output `sep:"none" placeholder:"FORMAT=FILE" help:"Write the report as html, junit, markdown, har, ctrf, badge (SVG), shield (the badge's JSON) or json; - is the standard output. May be repeated."`
	JSON   string   `name:"json" placeholder:"FILE" help:"Short for --report json=FILE."`
}

// output is a report file, FORMAT=FILE.
type output struct {
	format report.Format
	path   string
}

func (o *output) UnmarshalText(text []byte) error {
	format, path, ok := strings.Cut(string(text), "=")
	if !ok || path == "" {
		return fmt.Errorf("invalid report %q: expected FORMAT=FILE, such as html=report.html", text)
	}
	var names []string
	for _, f := range report.Formats {
		if f.Name == format {
			*o = output{f, path}
			return nil
		}
		names = append(names, f.Name)
	}
	return fmt.Errorf("invalid report format %q: expected one of %s", format, strings.Join(names, ", "))
}

func (r *reports) outputs() []output {
	if r.JSON == "" {
		return r.Report
	}
	return append([]output{{report.Format{Name: "json", Write: report.WriteJSON}, r.JSON}}, r.Report...)
}

// checkReports rejects reports that can't be written, or that would overwrite one of the run's files.
func (r *reports) checkReports(files ...string) error {
	seen := map[string]bool{}
	for _, o := range r.outputs() {
		path := filepath.Clean(o.path)
		isSame := func(file string) bool {
			a, errA := filepath.Abs(file)
			b, errB := filepath.Abs(path)
			return errA == nil && errB == nil && a == b
		}
		switch {
		case path != "-" && slices.ContainsFunc(files, isSame):
			return fmt.Errorf("the report %s would overwrite a file of the run: write it to another file", o.path)
		case seen[path] && path == "-":
			return errors.New("two reports can't be on the standard output: write one of them to a file")
		case seen[path]:
			return fmt.Errorf("two reports can't be in the file %s: write one of them to another file", path)
		}
		seen[path] = true
		if path == "-" {
			continue
		}
		if dir, err := os.Stat(filepath.Dir(o.path)); err != nil || !dir.IsDir() {
			return fmt.Errorf("the report %s can't be written: the folder %s doesn't exist", o.path, filepath.Dir(o.path))
		}
		if err := checkWritable(o.path); err != nil {
			return fmt.Errorf("the report %s can't be written: %w", o.path, err)
		}
	}
	return nil
}

// checkWritable opens a file for writing. It neither changes an existing file nor leaves a new one, even
// behind a symbolic link. It doesn't open a FIFO, because closing it would end the input of its reader.
func checkWritable(path string) error {
	info, err := os.Stat(path)
	exists := err == nil
	if exists && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return errors.Unwrap(err)
	}
	if err := file.Close(); err != nil || exists {
		return err
	}
	target, err := filepath.EvalSymlinks(path)
	return errors.Join(err, os.Remove(target))
}

// messageFile returns the file for messages: the standard output, unless a report is written there.
func (r *reports) messageFile() *os.File {
	if slices.ContainsFunc(r.outputs(), func(o output) bool { return o.path == "-" }) {
		return os.Stderr
	}
	return os.Stdout
}

// writeReports writes all reports, and the summary of the CI job.
func (r *reports) writeReports(result *report.Report) error {
	var problems []error
	for _, o := range r.outputs() {
		problems = append(problems, o.write(result))
	}
	if summary := os.Getenv("GITHUB_STEP_SUMMARY"); summary != "" {
		problems = append(problems, appendSummary(summary, result))
	}
	return errors.Join(problems...)
}

func (o output) write(result *report.Report) error {
	var text bytes.Buffer
	err := o.format.Write(&text, result)
	if err == nil && o.path == "-" {
		_, err = os.Stdout.Write(text.Bytes())
	} else if err == nil {
		err = writeFile(o.path, text.Bytes())
	}
	if err != nil {
		return fmt.Errorf("writing the report as %s: %w", o.format.Name, err)
	}
	return nil
}

// writeFile replaces a file atomically, so that a full disk doesn't destroy an earlier report. If a rename can't
// replace the file, such as a FIFO, a mounted file, or a file in a read-only folder, it writes in place.
func writeFile(path string, text []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Lstat(path)
	exists := err == nil
	if exists && !info.Mode().IsRegular() {
		return os.WriteFile(path, text, 0o600)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".conformance-") // 0600
	if err == nil {
		defer os.Remove(file.Name()) // fails if the file was renamed
		_, err = file.Write(text)
		if exists {
			err = errors.Join(err, file.Chmod(info.Mode().Perm()))
		}
		if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
			err = os.Rename(file.Name(), path)
		}
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EBUSY) {
		return os.WriteFile(path, text, 0o600)
	}
	return err
}

// appendSummary appends to the job's summary, which other steps may have written.
func appendSummary(path string, result *report.Report) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = report.WriteMarkdown(file, result)
		_, endErr := io.WriteString(file, "\n")
		err = errors.Join(err, endErr, file.Close())
	}
	if err != nil {
		return fmt.Errorf("writing the summary of the job ($GITHUB_STEP_SUMMARY): %w", err)
	}
	return nil
}

type diff struct {
	Before string `arg:"" type:"existingfile" help:"Report of the earlier run (--json)."`
	After  string `arg:"" type:"existingfile" help:"Report of the later run (--json)."`
	JSON   bool   `name:"json" help:"Print JSON, a line for each change and one for the counts."`
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

// publication has the flags for published reports.
type publication struct {
	Implementation        string `placeholder:"NAME" help:"Name of the judged implementation, for a published report."`
	ImplementationVersion string `placeholder:"VERSION" help:"Version of the implementation."`
	Contact               string `placeholder:"URL" help:"URL or address of the implementation's maker."`
	Sign                  string `type:"existingfile" placeholder:"FILE" help:"Sign each JSON report with this Ed25519 private key (PEM); the signature is written to REPORT.sig."`
}

func (p *publication) implementation() *report.Implementation {
	if p.Implementation == "" {
		return nil
	}
	return &report.Implementation{Name: p.Implementation, Version: p.ImplementationVersion, Contact: p.Contact}
}

// checkPublication rejects conflicting flags and a key that can't sign.
func (p *publication) checkPublication(r *reports) error {
	if p.Implementation == "" && (p.ImplementationVersion != "" || p.Contact != "") {
		return fmt.Errorf("--implementation-version and --contact require --implementation")
	}
	if p.Sign == "" {
		return nil
	}
	if len(p.signable(r)) == 0 {
		return fmt.Errorf("--sign requires a JSON report: --json FILE")
	}
	key, err := flagfile.Read(p.Sign)
	if err == nil {
		_, err = report.Sign(nil, key)
	}
	if err != nil {
		return fmt.Errorf("--sign %s: %w", p.Sign, err)
	}
	return nil
}

func (p *publication) signable(r *reports) (paths []string) {
	for _, o := range r.outputs() {
		if o.format.Name == "json" && o.path != "-" {
			paths = append(paths, o.path)
		}
	}
	return paths
}

// signReports signs the JSON reports, which must have been written.
func (p *publication) signReports(r *reports) error {
	if p.Sign == "" {
		return nil
	}
	key, err := flagfile.Read(p.Sign)
	if err != nil {
		return err
	}
	for _, path := range p.signable(r) {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		signature, err := report.Sign(text, key)
		if err == nil {
			err = writeFile(path+".sig", signature)
		}
		if err != nil {
			return fmt.Errorf("signing %s: %w", path, err)
		}
	}
	return nil
}

type verify struct {
	Report    string `arg:"" type:"existingfile" help:"The JSON report."`
	Key       string `required:"" type:"existingfile" placeholder:"FILE" help:"Ed25519 public key of the signer (PEM)."`
	Signature string `placeholder:"FILE" help:"The signature. Default: REPORT.sig."`
}

func (v *verify) Run() error {
	v.Signature = cmp.Or(v.Signature, v.Report+".sig")
	var files [3][]byte
	for i, path := range []string{v.Report, v.Signature, v.Key} {
		var err error
		files[i], err = flagfile.Read(path)
		switch {
		case path == v.Signature && errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: name the file of the signature with --signature, or sign the report with run --sign", err)
		case err != nil:
			return err
		}
	}
	if err := report.Verify(files[0], files[1], files[2]); err != nil {
		return fmt.Errorf("%s: %w", v.Report, err)
	}
	r, err := readReport(v.Report)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("valid signature: report on %s, run on %s with suite %s\n", r.Title(), r.Started.UTC().Format("2 January 2006"), r.Version)
	return err
}

type compare struct {
	Reports []string `arg:"" type:"existingfile" help:"JSON reports, a column for each."`
	HTML    string   `name:"html" required:"" placeholder:"FILE" help:"The page to write; - is the standard output."`
}

func (c *compare) Run() error {
	var list []*report.Report
	for _, path := range c.Reports {
		r, err := readReport(path)
		if err != nil {
			return err
		}
		list = append(list, r)
	}
	page := func(w io.Writer, _ *report.Report) error { return report.WriteComparison(w, list) }
	return output{report.Format{Name: "html", Write: page}, c.HTML}.write(nil)
}
