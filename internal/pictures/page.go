//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/chromedp/chromedp"
)

// jobs are sent so that the page has something to show.
const jobs = 6

// screenshot is the page after some jobs.
func (s *session) screenshot(ctx context.Context) (picture []byte, err error) {
	for i := range jobs {
		cmd := exec.CommandContext(ctx, s.runner.Path, "job", "run", "hello", "--input", fmt.Sprintf(`{"name": "reader %d"}`, i+1)) //nolint:gosec // the program that it has started
		cmd.Env = s.env
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", cmd, err, out)
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1200, 640))
	allocator, closeAllocator := chromedp.NewExecAllocator(ctx, options...)
	defer closeAllocator()
	browser, closeBrowser := chromedp.NewContext(allocator)
	defer closeBrowser()
	_, err = chromedp.Run(browser, chromedp.Steps(chromedp.EmulateViewport(1200, 640), chromedp.Navigate(s.pageURL)))
	for err == nil { // not chromedp.Poll: the page's policy forbids what that needs
		var shown bool
		if shown, err = chromedp.Run(browser, chromedp.Evaluate[bool](`document.body.innerText.includes("hello")`)); shown {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err == nil {
		picture, err = chromedp.Run(browser, chromedp.CaptureScreenshot())
	}
	if err != nil {
		return nil, fmt.Errorf("a screenshot of the page: %w", err)
	}
	return picture, nil
}
