//go:build unix

package guides

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// The first two followed documents and the tests of examples/module work with each installed CLI besides the default.
func TestOtherCLIs(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run uses only the default CLI")
	}
	python.Need(t)
	bin := t.TempDir()
	must.Succeed(t, gobuild.Programs(t.Context(), bin, root, root+"/cmd/jobrunner"))
	for _, cli := range must.Do(tfcli.All(t.Context()))(t)[1:] {
		t.Run(strings.ReplaceAll(cli.String(), " ", "-"), func(t *testing.T) {
			for _, guide := range followedDocuments[:2] {
				s := newSession(t, bin, cli)
				s.mustRun("make install")
				for _, b := range readBlocks(t, guide) {
					s.follow(b)
				}
			}
			s := newSession(t, bin, cli)
			s.mustRun("make install && cd examples/module && terraform init")
			s.serve("jobrunner serve --ephemeral --config tests/jobrunner.yaml")
			must.Equal(t, compare([]string{"Success! 5 passed, 0 failed."}, s.mustRun("terraform test")), "")
		})
	}
}

// check checks a block that isn't followed from top to bottom. A document's blocks share a session.
type check func(s *session, b block)

// checks are the checks of each document by language of the block.
var checks = map[string]map[string]check{
	"README.md":                          {"console": runWithoutClone},
	"docs/start/tools.md":                {"console": (*session).typeAll},
	"conformance/README.md":              {"go": checkGoSnippet("var cases = []suite.Case{", "}", "conformance/suite")},
	"docs/reference/architecture.md":     {"mermaid": checkDiagram},
	"docs/reference/catalog.md":          {"yaml": checkServes("--catalog")},
	"docs/reference/gpu.md":              {"yaml": checkServes("--simulate-gpus"), "text": checkNothing},
	"docs/guides/costs.md":               {"console": runAfterInstall, "terraform": checkTestedBy("provider", "TestCostsGuide")},
	"docs/guides/kubernetes.md":          {"yaml": checkClusterFile},
	"docs/guides/migrate.md":             {"console": runAfterInit, "terraform": checkTestedBy("internal/test/migrate", "TestGuideExample")},
	"docs/guides/nodes.md":               {"console": checkCommandLines},
	"docs/guides/operate.md":             {"console": checkCommandLines, "yaml": checkTestedBy("internal/test/system/deploy", "TestGuideValues")},
	"docs/guides/remote.md":              {"console": runOnLaptopAndServer},
	"docs/guides/worker.md":              {"python": compilePython, "console": runWithSDK, "terraform": (*session).follow, "yaml": (*session).follow, "dockerfile": checkDockerfile},
	"docs/reference/jobrunner.md":        {"yaml": checkServes("--config")},
	"docs/reference/performance.md":      {"console": (*session).typeAll},
	"docs/reference/plan-performance.md": {"console": checkGoTest},
}

// Each block has a check, is in one of followedDocuments, or equals a file of examples/.
func TestEveryBlockHasACheck(t *testing.T) {
	examples := map[string]bool{}
	must.Succeed(t, filepath.WalkDir(filepath.Join(root, "examples"), func(path string, entry os.DirEntry, err error) error {
		if entry != nil && entry.Name() == ".terraform" { // left by a manual run
			return filepath.SkipDir
		}
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		examples[strings.TrimSpace(string(text))] = true
		return err
	}))
	unused := map[string]bool{}
	for document, languages := range checks {
		for language := range languages {
			unused[document+" "+language] = true
		}
	}
	for _, document := range documents(t) {
		for _, b := range readBlocks(t, document) {
			delete(unused, document+" "+b.language)
			switch {
			case slices.Contains(followedDocuments, document), checks[document][b.language] != nil:
			case b.language == "text" && strings.HasPrefix(document, "docs/functions/"): // the signature
			case !examples[strings.TrimSpace(b.text)]:
				t.Errorf("%s: this block of %q has no check: it isn't in a guide, doesn't equal a file of examples/ and isn't in the table of checks", b, b.language)
			}
		}
	}
	for name := range unused {
		t.Errorf("the table of checks has %s, but no such block exists", name)
	}
}

func runAfterInstall(s *session, b block) {
	s.t.Helper()
	s.mustRun("(cd " + s.clone + " && make install)")
	s.typeAll(b)
}

