package main

import (
	"path/filepath"
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
