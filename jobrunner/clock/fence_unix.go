//go:build unix

package clock

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// fence is a pipe whose byte the network poller handles after everything that arrived earlier.
type fence struct {
	write *os.File
	read  syscall.RawConn
}

var networkFence = sync.OnceValue(func() *fence {
	read, write, err := os.Pipe()
	if err != nil {
		return nil
	}
	conn, err := read.SyscallConn()
	if err != nil {
		return nil
	}
	return &fence{write, conn}
})

// pollNetwork waits until the network poller has woken the goroutines whose connections
// already have data or were already opened. On a busy machine the poller's thread may run
// late, and until then these goroutines seem to wait.
func pollNetwork() {
	f := networkFence()
	if f == nil {
		return // too many open files
	}
	sent := false
	// Read fails only if the file is closed, which it never is.
	_ = f.read.Read(func(fd uintptr) (done bool) {
		if !sent {
			sent = true
			_, err := f.write.Write([]byte{0})
			return err != nil // otherwise wait for the poller to report the byte
		}
		for {
			n, err := syscall.Read(int(fd), make([]byte, 1))
			if !errors.Is(err, syscall.EINTR) {
				return n == 1 || !errors.Is(err, syscall.EAGAIN)
			}
		}
	})
}
