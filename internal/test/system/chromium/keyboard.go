package chromium

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// maxTabs bounds the presses of the tab key to reach an element.
const maxTabs = 300

// Press presses keys, one after the other, on the focused element.
func (t *Tab) Press(keys ...string) {
	t.t.Helper()
	for _, key := range keys {
		do(t, "key", chromedp.KeyEvent(key))
	}
}

// Hold holds a key down until it has repeated several times.
func (t *Tab) Hold(key rune) {
	t.t.Helper()
	events := kb.Encode(key)
	down, up := *events[0], events[len(events)-1]
	if len(events) > 2 {
		down.Text = events[1].Text // in the same event, so that the page can prevent the input
	}
	for i := range 10 {
		down.AutoRepeat = new(i > 0)
		t.dispatch(down)
	}
	t.dispatch(*up)
}

func (t *Tab) dispatch(event input.DispatchKeyEventParams) {
	t.t.Helper()
	t.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, input.DispatchKeyEvent, event)
		return err
	}))
}

// TabTo presses the tab key until an element that matches a selector has the focus.
func (t *Tab) TabTo(selector string) {
	t.t.Helper()
	var reached bool
	for range maxTabs {
		t.Press(kb.Tab)
		if t.Eval("document.activeElement.matches("+quote(selector)+")", &reached); reached {
			return
		}
	}
	t.t.Fatalf("the tab key does not reach %s in %d presses", selector, maxTabs)
}

func (t *Tab) AwaitFocus(selector string) {
	t.t.Helper()
	if !t.wait("document.activeElement.matches(" + quote(selector) + ")") {
		var actual string
		t.Eval("document.activeElement.outerHTML.slice(0, 200)", &actual)
		t.t.Fatalf("invalid focus: expected it on %s, got %s", selector, actual)
	}
}
