package chromium

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// Tab is one page of the browser, with cookies of its own. What fails in it
// fails the test that opened it.
type Tab struct {
	t       testing.TB
	browser *Browser
	session string

	mu       sync.Mutex
	problems []string
	requests []string
}

// Tab opens an empty page of a width and a height in pixels, for a reader who
// likes it dark or light.
func (b *Browser) Tab(t testing.TB, width, height int, dark bool) *Tab {
	t.Helper()
	var made struct{ BrowserContextID, TargetID, SessionID string }
	b.call(t, "", "Target.createBrowserContext", map[string]any{}, &made)
	b.call(t, "", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made)
	b.call(t, "", "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	tab := &Tab{t: t, browser: b, session: made.SessionID}
	b.mu.Lock()
	b.tabs[tab.session] = tab
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility"} {
		tab.Do(domain+".enable", map[string]any{}, nil)
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	tab.Do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}, nil)
	tab.Do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	return tab
}

// Do sends a command of the protocol, and decodes what it answers into result.
func (t *Tab) Do(method string, params, result any) {
	t.t.Helper()
	t.browser.call(t.t, t.session, method, params, result)
}

func (t *Tab) event(m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch m.Method {
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		t.problems = append(t.problems, string(m.Params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &p) == nil {
			t.requests = append(t.requests, p.Request.URL)
		}
	}
}

// Visit goes to an address, and does not wait for it.
func (t *Tab) Visit(url string) {
	t.t.Helper()
	t.Do("Page.navigate", map[string]any{"url": url}, nil)
}

// Eval runs an expression in the page, and decodes what it comes to.
func (t *Tab) Eval(expression string, result any) {
	t.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	t.Do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &answer)
	if answer.ExceptionDetails != nil {
		t.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result.Value, result); err != nil {
			t.t.Fatalf("%s is %s: %s", expression, answer.Result.Value, err)
		}
	}
}

// Until waits until an expression is true. The page itself looks, whenever it
// draws.
func (t *Tab) Until(expression string) {
	t.t.Helper()
	var ok bool
	t.Eval(fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + %d;
		const look = () => {
			let is = false;
			try { is = !!(%s); } catch {}
			if (is || performance.now() > end) done(is); else setTimeout(look, 20);
		};
		look();
	})`, patience.Milliseconds()/2, expression), &ok)
	if !ok {
		var text string
		t.Eval("document.body.innerText", &text)
		t.t.Fatalf("never: %s; the page shows:\n%s\nproblems: %v", expression, text, t.Problems())
	}
}

// Text is what the elements of a selector show.
func (t *Tab) Text(selector string) (text string) {
	t.t.Helper()
	t.Eval(fmt.Sprintf("[...document.querySelectorAll(%q)].map((e) => e.innerText).join('\\n')", selector), &text)
	return text
}

// Problems are what the console has: errors of scripts, and whatever was written
// there.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.problems)
}

// Requests are the addresses of all that the page asked for.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// Picture is the whole page as a PNG, in a file of the folder PAGE_PICTURES
// where that is set.
func (t *Tab) Picture(name string) {
	t.t.Helper()
	dir := os.Getenv("PAGE_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data []byte }
	t.Do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	if err := os.WriteFile(dir+"/"+name+".png", shot.Data, 0o600); err != nil {
		t.t.Error(err)
	}
}
