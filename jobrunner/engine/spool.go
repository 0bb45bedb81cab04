package engine

import (
	"bytes"
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

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/durable"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// maxSpoolMemory bounds the entries of a spool that are only in memory, in bytes.
const maxSpoolMemory = 64 << 20

// spool has the reports whose commit has failed, until the commit succeeds. Each entry is a file in a
// folder, so that it outlives the process: the next process replays it (Engine.replay). Without a
// folder, or if the disk is full, entries are in memory.
type spool struct {
	dir string // or ""
	log *slog.Logger

	mu      sync.Mutex
	number  int64 // of the latest entry
	entries []*entry
	memory  int // size of the entries without files, in bytes
}

const SpoolFolder = "reports"

// entry is a report that the database has not received yet. Its file has the entry in gob encoding. In
// memory, an entry with a file has no output and chunks.
type entry struct {
	Ref      Ref
	At       int64 // time of the report
	Streamed int64 // the number of the job's chunks after the report
	Kind     eventKind
	Output   []byte
	Message  string
	Chunks   [][]byte

	path   string  // "" if the entry has no file
	commit *commit // stores the report, or nil; guarded by spool.mu
}

func (e *entry) report() Report {
	return Report{kind: e.Kind, output: e.Output, message: e.Message, chunks: e.Chunks}
}

func (s *spool) add(e *entry) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	if e.path, err = s.write(e); err != nil {
		s.log.Warn("a report waits for the database in memory, because it could not be written to the data folder", "error", err)
	}
	if e.path != "" {
		e.forget()
	}
	size := e.report().size()
	if size > 0 && s.memory+size > maxSpoolMemory {
		return fmt.Errorf("%w: at most %d MiB of reports wait for it in memory", sqldb.ErrUnavailable, maxSpoolMemory>>20)
	}
	s.memory += size
	s.entries = append(s.entries, e)
	return nil
}

func (e *entry) forget() { e.Output, e.Chunks = nil, nil }

// remove removes the obsolete entries: their reports are stored or of no use.
func (s *spool) remove(obsolete func(*entry) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = slices.DeleteFunc(s.entries, func(e *entry) bool {
		if !obsolete(e) {
			return false
		}
		s.memory -= e.report().size()
		if e.path != "" {
			if err := os.Remove(e.path); err != nil {
				// Replaying it is a no-op.
				s.log.Warn("a report that was stored or is of no use could not be removed from the data folder", "error", err)
			}
		}
		return true
	})
}

// removeOnceStored removes an entry when a commit has stored its report.
func (s *spool) removeOnceStored(e *entry, c *commit) {
	s.mu.Lock()
	e.commit = c
	s.mu.Unlock()
	select {
	case <-c.done:
		s.removeOf(c)
	default: // committer.finish will remove it
	}
}

// removeOf removes the entries of a commit that is stored, or that this process may not store because it has lost
// its leadership.
func (s *spool) removeOf(c *commit) {
	s.remove(func(e *entry) bool { return e.commit == c })
}

// forQueue returns the entries of a queue, the oldest first.
func (s *spool) forQueue(queue string) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.entries), func(e *entry) bool { return e.Ref.Endpoint != queue })
}

// inMemory counts the entries that are lost if the process stops.
func (s *spool) inMemory() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.path == "" {
			n++
		}
	}
	return n
}

const spoolSuffix = ".report"

// write writes an entry to the folder, atomically and durably. It returns "" if the spool has no folder.
func (s *spool) write(e *entry) (path string, err error) {
	if s.dir == "" {
		return "", nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(e); err != nil {
		return "", err
	}
	path = filepath.Join(s.dir, fmt.Sprintf("%020d%s", s.number, spoolSuffix))
	if err := durable.WriteFile(path, text.Bytes()); err != nil {
		return "", err
	}
	return path, nil
}

func (e *entry) read() (*entry, error) {
	if e.path == "" {
		return e, nil
	}
	full := &entry{path: e.path}
	text, err := os.ReadFile(e.path)
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(text)).Decode(full)
	}
	return full, err
}

// open reads the entries of an earlier process from the data folder, if there is one. It renames files that it can't read.
func (s *spool) open(dataDir string, log *slog.Logger) error {
	s.log = log
	if dataDir == "" {
		return nil
	}
	s.dir = filepath.Join(dataDir, SpoolFolder)
	files, err := os.ReadDir(s.dir) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the reports that wait for the database: %w", err)
	}
	for _, file := range files {
		path := filepath.Join(s.dir, file.Name())
		if !strings.HasSuffix(path, spoolSuffix) {
			continue
		}
		e, err := (&entry{path: path}).read()
		if err != nil {
			s.log.Error("a report that waits for the database can't be read, and is put aside", "file", path, "error", err)
			if err := os.Rename(path, path+".unreadable"); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Sscanf(file.Name(), "%d", &s.number); err != nil {
			return fmt.Errorf("the name of %s: %w", path, err)
		}
		e.forget()
		s.entries = append(s.entries, e)
	}
	return nil
}
