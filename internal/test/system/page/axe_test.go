package page_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// Every view and dialog passes axe-core, in both colour schemes and on a phone.
func TestAccessibility(t *testing.T) {
	if testing.Short() {
		t.Skip("npm downloads axe-core: see make test-all")
	}
	all := chromium.Open(t)
	axe := chromium.InstallAxe(t)
	c := new(clock.Clock)
	m := newBusyMachine(c)
	p := page.New(page.Config{Source: m, Keys: apikey.New(key), Clock: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Version: "1.2.3"})
	defer p.Close()
	m.work(p)
	server := httptest.NewServer(page.Local(false, p))
	t.Cleanup(server.Close) // after the browser, whose tab may hold a request
	for _, screen := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"desk", 1366, 900, false}, {"phone-dark", 390, 844, true}} {
		t.Run(screen.name, func(t *testing.T) {
			tab := all.Tab(t, screen.width, screen.height, screen.dark)
			tab.Visit(server.URL)
			tab.Until(`!document.querySelector('#signin').hidden`)
			axe.Check(tab, "sign-in")
			tab.Eval(`document.querySelector('#key').value = `+quoted(key)+`; document.querySelector('#signin-form').requestSubmit()`, nil)
			tab.Shows("#pods tbody", "notebook-ada")
			axe.Check(tab, "overview")
			tab.Click("#pods [data-op=stop]")
			tab.HasFocus("#confirm-yes")
			axe.Check(tab, "confirmation")
			tab.Click("#confirm-yes") // rejected, because this page has no API
			tab.Shows("#confirm-error", "There is no such operation")
			axe.Check(tab, "refusal")
			tab.Press(kb.Escape)
			tab.Click(`[aria-label="Log of worker w1llm-run"]`)
			tab.Shows("#detail .log", "step 30 of 30")
			axe.Check(tab, "log")
			tab.Press(kb.Escape)
			tab.Click("#endpoints tbody a")
			tab.Shows("#releases tbody", "env: HF_TOKEN")
			tab.Shows("#batches tbody", "nightly-embeddings")
			tab.Eval(`document.querySelector('#outcome').textContent = 'Endpoint x is stopped.'`, nil)
			axe.Check(tab, "endpoint")
		})
	}
}
