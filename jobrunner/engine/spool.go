package engine

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// maxHeld bounds the entries of a spool that are in memory alone, in bytes.
const maxHeld = 64 << 20

// spool keeps what the database has to be told and could not be, in the order
// in which it happened, until it could be told (deliver.go). An entry is written
// to a folder of this machine, so that it outlives the process; where there is
// no folder, or no room in it, it is held in memory.
type spool struct {
	dir string // "": none
	log *slog.Logger

	pending atomic.Int64  // entries
	kept    atomic.Int64  // entries so far
	added   chan struct{} // hints that there is one

	mu      sync.Mutex
	number  int64 // of the latest entry
	entries []*entry
	held    int // bytes in memory
}

// entry is one thing that the database has to be told.
type entry struct {
	record
	content *content // nil: it is in the file
	path    string   // "": it is in memory alone
	done    chan struct{}
}

// record is what is known of an entry while its content is in a file.
type record struct {
	Kind entryKind
	Ref  Ref   // of the job, but for callOutcome
	At   int64 // when it happened
	// Streamed is the job's number of chunks after this one, where a commit with
	// it may have been done; 0: none was.
	Streamed int64
	Report   reportKind // of jobReport
}

// content is the rest, which may be large.
type content struct {
	Output []byte
	Error  string
	Chunks [][]byte
	Lease  time.Duration
	Reason string // of a loss

	K, Until, Again int64 // of callOutcome
}

type entryKind int

const (
	jobReport   entryKind = iota // what a worker said of a job
	jobReturn                    // a job that may have been handed out and never reached its worker
	callOutcome                  // how a call of a webhook went
)

// file is an entry in a file, in gob.
type file struct {
	Record  record
	Content content
}

func newSpool(dir string, log *slog.Logger) *spool {
	return &spool{dir: dir, log: log, added: make(chan struct{}, 1)}
}

func reportContent(r Report) content {
	return content{Output: r.output, Error: r.err, Chunks: r.chunks, Lease: r.lease, Reason: r.reason}
}

func (c content) report(kind reportKind) Report {
	return Report{kind: kind, output: c.Output, err: c.Error, chunks: c.Chunks, lease: c.Lease, reason: c.Reason}
}

func (c content) size() int {
	n := len(c.Output) + len(c.Error)
	for _, one := range c.Chunks {
		n += len(one)
	}
	return n
}

// has tells whether something of a job waits in the spool.
func (s *spool) has(ref Ref) bool {
	if s.pending.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last(ref) != nil
}

// last is the latest entry of a job.
func (s *spool) last(ref Ref) *entry {
	for _, e := range slices.Backward(s.entries) {
		if e.Kind != callOutcome && e.Ref == ref {
			return e
		}
	}
	return nil
}

// keep adds an entry, and tells whether it outlives the process. An error says
// that there is no room for it.
func (s *spool) keep(r record, c content) (durable bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.last(r.Ref); last != nil && r.Kind == jobReport && last.Kind == jobReport {
		switch {
		case last.Report.final(): // what follows an end is a repetition of it
			return last.path != "", nil
		case last.Report == r.Report && r.Report.supersedes():
			s.remove(last)
		}
	}
	s.number++
	one := &entry{record: r, done: make(chan struct{})}
	if path, err := s.write(file{r, c}); err == nil && path != "" {
		one.path = path
	} else {
		if err != nil {
			s.log.Warn("what the database could not be told is held in memory: it could not be written to the data folder", "error", err)
		}
		if size := c.size(); size > 0 && s.held+size > maxHeld {
			return false, fmt.Errorf("%w: no more than %d MiB of what it could not be told is held in memory", sqldb.ErrUnavailable, maxHeld>>20)
		}
		one.content = &c
		s.held += c.size()
	}
	s.entries = append(s.entries, one)
	s.pending.Store(int64(len(s.entries)))
	s.kept.Add(1)
	notify.Signal(s.added)
	return one.path != "", nil
}

// remove drops an entry that the database has been told. The spool is locked.
func (s *spool) remove(one *entry) {
	s.entries = slices.DeleteFunc(s.entries, func(e *entry) bool { return e == one })
	s.pending.Store(int64(len(s.entries)))
	if one.content != nil {
		s.held -= one.content.size()
	}
	if one.path != "" {
		if err := os.Remove(one.path); err != nil {
			// Told again it changes nothing.
			s.log.Warn("a report that was delivered could not be removed from the data folder", "error", err)
		}
	}
	close(one.done)
}

// done removes an entry.
func (s *spool) done(one *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.entries, one) {
		s.remove(one)
	}
}

// all are the entries, the oldest first.
func (s *spool) all() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries)
}

// inMemory is how many entries end with the process.
func (s *spool) inMemory() (n int) {
	for _, e := range s.all() {
		if e.path == "" {
			n++
		}
	}
	return n
}

// delivered waits until nothing of a job is in the spool, or ctx ends.
func (s *spool) delivered(ctx context.Context, ref Ref) error {
	for {
		s.mu.Lock()
		last := s.last(ref)
		s.mu.Unlock()
		if last == nil {
			return nil
		}
		select {
		case <-last.done:
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", sqldb.ErrUnavailable, ctx.Err())
		}
	}
}

const spoolSuffix = ".report"

// write puts an entry into the folder, whole or not at all, and flushes it.
func (s *spool) write(f file) (path string, err error) {
	if s.dir == "" {
		return "", nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(f); err != nil {
		return "", err
	}
	path = filepath.Join(s.dir, fmt.Sprintf("%020d%s", s.number, spoolSuffix))
	if err := writeFile(path+".tmp", text.Bytes()); err != nil {
		return "", errors.Join(err, os.Remove(path+".tmp"))
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return "", err
	}
	return path, syncDir(s.dir)
}

func writeFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// read returns the content of an entry.
func (s *spool) read(one *entry) (content, error) {
	if one.content != nil {
		return *one.content, nil
	}
	f, err := readFile(one.path)
	return f.Content, err
}

func readFile(path string) (f file, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(text)).Decode(&f)
	}
	return f, err
}

// load reads what an earlier process left. A file that can't be read is put
// aside.
func (s *spool) load() error {
	if s.dir == "" {
		return nil
	}
	names, err := os.ReadDir(s.dir) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the reports that wait for the database: %w", err)
	}
	for _, name := range names {
		path := filepath.Join(s.dir, name.Name())
		if !strings.HasSuffix(path, spoolSuffix) {
			continue
		}
		f, err := readFile(path)
		if err != nil {
			s.log.Error("a report that waits for the database can't be read, and is put aside", "file", path, "error", err)
			if err := os.Rename(path, path+".unreadable"); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Sscanf(name.Name(), "%d", &s.number); err != nil {
			return fmt.Errorf("the name of %s: %w", path, err)
		}
		s.entries = append(s.entries, &entry{record: f.Record, path: path, done: make(chan struct{})})
	}
	s.pending.Store(int64(len(s.entries)))
	return nil
}
