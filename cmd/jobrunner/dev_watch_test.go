package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
)

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
}

// Source files of a handler are watched; files that it writes and installed packages aren't.
func TestWatch(t *testing.T) {
	dir, otherDir := t.TempDir(), t.TempDir()
	inDir := func(name string) string { return filepath.Join(dir, name) }
	names := []string{
		"handler.py", "helper.py", "pkg/deep/one.py", "output.json", "pkg/data.txt", ".git/hooks/x.py", ".hidden.py",
		".venv/lib/a.py", "env/pyvenv.cfg", "env/lib/a.py", "conda/conda-meta/x", "conda/lib/a.py", "node_modules/m/a.py", "__pycache__/a.py",
		"config/model.yaml", "config/other.yaml",
	}
	for _, name := range names {
		writeFile(t, inDir(name), "1")
	}
	writeFile(t, filepath.Join(otherDir, "lib", "x.py"), "1")
	writeFile(t, filepath.Join(otherDir, "lib", "y.txt"), "1")
	w, err := newFileWatcher(inDir("handler.py"), []string{inDir("config/m*.yaml"), filepath.Join(otherDir, "lib"), inDir("absent")})
	must.Hold(t, err != nil && strings.Contains(err.Error(), "absent: no file") && !strings.Contains(err.Error(), "lib"), "with a file that does not exist, the error is", err)
	got := w.changed()
	must.Hold(t, got == nil, "nothing was written, but changed are", got)
	for _, name := range names {
		writeFile(t, inDir(name), "22")
	}
	must.Equal(t, w.changed(), []string{"config/model.yaml", "handler.py", "helper.py", "pkg/deep/one.py"}, "changes after all files were written")
	writeFile(t, filepath.Join(otherDir, "lib", "x.py"), "22")
	writeFile(t, filepath.Join(otherDir, "lib", "y.txt"), "22")
	got = w.changed()
	must.Hold(t, len(got) == 2 && strings.HasSuffix(got[1], "lib/y.txt"), got, "changed in the folder of --watch, want 2 files")
	writeFile(t, inDir("new.py"), "1")
	must.Equal(t, w.changed(), []string{"new.py"}, "changes after a file was added")
	must.Succeed(t, os.Remove(inDir("new.py")))
	must.Succeed(t, os.Rename(inDir("handler.py"), inDir("away")))
	for _, want := range [][]string{nil, {"handler.py", "new.py"}, nil} { // an editor may remove a file for a moment
		must.Equal(t, w.changed(), want, "changes while the handler is away")
	}
	must.Succeed(t, os.Rename(inDir("away"), inDir("handler.py")))
	must.Equal(t, w.changed(), []string{"handler.py"}, "changes after the handler was moved back")
	w, err = newFileWatcher(inDir("without_suffix"), nil)
	must.Succeed(t, err)
	writeFile(t, inDir("output.json"), "333")
	must.Equal(t, len(w.changed()), 0, "changes of a handler without a suffix after it wrote a file")
	running := must.Do(newFileWatcher(inDir("handler.py"), nil))(t)
	for n := range maxWatchedFiles + 1 {
		writeFile(t, inDir(fmt.Sprintf("many/%d.py", n)), "")
	}
	running.changed()
	must.ErrorContains(t, running.problem, "only the file itself and the files of --watch are watched")
	w, err = newFileWatcher(inDir("handler.py"), []string{inDir("many"), inDir("config/model.yaml")})
	must.ErrorContains(t, err, "only the file itself and the files of --watch are watched", "the rest of this folder")
	writeFile(t, inDir("helper.py"), "4444")
	writeFile(t, inDir("handler.py"), "4444")
	writeFile(t, inDir("config/model.yaml"), "4444")
	must.Equal(t, w.changed(), []string{"config/model.yaml", "handler.py"}, "changes if there are too many files")
	must.Equal(t, watchPause(time.Second), 9*time.Second, "the pause after a slow scan")
	must.Equal(t, listNames(strings.Split("abcdefghijkl", "")), "a, b, c, d, e, f, g, h, i, j, and 2 more", "a list of 12 names")
}

