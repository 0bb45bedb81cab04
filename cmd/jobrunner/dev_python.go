package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
)

// interpreter is the Python that runs a handler.
type interpreter struct {
	command   []string   // program and arguments before the handler's file
	createEnv [][]string // commands that create or update the environment; the last prints the path of its Python
	packages  string     // file that lists the packages of createEnv, or ""
	origin    string     // for messages
	install   string     // command that installs the SDK
	version   string     // such as 3.12.1
}

// scriptPython finds the Python of a handler that lists its packages in a comment (PEP 723), as uv run does.
func scriptPython(file string) (found interpreter, ok bool) {
	text, _ := os.ReadFile(file) // running the handler shows the error
	uv, err := exec.LookPath("uv")
	if err != nil || !inlineMetadata.Match(text) {
		return found, false
	}
	createEnv := [][]string{{uv, "sync", "--script", file}, {uv, "python", "find", "--script", file}}
	// prepare replaces command with the path of Python.
	return interpreter{command: createEnv[0], createEnv: createEnv, origin: "uv", install: installWith("uv", "add", "--script", file)}, true
}

var inlineMetadata = regexp.MustCompile(`(?m)^# /// script\s*$`)

// findPython finds the Python of a handler's folder: in the nearest folder with a virtual environment or a
// project. It searches from the handler's folder up to the current folder.
func findPython(folder string) interpreter {
	current, _ := os.Getwd() // if it fails, only the handler's folder is searched
	for dir := folder; ; dir = filepath.Dir(dir) {
		if found := projectPython(dir); found.command != nil {
			return found
		}
		if relative, err := filepath.Rel(current, dir); err != nil || !filepath.IsLocal(relative) || relative == "." {
			break
		}
	}
	found := interpreter{command: []string{"python3"}, origin: "PATH", install: installInNewVenv(folder)}
	if os.Getenv("VIRTUAL_ENV") != "" || os.Getenv("CONDA_PREFIX") != "" {
		found.install = installWith("python3", "-m", "pip", "install")
	}
	return found
}

// projectPython finds the Python in a folder's virtual environment, or through its project tool (uv, poetry,
// conda). If the folder has neither, the interpreter has no command.
func projectPython(folder string) interpreter {
	inFolder := func(name string) string { return filepath.Join(folder, name) }
	// Project tools look for their project in the current folder.
	addWith := func(command ...string) string { return commandLine("cd", folder) + " && " + installWith(command...) }
	// A project shows its tool by a lock file or in pyproject.toml.
	project, _ := os.ReadFile(inFolder("pyproject.toml"))
	detectTool := func(lock string, marks ...string) bool {
		return exists(inFolder(lock)) || slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(string(project), mark) })
	}
	usesUV := detectTool("uv.lock", "[tool.uv", `"uv_build"`)
	for dir := filepath.Dir(folder); project != nil && !usesUV && dir != filepath.Dir(dir); dir = filepath.Dir(dir) { // a workspace has one lock file
		parent, _ := os.ReadFile(filepath.Join(dir, "pyproject.toml"))
		usesUV = strings.Contains(string(parent), "[tool.uv.workspace]")
	}
	for _, name := range []string{".venv", "venv", "env", ".pixi/envs/default"} {
		if isEnvironment(inFolder(name)) {
			python := venvProgram(inFolder(name), "python")
			install := installWith(python, "-m", "pip", "install")
			settings, _ := os.ReadFile(filepath.Join(inFolder(name), "pyvenv.cfg"))
			_, uvErr := exec.LookPath("uv")
			madeByUV := strings.Contains(string(settings), "\nuv = ")
			if madeByUV && usesUV && uvErr == nil && name == ".venv" {
				break // leave it to uv run, which also installs packages that the project has listed since
			}
			switch {
			case madeByUV && usesUV:
				install = addWith("uv", "add") // uv removes packages that the project doesn't list
			case madeByUV:
				install = installWith("uv", "pip", "install", "--python", python) // uv installs no pip
			case strings.HasPrefix(name, ".pixi"):
				install = addWith("pixi", "add", "--pypi")
			}
			return interpreter{command: []string{python}, origin: name, install: install}
		}
	}
	tool := ""
	switch {
	case usesUV:
		tool = "uv"
	case detectTool("poetry.lock", "[tool.poetry", "poetry.core.masonry"):
		tool = "poetry"
	}
	if path, err := exec.LookPath(tool); err == nil {
		run := []string{path, "run", "python"}
		return interpreter{command: run, createEnv: [][]string{append(run, "-c", printPath)}, packages: inFolder("pyproject.toml"), origin: tool, install: addWith(tool, "add")}
	}
	for _, name := range []string{"environment.yml", "environment.yaml"} {
		text, err := os.ReadFile(inFolder(name))
		if err != nil {
			continue
		}
		conda, err := exec.LookPath("conda")
		if m := condaName.FindSubmatch(text); m != nil && err == nil {
			env := string(m[1])
			return interpreter{
				command: []string{conda, "run", "--no-capture-output", "-n", env, "python"}, origin: "conda environment " + env,
				install: installWith("conda", "run", "-n", env, "python", "-m", "pip", "install"),
			}
		}
	}
	return interpreter{}
}

