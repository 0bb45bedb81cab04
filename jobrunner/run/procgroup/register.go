package procgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

// MarkVariable is the environment variable that every process of a group
// inherits: by its value one is told from all others, also by a later run.
const MarkVariable = "GPUCLOUD_PROCESS"

// Register is a folder in which each run of a jobrunner has a file, from before
// its first group until after its last: the file of a run that was killed stays,
// and names the mark of its processes. The lock on the file tells the runs that
// live from those that don't, so that several jobrunners may share the folder.
// Process ids alone would not do: the system gives them to others.
//
// A nil Register registers nothing.
type Register struct {
	run  string
	dir  string
	file *os.File // nil where nothing is kept
	next atomic.Int64

	mu    sync.Mutex
	notes map[string]bool
}

const runFile = ".run"

// OpenRegister begins a run. Left tells of those before it that were killed.
func OpenRegister(dir string) (*Register, error) {
	r := &Register{run: uuid.NewString(), dir: dir, notes: map[string]bool{}}
	if !canRegister || dir == "" {
		return r, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the register of processes: %w", err)
	}
	// It has its name only once it is locked: another run would take it for one
	// that is over.
	fresh := filepath.Join(dir, "."+r.run)
	f, err := os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err == nil {
		r.file = f
		if !lock(f) {
			err = errors.New("the file system of the data folder has no locks")
		}
	}
	if err == nil {
		err = os.Rename(fresh, r.path())
	}
	if err != nil {
		_ = os.Remove(fresh)
		return nil, errors.Join(fmt.Errorf("the register of processes in %s: %w", dir, err), r.Close())
	}
	return r, nil
}

func (r *Register) path() string { return filepath.Join(r.dir, r.run+runFile) }

// Run is the id of this run.
func (r *Register) Run() string { return r.run }

// Close ends a run that leaves nothing behind.
func (r *Register) Close() error {
	if r.file == nil {
		return nil
	}
	err := errors.Join(os.RemoveAll(r.pids()), os.Remove(r.path()))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, r.file.Close())
}

// Note keeps a word, without blanks, for who finds the run killed.
func (r *Register) Note(word string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notes[word] {
		return nil
	}
	if r.file != nil {
		if _, err := fmt.Fprintln(r.file, word); err != nil {
			return fmt.Errorf("the register of processes: %w", err)
		}
	}
	r.notes[word] = true
	return nil
}

// mark is the mark of a new group.
func (r *Register) mark() string {
	if r == nil {
		return uuid.NewString()
	}
	return fmt.Sprintf("%s/%d", r.run, r.next.Add(1))
}

// Left is a run that was killed.
type Left struct {
	Run   string
	Notes []string
	path  string
}

// Left are the runs that were killed and may have left processes.
func (r *Register) Left() (left []Left, err error) {
	if r.file == nil {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "*"+runFile))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		if path == r.path() {
			continue
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("the register of processes: %w", err)
		}
		if lock(f) {
			one := Left{Run: strings.TrimSuffix(filepath.Base(path), runFile), path: path}
			for words := bufio.NewScanner(f); words.Scan(); {
				one.Notes = append(one.Notes, words.Text())
			}
			left = append(left, one)
		}
		_ = f.Close()
	}
	return left, nil
}

// Kill ends the processes that a run left, and counts them.
func (l Left) Kill() int { return killRun(l) }

// Forget says that nothing of the run is left. Another jobrunner that looks into
// the folder at the same time may have said so.
func (l Left) Forget() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(os.RemoveAll(strings.TrimSuffix(l.path, runFile)+pidFolder), err)
}

// pidFolder has a file for each group where marks can't be looked for.
const pidFolder = ".pids"

func (r *Register) pids() string { return strings.TrimSuffix(r.path(), runFile) + pidFolder }
