//go:build unix

package clock

import (
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A process isn't at rest while a goroutine is in a new system call.
func TestSystemCallIsNotAtRest(t *testing.T) {
	var pipe [2]int
	must.Succeed(t, syscall.Pipe(pipe[:]))
	defer syscall.Close(pipe[0])
	var c Clock
	c.Advance(time.Second) // learns the number of permanent system calls
	permanent := c.longCalls.Load() - 1
	read := make(chan error, 1)
	go func() {
		_, err := syscall.Read(pipe[0], make([]byte, 1))
		read <- err
	}()
	for start := time.Now(); ; {
		if _, calls := atRest(permanent); calls > permanent {
			break
		}
		must.Require(t, time.Since(start) <= 3*time.Minute, "the system call isn't counted")
	}
	for range 100 {
		resting, _ := atRest(permanent)
		must.Require(t, !resting, "a process is at rest while a goroutine is in a system call")
	}
	must.Succeed(t, syscall.Close(pipe[1]))
	must.Succeed(t, <-read)
}
