package guides

import (
	"os"
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

// guides are the documents that TestDocuments follows from top to bottom.
var guides = []string{
	"docs/start/first-endpoint.md",
	"docs/guides/secrets.md",
	"docs/guides/batch.md",
	"docs/guides/blue-green.md",
	"docs/guides/module-tests.md",
	"docs/start/conformance.md",
	"examples/README.md",
}

// short are the documents of a -short run.
var short = []string{"docs/start/first-endpoint.md", "docs/reference/catalog.md", "docs/reference/architecture.md", "CONTRIBUTING.md"}

// The files and commands of each document work in their order and print what it shows.
func TestDocuments(t *testing.T) {
	python.Need(t)
	bin := must.Do(filepath.EvalSymlinks(t.TempDir()))(t)
	must.Succeed(t, gobuild.Programs(t.Context(), bin, root, root+"/cmd/jobrunner", root+"/cmd/conformance"))
	cli := must.Do(tfcli.Default(t.Context()))(t)
	t.Run("each", func(t *testing.T) { // ends before bin is removed
		for _, document := range documents(t) {
			if !slices.Contains(guides, document) && checks[document] == nil || testing.Short() && !slices.Contains(short, document) {
				continue
			}
			t.Run(strings.ReplaceAll(strings.TrimSuffix(document, ".md"), "/", "-"), func(t *testing.T) {
				t.Parallel()
				s := newSession(t, bin, cli)
				s.runsConformance = document == "docs/start/conformance.md"
				if slices.Contains(guides[1:], document) { // they require the first guide's installation
					s.must("make install")
				}
				for _, b := range readBlocks(t, document) {
					if found := checks[document][b.language]; found != nil {
						found(s, b)
					} else {
						s.follow(b)
					}
				}
			})
		}
	})
}

// follow runs the commands of a block or writes its file.
func (s *session) follow(b block) {
	s.t.Helper()
	if b.language == "console" {
		s.typeAll(b)
		return
	}
	if first, _, _ := strings.Cut(b.text, "\n"); !fileName.MatchString(first) {
		s.expectPart(b)
	} else {
		s.write(b)
		for _, config := range configured.FindAllStringSubmatch(b.text, -1) {
			if _, err := os.Stat(filepath.Join(s.dir, config[1])); err != nil {
				s.t.Errorf("%s: %s", b, err)
			}
		}
	}
}

// configured finds the jobrunner.yaml that a workflow names.
var configured = regexp.MustCompile(`\bconfig: ([\w./-]+)`)

// expectPart checks that a block without a file name is part of a file that the reader has.
func (s *session) expectPart(b block) {
	s.t.Helper()
	files := must.Do(filepath.Glob(filepath.Join(s.dir, "*.*")))(s.t)
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), b.text) {
			return
		}
	}
	s.t.Errorf("%s: expected a first line that names the file, such as \"# main.tf\", or a part of a file in %s", b, s.dir)
}

// addFakeSDK writes a stand-in for the public SDK, which the reader would install.
func (s *session) addFakeSDK() {
	s.t.Helper()
	source := must.ReadFile(s.t, filepath.Join(root, "jobrunner/workerapi/testdata/standin.py"))
	dir := filepath.Join(s.dir, "runpod")
	must.Succeed(s.t, os.Mkdir(dir, 0o700))
	for name, text := range map[string]string{"__init__.py": "from . import serverless\n", "serverless.py": string(source)} {
		must.Succeed(s.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}
