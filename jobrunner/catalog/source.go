package catalog

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

// Source is the catalog of a deployment, as it is from moment to moment. A nil
// Source is the one that is built in.
type Source struct {
	name  string
	clock *clock.Clock
	start time.Time // of the deployment, from which the file's times count
	log   *slog.Logger

	mu      sync.Mutex
	said    *schedule
	changed chan struct{}
	closed  bool
	timer   *clock.Timer  // of the next change of stock; nil: there is none
	stopped chan struct{} // ends the wait for it

	waiting   sync.WaitGroup
	stopWatch func()
}

// Open reads a catalog file, and again whenever it changes; what is wrong in it
// then is logged, and the catalog stays. An error begins with name:line. The
// caller closes the Source.
func Open(name string, c *clock.Clock, log *slog.Logger) (*Source, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("the catalog: %w", err)
	}
	said, err := parse(name, data)
	if err != nil {
		return nil, fmt.Errorf("the catalog: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Source{name: name, clock: c, start: c.Now(), log: log, changed: make(chan struct{})}
	s.set(said)
	s.stopWatch = yamlfile.Watch(name, data, s.reread)
	return s, nil
}

// Now is the catalog at this moment.
func (s *Source) Now() *Catalog {
	if s == nil {
		return builtin
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.at(s.passed())
}

// Changed is closed when the catalog is another one: ask for it before Now.
func (s *Source) Changed() <-chan struct{} {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Close ends the watch over the file.
func (s *Source) Close() {
	if s == nil {
		return
	}
	s.stopWatch()
	s.mu.Lock()
	s.closed = true
	s.stopTimer()
	s.mu.Unlock()
	s.waiting.Wait()
}

func (s *Source) passed() time.Duration { return s.clock.Now().Sub(s.start) }

func (s *Source) reread(data []byte, err error) {
	var said *schedule
	if err == nil {
		said, err = parse(s.name, data)
	}
	if err != nil {
		s.log.Error("the catalog stays as it was: its file can't be read", "error", err)
		return
	}
	s.set(said)
	s.log.Info("the catalog changed", "file", s.name, "catalog", said.catalog.describe())
}

// set makes a file count.
func (s *Source) set(said *schedule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = said
	s.announce()
}

// announce tells of a change, and waits for the next one. s is locked.
func (s *Source) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.stopTimer()
	passed := s.passed()
	next, ok := s.said.next(passed)
	if !ok || s.closed {
		return
	}
	timer, stopped := s.clock.NewTimer(next-passed), make(chan struct{})
	s.timer, s.stopped = timer, stopped
	s.waiting.Go(func() {
		select {
		case <-timer.C:
		case <-stopped:
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer == timer {
			s.announce()
		}
	})
}

func (s *Source) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		close(s.stopped)
		s.timer = nil
	}
}
