// Package chromium drives a headless Chromium, for tests that read the text that people see.
package chromium

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// stepTimeout bounds each step in the browser, in case it hangs.
const stepTimeout = 60 * time.Second

// browser starts the headless Chromium that all tests of a package share, with an empty profile.
var browser = sync.OnceValues(func() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		// The sandbox doesn't start in most containers, and tests open only their own pages.
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true))
	parent, cancel := context.WithCancel(context.Background())
	allocator, closeAllocator := chromedp.NewExecAllocator(parent, options...)
	closeBrowser = closeAllocator
	ctx, _ := chromedp.NewContext(allocator) // ends with the allocator
	// The browser ends with the context of its first command, so that context has no deadline.
	defer time.AfterFunc(stepTimeout, cancel).Stop()
	return ctx, chromedp.Do(ctx)
})

var closeBrowser = func() {}

// Run runs the tests of a package, closes their browser and returns the exit status.
func Run(m *testing.M) int {
	defer func() { closeBrowser() }()
	return m.Run()
}

// require returns the browser. Without a Chromium the test is skipped, or fails in CI.
func require(t testing.TB) context.Context {
	t.Helper()
	ctx, err := browser()
	if os.Getenv("CI") == "" && (errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)) {
		t.Skipf("no Chromium or Chrome on PATH, pages are not tested: %s", err)
	}
	if err != nil {
		t.Fatalf("Chromium did not start within %s: %s", stepTimeout, err)
	}
	return ctx
}
