package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

// Source is the current catalog of a deployment. A nil Source is the built-in catalog.
type Source struct {
	name  string
	clock *clock.Clock
	start time.Time // start of the deployment, from which the file's times count
	log   *slog.Logger

	mu       sync.Mutex
	schedule *schedule
	changed  chan struct{}
	closed   bool
	stopWait func() // ends the wait for the next change of stock

	waiters   sync.WaitGroup
	stopWatch func()
}

// Open loads a catalog file, and loads it again whenever it changes. If loading it again fails, the error
// is logged and the catalog stays. The caller must close the Source. Without a name, Open returns nil.
func Open(name string, c *clock.Clock, log *slog.Logger) (*Source, error) {
	if name == "" {
		return nil, nil
	}
	data, err := flagfile.Read(name)
	if err != nil {
		return nil, fmt.Errorf("the catalog: %w", err)
	}
	loaded, err := parse(name, data)
	if err != nil {
		return nil, fmt.Errorf("the catalog: %w", err)
	}
	s := &Source{name: name, clock: c, start: c.Now(), log: log, changed: make(chan struct{}), stopWait: func() {}}
	s.set(loaded)
	s.stopWatch = yamlfile.Watch(name, data, s.reread)
	return s, nil
}

func (s *Source) Current() *Catalog {
	if s == nil {
		return builtin
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.schedule.catalogAfter(s.elapsed())
}

// Changed returns a channel that is closed when the catalog changes. Call it before Current, so
// that no change is missed.
func (s *Source) Changed() <-chan struct{} {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Source) Close() {
	if s == nil {
		return
	}
	s.stopWatch()
	s.mu.Lock()
	s.closed = true
	s.stopWait()
	s.mu.Unlock()
	s.waiters.Wait()
}

func (s *Source) elapsed() time.Duration { return s.clock.Now().Sub(s.start) }

func (s *Source) reread(data []byte, err error) {
	var loaded *schedule
	if err == nil {
		loaded, err = parse(s.name, data)
	}
	if err != nil {
		s.log.Error("the catalog stays as it was: its file can't be read, or is invalid", "error", err)
		return
	}
	s.set(loaded)
	s.log.Info("the catalog changed", "file", s.name, "catalog", loaded.catalog.describe())
}

func (s *Source) set(loaded *schedule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedule = loaded
	s.announce()
}

// announce signals a change and schedules the signal for the next one. It is called with s locked.
func (s *Source) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.stopWait()
	elapsed := s.elapsed()
	next, ok := s.schedule.nextChange(elapsed)
	if !ok || s.closed {
		return
	}
	timer := s.clock.NewTimer(next - elapsed)
	ctx, stop := context.WithCancel(context.Background())
	s.stopWait = stop
	s.waiters.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() == nil {
			s.announce()
		}
	})
}
