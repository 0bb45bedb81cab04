package diagnostics

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// AttributeError is an error of an operation caused by one attribute.
type AttributeError struct {
	Attribute string // dotted
	Err       error
}

func (e *AttributeError) Error() string { return e.Err.Error() }

func (e *AttributeError) Unwrap() error { return e.Err }

// Warning is the error of an operation that succeeded, except for a part that needs attention.
type Warning struct{ Err error }

func (w *Warning) Error() string { return w.Err.Error() }

func (w *Warning) Unwrap() error { return w.Err }

// Run is one run of the provider. It reports a failure of the whole deployment only once, and a key without
// access to a kind once per kind.
type Run struct {
	outageReported atomic.Bool
	forbidden      sync.Map // titles of kinds
}

// Subject is the kind of object in a diagnostic.
type Subject struct {
	Title    string // in messages: "network volume"
	TypeName string // of the resource: "gpucloud_network_volume"
	Schema   schema.Schema
}

const (
	notTried      = "Not tried, for the same reason"
	seeFirstError = "The first error of this run says why."
)

// Report converts the error of an operation to a diagnostic, at the attribute that the operation or the API
// names ("$.workers.idleTimeout: …", RFC 9457 errors of management API v2).
func (r *Run) Report(diags *diag.Diagnostics, subject Subject, verb, id string, err error) {
	summary := strings.TrimSpace(fmt.Sprintf("Could not %s the %s %s", verb, subject.Title, id))
	switch {
	case !api.IsDeploymentWide(err):
	case verb == "read":
		if r.WarnIfRepeated(diags) {
			return
		}
	case r.alreadyReported(err):
		diags.AddError(summary, notTried+": the first error of this run says why.")
		return
	}
	if failure, ok := errors.AsType[*api.Error](err); ok && failure.Status == http.StatusForbidden && verb == "read" {
		if _, reported := r.forbidden.LoadOrStore(subject.Title, true); reported {
			diags.AddWarning("Not read, for the same reason", "The first error about a "+subject.Title+" says why.")
			return
		}
	}
	text := err.Error()
	if unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err); ok {
		text += unresolved.Imports(subject.TypeName)
	}
	if e, ok := errors.AsType[*AttributeError](err); ok {
		diags.AddAttributeError(Path(e.Attribute), summary, withAttributeName(e.Attribute, summary, text))
		return
	}
	if verb == "update" && api.IsNotFound(err) {
		text = "The " + subject.Title + " was deleted after the plan. Plan again to create it. " + text
	}
	if failure, ok := errors.AsType[*api.Error](err); ok {
		for _, field := range failure.Fields {
			name := AttributeName(strings.TrimPrefix(member.FindString(field), "$."))
			if _, ok := subject.Schema.Attributes[name]; ok {
				diags.AddAttributeError(path.Root(name), summary, text)
				return
			}
		}
	}
	diags.AddError(summary, text)
}

// WarnIfRepeated reports whether this run has reported a failure of the whole deployment before. If so, it
// adds a warning instead of a further error, because Terraform merges equal warnings. If not, the caller
// must report the failure as an error; the next call returns true.
func (r *Run) WarnIfRepeated(diags *diag.Diagnostics) bool {
	repeats := r.outageReported.Swap(true)
	if repeats {
		diags.AddWarning(notTried, seeFirstError)
	}
	return repeats
}

// Fail reports a failed request to the API at an attribute.
func (r *Run) Fail(c Check, attribute, summary string, err error) {
	if r.alreadyReported(err) {
		c.Diagnostics.AddError(notTried, seeFirstError)
		return
	}
	c.Error(attribute, summary, "%s", err)
}

// alreadyReported reports whether err concerns the whole deployment and this run has already reported
// such a failure. The next call with such an error returns true.
func (r *Run) alreadyReported(err error) bool {
	return api.IsDeploymentWide(err) && r.outageReported.Swap(true)
}

var (
	member   = regexp.MustCompile(`^\$\.[A-Za-z]+`)
	capitals = regexp.MustCompile(`[A-Z]+`)
)

// AttributeName converts the path of an API's member to snake_case.
func AttributeName(path string) string {
	return strings.ToLower(capitals.ReplaceAllString(strings.ReplaceAll(path, "[]", ""), "_$0"))
}
