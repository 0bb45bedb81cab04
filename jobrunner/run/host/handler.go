package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Handler is a file or a function that runs jobs without a rule in jobrunner.yaml.
type Handler struct {
	Image   string      // a pattern; it precedes the rules of jobrunner.yaml
	Func    run.Handler // must wait only by the deployment's clock; nil for a file
	File    string      // absolute
	PerJob  bool        // a process for each job; otherwise a worker on the public SDK
	command []string
}

const maxHandler = 16 << 20 // bytes

// NewHandler decides how to run a file. A Python file that imports the public SDK is a
// worker. Any other Python file, a .sh file and an executable are started once per job.
// python is the command for Python files; the default is python3.
func NewHandler(image, file string, python ...string) (h Handler, err error) {
	h = Handler{Image: image, PerJob: true}
	if h.File, err = filepath.Abs(file); err != nil {
		return h, err
	}
	info, err := os.Stat(h.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h, fmt.Errorf("the file %s doesn't exist", h.File)
	case err != nil:
		return h, err
	case !info.Mode().IsRegular():
		return h, fmt.Errorf("%s is not a regular file", h.File)
	}
	switch suffix := filepath.Ext(h.File); {
	case suffix == ".py":
		if info.Size() > maxHandler {
			return h, fmt.Errorf("%s is too large for a program: %d bytes", h.File, info.Size())
		}
		text, err := os.ReadFile(h.File)
		if err != nil {
			return h, err
		}
		h.PerJob = !importsSDK(h.File, text)
		if len(python) == 0 {
			python = []string{"python3"}
		}
		h.command = append(slices.Clone(python), h.File)
	case info.Mode()&0o111 != 0 || suffix == ".exe":
		h.command = []string{h.File}
	case suffix == ".sh":
		h.command = []string{"sh", h.File}
	default:
		return h, fmt.Errorf("%s can't be started: make it executable (chmod +x) with #! and its interpreter in the first line, or give it the suffix .py or .sh", h.File)
	}
	return h, nil
}

// Environment returns the workers' variables, except the protocol's. env is the template's.
func (Handler) Environment(env map[string]string) []string {
	return new(localSettings).environment(run.Spec{Container: store.Container{Env: env}})
}

// rule returns a rule that runs the handler. A file runs in its own folder.
func (h Handler) rule() (r rule, err error) {
	if r.pattern, err = parsePattern(h.Image); err != nil || h.Func != nil {
		r.handle = h.Func
		return r, err
	}
	// The template may set even variables that run code, because the user who starts the handler also writes its template.
	settings := &localSettings{Dir: scalar{Value: filepath.Dir(h.File)}, TemplateEnv: []scalar{{Value: "*"}}}
	for _, word := range h.command {
		settings.Run = append(settings.Run, scalar{Value: word})
	}
	if _, err := settings.findProgram(h.command[0]); err != nil {
		return r, err
	}
	if h.PerJob {
		r.Command = settings
	} else {
		r.Process = settings
	}
	return r, nil
}

// pythonCommentOrString matches the comments, strings and continued line breaks of a Python file.
var pythonCommentOrString = regexp.MustCompile(`(?s)#[^\n]*|"""(?:\\.|[^\\])*?"""|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\\\r?\n`)

// pythonImport matches the imports of a Python file without comments and strings. Its groups are the
// module and names of "from a import b, c", or the modules of "import a, b". A byte order mark may precede.
var pythonImport = regexp.MustCompile(`(?m)^\x{FEFF}?(?:[^\n]*[;:])?[ \t]*(?:from[ \t]+([\w\pL.]+)[ \t]+import[ \t]*(?:\(([^)]*)\)|([\w\pL., \t]*))|import[ \t]+([\w\pL., \t]+))`)

// maxModules limits the files of a handler that are read.
const maxModules = 200

// importsSDK reports whether a Python file imports the public SDK, directly or through files
// in or below its folder. Like Python, it looks in the folder of the target if file is a symbolic link.
func importsSDK(file string, text []byte) bool {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	folder := filepath.Dir(file)
	seen := map[string]bool{file: true}
	for queue := []string{file}; len(queue) > 0; queue = queue[1:] {
		from := folder
		if queue[0] != file {
			from = filepath.Dir(queue[0])
			if text, _ = os.ReadFile(queue[0]); len(text) > maxHandler { // an unreadable file imports nothing
				continue
			}
		}
		for _, module := range importedModules(text) {
			if module == "runpod" || strings.HasPrefix(module, "runpod.") {
				return true
			}
			base := folder
			if name := strings.TrimLeft(module, "."); name != module { // relative import: each further dot is a folder up
				base = filepath.Join(from, strings.Repeat("../", len(module)-len(name)-1))
				module = name
			}
			path := filepath.Join(base, strings.ReplaceAll(module, ".", "/"))
			for _, candidate := range []string{path + ".py", filepath.Join(path, "__init__.py")} {
				if !seen[candidate] && len(seen) < maxModules && isFile(candidate) {
					seen[candidate] = true
					queue = append(queue, candidate)
				}
			}
		}
	}
	return false
}

// importedModules returns a file's imports. "from a import b" also yields a.b, maybe a module.
func importedModules(text []byte) (modules []string) {
	for _, m := range pythonImport.FindAllStringSubmatch(pythonCommentOrString.ReplaceAllLiteralString(string(text), ""), -1) {
		modules = append(modules, splitNames(m[4])...)
		if m[1] == "" {
			continue
		}
		modules = append(modules, m[1])
		for _, name := range splitNames(m[2] + m[3]) {
			modules = append(modules, strings.TrimSuffix(m[1], ".")+"."+name)
		}
	}
	return modules
}

func splitNames(list string) (names []string) {
	for part := range strings.SplitSeq(list, ",") {
		if fields := strings.Fields(part); len(fields) > 0 {
			names = append(names, fields[0])
		}
	}
	return names
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