// runOnLaptopAndServer runs commands for a laptop and a server, both on this machine.
func runOnLaptopAndServer(s *session, b block) {
	s.t.Helper()
	if s.preparedHello {
		s.typeAll(b)
		return
	}
	s.preparedHello = true
	home := s.dir
	s.mustRun("make install && mkdir ~/hello && cd ~/hello") // as the first guide does
	for _, before := range readBlocks(s.t, followedDocuments[0]) {
		if first, _, _ := strings.Cut(before.text, "\n"); before.language != "console" && fileName.MatchString(first) {
			s.write(before)
		}
	}
	s.mustRun(`ln -s "$(command -v jobrunner)" jobrunner`) // as scp leaves it there
	s.dir = home
	s.typeAll(b)
}

var installSDK = regexp.MustCompile(`(?m)^\$ python3 -m venv \.venv\n\$ \.venv/bin/pip install runpod\n…\n`)

// runWithSDK runs commands. If they install the public SDK, a stand-in follows: tests have no network.
func runWithSDK(s *session, b block) {
	s.t.Helper()
	withoutInstallation := installSDK.ReplaceAllString(b.text, "")
	installs := withoutInstallation != b.text
	b.text = withoutInstallation
	s.typeAll(b)
	if installs {
		s.mustRun("(cd " + s.clone + " && make install) && python3 -m venv --without-pip .venv && cp -R " + filepath.Join(s.clone, "runpod") + ` "$(.venv/bin/python -c 'import site; print(site.getsitepackages()[0])')"`)
	}
}

var copyLine = regexp.MustCompile(`(?m)^COPY (\S+) `)

// checkDockerfile checks that the files that a Dockerfile copies exist. It builds no image.
func checkDockerfile(s *session, b block) {
	s.t.Helper()
	must.Succeed(s.t, os.WriteFile(filepath.Join(s.dir, "Dockerfile"), []byte(b.text), 0o600))
	for _, file := range copyLine.FindAllStringSubmatch(b.text, -1) {
		must.Succeed(s.t, must.Err(os.Stat(filepath.Join(s.dir, file[1]))), b)
	}
}

// runWithoutClone runs commands except git clone, because a session starts in a clone.
func runWithoutClone(s *session, b block) {
	s.t.Helper()
	first, rest, _ := strings.Cut(b.text, "\n")
	if !strings.HasPrefix(first, "$ git clone ") {
		rest = b.text
	}
	b.text = rest
	s.typeAll(b)
}

// checkClusterFile checks files for a Kubernetes cluster: the jobrunner must accept its configuration
// and then fail to find the cluster. jobrunner/run/kubernetes checks the rights.
func checkClusterFile(s *session, b block) {
	s.t.Helper()
	if strings.HasPrefix(b.text, "# role.yaml\n") {
		checkTestedBy("jobrunner/run/kubernetes", "TestGuideGrantsUsedPermissions")(s, b)
		return
	}
	s.write(b)
	output, err := s.run("jobrunner serve --ephemeral --config jobrunner.yaml")
	must.Hold(s.t, err != nil && strings.Contains(output, "the configuration of the Kubernetes cluster"), "with the file of", b, "the jobrunner ended with", err, "and printed", output)
}

// checkCommandLines checks only the names and flags of jobrunner commands, because they need servers.
func checkCommandLines(s *session, b block) {
	s.t.Helper()
	typed, err := commands(b)
	must.Require(s.t, err == nil, "reading the commands of", b, "failed:", err)
	for _, c := range typed {
		if program, rest, _ := strings.Cut(comment.ReplaceAllString(c.text, ""), " "); program == "jobrunner" {
			s.checkFlags(b, program, rest)
		}
	}
}

// runAfterInit runs commands in a folder with an installed provider and a state.
func runAfterInit(s *session, b block) {
	s.t.Helper()
	s.write(block{text: "# main.tf\nterraform {\n  required_providers {\n    gpucloud = {\n      source = \"gpucloud/gpucloud\"\n    }\n  }\n}\nresource \"terraform_data\" \"other\" {}\n"})
	s.mustRun("make install && terraform init && terraform apply")
	s.typeAll(b)
}

// checkTestedBy checks that a test of another package reads the document.
func checkTestedBy(folder, test string) check {
	return func(s *session, b block) {
		s.t.Helper()
		for _, file := range must.Do(filepath.Glob(filepath.Join(root, folder, "*_test.go")))(s.t) {
			text := must.ReadFile(s.t, file)
			if strings.Contains(string(text), "\nfunc "+test+"(") && strings.Contains(string(text), b.document) {
				return
			}
		}
		s.t.Errorf("%s: %s of %s doesn't read it", b, test, folder)
	}
}

// checkNothing checks nothing: only another machine can print this output.
func checkNothing(*session, block) {}

