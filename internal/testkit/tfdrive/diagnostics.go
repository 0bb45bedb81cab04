package tfdrive

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Diagnostics are the diagnostics of the provider.
type Diagnostics []*tfprotov6.Diagnostic

// Err returns the errors, each as "path: summary: detail", or nil.
func (ds Diagnostics) Err() error {
	if text := ds.text(tfprotov6.DiagnosticSeverityError); text != "" {
		return fmt.Errorf("%s", text)
	}
	return nil
}

// Warnings returns the warnings.
func (ds Diagnostics) Warnings() string { return ds.text(tfprotov6.DiagnosticSeverityWarning) }

func (ds Diagnostics) text(severity tfprotov6.DiagnosticSeverity) string {
	var lines []string
	for _, d := range ds {
		if d.Severity == severity {
			lines = append(lines, fmt.Sprintf("%s: %s: %s", dottedPath(d.Attribute), d.Summary, d.Detail))
		}
	}
	return strings.Join(lines, "\n")
}

func (ds Diagnostics) String() string {
	return strings.TrimSpace(ds.text(tfprotov6.DiagnosticSeverityError) + "\n" + ds.Warnings())
}

func dottedPath(p *tftypes.AttributePath) string {
	if p == nil {
		return ""
	}
	var names []string
	for _, step := range p.Steps() {
		switch step := step.(type) {
		case tftypes.AttributeName:
			names = append(names, string(step))
		case tftypes.ElementKeyInt:
			names = append(names, fmt.Sprint(int64(step)))
		case tftypes.ElementKeyString:
			names = append(names, string(step))
		default:
			names = append(names, "*")
		}
	}
	return strings.Join(names, ".")
}
