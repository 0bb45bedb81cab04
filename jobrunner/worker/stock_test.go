package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

func bubbleWithCatalog(t *testing.T, text string, test func(f *fixture, file string)) {
	t.Helper()
	bubbleWithConfig(t, nil, func(c *worker.Config) string {
		file := filepath.Join(t.TempDir(), "catalog.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		c.Catalog = must.Do(catalog.Open(file, c.Clock, c.Logger))(t)
		return file
	}, func(f *fixture, file string) {
		defer f.catalog.Close()
		test(f, file)
	})
}

func TestWorkersWaitForStock(t *testing.T) {
	gpu := func(types ...string) worker.Endpoint {
		e := echo
		e.GPU = &store.GPU{TypeIDs: types, Count: 1}
		return e
	}
	cpu := echo
	cpu.CPU = []store.CPU{{FlavorID: "cpu3c", VCPUCount: 2}, {FlavorID: "cpu5c", VCPUCount: 2}}
	inRegion := gpu("NVIDIA L4")
	inRegion.DataCenters = []string{"EU-RO-1", "US-KS-2"}
	pools := echo
	pools.GPU = &store.GPU{Pools: []string{"ADA_24"}, ExcludedTypes: []string{"NVIDIA GeForce RTX 4090"}, Count: 1}
	for name, c := range map[string]struct {
		endpoint worker.Endpoint
		stock    string
		delay    time.Duration // after which its worker starts
		reason   string
	}{
		"no stock of the only type":     {gpu("NVIDIA L4"), "[{gpus: [NVIDIA L4], level: NONE}, {gpus: [NVIDIA L4], level: LOW, after: 10m}]", 10 * time.Minute, "no stock of NVIDIA L4 in any data center"},
		"stock of the second type":      {gpu("NVIDIA L4", "NVIDIA A40"), "[{gpus: [NVIDIA L4], level: NONE}]", 0, ""},
		"no stock of all types":         {gpu("NVIDIA L4", "NVIDIA A40"), `[{gpus: ["*"], level: NONE}, {gpus: [NVIDIA A40], level: HIGH, after: 5m}]`, 5 * time.Minute, "no stock of NVIDIA L4, NVIDIA A40"},
		"no stock for other products":   {gpu("NVIDIA L4"), "[{gpus: [NVIDIA L4], products: [POD, CLUSTER], level: NONE}]", 0, ""},
		"no stock in one data center":   {inRegion, "[{gpus: [NVIDIA L4], data_centers: [EU-RO-1], level: NONE}]", 0, ""},
		"no stock in both data centers": {inRegion, "[{gpus: [NVIDIA L4], level: NONE}, {gpus: [NVIDIA L4], data_centers: [US-TX-3], level: HIGH}, {gpus: [NVIDIA L4], data_centers: [US-KS-2], level: HIGH, after: 3m}]", 3 * time.Minute, "in EU-RO-1, US-KS-2"},
		"no stock of the pool's type":   {pools, "[{gpus: [NVIDIA L4], level: NONE}, {gpus: [NVIDIA L4], level: LOW, after: 2m}]", 2 * time.Minute, "no stock of NVIDIA L4"},
		"any GPU: no stock of any type": {gpu(), `[{gpus: ["*"], level: NONE}, {gpus: [NVIDIA H200], level: LOW, after: 4m}]`, 4 * time.Minute, "no stock of any GPU"},
		"any GPU: no stock of one type": {gpu(), "[{gpus: [NVIDIA L4], level: NONE}]", 0, ""},
		"no stock of both CPU flavors":  {cpu, "[{cpus: [cpu3c, cpu5c], level: NONE}, {cpus: [cpu5c], level: LOW, after: 6m}]", 6 * time.Minute, "no stock of cpu3c, cpu5c"},
		"no stock of one CPU flavor":    {cpu, "[{cpus: [cpu3c], level: NONE}]", 0, ""},
		"no GPUs requested":             {echo, `[{gpus: ["*"], level: NONE}]`, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleWithCatalog(t, "stock: "+c.stock, func(f *fixture, _ string) {
				f.pools.Set(c.endpoint)
				job := f.submit(engine.NewJob{})
				if c.delay > 0 {
					time.Sleep(c.delay - time.Second)
					f.expectCounts(worker.Counts{Throttled: 1})
					reason := f.pools.Workers("ep")[0].Reason
					must.Hold(t, strings.Contains(reason, c.reason), "the reason is", reason, "want", c.reason)
					must.Equal(t, f.pools.Failure("ep"), reason, "the endpoint's reason")
					time.Sleep(time.Second)
				}
				must.Equal(t, f.reload(job).State, engine.Completed, "the state of the job")
			})
		})
	}
}

func TestStockComesWithChangedFile(t *testing.T) {
	bubbleWithCatalog(t, `stock: [{gpus: ["*"], level: NONE}]`, func(f *fixture, file string) {
		e := echo
		e.GPU = &store.GPU{Count: 1}
		f.pools.Set(e)
		job := f.submit(engine.NewJob{})
		f.expectCounts(worker.Counts{Throttled: 1})
		must.Succeed(t, os.WriteFile(file, []byte(`stock: [{gpus: ["*"], level: LOW}]`), 0o600))
		time.Sleep(time.Second + time.Millisecond)
		must.Equal(t, f.reload(job).State, engine.Completed, "the state of the job")
	})
}

// A worker that leaves before it gets a GPU didn't die.
func TestWaitingWorkerDoesNotDie(t *testing.T) {
	bubbleWithCatalog(t, `stock: [{gpus: ["*"], level: NONE}]`, func(f *fixture, _ string) {
		e := echo
		e.GPU, e.Min = &store.GPU{Count: 1}, 1
		f.pools.Set(e)
		f.expectCounts(worker.Counts{Throttled: 1})
		e.Min, e.Max = 0, 0
		f.pools.Set(e)
		f.expectCounts(worker.Counts{})
		must.Equal(t, len(f.pools.DeadWorkers("ep")), 0, "dead workers")
	})
}
