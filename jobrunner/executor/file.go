package executor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// settings are what jobrunner.yaml says.
type settings struct {
	Engine text   `yaml:"engine"`
	Rules  []rule `yaml:"rules"`
}

// rule says what runs some images: one of the three.
type rule struct {
	Image     text               `yaml:"image"`
	Process   *localSettings     `yaml:"process"`
	Command   *localSettings     `yaml:"command"`
	Container *containerSettings `yaml:"container"`

	pattern
	line int
}

// kinds are the executors, as the file calls them.
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

// localSettings are how a command of this machine is run.
type localSettings struct {
	Run      []text          `yaml:"run"`
	Dir      text            `yaml:"dir"` // made absolute
	Env      map[string]text `yaml:"env"`
	Inherit  []text          `yaml:"inherit"`
	Template text            `yaml:"template"`
	// TemplateEnv names variables that a template may set although they run code.
	TemplateEnv []text `yaml:"template_env"`
}

// What of a template counts, beside its environment.
const (
	templateArgs    = "args"    // its arguments are appended
	templateCommand = "command" // its entrypoint, where it has one, replaces run
)

// containerSettings are how a container is run.
type containerSettings struct {
	Network   text   `yaml:"network"`
	Pull      text   `yaml:"pull"`
	DiskLimit bool   `yaml:"disk_limit"`
	Options   []text `yaml:"options"`
}

const (
	pullMissing = "missing"
	pullAlways  = "always"
)

// text is a scalar as it is written: 1.10 is a version, not the number 1.1.
type text struct {
	value string
	line  int
}

func (t *text) UnmarshalYAML(node ast.Node) error {
	scalar, ok := node.(ast.ScalarNode)
	if _, null := node.(*ast.NullNode); !ok || null {
		return &yaml.SyntaxError{Token: node.GetToken(), Message: "a single value belongs here; put it in quotes where it has special characters"}
	}
	t.line = node.GetToken().Position.Line
	switch scalar := scalar.(type) {
	case *ast.StringNode:
		t.value = scalar.Value
	case *ast.LiteralNode:
		t.value = scalar.Value.Value
	default:
		t.value = node.GetToken().Value
	}
	return nil
}

// missing tells that the file has null there, or nothing.
func (t text) missing() bool { return t.line == 0 }

func (r *rule) UnmarshalYAML(node ast.Node) error {
	type plain rule // without this method
	err := yaml.NodeToValue(node, (*plain)(r), yaml.Strict())
	r.line = lineOf(node)
	return err
}

// lineOf is where a node starts: the token of a mapping is a colon after its
// first key, which may stand on the line above.
func lineOf(node ast.Node) int {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken().Position.Line
	}
	return node.GetToken().Position.Line
}

// configError is something wrong in a line.
type configError struct {
	line int
	text string
}

func (f configError) Error() string { return fmt.Sprintf("%d: %s", f.line, f.text) }

func configErrorf(line int, format string, args ...any) error {
	return configError{line, fmt.Sprintf(format, args...)}
}

const maxFile = 1 << 20 // bytes

// readFile reads jobrunner.yaml and checks it. An error begins with name:line.
func readFile(name string) (s settings, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return s, fmt.Errorf("the jobrunner's configuration: %w", err)
	}
	if len(data) > maxFile {
		return s, fmt.Errorf("%s: the file has %d bytes, more than a configuration needs (%d)", name, len(data), maxFile)
	}
	if err := yaml.UnmarshalWithOptions(data, &s, yaml.Strict()); err != nil {
		if e, ok := errors.AsType[yaml.Error](err); ok {
			return s, fmt.Errorf("%s:%d: %s (docs/jobrunner.md describes the file)", name, e.GetToken().Position.Line, e.GetMessage())
		}
		return s, fmt.Errorf("%s: %w", name, err)
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
	for i := range s.Rules {
		r := &s.Rules[i]
		if err := r.check(folder); err != nil {
			return err
		}
		for _, before := range s.Rules[:i] {
			if before.text == r.text {
				return configErrorf(r.Image.line, "the image %s has a rule already, in line %d: the first one counts, remove one of them", r.text, before.line)
			}
			if before.text == "**" || r.literal && before.matches(r.text) {
				return configErrorf(r.Image.line, "this rule never counts: %s matches %s too, in line %d, and the first rule counts; put this one before it", before.text, r.text, before.line)
			}
		}
	}
	return nil
}

