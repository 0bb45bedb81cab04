// Package fidelity prints the table of all operations: whether the jobrunner serves them,
// how their behaviour is known, and which clauses of the conformance suite judge them.
package fidelity

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

//go:generate go test . -run ^TestPageIsCurrent$ -update

//go:embed marks.tsv
var marksTable string

// mark names clauses that judge operations.
type mark struct {
	operations *regexp.Regexp
	clauses    []string // ids
}

// operation is an operation in a row of the page.
type operation struct {
	api          contract.API
	method, path string
	served       bool
	basis        string
}

func (o operation) String() string { return o.method + " " + o.path }

// fullName returns the operation's name in marks.tsv.
func (o operation) fullName() string { return apiNames[o.api] + " " + o.String() }

var apiNames = map[contract.API]string{contract.V1: "v1", contract.V2: "v2", contract.Jobs: "jobs"}

// basePaths are the prefixes of paths in cases and statements.
var basePaths = map[contract.API]string{contract.V1: "/v1", contract.V2: "/v2", contract.Jobs: ""}

func operations() (list []operation) {
	for _, o := range contract.Operations {
		list = append(list, operation{o.API, o.Method, o.Path, true, basisOf(o.Source)})
	}
	for _, o := range contract.UnservedOperations {
		basis := "observed"
		if o.Guess {
			basis = "observed, the path is a guess"
		}
		list = append(list, operation{o.API, o.Method, o.Path, false, basis})
	}
	return list
}

// basisOf returns how the behaviour of an operation is known, given its source.
func basisOf(source string) string {
	for prefix, basis := range map[string]string{"service description: ": "described", "v1 document: ": "document", "v2 document: ": "document", "field notes: ": "observed", "changes of ": "observed"} {
		if strings.HasPrefix(source, prefix) {
			return basis
		}
	}
	return "chosen"
}

func marks() (list []mark, err error) {
	for line := range strings.Lines(marksTable) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		pattern, names, _ := strings.Cut(line, "\t")
		m := mark{}
		if m.operations, err = regexp.Compile(pattern); err != nil {
			return nil, err
		}
		for name := range strings.FieldsSeq(names) {
			ids := expand(name)
			if len(ids) == 0 {
				return nil, fmt.Errorf("marks.tsv: no clause is %s", name)
			}
			m.clauses = append(m.clauses, ids...)
		}
		list = append(list, m)
	}
	return list, nil
}

// expand lists the clauses of JOB-17, JOB-17..21 or JOB-*. All of a range must exist.
func expand(name string) (ids []string) {
	area, numbers, _ := strings.Cut(name, "-")
	if numbers == "*" {
		for _, c := range clauses.All() {
			if c.Area() == area {
				ids = append(ids, c.ID)
			}
		}
		return ids
	}
	first, last, isRange := strings.Cut(numbers, "..")
	if !isRange {
		last = first
	}
	from, _ := strconv.Atoi(first)
	to, _ := strconv.Atoi(last)
	for n := from; n <= to; n++ {
		id := fmt.Sprintf("%s-%02d", area, n)
		if _, ok := clauses.Find(id); !ok {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

// isCommon reports whether a mark applies to all operations, or to all of one API.
func (m mark) isCommon() bool {
	return slices.Contains([]string{".", "^v1 ", "^v2 ", "^jobs "}, m.operations.String())
}

// clausesOf returns the testable clauses of an operation by marks and statements, without common ones.
func clausesOf(o operation, list []mark) (ids []string) {
	if !o.served {
		return nil
	}
	found, common := map[string]bool{}, map[string]bool{}
	for _, m := range list {
		if !m.operations.MatchString(o.fullName()) {
			continue
		}
		for _, id := range m.clauses {
			if m.isCommon() {
				common[id] = true
			} else {
				found[id] = true
			}
		}
	}
	operationName := o.method + " " + basePaths[o.api] + o.path
	mention := regexp.MustCompile(regexp.QuoteMeta(strings.TrimSuffix(operationName, "/{job_id}")) + `($|[ ,.:])`)
	for _, c := range clauses.All() {
		if c.Untestable == "" && (found[c.ID] || mention.MatchString(c.Statement)) && !common[c.ID] {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// formatIDs formats ids with ranges: JOB-01, 04–06, SUB-02.
func formatIDs(ids []string) string {
	var parts []string
	area := ""
	for i := 0; i < len(ids); {
		name, number, _ := strings.Cut(ids[i], "-")
		n, _ := strconv.Atoi(number)
		j := i + 1
		for j < len(ids) && ids[j] == fmt.Sprintf("%s-%02d", name, n+j-i) {
			j++
		}
		text := number
		if j-i > 1 {
			text = fmt.Sprintf("%s–%02d", number, n+j-i-1)
		}
		if name != area {
			text, area = name+"-"+text, name
		}
		parts = append(parts, text)
		i = j
	}
	return strings.Join(parts, ", ")
}

const introduction = `# Fidelity

<!-- Printed from internal/test/fidelity; to renew it: go generate ./internal/test/fidelity -->

Every operation of the three APIs: whether the jobrunner serves it, how its behaviour is known, and which [clauses](clauses.md) of the conformance suite judge it.

| Source | Meaning |
|---|---|
| described | the service description (see [contract](contract.md)), which takes precedence |
| document | RunPod's OpenAPI documents of August 2026 |
| observed | RunPod's later documentation, public clients and servers ([contract](contract.md)) |

Operations marked *not served* answer 501. The clauses %s judge all operations and aren't repeated. Served operations without a clause are tested against RunPod's documents or with public clients.
`

func Markdown() (string, error) {
	list, err := marks()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range list {
		if m.operations.String() == "." {
			fmt.Fprintf(&b, introduction, formatIDs(m.clauses))
		}
	}
	for _, api := range []struct {
		api   contract.API
		title string
	}{{contract.V1, "Management API v1"}, {contract.V2, "Management API v2"}, {contract.Jobs, "Job API"}} {
		fmt.Fprintf(&b, "\n## %s\n", api.title)
		for _, m := range list {
			if m.operations.String() == "^"+apiNames[api.api]+" " {
				fmt.Fprintf(&b, "\nAll operations: %s.\n", formatIDs(m.clauses))
			}
		}
		b.WriteString("\n| Operations | Source | Clauses |\n|---|---|---|\n")
		for _, r := range rows(api.api, list) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.operations, r.basis, r.clauses)
		}
	}
	return b.String(), nil
}

type row struct{ operations, path, basis, clauses string }

// rows returns the rows of an API. Consecutive operations on one path share a row.
func rows(api contract.API, list []mark) (all []row) {
	for _, o := range operations() {
		if o.api != api {
			continue
		}
		r := row{o.String(), o.path, o.basis, formatIDs(clausesOf(o, list))}
		if !o.served {
			r.basis = "not served; " + r.basis
		}
		if n := len(all); n > 0 && all[n-1].path == r.path && all[n-1].basis == r.basis && all[n-1].clauses == r.clauses {
			all[n-1].operations = strings.TrimSuffix(all[n-1].operations, " "+r.path) + ", " + r.operations
			continue
		}
		all = append(all, r)
	}
	return all
}
