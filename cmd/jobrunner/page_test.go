//go:build unix

package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/chromium"
)

// With a keyboard alone: from the sign-in to a stop button, which asks; Escape and
// Close leave the pod alone and give the focus back, Enter has its process end. A key
// that is held down confirms nothing.
func TestPageByKeyboard(t *testing.T) {
	t.Parallel()
	b := chromium.Open(t)
	h := newPods(t, "--simulate-gpus=l4x2")
	id := h.pod(`{"name":"train","image":"team/pod","mounts":{"persistent":{"path":"/data","size":10}},"gpu":{"id":"NVIDIA L4"}}`)
	h.podIs(id, "RUNNING")
	h.until("the process to run", func() bool { return len(h.starts(id)) == 1 })
	pid := strings.Fields(h.starts(id)[0])[0]
	alive := func() bool { _, err := os.Stat("/proc/" + pid); return err == nil }

	tab := b.Tab(t, 1366, 900, false)
	tab.Visit(h.url)
	tab.Until(`!document.querySelector('#signin').hidden`)
	tab.TabTo("#key")
	tab.Press("k", kb.Enter)
	tab.Shows("#pods tbody", "train", "running")
	const stop, start = `[data-op=stop][aria-label="Stop pod train"]`, `[data-op=start][aria-label="Start pod train"]`
	closed := func() {
		t.Helper()
		tab.Until(`!document.querySelector('#confirm').open`)
		tab.HasFocus(stop)
		if h.podNow(id).Status != "RUNNING" {
			t.Fatal("the pod was stopped without a confirmation")
		}
	}
	tab.TabTo(stop)
	tab.Press(kb.Enter)
	tab.HasFocus("#confirm-yes")
	tab.Shows("#confirm", "Stop pod train?", "asked to end, and killed after 5 seconds")
	tab.Press(kb.Escape)
	closed()
	tab.Press(" ")
	tab.HasFocus("#confirm-yes")
	tab.Press(kb.Tab)
	tab.HasFocus("#confirm-no")
	tab.Press(kb.Enter)
	closed()
	tab.Hold('\r')
	tab.HasFocus("#confirm-yes")
	tab.Until(`document.querySelector('#confirm').open`)
	tab.Press(kb.Escape)
	closed()
	if !alive() {
		t.Fatalf("the process %s ended", pid)
	}

	tab.Press(kb.Enter, kb.Enter)
	tab.Until(`document.querySelector('#outcome[role=status]').textContent === 'Pod train is exited.'`)
	tab.HasFocus(start)
	h.podIs(id, "EXITED")
	h.until("the process to end", func() bool { return !alive() })
	tab.Press(kb.Enter, kb.Enter)
	h.podIs(id, "RUNNING")
	tab.Shows("#pods tbody", "running")
	h.until("a second process", func() bool { return len(h.starts(id)) == 2 })
	tab.TabTo(`#pods button.link`) // its log
	tab.Press(kb.Enter)
	tab.Shows("#detail .log", "asked to end")
	tab.Press(kb.Escape)
	tab.HasFocus(`#pods button.link`)
	for _, problem := range tab.Problems() {
		if !strings.Contains(problem, "401") { // before the sign-in
			t.Errorf("the console has %s", problem)
		}
	}
}
