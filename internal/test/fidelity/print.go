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
| observed | later pages, public clients and servers ([contract](contract.md)) |
| chosen | this project's choice, because all sources are silent ([choices](contract.md#choices)) |

Operations marked *not served* answer 501. The clauses %s judge all operations and aren't repeated. Other tests cover served operations without clauses, with the operator's documents or public clients.
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
		b.WriteString("\n| Operation | Known | Clauses |\n|---|---|---|\n")
		for _, o := range operations() {
			if o.api != api.api {
				continue
			}
			known := o.known
			if !o.served {
				known = "not served; " + known
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o, known, short(judges(o, list)))
		}
	}
	return b.String(), nil
}
