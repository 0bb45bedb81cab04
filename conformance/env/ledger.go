package env

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Object is an object that the suite created at the target, and the request that deletes it.
type Object struct {
	N    int64  `json:"n"`    // identifies the entry in the file
	Kind string `json:"kind"` // template, endpoint, job …
	ID   string `json:"id"`
	// Name is the unique name of an object whose creation wasn't answered, for a search in the list at URL.
	Name string `json:"name,omitempty"`
	// Refused says that the creation was refused, so the object should not exist.
	Refused bool `json:"refused,omitempty"`
	// Deployment is the address of the deployment whose key deletes the object.
	Deployment string `json:"deployment,omitempty"`

	Method string    `json:"method"`
	URL    string    `json:"url"`
	Case   string    `json:"case"`
	At     time.Time `json:"at"`             // when the object was recorded
	Gone   bool      `json:"gone,omitempty"` // the object was deleted
	// Reads are the addresses of the object in the versions of the management API. If empty, URL is the only one.
	Reads []string `json:"reads,omitempty"`
}

func (o Object) reads() []string {
	if o.Reads == nil {
		return []string{o.URL}
	}
	return o.Reads
}

// Ledger lists the objects that the suite created and must delete. If it has a file, each
// entry is on disk before the object is used, so that another process can delete the object
// after a crash. The zero Ledger has no file.
type Ledger struct {
	Deployment string // of new entries

	mu      sync.Mutex
	file    *os.File
	objects []Object // not deleted yet
	deleted []Object // deleted by this process since the last takeDeleted
}

// entryStart begins each entry of a file.
const entryStart = `{"n":`

// OpenLedger reads a ledger file, or creates it. It rejects a file that isn't a ledger.
func OpenLedger(path string) (*Ledger, error) {
	l := new(Ledger)
	if path == "" {
		return l, nil
	}
	if info, err := os.Stat(path); path == "-" || err == nil && !info.Mode().IsRegular() { // such as a device, which may be endless
		return nil, fmt.Errorf("%s isn't a ledger of a run: choose a regular file", path)
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !l.read(string(text)) {
		return nil, fmt.Errorf("%s isn't a ledger of a run", path)
	}
	l.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if info, statErr := os.Stat(path); err == nil && statErr == nil && len(l.objects) == 0 && info.Size() == int64(len(text)) { // no other run has just added an object
		text, err = nil, os.Truncate(path, 0)
	}
	if err == nil && len(text) > 0 && text[len(text)-1] != '\n' { // a crash cut the last line short
		_, err = l.file.WriteString("\n")
	}
	if err != nil {
		return nil, fmt.Errorf("the ledger of created objects: %w", err)
	}
	return l, nil
}

// read reads the entries of a file. It returns false if the file isn't a ledger.
func (l *Ledger) read(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); !strings.HasPrefix(line, entryStart) && !strings.HasPrefix(entryStart, line) {
			return false
		}
		var o Object
		switch err := json.Unmarshal([]byte(line), &o); {
		case err != nil || o.N < 1: // cut short, so its object was not used
		case o.Gone:
			l.objects = slices.DeleteFunc(l.objects, func(x Object) bool { return x.N == o.N })
		default:
			l.objects = append(l.objects, o)
		}
	}
	return true
}

// Add records an object before it is used.
func (l *Ledger) Add(o Object) (Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.N, o.Deployment = rand.Int64N(math.MaxInt64)+1, cmp.Or(o.Deployment, l.Deployment) // N is unique among runs that share a file
	l.objects = append(l.objects, o)
	return o, l.write(o)
}

func (l *Ledger) Remove(o Object) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.objects, func(x Object) bool { return x.N == o.N })
	if i < 0 {
		return nil
	}
	l.objects = slices.Delete(l.objects, i, i+1)
	if o.Kind != "job" && o.ID != "" {
		l.deleted = append(l.deleted, o)
	}
	o.Gone = true
	return l.write(o)
}

// takeDeleted returns the objects that were deleted since the last call.
func (l *Ledger) takeDeleted() []Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.deleted
	l.deleted = nil
	return list
}

// recordDeletion removes from the ledger an object that a case itself has deleted.
func (e *Env) recordDeletion(address string) {
	for _, o := range e.Ledger.Remaining("") {
		if o.URL == address || slices.ContainsFunc(o.Reads, func(read string) bool { return withoutQuery(read) == address }) {
			_ = e.Ledger.Remove(o) // if the ledger can't be written, the cleanup deletes the object again
			return
		}
	}
}

func withoutQuery(address string) string {
	path, _, _ := strings.Cut(address, "?")
	return path
}

func (l *Ledger) write(o Object) error {
	if l.file == nil {
		return nil
	}
	line, err := json.Marshal(o)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("recording the %s %s in the ledger: %w", o.Kind, cmp.Or(o.ID, o.Name), err)
	}
	return nil
}

// Drop forgets the objects for which drop returns true. The file still has them, for another process.
func (l *Ledger) Drop(drop func(Object) bool) (dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.objects)
	l.objects = slices.DeleteFunc(l.objects, drop)
	return n - len(l.objects)
}

// Remaining returns the objects of a case that must still be deleted, newest first. "" selects all cases.
func (l *Ledger) Remaining(caseID string) []Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	var left []Object
	for _, o := range slices.Backward(l.objects) {
		if caseID == "" || o.Case == caseID {
			left = append(left, o)
		}
	}
	return left
}

func (l *Ledger) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
