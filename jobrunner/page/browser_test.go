package page_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// chromiumNames are the programs that will do, the first that is found.
var chromiumNames = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// patience bounds a wait for the browser; nothing takes that long that works.
const patience = 60 * time.Second

// browser is a headless Chromium, driven over a pipe by the DevTools protocol.
type browser struct {
	t     *testing.T
	write *os.File

	mu      sync.Mutex
	next    int
	answers map[int]chan message
	tabs    map[string]*tab // by session
}

// message is one of the protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// openBrowser starts a browser with an empty profile. Where there is none the
// test is skipped, and fails in CI.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	var program string
	for _, name := range chromiumNames {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		if os.Getenv("CI") != "" {
			t.Fatalf("no Chromium on PATH (%s): CI needs one", strings.Join(chromiumNames, ", "))
		}
		t.Skipf("no Chromium on PATH (%s): the page is not tested in a browser", strings.Join(chromiumNames, ", "))
	}
	theirIn, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--mute-audio", "--hide-scrollbars", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4, as the flag says
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, write: write, answers: map[int]chan message{}, tabs: map[string]*tab{}}
	var reading sync.WaitGroup
	reading.Go(func() { b.read(read) })
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(patience):
			cmd.Process.Kill()
			<-ended
		}
		write.Close()
		reading.Wait()
		read.Close()
	})
	return b
}

func (b *browser) read(from *os.File) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	lines.Split(func(data []byte, _ bool) (int, []byte, error) {
		if i := strings.IndexByte(string(data), 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		return 0, nil, nil
	})
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		b.mu.Lock()
		answer, to := b.answers[m.ID], b.tabs[m.SessionID]
		delete(b.answers, m.ID)
		b.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case to != nil && m.ID == 0:
			to.event(m)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, answer := range b.answers {
		close(answer)
	}
	b.answers = nil
}

// send sends a command; what it answers comes on the channel.
func (b *browser) send(session, method string, params any) chan message {
	text, _ := json.Marshal(params)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	answer := make(chan message, 1)
	if b.answers == nil { // the browser has ended
		close(answer)
		return answer
	}
	b.answers[b.next] = answer
	frame, _ := json.Marshal(message{ID: b.next, SessionID: session, Method: method, Params: text})
	if _, err := b.write.Write(append(frame, 0)); err != nil {
		delete(b.answers, b.next)
		close(answer)
	}
	return answer
}

// call sends a command and waits for what it answers.
func (b *browser) call(session, method string, params, result any) {
	b.t.Helper()
	select {
	case m, ok := <-b.send(session, method, params):
		switch {
		case !ok:
			b.t.Fatalf("%s: the browser has ended", method)
		case m.Error != nil:
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		case result != nil:
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s answered %s: %s", method, m.Result, err)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("%s: the browser does not answer", method)
	}
}

// tab is one page of the browser, with cookies of its own.
type tab struct {
	*browser
	session string

	mu       sync.Mutex
	problems []string // of the console, and scripts' errors
	requests []string // URLs
}

func (b *browser) open(width, height int, dark bool) *tab {
	b.t.Helper()
	var made struct{ BrowserContextID, TargetID, SessionID string }
	b.call("", "Target.createBrowserContext", map[string]any{}, &made)
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made)
	b.call("", "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	t := &tab{browser: b, session: made.SessionID}
	b.mu.Lock()
	b.tabs[t.session] = t
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility"} {
		t.do(domain+".enable", map[string]any{}, nil)
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	t.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}, nil)
	t.do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	return t
}

func (t *tab) do(method string, params, result any) {
	t.t.Helper()
	t.call(t.session, method, params, result)
}

func (t *tab) event(m message) {
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

func (t *tab) visit(url string) {
	t.t.Helper()
	t.do("Page.navigate", map[string]any{"url": url}, nil)
}

// eval runs an expression in the page, and decodes what it comes to.
func (t *tab) eval(expression string, result any) {
	t.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	t.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &answer)
	if answer.ExceptionDetails != nil {
		t.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result.Value, result); err != nil {
			t.t.Fatalf("%s is %s: %s", expression, answer.Result.Value, err)
		}
	}
}

// until waits until an expression is true. The page itself looks, whenever it
// draws.
func (t *tab) until(expression string) {
	t.t.Helper()
	var ok bool
	t.eval(fmt.Sprintf(`new Promise((done) => {
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
		t.eval("document.body.innerText", &text)
		t.t.Fatalf("never: %s; the page shows:\n%s\nproblems: %v", expression, text, t.seen(&t.problems))
	}
}

func (t *tab) text(selector string) (text string) {
	t.t.Helper()
	t.eval(fmt.Sprintf("[...document.querySelectorAll(%q)].map((e) => e.innerText).join('\\n')", selector), &text)
	return text
}

func (t *tab) seen(list *[]string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), *list...)
}

// picture is the whole page as a PNG, in a file of the folder PAGE_PICTURES
// where that is set.
func (t *tab) picture(name string) {
	t.t.Helper()
	dir := os.Getenv("PAGE_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data []byte }
	t.do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	if err := os.WriteFile(dir+"/"+name+".png", shot.Data, 0o600); err != nil {
		t.t.Error(err)
	}
}
