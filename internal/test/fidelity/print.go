package fidelity

import (
	"fmt"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

const introduction = `# Fidelity

<!-- Printed from internal/test/fidelity; to renew it: go generate ./internal/test/fidelity -->

Every operation of the three APIs: whether the jobrunner serves it, how its behaviour is known, and which [clauses](clauses.md) of the conformance suite judge it.

| Known | Meaning |
|---|---|
| described | the service description, which takes precedence |
| document | the operator's OpenAPI documents of August 2026 |
| observed | the operator's later documentation, public clients and servers ([contract](contract.md)) |
| chosen | this project's choice, because all sources are silent ([choices](contract.md#choices)) |

Operations marked *not served* answer 501. The clauses %s judge all operations and aren't repeated. Operations that are served but have no clause are tested against the operator's documents or with public clients.
`

// Markdown returns the page.
func Markdown() (string, error) {
	list, err := marks()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range list {
		if m.operations.String() == "." {
			fmt.Fprintf(&b, introduction, short(m.clauses))
		}
	}
	for _, api := range []struct {
		api   contract.API
		title string
	}{{contract.V1, "Management API v1"}, {contract.V2, "Management API v2"}, {contract.Jobs, "Job API"}} {
		fmt.Fprintf(&b, "\n## %s\n", api.title)
		for _, m := range list {
			if m.operations.String() == "^"+apiNames[api.api]+" " {
				fmt.Fprintf(&b, "\nAll operations: %s.\n", short(m.clauses))
			}
		}
		b.WriteString("\n| Operations | Source | Clauses |\n|---|---|---|\n")
		for _, r := range rows(api.api, list) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.operations, r.known, r.clauses)
		}
	}
	return b.String(), nil
}

type row struct{ operations, path, known, clauses string }

// rows returns the rows of an API. Consecutive operations on a path that differ only in their
// method share a row.
func rows(api contract.API, list []mark) (all []row) {
	for _, o := range operations() {
		if o.api != api {
			continue
		}
		r := row{o.String(), o.path, o.known, short(judges(o, list))}
		if !o.served {
			r.known = "not served; " + r.known
		}
		if n := len(all); n > 0 && all[n-1].path == r.path && all[n-1].known == r.known && all[n-1].clauses == r.clauses {
			all[n-1].operations = strings.TrimSuffix(all[n-1].operations, " "+r.path) + ", " + r.operations
			continue
		}
		all = append(all, r)
	}
	return all
}
