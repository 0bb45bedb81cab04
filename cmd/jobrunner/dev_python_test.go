package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
)

// A program that runs once per job must call the handler that it defines.
func TestUncalledHandler(t *testing.T) {
	t.Parallel()
	python.Need(t)
	const handler = "import json\ndef handler(job):\n    'handler returns'\n    return handler if 0 else 1\n"
	for text, called := range map[string]bool{
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
		write(t, file, text)
		err := (&interpreter{command: []string{"python3"}}).check(t.Context(), nil, filepath.Dir(file), file, false)
		must.Hold(t, (err == nil) == called && (err == nil || strings.Contains(err.Error(), "doesn't call it")), text, err)
	}
}

func TestNoPython(t *testing.T) {
	t.Parallel()
	err := (&interpreter{command: []string{"no-python"}, from: "PATH"}).check(t.Context(), nil, t.TempDir(), "", false)
	must.Fail(t, err, "no-python isn't on PATH: install Python")
}

// The nearest environment or project counts, from the handler's folder up to the current one.
func TestFindPython(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the tools are scripts")
	}
	tools := t.TempDir()
	for _, name := range []string{"uv", "poetry"} {
		write(t, filepath.Join(tools, name), "#!/bin/sh\n")
		must.Succeed(t, os.Chmod(filepath.Join(tools, name), 0o700))
	}
	t.Setenv("PATH", tools)
	const python = "bin/python"
	for name, c := range map[string]struct {
		files map[string]string // in the folder above the current one
		from  string
	}{
		"beside it":                {map[string]string{"app/src/venv/pyvenv.cfg": "", "app/src/venv/" + python: "", "app/.venv/pyvenv.cfg": "", "app/.venv/" + python: ""}, "venv"},
		"above it":                 {map[string]string{"app/.venv/pyvenv.cfg": "", "app/.venv/" + python: ""}, ".venv"},
		"above the current one":    {map[string]string{".venv/pyvenv.cfg": "", ".venv/" + python: ""}, "PATH"},
		"conda":                    {map[string]string{"app/env/conda-meta/history": "", "app/env/" + python: ""}, "env"},
		"pixi":                     {map[string]string{"app/.pixi/envs/default/conda-meta/history": "", "app/.pixi/envs/default/" + python: ""}, ".pixi/envs/default"},
		"uv above it":              {map[string]string{"app/uv.lock": ""}, "uv"},
		"uv without a lock":        {map[string]string{"app/src/pyproject.toml": "[build-system]\nbuild-backend = \"uv_build\"\n"}, "uv"},
		"poetry without a lock":    {map[string]string{"app/pyproject.toml": "[build-system]\nbuild-backend = \"poetry.core.masonry.api\"\n"}, "poetry"},
		"a project without a tool": {map[string]string{"app/pyproject.toml": "[project]\nname = \"a\"\n"}, "PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			top := must.Do(filepath.EvalSymlinks(t.TempDir()))(t)
			folder := filepath.Join(top, "app", "src")
			must.Succeed(t, os.MkdirAll(folder, 0o700))
			for file, text := range c.files {
				must.Succeed(t, os.MkdirAll(filepath.Dir(filepath.Join(top, file)), 0o700))
				write(t, filepath.Join(top, file), text)
			}
			t.Chdir(filepath.Join(top, "app"))
			must.Equal(t, findPython(folder).from, c.from)
		})
	}
}
