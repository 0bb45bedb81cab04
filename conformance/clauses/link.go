package clauses

import (
	"reflect"
	"strings"
)

// Page is the path of the generated page with all clauses.
const Page = "docs/reference/clauses.md"

// module is this module's path, which is also the address of its repository.
var module = strings.TrimSuffix(reflect.TypeFor[Clause]().PkgPath(), "/conformance/clauses")

// Anchor is the clause's anchor on Page.
func (c Clause) Anchor() string { return "#" + strings.ToLower(c.ID) }

// Link is the address of the clause on Page of the main branch.
func (c Clause) Link() string { return "https://" + module + "/blob/main/" + Page + c.Anchor() }
