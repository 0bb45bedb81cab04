package clauses

import (
	"reflect"
	"strings"
)

// Page is the generated page that has every clause, below the root of the
// repository.
const Page = "docs/clauses.md"

// module is the path of this module, which is where the repository is.
var module = strings.TrimSuffix(reflect.TypeFor[Clause]().PkgPath(), "/conformance/clauses")

// Anchor is the clause's anchor on Page.
func (c Clause) Anchor() string { return "#" + strings.ToLower(c.ID) }

// Link is the URL of the clause on Page of the main branch: reports link to it.
func (c Clause) Link() string { return "https://" + module + "/blob/main/" + Page + c.Anchor() }
