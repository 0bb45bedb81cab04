package kit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Planned holds what a run has planned for an object, for the objects that
// refer to it and are planned after it. Terraform runs one process for each
// configuration of a provider (alias), so that the place is a folder of the
// user's that the processes of one Terraform share, for one deployment. Terraform
// plans again before it applies: what is read there is what the newest plan
// said.
type Planned struct {
	dir  string   // "" where there is no place to share
	here sync.Map // JSON texts by key, of this process
}

// plannedLife is how long a note counts. A process identity may come again, and
// nobody removes the notes of a Terraform that was killed.
const plannedLife = time.Hour

// PlannedFor shares notes between the providers of this Terraform that reach
// the deployment at an address.
func PlannedFor(baseURL string) *Planned {
	cache, err := os.UserCacheDir()
	if err != nil {
		return new(Planned)
	}
	root := filepath.Join(cache, "terraform-provider-gpucloud", "planned")
	removeOld(root)
	sum := sha256.Sum256([]byte(baseURL))
	return &Planned{dir: filepath.Join(root, parent(), hex.EncodeToString(sum[:16]))}
}

// parent names the process that started this one, and when that began where the
// system tells.
func parent() string {
	pid := strconv.Itoa(os.Getppid())
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return pid
	}
	// The fields are counted behind the program's name, which may hold blanks.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const startTime = 19
	if len(fields) <= startTime {
		return pid
	}
	return pid + "-" + fields[startTime]
}

func removeOld(root string) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.RemoveAll(filepath.Join(root, e.Name()))
		}
	}
}

func (p *Planned) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(p.dir, hex.EncodeToString(sum[:16])+".json")
}

// Store notes a value. An error says that other processes can't see it: what
// they plan without it, the next run catches up with.
func (p *Planned) Store(key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	p.here.Store(key, text)
	if p.dir == "" {
		return nil
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(p.dir, "new-")
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	if err := errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), p.file(key))
}

// Load reads a note; ok is false where there is none.
func (p *Planned) Load(key string, value any) (ok bool) {
	if text, ok := p.here.Load(key); ok {
		return json.Unmarshal(text.([]byte), value) == nil
	}
	if p.dir == "" {
		return false
	}
	info, err := os.Stat(p.file(key))
	if err != nil || time.Since(info.ModTime()) > plannedLife {
		return false
	}
	text, err := os.ReadFile(p.file(key))
	return err == nil && json.Unmarshal(text, value) == nil
}

// Delete removes a note.
func (p *Planned) Delete(key string) error {
	p.here.Delete(key)
	if p.dir == "" {
		return nil
	}
	if err := os.Remove(p.file(key)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