// checkServes checks that the jobrunner starts with the file as the value of a flag.
func checkServes(flag string) check {
	return func(s *session, b block) {
		s.t.Helper()
		file := filepath.Join("examples", strings.TrimLeft(flag, "-")+".yaml") // the `rules` of a configuration name folders relative to examples/
		must.Succeed(s.t, os.WriteFile(filepath.Join(s.dir, file), []byte(b.text), 0o600))
		s.serve("jobrunner serve --ephemeral " + flag + " " + file)
	}
}

// compilePython compiles a handler. If its first line names a file, it writes that file.
func compilePython(s *session, b block) {
	s.t.Helper()
	name := "snippet.py"
	if first, _, _ := strings.Cut(b.text, "\n"); fileName.MatchString(first) {
		name = s.write(b)
	} else if err := os.WriteFile(filepath.Join(s.dir, name), []byte(b.text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	output, err := s.run("python3 -m py_compile " + name)
	must.Hold(s.t, err == nil, "python3 doesn't compile", b, output)
}

var (
	transition = regexp.MustCompile(`^ +(\[\*\]|[A-Z_]+) --> (\[\*\]|[A-Z_]+)(: .+)?$`)
	flow       = regexp.MustCompile(`^ +\w+(\["[^"]+"\])? (-->|-- "[^"]+" -->|-\. "[^"]+" \.->) \w+(\["[^"]+"\])?$`)
)

// checkDiagram checks the syntax of a mermaid diagram, and that the contract has its states.
func checkDiagram(s *session, b block) {
	s.t.Helper()
	contract := must.ReadFile(s.t, filepath.Join(root, "docs/reference/contract.md"))
	first, lines, _ := strings.Cut(b.text, "\n")
	for line := range strings.Lines(lines) {
		line = strings.TrimRight(line, "\n")
		found := transition.FindStringSubmatch(line)
		switch {
		case first == "flowchart LR" && flow.MatchString(line):
		case first == "stateDiagram-v2" && found != nil:
			for _, state := range found[1:3] {
				must.Hold(s.t, state == "[*]" || strings.Contains(string(contract), "`"+state+"`"), b, "shows the state", state, "which the contract lacks")
			}
		default:
			s.t.Errorf("%s: expected a line of a %s, got %q", b, first, line)
		}
	}
}

var suiteName = regexp.MustCompile(`\b(?:c|suite)\.([A-Z]\w+)`)

// checkGoSnippet checks that a piece of Go is formatted and that the folder has the names that the piece uses.
func checkGoSnippet(before, after, folder string) check {
	return func(s *session, b block) {
		s.t.Helper()
		piece := before + "\n\t" + strings.ReplaceAll(strings.TrimSuffix(b.text, "\n"), "\n", "\n\t") + "\n" + after + "\n"
		source := "package p\n\n" + piece
		formatted, err := format.Source([]byte(source))
		must.Hold(s.t, err == nil && string(formatted) == source, "gofmt gives for", b, string(formatted), err)
		files := must.Do(filepath.Glob(filepath.Join(root, folder, "*.go")))(s.t)
		code := ""
		for _, file := range files {
			code += string(must.ReadFile(s.t, file))
		}
		for _, name := range suiteName.FindAllStringSubmatch(b.text, -1) {
			must.Hold(s.t, regexp.MustCompile(`(?m)^(func (\([^)]+\) )?|type |\t)`+name[1]+`\b`).MatchString(code), b, "uses", name[1], "which", folder, "lacks")
		}
	}
}

var testFlag = regexp.MustCompile(`-(run|bench)[ =]'?(\w+)`)

// checkGoTest checks that tests or benchmarks exist. They take too long, or need another machine.
func checkGoTest(s *session, b block) {
	s.t.Helper()
	for line := range strings.Lines(b.text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "$ export ") {
			continue
		}
		found, folder := testFlag.FindStringSubmatch(line), line[strings.LastIndex(line, " ")+1:]
		must.Require(s.t, strings.Contains(line, "go test ") && found != nil, b, "expected a go test with -run or -bench, got", line)
		kind := map[string]string{"run": "Test", "bench": "Benchmark"}[found[1]]
		out, err := exec.CommandContext(s.t.Context(), "grep", "-l", "^func "+kind+".*"+strings.TrimPrefix(found[2], kind), "-r", filepath.Join(root, folder)).CombinedOutput()
		must.Hold(s.t, err == nil, b, "runs a", kind, "with", found[2], "in its name, which", folder, "lacks", string(out))
	}
}