// Modules beside the target of a link are watched. A link in the folder's path doesn't list a file twice.
func TestWatchLink(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	file, module, link := filepath.Join(dir, "handler.py"), filepath.Join(dir, "module.py"), filepath.Join(links, "handler.py")
	writeFile(t, file, "1")
	writeFile(t, module, "1")
	must.Succeed(t, os.Symlink(file, link))
	must.Succeed(t, os.Symlink(dir, filepath.Join(links, "folder")))
	for _, handler := range []string{link, filepath.Join(links, "folder", "handler.py")} {
		w := must.Do(newFileWatcher(handler, nil))(t)
		writeFile(t, module, handler)
		got := w.changed()
		must.Hold(t, len(got) == 1 && filepath.Base(got[0]) == "module.py", "for the handler", handler, got, "changed, want module.py")
	}
}

// --watch takes an existing name literally, even if it has the characters of a pattern, and rejects an invalid pattern.
func TestWatchNames(t *testing.T) {
	dir := t.TempDir()
	file, watchedFile := filepath.Join(dir, "handler.sh"), filepath.Join(dir, "prompts[", "v[1].txt")
	writeFile(t, file, "1")
	writeFile(t, watchedFile, "1")
	patterns := []string{watchedFile, filepath.Dir(watchedFile)}
	w, err := newFileWatcher(file, patterns)
	must.Succeed(t, errors.Join(err, checkWatch(patterns)))
	writeFile(t, watchedFile, "22")
	got := w.changed()
	must.Hold(t, len(got) == 1, got, "changed, want only", watchedFile)
	must.ErrorContains(t, checkWatch([]string{watchedFile, filepath.Join(dir, "x[")}), "x[: expected a file, folder or pattern")
}

// A worker that is still starting isn't a failure of --once: a large model loads for minutes.
func TestOnceWaitsForAWorkerThatLoads(t *testing.T) {
	t.Parallel()
	for starting, want := range map[int]string{0: "the handler does not start: it has run for 30s", 1: ""} {
		var polls atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := "IN_QUEUE"
			if path.Base(r.URL.Path) == "health" {
				polls.Add(1)
			} else if polls.Load() > 2 {
				status = "COMPLETED"
			}
			fmt.Fprintf(w, `{"id":"j","status":%q,"reason":"it has run for 30s","workers":{"initializing":%d}}`, status, starting)
		}))
		t.Cleanup(server.Close)
		client := must.Do(api.New(api.Settings{BaseURL: server.URL, Version: api.V2, APIKey: "k"}))(t)
		e := &devEndpoint{client: client, id: "e"}
		job, err := e.await(t.Context(), api.Job{ID: "j", Status: "IN_QUEUE"}, true, &terminal{w: io.Discard})
		failure, _ := errors.AsType[*exitError](err)
		if want == "" && (err != nil || job.Status != "COMPLETED") || want != "" && (failure == nil || failure.status != exitNotStarted || failure.text != want) {
			t.Errorf("with %d starting workers: %s, %v", starting, job.Status, err)
		}
	}
}

// A program that runs once per job must call the handler that it defines.
func TestUncalledHandler(t *testing.T) {
	t.Parallel()
	python.Need(t)
	const handler = "import json\ndef handler(job):\n    'handler returns'\n    return handler if 0 else 1\n"
	for text, accepted := range map[string]bool{
		handler: false,
		handler + "print(json.dumps({'loaded': True}))\n# start(handler)\n":                     false,
		"async def run(event):\n    yield 1\nprint(1)\n":                                        false,
		"if True:\n    def my_handler(x): return 1\nif __name__ == '__main__':\n    print(1)\n": false,
		handler + "print(handler({}))\n":                                                        true,
		handler + "print(globals()['handler']({}))\n":                                           true,
		"import atexit\n@atexit.register\ndef handler(): print(2)\n":                            true,
		"def helper(text): return 1\nprint(1)\n":                                                true,
	} {
		file := filepath.Join(t.TempDir(), "file.py")
		writeFile(t, file, text)
		err := (&interpreter{command: []string{"python3"}}).check(t.Context(), nil, filepath.Dir(file), file, false)
		must.Hold(t, (err == nil) == accepted && (err == nil || strings.Contains(err.Error(), "doesn't call it")), "the program", text, "got", err)
	}
}

