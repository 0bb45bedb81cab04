// Package chromium drives a headless Chromium, for tests that read the text that people see.
package chromium

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// stepTimeout bounds each step in the browser, in case it hangs.
const stepTimeout = 60 * time.Second

// Browser is a headless Chromium with an empty profile.
type Browser struct{ ctx context.Context }

// Open starts a browser for the test. Without a Chromium the test is skipped, or fails in CI.
func Open(t testing.TB) *Browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		// The sandbox doesn't start in most containers, and tests open only their own pages.
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true))
	// Not the test's context, which ends before the tabs are closed.
	parent, cancel := context.WithCancel(context.Background())
	allocator, closeAllocator := chromedp.NewExecAllocator(parent, options...)
	t.Cleanup(closeAllocator)
	ctx, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(closeBrowser)
	// The browser ends with the context of its first command, so that context has no deadline.
	hangTimer := time.AfterFunc(stepTimeout, cancel)
	err := chromedp.Do(ctx)
	switch {
	case !hangTimer.Stop():
		t.Fatalf("Chromium did not start within %s", stepTimeout)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		if os.Getenv("CI") != "" {
			t.Fatalf("CI needs a Chromium or Chrome on PATH: %s", err)
		}
		t.Skipf("no Chromium or Chrome on PATH, pages are not tested: %s", err)
	case err != nil:
		t.Fatalf("start of Chromium: %s", err)
	}
	return &Browser{ctx}
}
