package page_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The page works with the keyboard: a stop button asks for confirmation, Escape and Close cancel
// and restore the focus, Enter confirms. Holding a key down doesn't confirm.
func TestPageByKeyboard(t *testing.T) {
	t.Parallel()
	b := chromium.Open(t)
	d := deploy(t)
	pod := d.createPod("train")
	d.awaitPod(pod, "RUNNING")
	tab := b.Tab(t, 1366, 900, false)
	tab.Visit(d.url)
	tab.Until(`!document.querySelector('#signin').hidden`)
	tab.CheckAccessibility("sign-in")
	tab.TabTo("#key")
	tab.Press(key, kb.Enter)
	tab.Shows("#pods tbody", "train", "running")
	const stop, start = `[data-op=stop][aria-label="Stop pod train"]`, `[data-op=start][aria-label="Start pod train"]`
	expectUnconfirmed := func() {
		t.Helper()
		tab.Until(`!document.querySelector('#confirm').open`)
		tab.AwaitFocus(stop)
		_, p := d.send("GET", "/v2/pods/"+pod, "", bearer(key))
		must.Require(t, p["status"] == "RUNNING", "the pod was stopped without a confirmation:", p)
	}
	tab.TabTo(stop)
	tab.Press(kb.Enter)
	tab.AwaitFocus("#confirm-yes")
	tab.Shows("#confirm", "Stop pod train?", "asked to end, and killed after 5 seconds")
	tab.CheckAccessibility("confirmation")
	tab.Press(kb.Escape)
	expectUnconfirmed()
	tab.Press(" ")
	tab.AwaitFocus("#confirm-yes")
	tab.Press(kb.Tab)
	tab.AwaitFocus("#confirm-no")
	tab.Press(kb.Enter)
	expectUnconfirmed()
	tab.Hold('\r')
	tab.AwaitFocus("#confirm-yes")
	tab.Until(`document.querySelector('#confirm').open`)
	tab.Press(kb.Escape)
	expectUnconfirmed()

	tab.Press(kb.Enter, kb.Enter)
	tab.Until(`document.querySelector('#outcome[role=status]').textContent === 'Pod train is exited.'`)
	tab.AwaitFocus(start)
	d.awaitPod(pod, "EXITED")
	tab.Press(kb.Enter, kb.Enter)
	d.awaitPod(pod, "RUNNING")
	tab.Shows("#pods tbody", "running")
	tab.TabTo(`#pods button.link`) // its log
	tab.Press(kb.Enter)
	tab.Shows("#detail .log", "hello")
	tab.Press(kb.Escape)
	tab.AwaitFocus(`#pods button.link`)
	for _, problem := range tab.Problems() {
		must.Hold(t, strings.Contains(problem, "401"), "expected only the 401 from before the sign-in in the console and got", problem)
	}
}
