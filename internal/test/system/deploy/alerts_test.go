package deploy

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

var (
	metricName = regexp.MustCompile(`\b((?:gpucloud|process|go)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	labelUse   = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`by \(([^)]*)\)`)
)

// A jobrunner exports each metric that an alert or the guide names, with the labels that the alert uses.
func TestAlertsNameMetrics(t *testing.T) {
	j := start(t, nil, []string{"serve", "--listen=127.0.0.1:8420", "--ephemeral", "--simulate-gpus=h200x8"})
	j.checkJob()
	status, text := j.do(http.MethodGet, "/metrics", "")
	must.Require(t, status == http.StatusOK, "GET /metrics answered", status, text)
	j.stop()
	exported := map[string][]string{} // labels by metric
	for line := range strings.Lines(text) {
		if found := metricName.FindStringSubmatch(line); found != nil && !strings.HasPrefix(line, "#") {
			for _, use := range labelUse.FindAllStringSubmatch(found[2], -1) {
				exported[found[1]] = append(exported[found[1]], use[1])
			}
			exported[found[1]] = append(exported[found[1]], "instance", "job") // Prometheus's own
		}
	}
	must.Require(t, len(exported) >= 20, "expected at least 20 metrics, got", exported)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	must.Succeed(t, yaml.UnmarshalWithOptions([]byte(readFile(t, "deploy/prometheus/alerts.yaml")), &file, yaml.Strict()))
	names := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			must.Hold(t, rule.Labels["severity"] != "" && rule.Annotations["summary"] != "", "expected a severity and a summary in", rule)
			for _, metric := range metricName.FindAllStringSubmatch(rule.Expr, -1) {
				names++
				labels, ok := exported[metric[1]]
				must.Hold(t, ok, rule.Alert, "uses", metric[1], "which no jobrunner exports")
				usedLabels := metric[2]
				for _, by := range grouping.FindAllStringSubmatch(rule.Expr, -1) {
					usedLabels += ", " + strings.ReplaceAll(by[1], ",", "=,") + "="
				}
				for _, use := range labelUse.FindAllStringSubmatch(usedLabels, -1) {
					must.Hold(t, !ok || slices.Contains(labels, use[1]), rule.Alert, "uses the label", use[1], "which", metric[1], "lacks")
				}
			}
		}
	}
	must.Hold(t, names >= 5, "the alerts name", names, "metrics, expected at least 5")
	for _, metric := range metricName.FindAllStringSubmatch(readFile(t, "docs/guides/operate.md"), -1) {
		must.Hold(t, !strings.HasPrefix(metric[1], "gpucloud_") || exported[metric[1]] != nil || exported[metric[1]+"_count"] != nil, "docs/guides/operate.md names", metric[1], "which no jobrunner exports")
	}
}

// Each alert fires when it should, and only then.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		must.Require(t, os.Getenv("CI") == "", "CI must have promtool:", err)
		t.Skip("promtool is not installed (Debian: apt-get install --no-install-recommends prometheus)")
	}
	out, err := exec.Command(promtool, "test", "rules", "testdata/alerts.yaml").CombinedOutput()
	must.Require(t, err == nil, string(out), err)
}
