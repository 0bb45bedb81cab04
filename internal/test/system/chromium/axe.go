package chromium

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const axePackage = "axe-core@4.14.1"

// Axe is the accessibility checker axe-core.
type Axe struct{ script string }

// InstallAxe downloads axe-core from the npm registry. If that fails, the test is skipped, or in
// CI fails.
func InstallAxe(t testing.TB) Axe {
	t.Helper()
	skipOrFail := t.Skipf
	if os.Getenv("CI") != "" {
		skipOrFail = t.Fatalf
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), "npm", "install", "--prefix="+dir, "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", axePackage)
	if text, err := install.CombinedOutput(); err != nil {
		skipOrFail("npm install %s: %v\n%s", axePackage, err, text)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return Axe{string(script)}
}

// Check checks a tab against the rules of WCAG 2.2 A and AA and axe-core's best practices.
func (a Axe) Check(t *Tab, where string) {
	t.t.Helper()
	t.Eval("(() => {"+a.script+"\n;})()", nil)
	var result struct {
		Violations []string
		Passes     int
	}
	t.Eval(`axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((r) => ({
		violations: r.violations.map((v) => v.id + ': ' + v.help + '\n' + v.nodes.map((n) => '\t' + n.html.slice(0, 160) + '\n\t' + n.failureSummary.replaceAll('\n', ' ')).join('\n')),
		passes: r.passes.length,
	}))`, &result)
	if len(result.Violations) > 0 {
		t.t.Errorf("%s: axe-core found:\n%s", where, strings.Join(result.Violations, "\n"))
	}
	if result.Passes < 10 {
		t.t.Errorf("%s: axe-core checked almost nothing: %d rules passed", where, result.Passes)
	}
}
