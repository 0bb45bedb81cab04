package yamlfile

import (
	"bytes"
	"os"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
)

// pollInterval is how often a file is checked, in real time, because people edit it.
const pollInterval = time.Second

// Watch calls onChange when the text of a file changes, or when the file becomes unreadable. text is the text as
// last read. stop waits for a running call. Watch ignores pipes, because only their first reader gets the content.
func Watch(name string, text []byte, onChange func(text []byte, err error)) (stop func()) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return func() {}
	}
	done, unreadable := make(chan struct{}), false
	var watcher sync.WaitGroup
	watcher.Go(func() {
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-done:
				return
			}
			current, err := flagfile.Read(name)
			if bytes.Equal(current, text) && unreadable == (err != nil) {
				continue
			}
			text, unreadable = current, err != nil
			onChange(current, err)
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		watcher.Wait()
	})
}
