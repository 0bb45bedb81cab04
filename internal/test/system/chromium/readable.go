package chromium

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// axe returns the script of the accessibility checker axe-core.
var axe = sync.OnceValues(func() (script string, err error) {
	dir, err := os.MkdirTemp("", "gpucloud-axe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	const version = "axe-core@4.14.1"
	install := exec.Command("npm", "install", "--prefix="+dir, "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", version) //nolint:noctx // all tests share the result
	if text, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install %s: %w\n%s", version, err, text)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	return string(text), err
})

// CheckAccessibility checks that nothing is wider than the screen, and checks the page with axe-core against
// the rules of WCAG 2.2 A and AA and axe-core's best practices. If npm can't install axe-core, the
// test fails in CI; elsewhere it leaves out that check.
func (t *Tab) CheckAccessibility(where string) {
	t.t.Helper()
	var wide []string
	t.Eval(`[...document.querySelectorAll('body *')].filter((e) => {
		const box = e.getBoundingClientRect();
		return box.width > 1 && !e.closest('svg, .hidden, .skip, thead') && box.right > innerWidth + 1;
	}).map((e) => e.outerHTML.slice(0, 120)).concat(document.documentElement.scrollWidth > innerWidth ? ['the document'] : [])`, &wide)
	if len(wide) > 0 {
		t.t.Errorf("%s: wider than the screen: %s", where, strings.Join(wide, "\n"))
	}
	script, err := axe()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.t.Fatal(err)
		}
		t.t.Log("without axe-core:", err)
		return
	}
	t.Eval("void (globalThis.axe ?? (() => {"+script+"\n;})())", nil)
	var result struct {
		Violations []string
		Passes     int
	}
	// At the top of the page, because the sticky header hides what is scrolled below it.
	t.Eval(`scrollTo(0, 0), axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((r) => ({
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
