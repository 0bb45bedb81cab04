package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// A repeated failure is shown in one line, regardless of timing.
func TestRepeatedFailureLineByLine(t *testing.T) {
	const silent = run.SystemPrefix + "it has run for 30s and not asked for a job"
	const failed, stopped = run.SystemPrefix + "the process ended with exit status 1", run.SystemPrefix + "the process ended with exit status 0"
	for name, c := range map[string]struct {
		lines []string // lines of the second worker
		job   int      // number of lines before a job runs; 0 for no job
		want  string
	}{
		"the same":       {[]string{"loads", "no model", "here", failed}, 0, run.SystemPrefix + "the same error again"},
		"out of memory":  {[]string{"loads", "no model", "here", failed + " (meanwhile the kernel killed one of its processes or one next to it, out of memory)"}, 0, run.SystemPrefix + "the same error again"},
		"a slow start":   {[]string{"loads", silent, "no model", "here", failed}, 0, silent + "|" + run.SystemPrefix + "the same error again"},
		"another status": {[]string{"loads", "no model", "here", failed + "1"}, 0, "loads|no model|here|" + failed + "1"},
		"another error":  {[]string{"loads", "no disk", failed}, 0, "loads|no disk|" + failed},
		"a longer one":   {[]string{"loads", "no model", "here", "at all", failed}, 0, "loads|no model|here|at all|" + failed},
		"no error":       {[]string{"loads", "no model", stopped}, 0, "loads|no model|" + stopped},
		"a job runs":     {[]string{"loads", "no model"}, 1, "loads"},
		"after a job":    {[]string{"loads", "no model", "here", failed}, 1, "loads|" + run.SystemPrefix + "the same error again"},
	} {
		for _, pause := range []time.Duration{0, time.Hour} {
			t.Run(name+" with pauses of "+pause.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var r repeats
					var shown []string
					show := func(text string) { shown = append(shown, text) }
					for _, line := range []string{"loads", "no model", "here", failed} {
						r.write("one", line, show)
						time.Sleep(pause)
					}
					shown = nil
					for i, line := range c.lines {
						r.write("two", line, show)
						time.Sleep(pause)
						synctest.Wait()
						if i+1 == c.job {
							r.release(func(_, text string) { show(text) })
						}
					}
					must.Equal(t, strings.Join(shown, "|"), c.want)
				})
			})
		}
	}
}
