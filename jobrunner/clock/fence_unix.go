//go:build unix

package clock

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// fence is a pipe in the process. A byte in it passes the runtime's network
// poller behind all that came in before.
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

// pollNetwork waits until the goroutines that wait for a connection have been
// woken, where one has data or was opened by now. On a busy machine the kernel
// may take long to let the thread run that polls for them, and until then they
// look as if they rested.
func pollNetwork() {
	f := networkFence()
	if f == nil {
		return // too many open files: less is waited for
	}
	sent := false
	// Its error is that of a closed file, which this one never is.
	_ = f.read.Read(func(fd uintptr) (done bool) {
		if !sent {
			sent = true
			_, err := f.write.Write([]byte{0})
			return err != nil // else the poller says when the byte is there
		}
		for {
			n, err := syscall.Read(int(fd), make([]byte, 1))
			if !errors.Is(err, syscall.EINTR) {
				return n == 1 || !errors.Is(err, syscall.EAGAIN)
			}
		}
	})
}
