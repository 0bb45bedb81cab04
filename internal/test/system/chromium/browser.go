// Package chromium shows pages to tests in a headless Chromium: what a page
// says is read where people read it. The browser is driven by chromedp.
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

// patience bounds each step in the browser. It guards against a hang; a test
// that passes never waits that long.
const patience = 60 * time.Second

// Browser is a headless Chromium with an empty profile.
type Browser struct{ ctx context.Context }

// Open starts a browser, which the end of the test closes. Without a Chromium
// the test is skipped; in CI it fails.
func Open(t testing.TB) *Browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		// Its sandbox does not start in most containers, and the tests show it
		// their own pages only.
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true))
	// Not the test's context: it ends before the tabs are closed.
	parent, cancel := context.WithCancel(context.Background())
	allocator, closeAllocator := chromedp.NewExecAllocator(parent, options...)
	t.Cleanup(closeAllocator)
	ctx, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(closeBrowser)
	// The browser lives as long as the context of its first command, which thus
	// has no deadline.
	hung := time.AfterFunc(patience, cancel)
	err := chromedp.Do(ctx)
	switch {
	case !hung.Stop():
		t.Fatalf("Chromium did not start within %s", patience)
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
