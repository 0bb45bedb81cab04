package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

// settings is a jobrunner.yaml.
type settings struct {
	Engine     scalar               `yaml:"engine"`
	Executor   scalar               `yaml:"executor"`
	Kubernetes *run.ClusterSettings `yaml:"kubernetes"`
	Rules      []rule               `yaml:"rules"`
}

// rule configures the images of a pattern. In the file it has exactly one of process, command and container.
type rule struct {
	Image     scalar             `yaml:"image"`
	Process   *localSettings     `yaml:"process"`
	Command   *localSettings     `yaml:"command"`
	Container *containerSettings `yaml:"container"`

	pattern
	line   int
	handle run.Handler // a function instead of process, command or container
}

// kinds are the keys that select how a rule runs its images. A rule has exactly one of them.
var kinds = []string{"process", "command", "container"}

func (r rule) kind() string {
	switch {
	case r.Process != nil:
		return kinds[0]
	case r.Command != nil:
		return kinds[1]
	}
	return kinds[2]
}

type localSettings struct {
	Run      []scalar          `yaml:"run"`
	Dir      scalar            `yaml:"dir"` // made absolute
	Env      map[string]scalar `yaml:"env"`
	Inherit  []scalar          `yaml:"inherit"`
	Template scalar            `yaml:"template"`
	// TemplateEnv lists variables that a template may set although they run code.
	TemplateEnv []scalar `yaml:"template_env"`
}

// Values of template: the parts of a template that a command uses besides the environment.
const (
	templateArgs    = "args"    // appends the template's args
	templateCommand = "command" // the template's entrypoint, if any, also replaces run
)

type containerSettings struct {
	Network   scalar   `yaml:"network"`
	Pull      scalar   `yaml:"pull"`
	DiskLimit bool     `yaml:"disk_limit"`
	Options   []scalar `yaml:"options"`
}

const (
	pullMissing = "missing"
	pullAlways  = "always"
)

// scalar is a value in the file, with its line.
type scalar = yamlfile.Text

func (r *rule) UnmarshalYAML(decode func(any) error) error {
	type plain rule // without this method
	var node ast.Node
	_ = decode(&node) // never fails
	err := decode((*plain)(r))
	r.line = yamlfile.LineOf(node)
	return err
}

func configErrorf(line int, format string, args ...any) error {
	return fmt.Errorf("%d: %s", line, fmt.Sprintf(format, args...))
}

// CheckFile checks a jobrunner.yaml. It starts and creates nothing.
func CheckFile(name string) error {
	_, err := readFile(name)
	return err
}

// readFile reads and checks a jobrunner.yaml. An error begins with name:line.
func readFile(name string) (s settings, err error) {
	data, err := flagfile.Read(name)
	if err != nil {
		return s, fmt.Errorf("the jobrunner's configuration: %w", err)
	}
	if err := yamlfile.Decode(name, data, &s); err != nil {
		return s, fmt.Errorf("%w (docs/reference/jobrunner.md describes the file)", err)
	}
	folder, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return s, err
	}
	if err := s.check(folder); err != nil {
		return s, fmt.Errorf("%s:%w", name, err)
	}
	return s, nil
}

func (s *settings) check(folder string) error {
	if err := s.checkExecutor(folder); err != nil {
		return err
	}
	if name := s.Engine.Value; name != "" && name != filepath.Base(name) { // a path
		s.Engine.Value = absolute(folder, name)
	}
	for i := range s.Rules {
		r := &s.Rules[i]
		if err := r.check(folder); err != nil {
			return err
		}
		for _, earlier := range s.Rules[:i] {
			if earlier.text == r.text {
				return configErrorf(r.Image.Line, "the image %s has a rule already, in line %d: the first one counts, remove one of them", r.text, earlier.line)
			}
			if earlier.text == "**" || r.isLiteral && earlier.matches(r.text) {
				return configErrorf(r.Image.Line, "this rule is never used: %[1]s in line %[3]d also matches %[2]s, and the first matching rule applies; move this rule before it", earlier.text, r.text, earlier.line)
			}
		}
	}
	return nil
}

