package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// slow is a writer that accepts one write per token.
type slow struct {
	tokens chan struct{}
	writes []string
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.tokens
	s.writes = append(s.writes, string(p))
	return len(p), nil
}

// Lines keep their order, and lines that arrive during a write are combined.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &slow{tokens: make(chan struct{}, 10)}
		l := newAsyncWriter(to)
		for i := range 3 {
			fmt.Fprintln(l, i)
			synctest.Wait()
		}
		to.tokens <- struct{}{}
		synctest.Wait()
		must.Equal(t, fmt.Sprint(to.writes), "[0\n]", to.writes, "expected only the first line")
		close(to.tokens)
		l.Close()
		fmt.Fprintln(l, 3)
		must.Equal(t, strings.Join(to.writes, "|"), "0\n|1\n2\n|3\n", "got writes", "expected the lines that arrived during a write in one write, and a line after the end at once")
	})
}

// If the writer is slow, Write blocks and no line is lost.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &slow{tokens: make(chan struct{})}
		l := newAsyncWriter(to)
		line := strings.Repeat("x", maxPending/4)
		var writers sync.WaitGroup
		written := 0
		writers.Go(func() {
			for range 20 {
				fmt.Fprint(l, line)
				written++
			}
		})
		synctest.Wait()
		must.Hold(t, written <= 10, written, "lines were accepted without a write, expected about 5")
		close(to.tokens)
		writers.Wait()
		l.Close()
		must.Equal(t, len(strings.Join(to.writes, "")), 20*len(line), "bytes arrived")
	})
}