// prepare lets the project tool create its environment and install missing packages, and finds the path of
// Python in it. The tool runs only here, with all variables of the user, such as UV_PROJECT_ENVIRONMENT
// and UV_INDEX, which workers don't get. It may take minutes, and reports its progress on stderr.
func (p *interpreter) prepare(ctx context.Context, folder string) error {
	for _, command := range p.createEnv {
		c := exec.CommandContext(ctx, command[0], command[1:]...)
		c.Dir, c.Stderr = folder, stderr
		path, err := c.Output()
		if err != nil {
			return fmt.Errorf("preparing the Python from %s failed: %s: %w", p.origin, commandLine(command...), err)
		}
		if python := strings.TrimSpace(string(path)); exists(python) {
			p.command = []string{python}
		}
	}
	return nil
}

const printPath = "import sys; print(sys.executable)"

func installWith(command ...string) string { return commandLine(append(command, sdkPackage)...) }

// commandLine quotes a command for a shell.
func commandLine(words ...string) string {
	if runtime.GOOS == "windows" { // its shells quote differently
		return strings.Join(words, " ")
	}
	return startcmd.Join(words)
}

// installInNewVenv returns a command line that creates a virtual environment and installs the SDK
// in it. Systems such as Debian reject packages for their own Python.
func installInNewVenv(folder string) string {
	packages := sdkPackage
	if exists(filepath.Join(folder, "requirements.txt")) {
		packages = "-r requirements.txt " + packages
	}
	return fmt.Sprintf("%s && python3 -m venv .venv && %s install %s", commandLine("cd", folder), venvProgram(".venv", "pip"), packages)
}

var condaName = regexp.MustCompile(`(?m)^name:[ \t]*["']?([\w.-]+)`)

// venvProgram returns the path of a program in a virtual or conda environment. It may be missing if the
// environment was copied or its base Python was removed.
func venvProgram(folder, name string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join(folder, "Scripts", name+".exe")
	}
	return filepath.Join(folder, "bin", name)
}

func isEnvironment(folder string) bool {
	return exists(filepath.Join(folder, "pyvenv.cfg")) || exists(filepath.Join(folder, "conda-meta"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return path != "" && err == nil
}

// commandTimeout limits the duration of commandOutput.
const commandTimeout = 20 * time.Second

// commandOutput runs a command in a folder and returns its stdout, or "" if the command fails. If env is
// nil, the command has the environment of this program.
func commandOutput(ctx context.Context, folder string, env []string, command ...string) string {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir, c.Env = folder, env
	text, err := c.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// sdkPackage is the name of the public worker SDK for Python and pip.
const sdkPackage = "runpod"

// fileCheck prints Python's version, whether the SDK is installed, and the name of a handler that
// a file defines but doesn't use. It doesn't import the SDK, which takes seconds.
const fileCheck = `import ast, importlib.util, sys
def functions(nodes):
    for n in nodes:
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield n
        elif isinstance(n, (ast.If, ast.Try)):
            yield from functions(ast.iter_child_nodes(n))
def used(n, name):
    return isinstance(n, ast.Name) and n.id == name or isinstance(n, ast.Constant) and n.value == name
unused = ""
try:
    with open(sys.argv[1], "rb") as f:
        tree = ast.parse(f.read())
    for f in functions(tree.body):
        takes_job = "handler" in f.name.lower() or [a.arg for a in f.args.args] in (["job"], ["event"])
        within = {id(n) for n in ast.walk(f)}
        if takes_job and not f.decorator_list and not any(used(n, f.name) for n in ast.walk(tree) if id(n) not in within):
            unused = unused or f.name
except (OSError, SyntaxError, ValueError, RecursionError):
    pass  # running the handler shows the error
print(sys.version.split()[0], importlib.util.find_spec("` + sdkPackage + `") is not None, unused)`

// check runs Python with the workers' environment and sets the version. If needsSDK is set, it rejects a
// Python without the SDK. If program isn't "", it is a file that runs once per job: check rejects it if it
// defines a handler without calling it.
func (p *interpreter) check(ctx context.Context, env []string, folder, program string, needsSDK bool) error {
	words := strings.Fields(commandOutput(ctx, folder, env, append(p.command[:len(p.command):len(p.command)], "-c", fileCheck, program)...))
	if len(words) < 2 {
		if _, err := exec.LookPath(p.command[0]); err != nil && p.origin == "PATH" {
			return fmt.Errorf("%s isn't on PATH: install Python 3.10 or later", p.command[0])
		}
		return fmt.Errorf("running the Python from %s failed: %s: repair this environment, or delete it and create it again", p.origin, commandLine(p.command...))
	}
	p.version = words[0]
	if len(words) > 2 {
		return fmt.Errorf("%[1]s defines %[2]s, but doesn't call it: import %[3]s and call %[3]s.serverless.start({\"handler\": %[2]s}); a program without the SDK reads the input from stdin, and prints the output as a line of JSON",
			filepath.Base(program), words[2], sdkPackage)
	}
	if needsSDK && words[1] != "True" {
		return fmt.Errorf("the handler imports %s, which is missing in its Python (%s, %s): install it with: %s",
			sdkPackage, p.version, p.origin, p.install)
	}
	return nil
}

func (p *interpreter) String() string {
	return fmt.Sprintf("Python %s from %s: %s", p.version, p.origin, strings.Join(p.command, " "))
}
