// Package diagnostics makes errors and warnings for the user of a kind, at the
// attribute that they are about.
package diagnostics

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// Check takes the errors and warnings of a rule. Attributes are dotted paths.
type Check struct{ Diagnostics *diag.Diagnostics }

// Error refuses the value of an attribute.
func (c Check) Error(attribute, summary, format string, args ...any) {
	c.ErrorAt(Path(attribute), summary, format, args...)
}

// Warn tells what the plan's reader should know; of the whole object where the
// attribute is "".
func (c Check) Warn(attribute, summary, format string, args ...any) {
	if attribute == "" {
		c.Diagnostics.AddWarning(summary, fmt.Sprintf(format, args...))
		return
	}
	c.WarnAt(Path(attribute), summary, format, args...)
}

// ErrorAt is Error at an element of a list or set, which a dotted path can't name.
func (c Check) ErrorAt(at path.Path, summary, format string, args ...any) {
	c.Diagnostics.AddAttributeError(at, summary, named(Name(at), summary, fmt.Sprintf(format, args...)))
}

// WarnAt is Warn at an element of a list or set.
func (c Check) WarnAt(at path.Path, summary, format string, args ...any) {
	c.Diagnostics.AddAttributeWarning(at, summary, named(Name(at), summary, fmt.Sprintf(format, args...)))
}

// named is a text that names its attribute: not every CLI can point into a
// nested one.
func named(attribute, summary, text string) string {
	if strings.Contains(summary+text, attribute) {
		return text
	}
	return attribute + ": " + text
}

// Name is how messages name an attribute: "gpu.type_ids", "cpu[0].vcpu_count". An
// element of a set has the set's.
func Name(at path.Path) string {
	name, _, _ := strings.Cut(at.String(), "[Value(")
	return name
}

// Path turns "gpu.type_ids" into the framework's path.
func Path(dotted string) path.Path {
	names := strings.Split(dotted, ".")
	p := path.Root(names[0])
	for _, name := range names[1:] {
		p = p.AtName(name)
	}
	return p
}
