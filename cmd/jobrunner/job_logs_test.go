package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A line is "second text". A trailing + marks a line of the job "mine".
func TestFindJobLines(t *testing.T) {
	died := []string{"1 INFO   | other | Started.", "2 noise", "3 mine starts+", "4 step+", "5 Traceback+", "6 killed+", "9 idle", "10 idle"}
	for name, c := range map[string]struct {
		lines  []string
		status string
	}{
		"a worker that dies":          {died, "FAILED"},
		"the next job":                {[]string{"1 mine starts+", "2 print+", "3 mine ends+", "3.5 late+", "4 {\"message\":\"\",\"level\":\"INFO\",\"requestId\":\"b\"}", "4.1 the next one's"}, "COMPLETED"},
		"another job at a time":       {[]string{"1 mine starts+", "2 {\"message\":\"\",\"level\":\"INFO\",\"requestId\":\"b\"}", "3 print+", "9 idle"}, "FAILED"},
		"while it runs":               {[]string{"0 before", "1 mine starts+", "50 print+"}, "IN_PROGRESS"},
		"a deployment that knows":     {[]string{"1 other:print", "2 mine:before+", "3 mine:after+", "3 other:print"}, "COMPLETED"},
		"what another prints of mine": {[]string{"1 other:mine", "2 mine:other+"}, "COMPLETED"},
		"lines without it":            {[]string{"1 print"}, "COMPLETED"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines, want []api.LogLine
			for _, text := range c.lines {
				second, text, _ := strings.Cut(text, " ")
				var line api.LogLine
				whole, fraction, _ := strings.Cut(second, ".")
				line.Time = fmt.Sprintf("2026-06-01T00:00:%02s.%sZ", whole, fraction+"0")
				text, own := strings.CutSuffix(text, "+")
				if job, rest, ok := strings.Cut(text, ":"); ok && (job == "mine" || job == "other") {
					line.Job, text = job, rest
				}
				if line.Text = text; own {
					want = append(want, line)
				}
				lines = append(lines, line)
			}
			got, _ := findJobLines(api.Job{ID: "mine", Status: c.status, ExecutionTime: 3000}, lines, true)
			must.Equal(t, got, want)
		})
	}
}
