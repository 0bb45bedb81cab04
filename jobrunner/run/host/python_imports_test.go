package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Modules of a symbolic link are beside its target.
func TestLinkToAHandler(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.py"), []byte("import helper\n"), 0o600))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "helper.py"), []byte("import runpod\n"), 0o600))
	must.Succeed(t, os.Symlink(filepath.Join(dir, "main.py"), filepath.Join(links, "main.py")))
	h := must.Do(NewHandler("dev/handler", filepath.Join(links, "main.py")))(t)
	must.Hold(t, !h.PerJob, "a process for each job", h.PerJob)
}

// A handler is a worker if it imports the SDK through another file of its own.
func TestHandlerOfSeveralFiles(t *testing.T) {
	for name, c := range map[string]struct {
		main   string
		files  map[string]string
		perJob bool
	}{
		"a module of a folder":   {"from src import handler\n", map[string]string{"src/handler.py": "import runpod\n"}, false},
		"a package":              {"import app.worker as w\n", map[string]string{"app/__init__.py": "", "app/worker.py": "from runpod import serverless\n"}, false},
		"the package itself":     {"import app\n", map[string]string{"app/__init__.py": "import runpod\n"}, false},
		"several lines":          {"from src import (\n    helper,\n    handler as h,\n)\n", map[string]string{"src/handler.py": "import runpod\n"}, false},
		"through another":        {"import a\n", map[string]string{"a.py": "import b\n", "b.py": "import a, runpod\n"}, false},
		"a name with accents":    {"import modèle\n", map[string]string{"modèle.py": "import runpod\n"}, false},
		"relative":               {"import app.x\n", map[string]string{"app/x.py": "from .y import z\n", "app/y.py": "from . import w\n", "app/w.py": "import runpod\n"}, false},
		"relative, a folder up":  {"import app.in_.x\n", map[string]string{"app/in_/x.py": "from ..y import z\n", "app/y.py": "import runpod\n"}, false},
		"a file beside it":       {"import json\n", map[string]string{"worker.py": "import runpod\n"}, true},
		"a name that is no file": {"from src import nothing\n", nil, true},
		"nothing of the SDK":     {"import a\n", map[string]string{"a.py": "import a, os\n"}, true},
		"a comment":              {"# from src import handler\n", map[string]string{"src/handler.py": "import runpod\n"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				file := filepath.Join(dir, name)
				must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
				must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
			}
			write("main.py", c.main)
			for name, text := range c.files {
				write(name, text)
			}
			must.Equal(t, must.Do(NewHandler("dev/handler", filepath.Join(dir, "main.py")))(t).PerJob, c.perJob, "a process for each job")
		})
	}
}
