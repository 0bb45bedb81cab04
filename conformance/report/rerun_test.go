package report_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Every form shows the usage of reruns separately from the usage of the run.
func TestRerunsAreSeparate(t *testing.T) {
	r := sample()
	var terminal strings.Builder
	report.Terminal(&terminal, r, false)
	const reruns = "4 cases in 1.5s, 57 requests, 9 jobs"
	for name, want := range map[string]string{
		"terminal": "13510 requests, 308 jobs, 26h0m0s of the target's time; beside that, reruns of " + reruns,
		"markdown": "13510 requests, 308 jobs; beside that, reruns of " + reruns,
		"html":     "<dt>Reruns, beside that</dt><dd>" + reruns,
		"junit":    `<property name="reruns" value="` + reruns,
	} {
		text := terminal.String()
		if name != "terminal" {
			text = written(name, r)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%.1500s", name, want, text)
		}
	}
	var back struct {
		Reruns struct {
			Cases, Requests, Jobs int
			Took                  float64 `json:"took_ms"`
		}
	}
	err := json.Unmarshal([]byte(written("json", r)), &back)
	must.Hold(t, err == nil && back.Reruns.Cases == 4 && back.Reruns.Requests == 57 && back.Reruns.Jobs == 9 && back.Reruns.Took == 1500, "JSON has", back, err)
}

// The usages of two runs can be added, with or without reruns.
func TestRerunsAddUp(t *testing.T) {
	some := &report.Reruns{Cases: 1, Duration: report.Duration(time.Second), TargetTime: 1, Requests: 10, Jobs: 2}
	var none *report.Reruns
	got := none.Add(some)
	must.Hold(t, *got == *some, got)
	got = some.Add(none)
	must.Hold(t, got == some, got)
	got = some.Add(some)
	must.Hold(t, got.Cases == 2 && got.Requests == 20 && got.Jobs == 4 && time.Duration(got.Duration) == 2*time.Second && got.TargetTime == 2, got)
	must.Hold(t, none.Add(nil) == nil, "the sum of no reruns isn't nil")
}

// Every form that shows failures has their whole script and a link.
func TestFailuresCanBeRepeated(t *testing.T) {
	r := sample()
	var terminal strings.Builder
	report.Terminal(&terminal, r, false)
	for name, text := range map[string]string{"terminal": terminal.String(), "markdown": written("markdown", r), "html": written("html", r), "junit": written("junit", r), "json": written("json", r)} {
		plain := strings.NewReplacer("&#34;", `"`, "&#39;", "'", `\"`, `"`, "&#xA;", "\n", `\n`, "\n", "&amp;", "&").Replace(text)
		for _, want := range []string{"ID=$(curl -sS -i https://gpus.example.com/v2/abc)", "sleep 9", `"Authorization: Bearer $GPUCLOUD_API_KEY"`, "https://repository.example.com/docs/reference/clauses.md#job-02"} {
			must.Hold(t, strings.Contains(plain, want), name, "lacks", want)
		}
	}
}
