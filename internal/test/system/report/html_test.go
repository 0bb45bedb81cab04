// Package report_test reads the HTML report of the conformance suite in a browser.
package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestMain(m *testing.M) { os.Exit(chromium.Run(m)) }

// openReport opens the HTML report of a sample with every verdict.
func openReport(t *testing.T, tab *chromium.Tab) (address string) {
	t.Helper()
	text := must.ReadFile(t, "../../../../conformance/report/testdata/sample.json")
	sample := must.Do(report.Read(bytes.NewReader(text)))(t)
	i := slices.IndexFunc(report.Formats, func(f report.Format) bool { return f.Name == "html" })
	path := filepath.Join(t.TempDir(), "report.html")
	file := must.Do(os.Create(path))(t)
	must.Succeed(t, errors.Join(report.Formats[i].Write(file, sample), file.Close()))
	address = "file://" + path
	tab.Visit(address)
	tab.Do(chromedp.WaitVisible(chromedp.CSS("#tools")))
	return address
}

// The page shows and filters the report on a desktop and a phone, runs no script from its texts, downloads nothing.
func TestBrowser(t *testing.T) {
	for _, screen := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"desk", 1366, 900, false}, {"desk-dark", 1366, 900, true}, {"phone", 390, 844, true}} {
		t.Run(screen.name, func(t *testing.T) {
			tab := chromium.Open(t, screen.width, screen.height, screen.dark)
			address := openReport(t, tab)
			for selector, want := range map[string]string{
				"h1":              "Not conformant",
				".lead":           "1 FAIL, 1 UNEXPECTED-PASS, 1 ERROR",
				"header":          "https://gpus.example.com",
				".facts":          "26h0m0s",
				".levels":         "1 PASS, 1 SKIP, 1 BLOCKED, 1 INCONCLUSIVE, 1 ERROR, 1 UNEXPECTED-PASS, 1 FAIL",
				".alerts li":      "500 </script>",
				".note.bad":       "networkvolumes/abc",
				"#area-JOB h2":    "Jobs and their states",
				"#shown":          "11 clauses",
				"#JOB-04 summary": "<script>document.title='owned'</script>",
			} {
				tab.Shows(selector, want)
			}
			tab.CheckAccessibility("page")
			tab.Picture("report-" + screen.name)

			tab.Click(".alerts a")
			tab.Until(`document.querySelector('#JOB-02').open`)
			tab.Eval(`document.querySelectorAll('#JOB-02 .trace details').forEach((d) => d.open = true)`, nil)
			tab.Shows("#JOB-02",
				"Statement JOB-02 holds. (States and transitions, POST /run)", "Bearer $GPUCLOUD_API_KEY", "3/3 runs", "200, or 201 </script>", "500 </script>",
				"\"status\": \"RUNNING\"", "connection reset", "conformance explain JOB-02")
			tab.CheckAccessibility("clause")
			tab.Picture("report-clause-" + screen.name)

			for _, step := range []struct{ do, want string }{
				{`document.querySelector('[data-level=SHOULD]').click()`, "[JOB-03 T-01]"},
				{`document.querySelector('[data-verdict=PASS]').click()`, "[T-01]"},
				{`document.querySelector('#clear').click()`, "[JOB-01 JOB-02 JOB-03 JOB-04 JOB-05 JOB-06 JOB-07 JOB-08 JOB-09 JOB-10 T-01]"},
				{`document.querySelector('[data-verdict=FAIL]').click(); document.querySelector('[data-verdict=WARN]').click()`, "[JOB-02 JOB-03]"},
				{`document.querySelector('[data-verdict=FAIL]').click(); document.querySelector('[data-verdict=WARN]').click()`, "[JOB-01 JOB-02 JOB-03 JOB-04 JOB-05 JOB-06 JOB-07 JOB-08 JOB-09 JOB-10 T-01]"},
				{`document.querySelector('#q').value = 'template  ID'; document.querySelector('#q').dispatchEvent(new Event('input'))`, "[T-01]"},
				{`document.querySelector('#q').value = 'connection reset'; document.querySelector('#q').dispatchEvent(new Event('input'))`, "[JOB-02 JOB-03 JOB-06 JOB-07 JOB-10]"},
				{`document.querySelector('#q').value = 'nothing is like that'; document.querySelector('#q').dispatchEvent(new Event('input'))`, "[]"},
				{`document.querySelector('.no-match button').click()`, "[JOB-01 JOB-02 JOB-03 JOB-04 JOB-05 JOB-06 JOB-07 JOB-08 JOB-09 JOB-10 T-01]"},
			} {
				tab.Eval(step.do, nil)
				var visible []string
				tab.Eval(`[...document.querySelectorAll('.clause')].filter((c) => c.checkVisibility()).map((c) => c.id)`, &visible)
				must.Equal(t, fmt.Sprint(visible), step.want, "visible clauses after", step.do)
			}

			// Open an address with a filter, then the address of a clause that the filter hides.
			tab.Visit(address + "#?level=SHOULD&verdict=WARN")
			tab.Until(`[...document.querySelectorAll('.clause')].filter((c) => c.checkVisibility()).map((c) => c.id).join() === 'JOB-03'`)
			tab.Visit(address + "#T-01")
			tab.Until(`document.querySelector('#T-01').open && document.querySelector('#T-01').checkVisibility()`)

			var title string
			tab.Eval("document.title", &title)
			must.Hold(t, strings.HasPrefix(title, "Not conformant"), "the title is", title)
			for _, p := range tab.Problems() {
				t.Errorf("the console has %s", p)
			}
			for _, u := range tab.Requests() {
				must.Hold(t, strings.HasPrefix(u, address) || strings.HasPrefix(u, "data:"), "the report requests", u)
			}
		})
	}
}

// The content security policy blocks a foreign script, even if one gets into the page.
func TestPolicy(t *testing.T) {
	tab := chromium.Open(t, 800, 600, false)
	openReport(t, tab)
	tab.Eval(`(() => { const s = document.createElement('script'); s.textContent = "document.title = 'owned'"; document.body.append(s); })()`, nil)
	var title string
	tab.Eval("document.title", &title)
	must.Hold(t, title != "owned", "a foreign script ran: it changed the title")
}
