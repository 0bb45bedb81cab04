package yamlfile

import (
	"bytes"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
)

// pollInterval is how often a file is checked, in real time, because people edit it.
const pollInterval = time.Second

// Watch calls onChange when the file's text changes or becomes unreadable. stop waits for a running call.
func Watch(name string, text []byte, onChange func(text []byte, err error)) (stop func()) {
	done := make(chan struct{})
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
			if err == nil && text != nil && bytes.Equal(current, text) || err != nil && text == nil {
				continue
			}
			text = current
			if err != nil {
				text = nil // unreadable: the error is reported once
			} else if text == nil {
				text = []byte{}
			}
			onChange(current, err)
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		watcher.Wait()
	})
}
