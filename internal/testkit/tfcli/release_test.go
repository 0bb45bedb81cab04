package tfcli

import (
	"archive/zip"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// tool is a module like Terraform's: it replaces a module with a folder that its archive lacks.
var tool = map[string]string{
	"go.mod": `module example.com/tool

go 1.21

require example.com/tool/absent v0.0.0

replace example.com/tool/absent => ./absent
`,
	"main.go": `package main

import (
	"fmt"

	other "example.com/tool/absent"
	"example.com/tool/version"
)

var table = map[string]func() string{
	"present": func() string { return version.String() },
	"absent":  func() string { return other.String() },
}

func main() { fmt.Printf("Terraform v%s\n%d\n", table["present"](), len(table)) }
`,
	"version/version.go": `package version

var dev = "yes"

func String() string {
	if dev == "no" {
		return "1.2.3"
	}
	return "1.2.3-dev"
}
`,
}

// publish serves a module to the go command from a folder. The module cache and the home are empty.
func publish(t *testing.T, files map[string]string) Release {
	t.Helper()
	proxy := t.TempDir()
	dir := filepath.Join(proxy, "example.com", "tool", "@v")
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	archive := must.Do(os.Create(filepath.Join(dir, "v1.2.3.zip")))(t)
	defer archive.Close()
	z := zip.NewWriter(archive)
	for name, text := range files {
		w := must.Do(z.Create("example.com/tool@v1.2.3/" + name))(t)
		must.Do(w.Write([]byte(text)))(t)
	}
	must.Succeed(t, z.Close())
	for name, text := range map[string]string{"v1.2.3.mod": files["go.mod"], "v1.2.3.info": `{"Version": "v1.2.3"}`} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cache := t.TempDir()
	t.Cleanup(func() { // the module cache is read-only
		_ = filepath.WalkDir(cache, func(path string, entry fs.DirEntry, _ error) error {
			if entry != nil && entry.IsDir() {
				return os.Chmod(path, 0o755)
			}
			return nil
		})
	})
	t.Setenv("GOCACHE", strings.TrimSpace(string(must.Do(exec.Command("go", "env", "GOCACHE").Output())(t))))
	t.Setenv("GOMODCACHE", filepath.Join(cache, "mod"))
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(proxy))
	t.Setenv("GONOSUMDB", "example.com")
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData", "XDG_CONFIG_HOME", "AppData"} { // os.UserCacheDir and UserConfigDir read one of them
		t.Setenv(name, cache)
	}
	// The go command's telemetry would write to its folder after the test, which couldn't remove it.
	telemetry := filepath.Join(must.Do(os.UserConfigDir())(t), "go", "telemetry")
	must.Succeed(t, os.MkdirAll(telemetry, 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(telemetry, "mode"), []byte("off"), 0o600))
	return Release{Name: "terraform", Version: "1.2.3", module: "example.com/tool", main: "."}
}

func leftovers(t *testing.T, r Release) (left []string) {
	t.Helper()
	path := must.Do(r.Path())(t)
	entries, err := os.ReadDir(filepath.Dir(path))
	must.Require(t, err == nil || errors.Is(err, fs.ErrNotExist), "reading the program's folder failed:", err)
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			left = append(left, e.Name())
		}
	}
	return left
}

func TestBuild(t *testing.T) {
	r := publish(t, tool)
	path := must.Do(r.Path())(t)
	// A killed build leaves such a folder.
	stale := filepath.Join(filepath.Dir(path), workPrefix+"stale")
	must.Succeed(t, os.MkdirAll(stale, 0o755))
	old := time.Now().Add(-48 * time.Hour)
	must.Succeed(t, os.Chtimes(stale, old, old))
	for range 2 { // the second build replaces the program
		must.Succeed(t, r.Build(t.Context()))
	}
	c, err := Inspect(t.Context(), path)
	must.Require(t, err == nil && c.String() == "Terraform 1.2.3", "expected Terraform 1.2.3 and built", c, err)
	out, _ := exec.Command(path).Output()
	must.Hold(t, strings.HasSuffix(string(out), "\n1\n"), "the build kept the line that uses the absent module:", string(out))
	left := leftovers(t, r)
	must.Hold(t, left == nil, "the build left beside the program", left)
}

func TestBuildFails(t *testing.T) {
	broken := map[string]string{"go.mod": "module example.com/tool\n", "main.go": "package main\n\nfunc main() { undefined() }\n"}
	for name, c := range map[string]struct {
		files   map[string]string
		prepare func(t *testing.T) context.Context
		want    string
	}{
		"no network": {tool, func(t *testing.T) context.Context {
			t.Setenv("GOPROXY", "off")
			return t.Context()
		}, "can't be fetched (is there a network?)"},
		"source that does not compile": {broken, func(t *testing.T) context.Context { return t.Context() }, "undefined: undefined"},
		"interrupted": {tool, func(t *testing.T) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		}, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			r := publish(t, c.files)
			must.ErrorContains(t, r.Build(c.prepare(t)), c.want)
			path, _ := r.Path()
			must.ErrorIs(t, must.Err(os.Stat(path)), fs.ErrNotExist, "looking for the program")
			left := leftovers(t, r)
			must.Hold(t, left == nil, "the failed build left", left)
		})
	}
}

func TestMissing(t *testing.T) {
	cli := func(name, number string) CLI {
		return CLI{Name: name, Version: version.Must(version.NewVersion(number))}
	}
	tofu, terraform := Releases[0], Releases[1]
	for _, c := range []struct {
		present []CLI
		want    []Release
	}{
		{nil, Releases},
		{[]CLI{cli("terraform", "1.11.4")}, Releases},
		{[]CLI{cli("terraform", "1.16.0"), cli("tofu", "1.11.9")}, []Release{tofu}},
		{[]CLI{cli("tofu", "1.12.0"), cli("terraform", "1.9.8")}, []Release{terraform}},
		{[]CLI{cli("tofu", "2.0.0"), cli("terraform", "1.17.1")}, nil},
		{[]CLI{cli("tofu", "1.17.0")}, []Release{terraform}},
	} {
		must.Equal(t, Missing(c.present), c.want, "missing releases beside", c.present)
	}
}

func TestInspectOfAnotherProgram(t *testing.T) {
	c, err := Inspect(t.Context(), must.Do(exec.LookPath("go"))(t))
	must.Hold(t, err != nil && strings.Contains(err.Error(), "neither Terraform nor OpenTofu"), "the program go is inspected as", c, err)
}
