package planrule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Notes hold what a run has planned for an object, for the objects that refer to
// it and are planned after it. Terraform runs one process for each configuration
// of a provider (alias), so that the place is a folder of the user's: one for each
// Terraform and deployment. Terraform plans again before it applies, in new
// processes.
type Notes struct {
	dir          string // "" where there is no place to share
	configuredAt time.Time
	local        sync.Map // JSON texts by key, of this process
	peers        map[string]bool
}

// note is what a file holds.
type note struct {
	Writer string // process
	Value  json.RawMessage
}

// lifetime is how long a note counts, for a Terraform that goes on: terraform
// test plans many times.
const lifetime = time.Hour

// clockTolerance is how far the times of files may be behind.
const clockTolerance = 20 * time.Millisecond

// processStart is when this process began.
var processStart = time.Now()

// OpenNotes shares notes between the providers of this Terraform that reach the
// deployment at an address. It removes those of a Terraform that has ended.
func OpenNotes(baseURL string) *Notes {
	n := &Notes{configuredAt: time.Now(), peers: map[string]bool{}}
	cache, err := os.UserCacheDir()
	if err != nil {
		return n
	}
	root := filepath.Join(cache, "terraform-provider-gpucloud", "planned")
	entries, _ := os.ReadDir(root) // where there is none, none has ended
	for _, e := range entries {
		if !running(e.Name()) {
			_ = os.RemoveAll(filepath.Join(root, e.Name())) // the next run tries again
		}
	}
	sum := sha256.Sum256([]byte(baseURL))
	n.dir = filepath.Join(root, identity(os.Getppid()), hex.EncodeToString(sum[:16]))
	files, _ := os.ReadDir(n.dir)
	for _, f := range files {
		if read, _, err := readNote(filepath.Join(n.dir, f.Name())); err == nil && read.Writer != identity(os.Getpid()) && running(read.Writer) {
			n.peers[read.Writer] = true
		}
	}
	return n
}

func readNote(file string) (n note, at time.Time, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return n, at, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return n, at, err
	}
	return n, info.ModTime(), json.Unmarshal(text, &n)
}

func (n *Notes) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(n.dir, hex.EncodeToString(sum[:16])+".json")
}

// Store notes a value. An error says that other processes can't see it: what
// they plan without it, the next run catches up with.
func (n *Notes) Store(key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	n.local.Store(key, text)
	if n.dir == "" {
		return nil
	}
	if text, err = json.Marshal(note{identity(os.Getpid()), text}); err != nil {
		return err
	}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(n.dir, "new-")
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	if err := errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), n.file(key))
}

// Load reads a note; found is false where there is none. Sure is true for a note
// of this walk of Terraform: written by this process, by one that was running when
// this one was configured, or since this one began. Else an earlier plan may have
// left it, which was never applied.
func (n *Notes) Load(key string, value any) (found, sure bool) {
	if text, ok := n.local.Load(key); ok {
		return json.Unmarshal(text.([]byte), value) == nil, true
	}
	if n.dir == "" {
		return false, false
	}
	read, at, err := readNote(n.file(key))
	if err != nil || time.Since(at) > lifetime || json.Unmarshal(read.Value, value) != nil {
		return false, false
	}
	since := processStart
	if read.Writer == identity(os.Getpid()) {
		since = n.configuredAt
	}
	return true, n.peers[read.Writer] || !at.Before(since.Add(-clockTolerance))
}

// Has tells whether there is a note.
func (n *Notes) Has(key string) bool {
	var value any
	found, _ := n.Load(key, &value)
	return found
}

// Delete removes a note, whoever wrote it.
func (n *Notes) Delete(key string) error {
	n.local.Delete(key)
	if n.dir == "" {
		return nil
	}
	if err := os.Remove(n.file(key)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
