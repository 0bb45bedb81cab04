//go:build unix

package scale_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// BenchmarkPlan measures a plan with refresh of many templates through the CLI, compared with
// the floor: the same plan with a provider whose resources do nothing. The two take turns. It
// reports the median duration, and the mean processor time, which depends less on other load.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("resources=%d", n), func(b *testing.B) {
			d := deploy(b)
			tf, floor := newGrownWorkspaces(b, d, n)
			plan(b, d, tf, floor)
		})
	}
}

// BenchmarkPlanLimited measures the same on a deployment that allows 60 requests per minute.
func BenchmarkPlanLimited(b *testing.B) {
	d := deploy(b)
	data := b.TempDir()
	d.serve(b, jobrunner.Config{DataDir: data})
	tf, floor := newGrownWorkspaces(b, d, 1000)
	d.serve(b, jobrunner.Config{DataDir: data, ManagementLimits: true})
	plan(b, d, tf, floor)
}

// templates returns a configuration of n templates.
func templates(n int) string {
	return fmt.Sprintf(`
resource "gpucloud_template" "t" {
  count = %d
  name  = "t-${count.index}"
  image = "registry.example/worker:1"
  disk  = 20
  env   = { MODEL = "m-7b", LEVEL = "info" }
  ports = ["80/http", "22/tcp"]
}
`, n)
}

// newGrownWorkspaces creates two workspaces of n templates, one with our provider and one with
// nullprovider.
func newGrownWorkspaces(b *testing.B, d *deployment, n int) (tf, floor *terraform) {
	b.Helper()
	tf, floor = workspace(b, d, ours, api.V2), workspace(b, d, null, api.V2)
	tf.configure(templates(1))
	tf.apply()
	tf.configure(templates(n))
	tf.grow(d, n)
	state := string(must.ReadFile(b, filepath.Join(tf.dir, "terraform.tfstate")))
	floor.configure(templates(n))
	floor.write("terraform.tfstate", state)
	return tf, floor
}

// plan measures plans, which must have no changes.
func plan(b *testing.B, d *deployment, tf, floor *terraform) {
	b.Helper()
	tf.expectEmptyPlan() // warms the file cache
	floor.expectEmptyPlan()
	var took, least []time.Duration
	var calls int
	tf.cpu, floor.cpu = 0, 0
	for b.Loop() {
		start := time.Now()
		floor.expectEmptyPlan()
		least = append(least, time.Since(start))
		start = time.Now()
		calls = max(calls, sum(d.countRequests(tf.expectEmptyPlan)))
		took = append(took, time.Since(start))
	}
	b.ReportMetric(median(took).Seconds(), "s/plan")
	b.ReportMetric(median(least).Seconds(), "s/floor")
	b.ReportMetric(median(took).Seconds()/median(least).Seconds(), "ratio")
	b.ReportMetric(float64(calls), "calls/plan")
	b.ReportMetric(tf.cpu.Seconds()/float64(len(took)), "cpu-s/plan")
	b.ReportMetric(floor.cpu.Seconds()/float64(len(least)), "cpu-s/floor")
	b.ReportMetric(0, "ns/op") // meaningless, as it includes both
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
