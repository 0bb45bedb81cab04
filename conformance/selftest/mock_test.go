package selftest_test

import (
	"bufio"
	_ "embed"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// mocker is the npm package of a mock that nobody of this project wrote.
const mocker = "@stoplight/prism-cli@5.12.0"

//go:embed testdata/mock.tsv
var predictions string

// A second opinion: an independent server of testdata/mock.yaml is judged as
// testdata/mock.tsv predicts, where the document is right and where it is wrong.
func TestIndependentMock(t *testing.T) {
	if testing.Short() {
		t.Skip("npm fetches the server from the network: see make test-all")
	}
	want := map[string]string{}
	for line := range strings.Lines(predictions) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) != 3 || f[2] == "" {
			t.Fatalf("no clause, verdict and reason: %q", line)
		}
		want[f[0]] = f[1]
	}
	target := conformance.Target{BaseURL: mock(t, "testdata/mock.yaml"), Key: "the-key", Endpoint: "our-endpoint"}
	r := judge(t, conformance.Options{Target: target})
	if r.Exit != conformance.ExitFailed || r.Requests > 220 || len(r.Leaked) > 0 {
		t.Errorf("exit code %d, %d requests, left %v", r.Exit, r.Requests, r.Leaked)
	}
	for _, x := range r.Results {
		if x.Verdict == report.Skip || x.Level == string(suite.Unspec) {
			continue
		}
		if want[x.Clause] != string(x.Verdict) {
			t.Errorf("%s was predicted, and it is %s", want[x.Clause], report.Text(x))
		}
		delete(want, x.Clause)
	}
	for clause := range want {
		t.Errorf("%s is not judged", clause)
	}
}

// mock serves the examples of an OpenAPI document, and says where.
func mock(t *testing.T, document string) string {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("CI") != "" {
		missing = t.Fatalf
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		missing("there is no npm, which comes with Node.js: no second opinion")
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), npm, "install", "--prefix="+dir, "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", mocker)
	if text, err := install.CombinedOutput(); err != nil {
		missing("npm install %s: %v\n%s", mocker, err, text)
	}
	program := filepath.Join(dir, "node_modules", "@stoplight", "prism-cli", "dist", "index.js")
	cmd := exec.CommandContext(t.Context(), "node", program, "mock", "--host=127.0.0.1", "--port=0", "--multiprocess=false", document)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it ends with the test's context
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return strings.TrimSpace(url)
		}
	}
	t.Fatalf("the mock does not start:\n%s", &said)
	return ""
}
