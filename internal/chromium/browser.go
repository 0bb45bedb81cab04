// Package chromium drives a headless Chromium in tests, by the DevTools protocol
// over a pipe: what a page shows is looked at where people look at it.
package chromium

import (
	"bufio"
	"context"
	"encoding/json"
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

// Browser is a headless Chromium, driven over a pipe by the DevTools protocol.
type Browser struct {
	write *os.File

	mu      sync.Mutex
	next    int
	answers map[int]chan message
	tabs    map[string]*Tab // by session
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

// Open starts a browser with an empty profile. Where there is none the
// test is skipped, and fails in CI.
func Open(t testing.TB) *Browser {
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
	// Not with the test's context: it ends before the browser is asked to close.
	cmd := exec.CommandContext(context.Background(), program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--mute-audio", "--hide-scrollbars", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4, as the flag says
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &Browser{write: write, answers: map[int]chan message{}, tabs: map[string]*Tab{}}
	var reading sync.WaitGroup
	reading.Go(func() { b.read(read) })
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // how it ends is no matter of the test
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill() // or it has ended
			<-ended
		}
		write.Close()
		reading.Wait()
		read.Close()
	})
	return b
}

func (b *Browser) read(from *os.File) {
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
func (b *Browser) send(session, method string, params any) chan message {
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
func (b *Browser) call(t testing.TB, session, method string, params, result any) {
	t.Helper()
	select {
	case m, ok := <-b.send(session, method, params):
		switch {
		case !ok:
			t.Fatalf("%s: the browser has ended", method)
		case m.Error != nil:
			t.Fatalf("%s: %s", method, m.Error.Message)
		case result != nil:
			if err := json.Unmarshal(m.Result, result); err != nil {
				t.Fatalf("%s answered %s: %s", method, m.Result, err)
			}
		}
	case <-time.After(patience):
		t.Fatalf("%s: the browser does not answer", method)
	}
}