func TestNoPython(t *testing.T) {
	t.Parallel()
	err := (&interpreter{command: []string{"no-python"}, origin: "PATH"}).check(t.Context(), nil, t.TempDir(), "", false)
	must.ErrorContains(t, err, "no-python isn't on PATH: install Python")
	folder := t.TempDir() // an environment whose Python is missing, such as one of another machine
	writeFile(t, filepath.Join(folder, ".venv", "pyvenv.cfg"), "")
	python3 := findPython(folder)
	must.ErrorContains(t, python3.check(t.Context(), nil, folder, "", true), "running the Python from .venv failed: "+python3.command[0]+": repair this environment")
}

// A project tool installs the packages that its project has listed since the start. It doesn't run without the handler.
func TestChangePreparesPython(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handler.sh")
	handler, output := host.Handler{File: file}, new(strings.Builder)
	uv := interpreter{origin: "uv", createEnv: [][]string{{"touch", file + ".ran"}, {"no-uv"}}}
	must.Hold(t, !new(dev).applyChange(t.Context(), nil, handler, uv, "handler.sh", &terminal{w: output}) && !exists(file+".ran"), "without the handler, dev printed", output)
	writeFile(t, file, "")
	must.Hold(t, !new(dev).applyChange(t.Context(), nil, handler, uv, "handler.sh", &terminal{w: output}) && strings.Contains(output.String(), "preparing the Python from uv failed: no-uv"), "dev printed", output)
}

// A repeated failure is shown in one line, regardless of timing.
func TestRepeatedFailureLineByLine(t *testing.T) {
	const silentLine = run.SystemPrefix + "it has run for 30s and not asked for a job"
	const failedLine, stoppedLine = run.SystemPrefix + "the process ended with exit status 1", run.SystemPrefix + "the process ended with exit status 0"
	for name, c := range map[string]struct {
		lines []string // lines of the second worker
		job   int      // number of lines before a job runs, or negative if it completes; 0 for no job
		want  string
	}{
		"the same failure": {[]string{"loads", "no model", "here", failedLine}, 0, run.SystemPrefix + "the same error again"},
		"out of memory":    {[]string{"loads", "no model", "here", failedLine + " (meanwhile the kernel killed one of its processes or one next to it, out of memory)"}, 0, run.SystemPrefix + "the same error again"},
		"a slow start":     {[]string{"loads", silentLine, "no model", "here", failedLine}, 0, silentLine + "|" + run.SystemPrefix + "the same error again"},
		"another status":   {[]string{"loads", "no model", "here", failedLine + "1"}, 0, "loads|no model|here|" + failedLine + "1"},
		"another error":    {[]string{"loads", "no disk", failedLine}, 0, "loads|no disk|" + failedLine},
		"a longer error":   {[]string{"loads", "no model", "here", "at all", failedLine}, 0, "loads|no model|here|at all|" + failedLine},
		"no error":         {[]string{"loads", "no model", stoppedLine}, 0, "loads|no model|" + stoppedLine},
		"a job runs":       {[]string{"loads", "no model"}, 1, "loads"},
		"a job completes":  {[]string{"loads", "no model"}, -1, "loads|no model"},
		"after a job":      {[]string{"loads", "no model", "here", failedLine}, 1, "loads|" + run.SystemPrefix + "the same error again"},
	} {
		for _, pause := range []time.Duration{0, time.Hour} {
			t.Run(name+" with pauses of "+pause.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var filter repeatFilter
					var shownLines []string
					show := func(text string) { shownLines = append(shownLines, text) }
					for _, line := range []string{"loads", "no model", "here", failedLine} {
						filter.write("one", line, show)
						time.Sleep(pause)
					}
					shownLines = nil
					for i, line := range c.lines {
						filter.write("two", line, show)
						time.Sleep(pause)
						synctest.Wait()
						if i+1 == max(c.job, -c.job) {
							filter.release(c.job < 0, func(_, text string) { show(text) })
						}
					}
					must.Equal(t, strings.Join(shownLines, "|"), c.want)
				})
			})
		}
	}
}

