package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
}

// Source files of a handler are watched; files that it writes and installed packages aren't.
func TestWatch(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	all := []string{
		"handler.py", "helper.py", "pkg/deep/one.py", "output.json", "pkg/data.txt", ".git/hooks/x.py", ".hidden.py",
		".venv/lib/a.py", "env/pyvenv.cfg", "env/lib/a.py", "conda/conda-meta/x", "conda/lib/a.py", "node_modules/m/a.py", "__pycache__/a.py",
		"config/model.yaml", "config/other.yaml",
	}
	for _, name := range all {
		write(t, in(name), "1")
	}
	write(t, filepath.Join(other, "lib", "x.py"), "1")
	write(t, filepath.Join(other, "lib", "y.txt"), "1")
	w, err := newWatch(in("handler.py"), []string{in("config/m*.yaml"), filepath.Join(other, "lib"), in("absent")})
	must.Hold(t, err != nil && strings.Contains(err.Error(), "absent: no file") && !strings.Contains(err.Error(), "lib"), "a file that does not exist", err)
	got := w.changed()
	must.Hold(t, got == nil, "changes without a change", got)
	for _, name := range all {
		write(t, in(name), "22")
	}
	if got, want := w.changed(), []string{"config/model.yaml", "handler.py", "helper.py", "pkg/deep/one.py"}; !slices.Equal(got, want) {
		t.Errorf("%v changed, not %v", got, want)
	}
	write(t, filepath.Join(other, "lib", "x.py"), "22")
	write(t, filepath.Join(other, "lib", "y.txt"), "22")
	got = w.changed()
	must.Hold(t, len(got) == 2 && strings.HasSuffix(got[1], "lib/y.txt"), got, "changed of a folder that was named")
	write(t, in("new.py"), "1")
	must.Equal(t, w.changed(), []string{"new.py"}, "is new")
	for _, name := range []string{"new.py", "handler.py"} { // the handler exists again, as after an editor replaced it
		must.Succeed(t, os.Remove(in(name)))
	}
	must.Equal(t, w.changed(), []string{"new.py"}, "is gone")
	got = w.changed()
	must.Hold(t, got == nil, got, "changed while the handler is away")
	write(t, in("handler.py"), "333")
	must.Equal(t, w.changed(), []string{"handler.py"}, "is back")
	for n := range maxWatchedFiles + 1 {
		write(t, in(fmt.Sprintf("many/%d.py", n)), "")
	}
	w, err = newWatch(in("handler.py"), []string{in("many"), in("config/model.yaml")})
	must.Fail(t, err, "only the file itself and those of --watch are watched", "the rest of this folder")
	write(t, in("helper.py"), "4444")
	write(t, in("handler.py"), "4444")
	write(t, in("config/model.yaml"), "4444")
	must.Equal(t, w.changed(), []string{"config/model.yaml", "handler.py"}, "with too many files, got the changes")
}

// Modules beside the target of a link are watched. A link in the folder's path doesn't list a file twice.
func TestWatchLink(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	file, module, link := filepath.Join(dir, "handler.py"), filepath.Join(dir, "module.py"), filepath.Join(links, "handler.py")
	write(t, file, "1")
	write(t, module, "1")
	must.Succeed(t, os.Symlink(file, link))
	must.Succeed(t, os.Symlink(dir, filepath.Join(links, "folder")))
	for _, handler := range []string{link, filepath.Join(links, "folder", "handler.py")} {
		w := must.Do(newWatch(handler, nil))(t)
		write(t, module, handler)
		got := w.changed()
		must.Hold(t, len(got) == 1 && filepath.Base(got[0]) == "module.py", handler, got, "changed")
	}
}

// The name of a file isn't a pattern, and an invalid pattern is rejected.
func TestWatchNames(t *testing.T) {
	dir := t.TempDir()
	file, named := filepath.Join(dir, "handler.sh"), filepath.Join(dir, "prompts[", "v[1].txt")
	write(t, file, "1")
	write(t, named, "1")
	extra := []string{named, filepath.Dir(named)}
	w, err := newWatch(file, extra)
	must.Succeed(t, errors.Join(err, checkWatch(extra)))
	write(t, named, "22")
	got := w.changed()
	must.Hold(t, len(got) == 1, got, "changed")
	must.Fail(t, checkWatch([]string{named, filepath.Join(dir, "x[")}), "x[: expected a file, folder or pattern")
}
