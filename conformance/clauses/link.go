package clauses

import (
	"reflect"
	"strings"
)

// Page is the path, in the repository, of the generated page with all clauses.
const Page = "docs/reference/clauses.md"

// module is the path of this module, and so the address of its repository.
var module = strings.TrimSuffix(reflect.TypeFor[Clause]().PkgPath(), "/conformance/clauses")

// Anchor is the clause's anchor on Page.
func (c Clause) Anchor() string { return "#" + strings.ToLower(c.ID) }

// Link is the URL of the clause on Page of the main branch: reports link to it.
func (c Clause) Link() string { return "https://" + module + "/blob/main/" + Page + c.Anchor() }
