package procgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

// MarkVariable is inherited by every process of a group. Its value identifies the group, also in a later run.
const MarkVariable = "GPUCLOUD_PROCESS"

// Register is a folder with a locked file for each run of a jobrunner. The file exists from
// before the first group until after the last. The file of a killed run stays, without a
// lock. The mark of each process begins with its run's id, which is the file's name without the suffix.
// Processes are recognized by their marks, because the system reuses process ids. Several jobrunners may share
// the folder.
//
// A nil Register registers nothing.
type Register struct {
	run    string
	dir    string
	file   *os.File     // nil if this Register never registers: without a folder, or on Windows
	groups atomic.Int64 // started so far

	guardOnce sync.Once
	guard     io.Closer // nil before the first group, and if the guard did not start

	kept atomic.Bool // Keep was called

	mu    sync.Mutex
	notes map[string]bool
}

const runFile = ".run"

// OpenRegister begins a run. If dir is "", it registers nothing.
func OpenRegister(dir string) (*Register, error) {
	r := &Register{run: uuid.NewString(), dir: dir, notes: map[string]bool{}}
	if !canRegister || dir == "" {
		return r, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("writing to the data folder: %w", err)
	}
	// The file gets its name after it is locked. Otherwise another run could mistake this run for a killed one.
	unnamed := filepath.Join(dir, "."+r.run)
	f, err := os.OpenFile(unnamed, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err == nil {
		r.file = f
		if !lock(f) {
			err = errors.New("the file system of the data folder has no locks")
		}
	}
	if err == nil {
		err = os.Rename(unnamed, r.path())
	}
	if err != nil {
		_ = os.Remove(unnamed)
		return nil, errors.Join(fmt.Errorf("writing to the data folder: %w", err), r.Close())
	}
	return r, nil
}

func (r *Register) path() string { return filepath.Join(r.dir, r.run+runFile) }

func (r *Register) Run() string { return r.run }

// Keep makes the next run clean up after this one, as if this one had been killed: it leaves something behind.
func (r *Register) Keep() {
	if r != nil {
		r.kept.Store(true)
	}
}

// Close ends the run. Its groups must have ended.
func (r *Register) Close() error {
	if r.guard != nil {
		_ = r.guard.Close()
	}
	switch {
	case r.file == nil:
		return nil
	case r.kept.Load():
		return r.file.Close()
	}
	return errors.Join(os.RemoveAll(r.pidFolder()), os.RemoveAll(r.path()), r.file.Close())
}

// Note stores a line for the next run, in case this run is killed.
func (r *Register) Note(line string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notes[line] {
		return nil
	}
	if r.file != nil {
		if _, err := fmt.Fprintln(r.file, line); err != nil {
			return fmt.Errorf("the register of processes: %w", err)
		}
	}
	r.notes[line] = true
	return nil
}

func (r *Register) newMark() string {
	if r == nil {
		return uuid.NewString()
	}
	return fmt.Sprintf("%s/%d", r.run, r.groups.Add(1))
}

// KilledRun is a run that was killed and may have left processes.
type KilledRun struct {
	ID    string
	Notes []string
	path  string
}

func (r *Register) KilledRuns() (killed []KilledRun, err error) {
	if r.file == nil {
		return nil, nil
	}
	names, err := fs.Glob(os.DirFS(r.dir), "*"+runFile) // not filepath.Glob: r.dir may contain a [
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == r.run+runFile {
			continue
		}
		f, err := os.Open(filepath.Join(r.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("the register of processes: %w", err)
		}
		if lock(f) {
			run := KilledRun{ID: strings.TrimSuffix(name, runFile), path: f.Name()}
			for lines := bufio.NewScanner(f); lines.Scan(); {
				run.Notes = append(run.Notes, lines.Text())
			}
			killed = append(killed, run)
		}
		_ = f.Close()
	}
	return killed, nil
}

// Forget removes the run from the register. It succeeds if another jobrunner already did.
func (k KilledRun) Forget() error {
	return errors.Join(os.RemoveAll(strings.TrimSuffix(k.path, runFile)+pidSuffix), os.RemoveAll(k.path))
}

// pidSuffix ends the name of a folder with a file for each group, on systems that don't show a process's mark.
const pidSuffix = ".pids"

func (r *Register) pidFolder() string { return strings.TrimSuffix(r.path(), runFile) + pidSuffix }
