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

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Tab is a page of the browser with its own cookies. A failing step ends the test.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string
}

// Open opens an empty page with a size in pixels and a colour scheme. The end of the test closes it.
func Open(t testing.TB, width, height int64, dark bool) *Tab {
	t.Helper()
	tab := &Tab{t: t}
	parent, cancel := context.WithCancel(require(t))
	ctx, closeTab := chromedp.NewContext(parent, chromedp.WithNewBrowserContext(), chromedp.WithListener(tab.onEvent))
	t.Cleanup(closeTab)
	tab.ctx = ctx
	scheme := map[bool]string{false: "light", true: "dark"}[dark]
	var viewport []chromedp.EmulateViewportOption
	if width < 700 {
		viewport = append(viewport, chromedp.EmulateMobile)
	}
	// Like the browser, the tab ends with the context of its first command, so that context must not have a
	// timeout. If the command hangs, the timer cancels it.
	hangTimer := time.AfterFunc(stepTimeout, cancel)
	if err := chromedp.Do(ctx); err != nil || !hangTimer.Stop() {
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

func (t *Tab) onEvent(event any) {
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

func (t *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	t.t.Helper()
	do(t, "action", chromedp.Steps(actions...))
}

// do runs one action, and names it if it fails.
func do[T any](t *Tab, name string, action chromedp.Action[T]) T {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, stepTimeout)
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

// evaluate returns an action that yields the value of an expression in the page as JSON. The page
// treats the expression's effects as user gestures.
func evaluate(expression string) chromedp.Action[[]byte] {
	return chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise, func(p *runtime.EvaluateParams) {
		gesture := true
		p.UserGesture = &gesture
	})
}

// Eval decodes an expression's value into result. Unlike Until and Shows, it doesn't wait.
func (t *Tab) Eval(expression string, result any) {
	t.t.Helper()
	value := do(t, expression, evaluate(expression))
	if result != nil {
		if err := json.Unmarshal(value, result); err != nil {
			t.t.Fatalf("%s is %s: %s", expression, value, err)
		}
	}
}

// wait polls an expression until it is true, and reports whether it was. An error counts as
// false, because the page may not have loaded yet.
func (t *Tab) wait(expression string) bool {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, stepTimeout/2)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	// chromedp.Poll would need a page whose policy allows 'unsafe-eval'.
	for {
		if value, err := chromedp.Run(ctx, evaluate("!!("+expression+")")); err == nil && string(value) == "true" {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

func (t *Tab) Until(expression string) {
	t.t.Helper()
	if !t.wait(expression) {
		t.t.Fatalf("never true: %s; the page shows:\n%s\nproblems: %v", expression, t.Text("body"), t.Problems())
	}
}

func elements(selector string) string {
	return fmt.Sprintf("[...document.querySelectorAll(%s)]", quote(selector))
}

// quote returns a string as a JavaScript literal.
func quote(s string) string {
	text, _ := json.Marshal(s) // can't fail
	return string(text)
}

// textExpression returns an expression for the text of the elements that match a selector.
func textExpression(selector string) string {
	return elements(selector) + `.map((e) => e.innerText).join('\n')`
}

// Text returns the current text of the elements that match a selector.
func (t *Tab) Text(selector string) (shown string) {
	t.t.Helper()
	t.Eval(textExpression(selector), &shown)
	return shown
}

// Shows waits until the elements that match a selector show each of the texts.
func (t *Tab) Shows(selector string, texts ...string) {
	t.t.Helper()
	for _, want := range texts {
		if !t.wait(textExpression(selector) + ".includes(" + quote(want) + ")") {
			t.t.Fatalf("%s never showed %q, but\n%s\nproblems: %v", selector, want, t.Text(selector), t.Problems())
		}
	}
}

// Click waits until the first element that matches a selector is visible, focuses it and clicks it.
func (t *Tab) Click(selector string) {
	t.t.Helper()
	// In one expression, because a live page may replace the element before the click.
	t.Until(elements(selector) + ".slice(0, 1).some((e) => e.checkVisibility() && (e.focus(), e.click(), true))")
}

// Problems returns the entries of the console, with script errors.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.problems)
}

func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// Picture writes a screenshot of the whole page to the folder PAGE_PICTURES, if that is set.
func (t *Tab) Picture(name string) {
	t.t.Helper()
	if dir := os.Getenv("PAGE_PICTURES"); dir != "" {
		picture := do(t, "picture", chromedp.FullScreenshot(100))
		must.Succeed(t.t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600))
	}
}
