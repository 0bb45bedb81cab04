package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Handler is a file that runs jobs without a rule.
type Handler struct {
	Image   string // a pattern; it precedes the rules of jobrunner.yaml
	File    string // absolute
	PerJob  bool   // a process for each job; otherwise a worker on the public SDK
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

// Environment returns the variables of the handler's workers without those of the worker protocol. env is
// the template's.
func (Handler) Environment(env map[string]string) []string {
	return new(localSettings).environment(run.Spec{Container: store.Container{Env: env}})
}

// rule returns a rule that runs the handler in its folder.
func (h Handler) rule() (r rule, err error) {
	if r.pattern, err = parsePattern(h.Image); err != nil {
		return r, err
	}
	// The user who starts the handler also writes its template.
	settings := &localSettings{Dir: text{Value: filepath.Dir(h.File)}, TemplateEnv: []text{{Value: "*"}}}
	for _, word := range h.command {
		settings.Run = append(settings.Run, text{Value: word})
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
