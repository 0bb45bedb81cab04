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

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// maxSpoolMemory bounds the entries of a spool that are only in memory, in bytes.
const maxSpoolMemory = 64 << 20

// spool has the reports whose commit has failed, until it succeeds. Each entry is a file in a
// folder, so that it outlives the process: the next one replays it (Engine.replay). Without a folder,
// or if the disk is full, entries are in memory.
type spool struct {
	dir string // or ""
	log *slog.Logger

	mu          sync.Mutex
	number      int64 // of the latest entry
	entries     []*entry
	memoryBytes int // size of the entries that are only in memory
}

// entry is a report that the database has not received yet.
type entry struct {
	record
	content *content // nil if it is in the file
	path    string   // "" if the entry is only in memory
}

// record is the part of an entry that is always in memory.
type record struct {
	Kind     entryKind
	Ref      Ref        // the job
	At       int64      // time of the report
	Streamed int64      // the number of the job's chunks after the report, or 0
	Report   reportKind // of a jobReport
}

// content is the part of an entry that may be large.
type content struct {
	Output []byte
	Error  string
	Chunks [][]byte
	Reason string // why the worker died
}

type entryKind int

const (
	jobReport entryKind = iota // a worker's report
	jobReturn                  // of older versions: the return of a job
)

// file is the gob encoding of an entry.
type file struct {
	Record  record
	Content content
}

func newSpool(dir string, log *slog.Logger) *spool {
	return &spool{dir: dir, log: log}
}

func reportContent(r Report) content {
	return content{Output: r.output, Error: r.err, Chunks: r.chunks, Reason: r.reason}
}

func (c content) report(kind reportKind) Report {
	return Report{kind: kind, output: c.Output, err: c.Error, chunks: c.Chunks, reason: c.Reason}
}

func (c content) size() int {
	n := len(c.Output) + len(c.Error)
	for _, one := range c.Chunks {
		n += len(one)
	}
	return n
}

// add adds an entry. It returns an error if the spool is full.
func (s *spool) add(r record, c content) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	one := &entry{record: r}
	if path, err := s.write(file{r, c}); err == nil && path != "" {
		one.path = path
	} else {
		if err != nil {
			s.log.Warn("a report waits for the database in memory, because it could not be written to the data folder", "error", err)
		}
		if size := c.size(); size > 0 && s.memoryBytes+size > maxSpoolMemory {
			return nil, fmt.Errorf("%w: at most %d MiB of reports wait for it in memory", sqldb.ErrUnavailable, maxSpoolMemory>>20)
		}
		one.content = &c
		s.memoryBytes += c.size()
	}
	s.entries = append(s.entries, one)
	return one, nil
}

// remove removes entries that are stored.
func (s *spool) remove(entries []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range entries {
		s.entries = slices.DeleteFunc(s.entries, func(e *entry) bool { return e == one })
		if one.content != nil {
			s.memoryBytes -= one.content.size()
		}
		if one.path != "" {
			if err := os.Remove(one.path); err != nil {
				// Replaying it is a no-op.
				s.log.Warn("a report that was stored could not be removed from the data folder", "error", err)
			}
		}
	}
}

// of returns the entries of a queue, the oldest first.
func (s *spool) of(queue string) []*entry {
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

// write writes an entry to the folder, atomically and durably. It returns "" if the spool
// has no folder.
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
func (one *entry) read() (content, error) {
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

// load reads the entries of an earlier process. It renames files that it can't read.
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
		s.entries = append(s.entries, &entry{record: f.Record, path: path})
	}
	return nil
}