// absolute returns the absolute path of a path that may be relative to a folder.
func absolute(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// builtinImages is the prefix of built-in images.
const builtinImages = "builtin/"

func (r *rule) check(folder string) (err error) {
	if r.Image.Line == 0 {
		return configErrorf(r.line, "a rule needs an image, such as image: team/worker")
	}
	if r.pattern, err = parsePattern(r.Image.Value); err != nil {
		return configErrorf(r.Image.Line, "%s", err)
	}
	if strings.HasPrefix(r.text, builtinImages) {
		return configErrorf(r.Image.Line, "the images %s… are the jobrunner's own: choose another name", builtinImages)
	}
	count := 0
	for _, isSet := range []bool{r.Process != nil, r.Command != nil, r.Container != nil} {
		if isSet {
			count++
		}
	}
	switch {
	case count != 1:
		return configErrorf(r.line, "the rule for %s needs exactly one of %s, with its settings (container: {} for no settings)", r.text, strings.Join(kinds, ", "))
	case r.Process != nil:
		return r.Process.check(r, folder)
	case r.Command != nil:
		return r.Command.check(r, folder)
	}
	return r.Container.check()
}

// templateEnvForm is the syntax of an item of template_env.
var templateEnvForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\*?$|^\*$`)

// nameForm is the syntax of a variable's name.
var nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (l *localSettings) check(r *rule, folder string) error {
	switch l.Template.Value {
	case "", templateArgs, templateCommand:
	default:
		return configErrorf(l.Template.Line, "invalid template %[3]q: expected %[1]q, which appends a template's arguments, or %[2]q, which also lets its entrypoint replace run", templateArgs, templateCommand, l.Template.Value)
	}
	if len(l.Run) == 0 && l.Template.Value != templateCommand {
		return configErrorf(r.line, "the rule for %s has no command: add run: [python3, handler.py], or template: command for the template's command", r.text)
	}
	l.Dir.Value = absolute(folder, l.Dir.Value)
	if info, err := os.Stat(l.Dir.Value); err != nil || !info.IsDir() {
		return configErrorf(l.Dir.Line, "%s isn't a folder of this machine: create it, or correct dir, which is relative to the folder of this file", l.Dir.Value)
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(l.Env)), scalar.Missing) {
		return configErrorf(r.line, "invalid value in the rule for %s: expected a string, got nothing; write '' for an empty one", r.text)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Env)) {
		if err := checkName(name); err != nil {
			return configErrorf(l.Env[name].Line, "%s", err)
		}
	}
	for _, name := range l.Inherit {
		if err := checkName(name.Value); err != nil {
			return configErrorf(name.Line, "%s", err)
		}
	}
	for _, pattern := range l.TemplateEnv {
		if !templateEnvForm.MatchString(pattern.Value) {
			return configErrorf(pattern.Line, "invalid template_env %q: expected the name of a variable, or its beginning and *", pattern.Value)
		}
	}
	if len(l.Run) > 0 {
		if _, err := l.findProgram(l.Run[0].Value); err != nil {
			return configErrorf(l.Run[0].Line, "%s", err)
		}
	}
	return nil
}

func checkName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("invalid environment variable name %q", name)
	}
	if IsReserved(name) {
		return fmt.Errorf("%s can't be set here: the jobrunner sets it for each worker", name)
	}
	return nil
}

func (c *containerSettings) check() error {
	switch c.Pull.Value {
	case "", pullMissing, pullAlways:
	default:
		return configErrorf(c.Pull.Line, "invalid pull %[3]q: expected %[1]q or %[2]q", pullMissing, pullAlways, c.Pull.Value)
	}
	for _, option := range c.Options {
		if !strings.HasPrefix(option.Value, "-") {
			return configErrorf(option.Line, "invalid option %q: write each with its value as one word, such as --shm-size=1g", option.Value)
		}
	}
	return nil
}
