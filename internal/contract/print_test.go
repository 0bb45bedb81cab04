package contract

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

var update = flag.Bool("update", false, "write docs/reference/contract.md anew")

const document = "../../docs/reference/contract.md"

func TestDocumentIsCurrent(t *testing.T) {
	want := Markdown()
	if *update {
		must.Succeed(t, os.WriteFile(document, []byte(want), 0o644))
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatalf("%v; write it with: go generate ./internal/contract", err)
	}
	if string(got) == want {
		return
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(want, "\n")
	for i, line := range wantLines {
		if i >= len(gotLines) || gotLines[i] != line {
			t.Fatalf("docs/reference/contract.md differs from the table in line %d, want\n%s\nrenew it with: go generate ./internal/contract", i+1, line)
		}
	}
	t.Fatalf("docs/reference/contract.md has more lines than the table; renew it with: go generate ./internal/contract")
}

// An unescaped cell or a line break in a cell would break its table.
func TestEveryTableHasItsColumns(t *testing.T) {
	columns := 0
	for n, line := range strings.Split(Markdown(), "\n") {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		bars := strings.Count(line, "|") - strings.Count(line, `\|`)
		if columns == 0 {
			columns = bars
		}
		must.Hold(t, bars == columns && strings.HasSuffix(line, "|"), "line", n+1, "has", bars, "bars, its table has", columns, line)
	}
}

func TestEveryFieldOperationAndChoiceIsPrinted(t *testing.T) {
	rows := 0
	for line := range strings.Lines(Markdown()) {
		switch {
		case strings.HasPrefix(line, "| "):
			rows++
		case strings.HasPrefix(line, "Without further rules:"):
			rows += strings.Count(line, "`") / 2
		}
	}
	operationTables, fieldTables, rest := 2, 0, len(Operations)
	for _, api := range []API{V2, Jobs} { // v1 is in its OpenAPI document
		fieldTables += len(slices.DeleteFunc(Resources(api), func(name string) bool { return !isPrinted(api, name) }))
	}
	for _, f := range Fields {
		if f.API != V1 && isPrinted(f.API, f.Resource) {
			rest++
		}
	}
	for _, o := range Operations {
		if o.API == V1 {
			rest--
		}
	}
	legend := 1 + 3
	want := rest + len(Choices) + operationTables + fieldTables + len(choiceGroups) + legend
	must.Equal(t, rows, want, "table lines")
}

func TestCells(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"bounds", values(f("a", "integer", every, between(10, 4096), unit("GB"))), "10 to 4096 GB"},
		{"bounds or zero", values(f("a", "integer", every, between(5000, 604800000), orZero, unit("ms"))), "0, or 5000 to 604800000 ms"},
		{"fraction", values(f("a", "number", every, atLeast(0.5), unit("s"))), "at least 0.5 s"},
		{"length", values(f("a", "string", every, atMost(191))), "at most 191 characters"},
		{"open list", values(f("a", "[]string", every, atLeast(1), known(GPUPools))), "not empty; [GPU pools](#gpu-pools)"},
		{"values", values(f("a", "string", every, oneOf("X", "Y"))), "`X`, `Y`"},
		{"form", values(f("a", "[]string", every, form(Port))), `\<port>/\<http|tcp> with a port from 1 to 65535, such as 8000/http`},
		{"clearing value", values(f("a", "string", every, clears(`""`))), "cleared by `\"\"`"},
		{"common failures", numbers(commonErrors(Jobs)), "401, 403, 404, 429, 500"},
		{"unit alone", values(f("a", "integer", Read, unit("ms"))), "ms"},
		{"bodies", usesOf(f("a", "string", every, required(Create|Read))), `C\*UR\*`},
		{"type", typeOf(f("a", "[]string", every, nullable)), "array of string or null"},
		{"default", defaultOf(f("a", "string", every, defaultTo(`""`))), "`\"\"`"},
		{"default of all", defaultOf(f("a", "[]string", every, defaultTo(jsonList(DataCenterIDs)))), "all [Data centers](#data-centers)"},
	} {
		must.Equal(t, c.got, c.want, c.name)
	}
}
