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

// report makes a diagnostic of what a verb returned, at the attribute that the
// API names where it names one ("$.workers.idleTimeout: …", RFC 9457 errors of
// management API v2).
func (r *managed[M]) report(diags *diag.Diagnostics, verb, id string, err error) {
	summary := strings.TrimSpace(fmt.Sprintf("Could not %s the %s %s", verb, r.kind.Title, id))
	var refused *api.Error
	if errors.As(err, &refused) {
		for _, field := range refused.Fields {
			m := member.FindStringSubmatch(field)
			if m == nil {
				continue
			}
			name := capitals.ReplaceAllStringFunc(m[1], func(s string) string { return "_" + strings.ToLower(s) })
			if _, ok := r.kind.Schema.Attributes[name]; ok {
				diags.AddAttributeError(path.Root(name), summary, err.Error())
				return
			}
		}
	}
	diags.AddError(summary, err.Error())
}

var (
	member   = regexp.MustCompile(`^\$\.([A-Za-z]+)`)
	capitals = regexp.MustCompile(`[A-Z]+`)
)
