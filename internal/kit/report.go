package kit

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// AttributeError is an error of a verb for which one attribute is to blame.
type AttributeError struct {
	Attribute string // dotted
	Err       error
}

func (e *AttributeError) Error() string { return e.Err.Error() }
func (e *AttributeError) Unwrap() error { return e.Err }

// Warning is what a verb that succeeded has to say.
type Warning struct{ Err error }

func (w *Warning) Error() string { return w.Err.Error() }
func (w *Warning) Unwrap() error { return w.Err }

// report makes a diagnostic of what a verb returned, at the attribute that the
// verb names, or the API ("$.workers.idleTimeout: …", RFC 9457 errors of
// management API v2).
func (r *managed[M]) report(diags *diag.Diagnostics, verb, id string, err error) {
	summary := strings.TrimSpace(fmt.Sprintf("Could not %s the %s %s", verb, r.kind.Title, id))
	switch {
	case !r.run.alreadyReported(err):
	case verb == "read": // the first error ends the run, and of equal warnings Terraform shows one
		diags.AddWarning(notTried, "The error about the deployment says why.")
		return
	default:
		diags.AddError(summary, notTried+": the error about the deployment says why.")
		return
	}
	text := err.Error() + r.imports(err)
	var at *AttributeError
	if errors.As(err, &at) {
		diags.AddAttributeError(Path(at.Attribute), summary, named(at.Attribute, summary, text))
		return
	}
	var refused *api.Error
	if errors.As(err, &refused) {
		for _, field := range refused.Fields {
			m := member.FindStringSubmatch(field)
			if m == nil {
				continue
			}
			name := capitals.ReplaceAllStringFunc(m[1], func(s string) string { return "_" + strings.ToLower(s) })
			if _, ok := r.kind.Schema.Attributes[name]; ok {
				diags.AddAttributeError(path.Root(name), summary, text)
				return
			}
		}
	}
	diags.AddError(summary, text)
}

const notTried = "Not tried, for the same reason"

// alreadyReported tells whether err is a failure of the whole deployment that an
// earlier call has reported; it counts this one as reported.
func (run *Run) alreadyReported(err error) bool {
	return api.IsDeploymentWide(err) && run.failed.Swap(true)
}

// imports names the commands for the objects that an error is about.
func (r *managed[M]) imports(err error) string {
	if unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err); ok {
		return unresolved.Imports(r.typeName())
	}
	return ""
}

func (r *managed[M]) typeName() string { return r.run.Provider + "_" + r.kind.Name }

var (
	member   = regexp.MustCompile(`^\$\.([A-Za-z]+)`)
	capitals = regexp.MustCompile(`[A-Z]+`)
)