// The nearest environment or project tool is used. The search goes from the handler's folder up to the current folder.
func TestFindPython(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the tools of this test are shell scripts, which Windows doesn't run")
	}
	tools := t.TempDir()
	for _, name := range []string{"uv", "poetry"} {
		writeFile(t, filepath.Join(tools, name), "#!/bin/sh\n")
		must.Succeed(t, os.Chmod(filepath.Join(tools, name), 0o700))
	}
	t.Setenv("PATH", tools)
	const python = "bin/python"
	for name, c := range map[string]struct {
		files           map[string]string // by path; app is the project and current folder, and app/src the handler's
		origin, install string
	}{
		"beside the handler":       {map[string]string{"app/src/venv/pyvenv.cfg": "", "app/src/venv/" + python: "", "app/.venv/pyvenv.cfg": "", "app/.venv/" + python: ""}, "venv", "-m pip install runpod"},
		"in the project":           {map[string]string{"app/.venv/pyvenv.cfg": "", "app/.venv/" + python: ""}, ".venv", "-m pip install runpod"},
		"above the project":        {map[string]string{".venv/pyvenv.cfg": "", ".venv/" + python: ""}, "PATH", "pip install runpod"},
		"made by uv":               {map[string]string{"app/.venv/pyvenv.cfg": "home = /usr/bin\nuv = 0.9.7\n", "app/.venv/" + python: ""}, ".venv", "uv pip install --python "},
		"made for a uv project":    {map[string]string{"app/.venv/pyvenv.cfg": "home = /usr/bin\nuv = 0.9.7\n", "app/.venv/" + python: "", "app/uv.lock": ""}, "uv", "uv add runpod"},
		"conda":                    {map[string]string{"app/env/conda-meta/history": "", "app/env/" + python: ""}, "env", "-m pip install runpod"},
		"pixi":                     {map[string]string{"app/.pixi/envs/default/conda-meta/history": "", "app/.pixi/envs/default/" + python: ""}, ".pixi/envs/default", "pixi add --pypi runpod"},
		"uv in the project":        {map[string]string{"app/uv.lock": ""}, "uv", "/app && uv add runpod"},
		"uv without a lock":        {map[string]string{"app/src/pyproject.toml": "[build-system]\nbuild-backend = \"uv_build\"\n"}, "uv", "uv add runpod"},
		"a member of a workspace":  {map[string]string{"pyproject.toml": "[tool.uv.workspace]\nmembers = [\"app/*\"]\n", "app/src/pyproject.toml": "[project]\n"}, "uv", "/app/src && uv add runpod"},
		"poetry without a lock":    {map[string]string{"app/pyproject.toml": "[build-system]\nbuild-backend = \"poetry.core.masonry.api\"\n"}, "poetry", "/app && poetry add runpod"},
		"a project without a tool": {map[string]string{"app/pyproject.toml": "[project]\nname = \"a\"\n"}, "PATH", "pip install runpod"},
	} {
		t.Run(name, func(t *testing.T) {
			top := must.Do(filepath.EvalSymlinks(t.TempDir()))(t)
			folder := filepath.Join(top, "app", "src")
			must.Succeed(t, os.MkdirAll(folder, 0o700))
			for file, text := range c.files {
				writeFile(t, filepath.Join(top, file), text)
			}
			t.Chdir(filepath.Join(top, "app"))
			interpreter := findPython(folder)
			must.Equal(t, interpreter.origin, c.origin)
			must.Contain(t, interpreter.install, c.install)
		})
	}
}
