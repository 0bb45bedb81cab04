package diagnostics

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// AttributeError is an error of a verb for which one attribute is to blame.
type AttributeError struct {
	Attribute string // dotted
	Err       error
}

// Error is the text of Err.
func (e *AttributeError) Error() string { return e.Err.Error() }

// Unwrap is Err.
func (e *AttributeError) Unwrap() error { return e.Err }

// Warning is a verb's success with a reservation.
type Warning struct{ Err error }

// Error is the text of Err.
func (w *Warning) Error() string { return w.Err.Error() }

// Unwrap is Err.
func (w *Warning) Unwrap() error { return w.Err }

// Run is one run of the provider, which reports a failure of the whole deployment
// once.
type Run struct{ outageReported atomic.Bool }

// Subject is the kind that a diagnostic is about.
type Subject struct {
	Title    string // in messages: "network volume"
	TypeName string // of the resource: "gpucloud_network_volume"
	Schema   schema.Schema
}

const notTried = "Not tried, for the same reason"

// Report makes a diagnostic of what a verb returned, at the attribute that the
// verb names, or the API ("$.workers.idleTimeout: …", RFC 9457 errors of
// management API v2).
func (r *Run) Report(diags *diag.Diagnostics, about Subject, verb, id string, err error) {
	summary := strings.TrimSpace(fmt.Sprintf("Could not %s the %s %s", verb, about.Title, id))
	switch {
	case !r.alreadyReported(err):
	case verb == "read": // the first error ends the run, and of equal warnings Terraform shows one
		diags.AddWarning(notTried, "The error about the deployment says why.")
		return
	default:
		diags.AddError(summary, notTried+": the error about the deployment says why.")
		return
	}
	text := err.Error() + imports(about.TypeName, err)
	if at, ok := errors.AsType[*AttributeError](err); ok {
		diags.AddAttributeError(Path(at.Attribute), summary, named(at.Attribute, summary, text))
		return
	}
	if refused, ok := errors.AsType[*api.Error](err); ok {
		for _, field := range refused.Fields {
			name := capitals.ReplaceAllStringFunc(member.FindString(field), func(s string) string { return "_" + strings.ToLower(s) })
			name = strings.TrimPrefix(name, "$.")
			if _, ok := about.Schema.Attributes[name]; ok {
				diags.AddAttributeError(path.Root(name), summary, text)
				return
			}
		}
	}
	diags.AddError(summary, text)
}

// Fail reports at an attribute that a question to the API failed.
func (r *Run) Fail(c Check, attribute, summary string, err error) {
	if r.alreadyReported(err) {
		c.Diagnostics.AddError(notTried, "")
		return
	}
	c.Error(attribute, summary, "%s", err)
}

// alreadyReported tells whether err is a failure of the whole deployment that an
// earlier call has reported; it counts this one as reported.
func (r *Run) alreadyReported(err error) bool {
	return api.IsDeploymentWide(err) && r.outageReported.Swap(true)
}

// imports names the commands for the objects that an error is about.
func imports(typeName string, err error) string {
	if unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err); ok {
		return unresolved.Imports(typeName)
	}
	return ""
}

var (
	member   = regexp.MustCompile(`^\$\.[A-Za-z]+`)
	capitals = regexp.MustCompile(`[A-Z]+`)
)
