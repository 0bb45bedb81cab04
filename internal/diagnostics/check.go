// Package diagnostics reports errors and warnings to users at the attribute that caused them.
package diagnostics

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// Check collects the errors and warnings of a rule. Attributes are dotted paths.
type Check struct{ Diagnostics *diag.Diagnostics }

func (c Check) Error(attribute, summary, format string, args ...any) {
	c.ErrorAt(Path(attribute), summary, format, args...)
}

// Warn reports a warning at an attribute, or about the whole object if attribute is "".
func (c Check) Warn(attribute, summary, format string, args ...any) {
	if attribute == "" {
		c.Diagnostics.AddWarning(summary, fmt.Sprintf(format, args...))
		return
	}
	c.WarnAt(Path(attribute), summary, format, args...)
}

// ErrorAt is Error for an element of a list or set, which a dotted path can't express.
func (c Check) ErrorAt(at path.Path, summary, format string, args ...any) {
	c.Diagnostics.AddAttributeError(at, summary, withAttributeName(Name(at), summary, fmt.Sprintf(format, args...)))
}

// WarnAt is Warn for an element of a list or set.
func (c Check) WarnAt(at path.Path, summary, format string, args ...any) {
	c.Diagnostics.AddAttributeWarning(at, summary, withAttributeName(Name(at), summary, fmt.Sprintf(format, args...)))
}

// withAttributeName makes a text name its attribute: not every CLI shows where nested attributes are.
func withAttributeName(attribute, summary, text string) string {
	if strings.Contains(summary+text, attribute) {
		return text
	}
	return attribute + ": " + text
}

// Name formats a path for messages: "gpu.type_ids", "cpu[0].vcpu_count". An element of a set gets the set's name.
func Name(at path.Path) string {
	name, _, _ := strings.Cut(at.String(), "[Value(")
	return name
}

// Path converts "gpu.type_ids" to the framework's path.
func Path(dotted string) path.Path {
	names := strings.Split(dotted, ".")
	p := path.Root(names[0])
	for _, name := range names[1:] {
		p = p.AtName(name)
	}
	return p
}
