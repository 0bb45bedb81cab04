package chromium

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Tab is one page of the browser, with its own cookies. A step that fails in it
// ends the test that opened it.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string
}

// Tab opens an empty page of a width and a height in pixels, in the light or
// dark colour scheme. The end of the test closes it.
func (b *Browser) Tab(t testing.TB, width, height int64, dark bool) *Tab {
	t.Helper()
	tab := &Tab{t: t}
	parent, cancel := context.WithCancel(b.ctx)
	ctx, closeTab := chromedp.NewContext(parent, chromedp.WithNewBrowserContext(), chromedp.WithListener(tab.event))
	t.Cleanup(closeTab)
	tab.ctx = ctx
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	var viewport []chromedp.EmulateViewportOption
	if width < 700 {
		viewport = append(viewport, chromedp.EmulateMobile)
	}
	// As with the browser, the tab lives as long as the context of its first command.
	hung := time.AfterFunc(patience, cancel)
	if err := chromedp.Do(ctx); err != nil || !hung.Stop() {
		t.Fatalf("no tab opened: %v", err)
	}
	tab.Do(chromedp.EmulateViewport(width, height, viewport...), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
	return tab
}

func (t *Tab) event(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown, *runtime.EventConsoleAPICalled, *log.EventEntryAdded:
		text, err := json.Marshal(e)
		if err != nil {
			text = fmt.Appendf(nil, "%+v", e)
		}
		t.problems = append(t.problems, string(text))
	case *network.EventRequestWillBeSent:
		t.requests = append(t.requests, e.Request.URL)
	}
}

// Do runs actions of chromedp in the tab.
func (t *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	t.t.Helper()
	do(t, "action", chromedp.Steps(actions...))
}

// do runs one action, and names it if it fails.
func do[T any](t *Tab, name string, action chromedp.Action[T]) T {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		t.t.Fatalf("%s: %s", name, err)
	}
	return value
}

// Visit opens an address and waits until the page has loaded.
func (t *Tab) Visit(url string) {
	t.t.Helper()
	do(t, "visit of "+url, chromedp.Navigate(url))
}

// evaluate is the value of an expression in the page, as JSON. The page takes
// what it does for the act of a person.
func evaluate(expression string) chromedp.Action[[]byte] {
	return chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise, func(p *runtime.EvaluateParams) {
		gesture := true
		p.UserGesture = &gesture
	})
}

// Eval runs an expression in the page, and decodes its value into result. It
// does not wait: Until and Shows do.
func (t *Tab) Eval(expression string, result any) {
	t.t.Helper()
	value := do(t, expression, evaluate(expression))
	if result != nil {
		if err := json.Unmarshal(value, result); err != nil {
			t.t.Fatalf("%s is %s: %s", expression, value, err)
		}
	}
}

// wait looks at an expression until it is true, and says whether it was. An
// error of the expression is not true: the page may not be there yet.
func (t *Tab) wait(expression string) bool {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience/2)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	// Not chromedp.Poll, which needs a page whose policy allows 'unsafe-eval'.
	for {
		if value, err := chromedp.Run(ctx, evaluate("!!("+expression+")")); err == nil && string(value) == "true" {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-look.C:
		}
	}
}

// Until waits until an expression is true.
func (t *Tab) Until(expression string) {
	t.t.Helper()
	if !t.wait(expression) {
		t.t.Fatalf("never true: %s; the page shows:\n%s\nproblems: %v", expression, t.Text("body"), t.Problems())
	}
}

// elements is an expression for all elements of a selector.
func elements(selector string) string {
	return fmt.Sprintf("[...document.querySelectorAll(%s)]", quote(selector))
}

// quote is a string as JavaScript has it.
func quote(s string) string {
	text, _ := json.Marshal(s) // a string has JSON
	return string(text)
}

func text(selector string) string {
	return elements(selector) + `.map((e) => e.innerText).join('\n')`
}

// Text is what the elements of a selector show now.
func (t *Tab) Text(selector string) (shown string) {
	t.t.Helper()
	t.Eval(text(selector), &shown)
	return shown
}

// Shows waits until the elements of a selector show each of the texts.
func (t *Tab) Shows(selector string, texts ...string) {
	t.t.Helper()
	for _, want := range texts {
		if !t.wait(text(selector) + ".includes(" + quote(want) + ")") {
			t.t.Fatalf("%s never showed %q, but\n%s\nproblems: %v", selector, want, t.Text(selector), t.Problems())
		}
	}
}

// Click waits until the first element of a selector is visible, and clicks it, which
// gives it the focus.
func (t *Tab) Click(selector string) {
	t.t.Helper()
	// At once: a live page may draw the element anew between the look and the click.
	t.Until(elements(selector) + ".slice(0, 1).some((e) => e.checkVisibility() && (e.focus(), e.click(), true))")
}

// Problems are the entries of the console: errors of scripts, and what they
// wrote.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.problems)
}

// Requests are the addresses of all requests of the page.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// Picture writes the whole page as a PNG to the folder PAGE_PICTURES, if that
// is set.
func (t *Tab) Picture(name string) {
	t.t.Helper()
	dir := os.Getenv("PAGE_PICTURES")
	if dir == "" {
		return
	}
	shot := do(t, "picture", chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), shot, 0o600); err != nil {
		t.t.Error(err)
	}
}
