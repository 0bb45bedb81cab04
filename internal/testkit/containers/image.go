package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Build builds an image with Python and the given files, by path, which runs cmd. It needs no
// network: the image contains this machine's Python, and is cached for each machine and Python.
func (e *Engine) Build(t testing.TB, name string, cmd []string, files map[string]string) {
	t.Helper()
	base := must.Do(os.Open(must.Do(pythonTar())(t)))(t)
	defer func() { _ = base.Close() }()
	layer := must.Do(archive(files))(t)
	words := must.Do(json.Marshal(cmd))(t)
	// Without the end marker, the second archive continues the first.
	must.Do(e.run(io.MultiReader(bytes.NewReader(layer), base), "import", "--change", "CMD "+string(words), "-", name))(t)
}

// endMarker ends a tar.
var endMarker = make([]byte, 1024)

// archive returns a tar without an end marker.
func archive(files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		header := tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(files[path]))}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, files[path]); err != nil {
			return nil, err
		}
	}
	err := w.Flush()
	return out.Bytes(), err
}

//go:embed testdata/python.py
var makePython []byte

// pythonTar returns the cached file system of the image with Python.
var pythonTar = sync.OnceValues(func() (string, error) {
	python, err := findPython()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(python)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(makePython, "%s %d %s", python, info.Size(), info.ModTime()))
	file := filepath.Join(cache, "gpucloud", "images", "python-"+hex.EncodeToString(key[:8])+".tar")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	out, err := os.CreateTemp(filepath.Dir(file), ".python-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(out.Name()) }()
	c := exec.CommandContext(context.Background(), python, "-")
	var stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(makePython), out, &stderr
	if err := errors.Join(c.Run(), out.Close()); err != nil {
		return "", fmt.Errorf("the image with Python: %w: %s", err, &stderr)
	}
	return file, os.Rename(out.Name(), file)
})

// findPython prefers the system's Python, because a version manager's Python has more files.
func findPython() (string, error) {
	if found, err := filepath.EvalSymlinks("/usr/bin/python3"); err == nil {
		return found, nil
	}
	found, err := exec.LookPath("python3")
	if err != nil {
		return "", fmt.Errorf("an image with Python needs this machine's Python: %w", err)
	}
	return filepath.EvalSymlinks(found)
}
