package worker

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What comes while a chunk is on its way goes together after it, in its order.
func TestChunksGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var kept []string
		c := newChunks(func(outputs [][]byte) error {
			<-release
			kept = append(kept, string(bytes.Join(outputs, []byte(" "))))
			return nil
		})
		for _, output := range []string{"1", "2", "3"} {
			if err := c.add([]byte(output)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		close(release)
		if err := c.flush(); err != nil || len(kept) != 2 || kept[0] != "1" || kept[1] != "2 3" {
			t.Errorf("%q, %v, expected 1, then 2 3", kept, err)
		}
	})
}

// Chunks that soon follow another one go together; the end of the handler waits for
// nothing.
func TestChunksThatFollowGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []int
		c := newChunks(func(outputs [][]byte) error { kept = append(kept, len(outputs)); return nil })
		add := func(n int) {
			for range n {
				if err := c.add([]byte("1")); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
		}
		add(5)
		time.Sleep(2 * gatherFor)
		add(1)
		time.Sleep(2 * gatherFor)
		add(3)
		start := time.Now()
		if err := c.flush(); err != nil || fmt.Sprint(kept) != "[1 4 1 1 2]" || time.Since(start) > 0 {
			t.Errorf("%v, %v after %s; expected 1 chunk at once, then 4, 1, 1 and 2", kept, err, time.Since(start))
		}
	})
}

// A handler that streams faster than can be kept waits.
func TestChunksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := newChunks(func([][]byte) error { <-release; return nil })
		half := make([]byte, maxGathered/2)
		if err := c.add(half); err != nil {
			t.Error(err)
		}
		synctest.Wait() // it is on its way
		added := 0
		go func() {
			for range 3 {
				if c.add(half) == nil {
					added++
				}
			}
		}()
		synctest.Wait()
		if added != 2 {
			t.Errorf("%d chunks were taken while one is on its way, expected two that wait", added)
		}
		release <- struct{}{}
		synctest.Wait()
		if added != 3 {
			t.Errorf("%d chunks were taken, expected 3 when there is room again", added)
		}
		close(release)
		if err := c.flush(); err != nil {
			t.Error(err)
		}
	})
}

// A chunk that is not kept is the last one: the handler is told at the next, or
// at its end.
func TestChunkThatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c := newChunks(func([][]byte) error { tries++; return errRevoked })
		if err := c.add([]byte("1")); err != nil {
			t.Error(err)
		}
		if err := c.flush(); !errors.Is(err, errRevoked) {
			t.Errorf("at the end: %v, expected %v", err, errRevoked)
		}
		if err := c.add([]byte("2")); !errors.Is(err, errRevoked) || tries != 1 {
			t.Errorf("the next: %v after %d tries, expected %v after one", err, tries, errRevoked)
		}
	})
}
