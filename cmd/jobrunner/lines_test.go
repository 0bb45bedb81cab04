package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
		if fmt.Sprint(to.writes) != "[0\n]" {
			t.Errorf("%q, expected only the first line", to.writes)
		}
		close(to.tokens)
		l.Close()
		fmt.Fprintln(l, 3)
		if got := strings.Join(to.writes, "|"); got != "0\n|1\n2\n|3\n" {
			t.Errorf("got writes %q, expected the lines that arrived during a write in one write, and a line after the end at once", got)
		}
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
		if written > 10 {
			t.Errorf("%d lines were accepted without a write, expected about 5", written)
		}
		close(to.tokens)
		writers.Wait()
		l.Close()
		if got := len(strings.Join(to.writes, "")); got != 20*len(line) {
			t.Errorf("%d bytes arrived, expected %d", got, 20*len(line))
		}
	})
}
