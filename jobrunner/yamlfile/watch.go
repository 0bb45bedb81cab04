package yamlfile

import (
	"bytes"
	"os"
	"sync"
	"time"
)

// poll is how often a file is checked, in real time: people edit it.
const poll = time.Second

// Watch calls changed when the file's text is another than the last one, or
// can't be read any more, until stop is called, which waits for its end.
func Watch(name string, text []byte, changed func(text []byte, err error)) (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(poll)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-done:
				return
			}
			now, err := os.ReadFile(name)
			if err == nil && text != nil && bytes.Equal(now, text) || err != nil && text == nil {
				continue
			}
			if text = now; err != nil {
				text = nil // told once
			} else if text == nil {
				text = []byte{}
			}
			changed(now, err)
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		watching.Wait()
	})
}