// builtinImages are the jobrunner's own.
const builtinImages = "builtin/"

func (r *rule) check(folder string) (err error) {
	if r.Image.line == 0 {
		return configErrorf(r.line, "a rule needs an image, such as image: team/worker")
	}
	if r.pattern, err = parsePattern(r.Image.value); err != nil {
		return configErrorf(r.Image.line, "%s", err)
	}
	if strings.HasPrefix(r.text, builtinImages) {
		return configErrorf(r.Image.line, "the images %s… are the jobrunner's own: choose another name", builtinImages)
	}
	chosen := 0
	for _, there := range []bool{r.Process != nil, r.Command != nil, r.Container != nil} {
		if there {
			chosen++
		}
	}
	switch {
	case chosen != 1:
		return configErrorf(r.line, "the rule for %s needs one of %s, with its settings; container: {} has none", r.text, strings.Join(kinds, ", "))
	case r.Process != nil:
		return r.Process.check(r, folder)
	case r.Command != nil:
		return r.Command.check(r, folder)
	}
	return r.Container.check()
}

// variablePattern is what template_env may have.
var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\*?$|^\*$`)

// nameForm is what a variable of the environment may be called.
var nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (l *localSettings) check(r *rule, folder string) error {
	switch l.Template.value {
	case "", templateArgs, templateCommand:
	default:
		return configErrorf(l.Template.line, "template is %s to append a template's arguments, or %s to let its entrypoint replace run too, not %q", templateArgs, templateCommand, l.Template.value)
	}
	if len(l.Run) == 0 && l.Template.value != templateCommand {
		return configErrorf(r.line, "the rule for %s has no command: add run: [python3, handler.py], or template: command for that of the template", r.text)
	}
	dir := folder
	if l.Dir.value != "" {
		dir = l.Dir.value
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(folder, dir)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return configErrorf(l.Dir.line, "there is no folder %s: dir is one on this machine, seen from the folder of this file", dir)
		}
	}
	l.Dir.value = dir
	if slices.ContainsFunc(slices.Concat(l.Run, l.Inherit, l.TemplateEnv, slices.Collect(maps.Values(l.Env))), text.missing) {
		return configErrorf(r.line, "invalid value in the rule for %s: expected a text, got nothing; write '' for an empty one", r.text)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Env)) {
		if err := checkName(name); err != nil {
			return configErrorf(l.Env[name].line, "%s", err)
		}
	}
	for _, name := range l.Inherit {
		if err := checkName(name.value); err != nil {
			return configErrorf(name.line, "%s", err)
		}
	}
	for _, pattern := range l.TemplateEnv {
		if !variablePattern.MatchString(pattern.value) {
			return configErrorf(pattern.line, "invalid template_env %q: expected the name of a variable, or its beginning and *", pattern.value)
		}
	}
	if len(l.Run) > 0 {
		if _, err := l.findProgram(l.Run[0].value); err != nil {
			return configErrorf(l.Run[0].line, "%s", err)
		}
	}
	return nil
}

func checkName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("invalid environment variable name %q", name)
	}
	if reserved(name) {
		return fmt.Errorf("%s can't be set here: the jobrunner sets it for each worker", name)
	}
	return nil
}

func (c *containerSettings) check() error {
	switch c.Pull.value {
	case "", pullMissing, pullAlways:
	default:
		return configErrorf(c.Pull.line, "pull is %s or %s, not %q", pullMissing, pullAlways, c.Pull.value)
	}
	for _, option := range c.Options {
		if !strings.HasPrefix(option.value, "-") {
			return configErrorf(option.line, "invalid option %q: write each with its value as one word, such as --shm-size=1g", option.value)
		}
	}
	return nil
}
