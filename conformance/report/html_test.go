package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/chromium"
)

// shown is the page of a report in a tab, as the file that it is.
func shown(t *testing.T, tab *chromium.Tab, r *report.Report) (address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(written("html", r)), 0o600); err != nil {
		t.Fatal(err)
	}
	address = "file://" + path
	tab.Visit(address)
	tab.Do(chromedp.WaitVisible(chromedp.CSS("#tools")))
	return address
}

// clauses that are visible.
func visible(tab *chromium.Tab) (list []string) {
	tab.Eval(`[...document.querySelectorAll('.clause')].filter((c) => c.checkVisibility()).map((c) => c.id)`, &list)
	return list
}

// The page at the width of a desk and of a phone: what it says, what its filter
// leaves, and that nothing of the target's runs or is fetched.
func TestBrowser(t *testing.T) {
	b := chromium.Open(t)
	for _, screen := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"desk", 1366, 900, false}, {"desk-dark", 1366, 900, true}, {"phone", 390, 844, true}} {
		t.Run(screen.name, func(t *testing.T) {
			tab := b.Tab(t, screen.width, screen.height, screen.dark)
			address := shown(t, tab, sample())
			for selector, want := range map[string]string{
				"h1":              "Not conformant",
				".lead":           "2 of 11 clauses kept; 1 MUST clause is broken; 1 weaker clause is not kept",
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
			tab.Readable("page")
			tab.Picture("report-" + screen.name)

			tab.Click(".alerts a")
			tab.Until(`document.querySelector('#JOB-02').open`)
			tab.Eval(`document.querySelectorAll('#JOB-02 .trace details').forEach((d) => d.open = true)`, nil)
			tab.Shows("#JOB-02",
				"Statement JOB-02 holds. (States and transitions, POST /run)", "Bearer $GPUCLOUD_API_KEY", "3/3 times", "200, or 201 </script>", "500 </script>",
				"\"status\": \"RUNNING\"", "connection reset", "conformance explain JOB-02")
			tab.Readable("clause")
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
				{`document.querySelector('.none button').click()`, "[JOB-01 JOB-02 JOB-03 JOB-04 JOB-05 JOB-06 JOB-07 JOB-08 JOB-09 JOB-10 T-01]"},
			} {
				tab.Eval(step.do, nil)
				if got := fmt.Sprint(visible(tab)); got != step.want {
					t.Errorf("after %s: %s, not %s", step.do, got, step.want)
				}
			}

			// The address of a filter, and then of a clause that it hides.
			tab.Visit(address + "#?level=SHOULD&verdict=WARN")
			tab.Until(`[...document.querySelectorAll('.clause')].filter((c) => c.checkVisibility()).map((c) => c.id).join() === 'JOB-03'`)
			tab.Visit(address + "#T-01")
			tab.Until(`document.querySelector('#T-01').open && document.querySelector('#T-01').checkVisibility()`)

			var title string
			if tab.Eval("document.title", &title); !strings.HasPrefix(title, "Not conformant") {
				t.Errorf("the title is %s", title)
			}
			for _, p := range tab.Problems() {
				t.Errorf("the console has %s", p)
			}
			for _, u := range tab.Requests() {
				if !strings.HasPrefix(u, address) && !strings.HasPrefix(u, "data:") {
					t.Errorf("a request to %s", u)
				}
			}
		})
	}
}

// The policy alone keeps a foreign script from running, even if one got through.
func TestPolicy(t *testing.T) {
	tab := chromium.Open(t).Tab(t, 800, 600, false)
	shown(t, tab, sample())
	tab.Eval(`(() => { const s = document.createElement('script'); s.textContent = "document.title = 'owned'"; document.body.append(s); })()`, nil)
	var title string
	if tab.Eval("document.title", &title); title == "owned" {
		t.Error("a script that is not the page's runs")
	}
}

// What could not be judged at all is told, too.
func TestPreflightPage(t *testing.T) {
	r := &report.Report{Schema: report.Schema, Preflight: "unreachable: GET http://127.0.0.1:1/: connection refused", Exit: 3}
	text := written("html", r)
	if !strings.Contains(text, "Nothing could be judged") || !strings.Contains(text, "connection refused") {
		t.Error(text)
	}
}

// Every area of the registry has a title.
func TestAreas(t *testing.T) {
	for _, c := range clauses.All() {
		r := &report.Report{Results: []report.Result{{Clause: c.ID, Area: c.Area(), Level: string(c.Level), Verdict: report.Pass}}}
		if strings.Contains(written("html", r), "<h2>"+c.Area()+" ") {
			t.Fatalf("the area %s has no title in report/areas.go", c.Area())
		}
	}
}
