package provider_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// cliGuide has the table of features by CLI.
const cliGuide = "../docs/reference/terraform-versions.md"

// series returns the name of a CLI's column.
func series(cli tfcli.CLI) string {
	text := cli.String()
	return text[:strings.LastIndex(text, ".")]
}

// readGuide returns the guide's text without line breaks, and its only table.
func readGuide(t *testing.T) (text string, columns map[string]int, rows map[string][]string) {
	t.Helper()
	guide := string(must.ReadFile(t, cliGuide))
	for line := range strings.Lines(guide) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !ok {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case columns == nil:
			columns, rows = map[string]int{}, map[string][]string{}
			for i, name := range cells[1:] {
				columns[name] = i
			}
		case strings.Trim(cells[0], "-") != "":
			rows[cells[0]] = cells[1:]
		}
	}
	must.Require(t, len(columns) != 0, cliGuide, "has no table")
	return strings.Join(strings.Fields(guide), " "), columns, rows
}
