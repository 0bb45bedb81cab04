package worker

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Chunks that arrive while another is in flight are stored together after it, in order.
func TestChunksInFlightAreStoredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var stored []string
		c := newChunkBatcher(func(outputs [][]byte) error {
			<-release
			stored = append(stored, string(bytes.Join(outputs, []byte(" "))))
			return nil
		})
		for _, output := range []string{"1", "2", "3"} {
			must.Equal(t, c.add([]byte(output)), nil)
			synctest.Wait()
		}
		close(release)
		err := c.flush()
		must.Hold(t, err == nil && len(stored) == 2 && stored[0] == "1" && stored[1] == "2 3", stored, err, "expected 1, then 2 3")
	})
}

// Chunks that arrive soon after a batch are stored together. flush doesn't wait for more.
func TestChunksAfterABatchAreStoredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stored []int
		c := newChunkBatcher(func(outputs [][]byte) error { stored = append(stored, len(outputs)); return nil })
		add := func(n int) {
			for range n {
				must.Equal(t, c.add([]byte("1")), nil)
				synctest.Wait()
			}
		}
		add(5)
		time.Sleep(2 * batchWait)
		add(1)
		time.Sleep(2 * batchWait)
		add(3)
		start := time.Now()
		err := c.flush()
		must.Hold(t, err == nil && fmt.Sprint(stored) == "[1 4 1 1 2]" && time.Since(start) <= 0, stored, err, "after", time.Since(start), "expected 1 chunk at once, then 4, 1, 1 and 2")
	})
}

// A handler has to wait if it streams faster than chunks are stored.
func TestChunksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := newChunkBatcher(func([][]byte) error { <-release; return nil })
		half := make([]byte, maxWaitingBytes/2)
		must.Succeed(t, c.add(half))
		synctest.Wait() // it is in flight
		added := 0
		go func() {
			for range 3 {
				if c.add(half) == nil {
					added++
				}
			}
		}()
		synctest.Wait()
		must.Equal(t, added, 2, "the number of chunks accepted while a batch is in flight")
		release <- struct{}{}
		synctest.Wait()
		must.Equal(t, added, 3, "the number of chunks accepted after the batch was stored")
		close(release)
		must.Succeed(t, c.flush())
	})
}

// After a chunk couldn't be stored, no further chunk is stored. The handler gets the error at its next chunk or end.
func TestChunkFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c := newChunkBatcher(func([][]byte) error { tries++; return errRevoked })
		must.Succeed(t, c.add([]byte("1")))
		must.ErrorIs(t, c.flush(), errRevoked, "at the end")
		err := c.add([]byte("2"))
		must.Hold(t, errors.Is(err, errRevoked) && tries == 1, "the next", err, "after", tries, "tries, expected", errRevoked, "after one")
	})
}
