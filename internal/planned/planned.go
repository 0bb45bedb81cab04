// Package planned shares what a run has planned between the provider processes
// of one Terraform.
package planned

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

// Notes hold what a run has planned for an object, for the objects that
// refer to it and are planned after it. Terraform runs one process for each
// configuration of a provider (alias), so that the place is a folder of the
// user's that the processes of one Terraform share, for one deployment. Terraform
// plans again before it applies: what is read there is what the newest plan
// said.
type Notes struct {
	dir  string   // "" where there is no place to share
	here sync.Map // JSON texts by key, of this process
}

// noteLifetime is how long a note counts. A process identity may come again, and
// nobody removes the notes of a Terraform that was killed.
const noteLifetime = time.Hour

// For shares notes between the providers of this Terraform that reach
// the deployment at an address.
func For(baseURL string) *Notes {
	cache, err := os.UserCacheDir()
	if err != nil {
		return new(Notes)
	}
	root := filepath.Join(cache, "terraform-provider-gpucloud", "planned")
	removeOld(root)
	sum := sha256.Sum256([]byte(baseURL))
	return &Notes{dir: filepath.Join(root, parent(), hex.EncodeToString(sum[:16]))}
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
	n.here.Store(key, text)
	if n.dir == "" {
		return nil
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

// Load reads a note; ok is false where there is none.
func (n *Notes) Load(key string, value any) (ok bool) {
	if text, ok := n.here.Load(key); ok {
		return json.Unmarshal(text.([]byte), value) == nil
	}
	if n.dir == "" {
		return false
	}
	info, err := os.Stat(n.file(key))
	if err != nil || time.Since(info.ModTime()) > noteLifetime {
		return false
	}
	text, err := os.ReadFile(n.file(key))
	return err == nil && json.Unmarshal(text, value) == nil
}

// Delete removes a note.
func (n *Notes) Delete(key string) error {
	n.here.Delete(key)
	if n.dir == "" {
		return nil
	}
	if err := os.Remove(n.file(key)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
