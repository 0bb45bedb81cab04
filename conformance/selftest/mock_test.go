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
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// mockPackage is the npm package of an independent mock server.
const mockPackage = "@stoplight/prism-cli@5.12.0"

//go:embed testdata/mock.tsv
var predictions string

// An independent mock server, which keeps some clauses of testdata/mock.yaml, gets the verdicts of testdata/mock.tsv.
func TestIndependentMock(t *testing.T) {
	if testing.Short() {
		t.Skip("npm downloads the server: see make test-all")
	}
	want := map[string]string{}
	for line := range strings.Lines(predictions) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		must.Require(t, len(fields) == 3 && fields[2] != "",
			"invalid line of testdata/mock.tsv: expected a clause, a verdict and a reason, got", line)
		want[fields[0]] = fields[1]
	}
	target := conformance.Target{BaseURL: startMock(t, "testdata/mock.yaml"), Key: "the-key", Endpoint: "our-endpoint"}
	r := judge(t, conformance.Options{Target: target})
	must.Hold(t, r.Exit == conformance.ExitFailed && r.Requests <= 260 && len(r.Leaked) == 0, "exit code", r.Exit, r.Requests, "requests, leaked", r.Leaked)
	for _, x := range r.Results {
		if x.Verdict == report.Skip || x.Level == string(suite.Unspec) {
			continue
		}
		must.Hold(t, want[x.Clause] == string(x.Verdict), "expected the verdict", want[x.Clause], "got", report.Text(x))
		delete(want, x.Clause)
	}
	for clause := range want {
		t.Errorf("%s is not judged", clause)
	}
}

// startMock serves the examples of an OpenAPI document and returns the URL.
func startMock(t *testing.T, document string) string {
	t.Helper()
	skipOrFail := t.Skipf
	if os.Getenv("CI") != "" {
		skipOrFail = t.Fatalf
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		skipOrFail("npm, which comes with Node.js, is not installed")
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), npm, "install", "--prefix="+dir, "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", mockPackage)
	if text, err := install.CombinedOutput(); err != nil {
		skipOrFail("npm install %s: %v\n%s", mockPackage, err, text)
	}
	program := filepath.Join(dir, "node_modules", "@stoplight", "prism-cli", "dist", "index.js")
	cmd := exec.CommandContext(t.Context(), "node", program, "mock", "--host=127.0.0.1", "--port=0", "--multiprocess=false", document)
	stdout := must.Do(cmd.StdoutPipe())(t)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // it ends with the test's context
	var output strings.Builder
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		output.WriteString(lines.Text() + "\n")
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			return strings.TrimSpace(url)
		}
	}
	t.Fatalf("the mock does not start:\n%s", &output)
	return ""
}
