package fidelity

import (
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobrunnertest"
)

//go:generate go test . -run ^TestPageIsCurrent$ -update

var update = flag.Bool("update", false, "write docs/reference/fidelity.md")

const page = "../../../docs/reference/fidelity.md"

func TestPageIsCurrent(t *testing.T) {
	want := markdown(t)
	if *update {
		must.Succeed(t, os.WriteFile(page, []byte(want), 0o644))
	}
	must.Equal(t, string(must.ReadFile(t, page)), want, "docs/reference/fidelity.md isn't current: run go generate ./internal/test/fidelity")
}

// Every mark matches an operation, and every testable clause has an operation.
func TestMarks(t *testing.T) {
	list := marks(t)
	hasOperation := map[string]bool{} // by clause
	for _, m := range list {
		must.Hold(t, slices.ContainsFunc(operations(), func(o operation) bool { return o.served && m.operations.MatchString(o.fullName()) }),
			"no served operation matches", m.operations)
		if m.isCommon() {
			for _, id := range m.clauses {
				hasOperation[id] = true
			}
		}
	}
	for _, o := range operations() {
		for _, id := range clausesOf(o, list) {
			hasOperation[id] = true
		}
	}
	for _, c := range clauses.All() {
		must.Hold(t, hasOperation[c.ID] || c.Untestable != "", c.ID, "has no operation: add it to marks.tsv; it says", c.Statement)
	}
}

func TestFormatIDs(t *testing.T) {
	must.Equal(t, formatIDs([]string{"JOB-01", "JOB-03", "JOB-04", "JOB-05", "SUB-09", "SUB-10"}), "JOB-01, 03–05, SUB-09–10")
}

// Served operations answer, and all others answer 501.
func TestServedAsPrinted(t *testing.T) {
	j := jobrunnertest.Start(t)
	endpoint := j.Endpoint("builtin/echo")
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	for _, o := range operations() {
		bases := []string{basePaths[o.api]}
		if o.api == contract.Jobs {
			bases = []string{"/v2/" + endpoint}
			if o.served {
				bases = append(bases, "/live/v2/"+endpoint)
			}
		}
		differences := 0 // the number of base paths at which the jobrunner doesn't do what the page says
		for _, base := range bases {
			request := must.Do(http.NewRequestWithContext(t.Context(), o.method, j.URL+base+parameter.ReplaceAllString(o.path, "x"), strings.NewReader("{")))(t)
			request.Header.Set("Authorization", "Bearer "+j.Key)
			response := must.Do(http.DefaultClient.Do(request))(t)
			text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
			response.Body.Close()
			must.Succeed(t, err)
			unknown := response.StatusCode == http.StatusMethodNotAllowed || strings.Contains(string(text), "there is nothing at")
			if unknown || o.served == (response.StatusCode == http.StatusNotImplemented) {
				differences++
			}
		}
		must.Hold(t, differences != len(bases), o.fullName(), "is served according to the page:", o.served, "and the jobrunner does the opposite")
	}
}
