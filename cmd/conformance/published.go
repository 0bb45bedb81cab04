package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// published has the flags for published reports.
type published struct {
	Implementation        string `placeholder:"NAME" help:"Name of the judged implementation, for a published report."`
	ImplementationVersion string `placeholder:"VERSION" help:"Version of the implementation."`
	Contact               string `placeholder:"URL" help:"URL or address of the implementation's maker."`
	Sign                  string `type:"existingfile" placeholder:"FILE" help:"Sign each JSON report with this Ed25519 private key (PEM); the signature is written to REPORT.sig."`
}

func (p *published) implementation() *report.Implementation {
	if p.Implementation == "" {
		return nil
	}
	return &report.Implementation{Name: p.Implementation, Version: p.ImplementationVersion, Contact: p.Contact}
}

// check rejects conflicting flags and a key that can't sign.
func (p *published) check(r *reports) error {
	if p.Implementation == "" && (p.ImplementationVersion != "" || p.Contact != "") {
		return fmt.Errorf("--implementation-version and --contact require --implementation")
	}
	if p.Sign == "" {
		return nil
	}
	if len(p.signable(r)) == 0 {
		return fmt.Errorf("--sign requires a JSON report: --json FILE")
	}
	key, err := os.ReadFile(p.Sign)
	if err == nil {
		_, err = report.Sign(nil, key)
	}
	if err != nil {
		return fmt.Errorf("--sign %s: %w", p.Sign, err)
	}
	return nil
}

func (p *published) signable(r *reports) (paths []string) {
	for _, o := range r.outputs() {
		if o.form.Name == "json" && o.path != "-" {
			paths = append(paths, o.path)
		}
	}
	return paths
}

// sign signs the JSON reports, which must have been written.
func (p *published) sign(r *reports) error {
	if p.Sign == "" {
		return nil
	}
	key, err := os.ReadFile(p.Sign)
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
			err = os.WriteFile(path+".sig", signature, 0o600)
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

// Help is printed below the help of the flags.
func (*verify) Help() string {
	return "Examples:\n  openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out public.pem\n" +
		"  conformance run --local --json report.json --sign key.pem\n  conformance verify report.json --key public.pem\n" +
		"  openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in report.json -sigfile report.json.sig\n\n" +
		"Exit codes: 0 the signature is valid; 2 it isn't, or a file can't be read."
}

func (v *verify) Run() error {
	if v.Signature == "" {
		v.Signature = v.Report + ".sig"
	}
	var files [3][]byte
	for i, path := range []string{v.Report, v.Signature, v.Key} {
		var err error
		files[i], err = os.ReadFile(path)
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
	fmt.Printf("valid signature: report on %s, run on %s with suite %s\n", r.Title(), r.Started.UTC().Format("2 January 2006"), r.Version)
	return nil
}

type compare struct {
	Reports []string `arg:"" type:"existingfile" help:"JSON reports, a column for each."`
	HTML    string   `name:"html" required:"" placeholder:"FILE" help:"The page to write."`
}

// Help is printed below the help of the flags.
func (*compare) Help() string {
	return "Example:\n  conformance compare one.json other.json --html compared.html"
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
	file, err := os.Create(c.HTML)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := report.WriteComparison(file, list); err != nil {
		return fmt.Errorf("writing %s: %w", c.HTML, err)
	}
	return file.Sync()
}
