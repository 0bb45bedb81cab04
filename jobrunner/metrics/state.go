package metrics

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

type Source interface {
	// EndpointLoads returns all endpoints with their jobs and workers.
	EndpointLoads(ctx context.Context) ([]Endpoint, error)
	Devices() []gpu.DeviceState
}

type Endpoint struct {
	ID      string
	Jobs    engine.Counts
	Oldest  time.Time // when the first queued job without low priority was queued; zero if no such job waits
	Workers []worker.Info
	// WorkersByState has the number of workers in each state, also if it is 0.
	WorkersByState map[string]int
}

const readTimeout = 5 * time.Second

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	jobsNow   = desc("jobs", "Jobs that wait or run, by state.", "endpoint", "state")
	oldestAge = desc("queue_oldest_age_seconds", "Age of the oldest queued job without low priority; 0 if there is none.", "endpoint")
	workers   = desc("workers", "Workers, by state.", "endpoint", "state")
	workerCPU = desc("worker_cpu_seconds_total", "Processor time that a worker has used.", "endpoint", "worker")
	workerRAM = desc("worker_memory_bytes", "Resident memory of a worker.", "endpoint", "worker")

	gpuInfo        = desc("gpu_info", "A GPU of this machine; always 1.", "gpu", "index", "type", "mig")
	gpuHealthy     = desc("gpu_healthy", "Whether a GPU can be used.", "gpu")
	gpuHeld        = desc("gpu_held", "Whether a worker or pod has the GPU.", "gpu")
	gpuMemory      = desc("gpu_memory_bytes", "Size of a GPU's memory.", "gpu")
	gpuUtilization = desc("gpu_utilization_ratio", "Fraction of time that a GPU was busy.", "gpu")
	gpuMemoryUsed  = desc("gpu_memory_used_bytes", "Memory of a GPU in use.", "gpu")
	gpuPower       = desc("gpu_power_watts", "Power that a GPU draws.", "gpu")
	gpuTemperature = desc("gpu_temperature_celsius", "Temperature of a GPU.", "gpu")
)

// stateCollector reads the source at each scrape, and collects the job counters of existing endpoints.
type stateCollector struct {
	source Source
	clock  *clock.Clock
	jobs   *jobs
}

// Describe sends nothing, so that Collect may omit any metric.
func (c *stateCollector) Describe(chan<- *prometheus.Desc) {}

func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	readAt := time.Now()
	endpoints, err := c.source.EndpointLoads(ctx)
	if err == nil {
		existing := make(map[string]bool, len(endpoints))
		for _, e := range endpoints {
			existing[e.ID] = true
			c.sendEndpoint(out, e)
		}
		c.jobs.keepOnly(existing, readAt)
	}
	if err == nil || sqldb.Temporary(err) { // during an outage of the database, the counters in memory are still right
		for _, counters := range c.jobs.collectors() {
			counters.Collect(out)
		}
	} else {
		out <- prometheus.NewInvalidMetric(jobsNow, err)
	}
	for _, g := range c.source.Devices() {
		sendDevice(out, g)
	}
}

func sendGauge(out chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (c *stateCollector) sendEndpoint(out chan<- prometheus.Metric, e Endpoint) {
	// Metrics are sent in the order of the output, which makes the registry's sort cheap.
	sendGauge(out, jobsNow, float64(e.Jobs.InProgress), e.ID, string(engine.InProgress))
	sendGauge(out, jobsNow, float64(e.Jobs.InQueue), e.ID, string(engine.InQueue))
	age := time.Duration(0)
	if !e.Oldest.IsZero() {
		age = max(0, c.clock.Now().Sub(e.Oldest))
	}
	sendGauge(out, oldestAge, age.Seconds(), e.ID)
	for _, state := range slices.Sorted(maps.Keys(e.WorkersByState)) {
		sendGauge(out, workers, float64(e.WorkersByState[state]), e.ID, state)
	}
	for _, w := range e.Workers {
		if w.Usage == (run.Usage{}) { // the worker isn't a process
			continue
		}
		out <- prometheus.MustNewConstMetric(workerCPU, prometheus.CounterValue, w.Usage.CPU.Seconds(), e.ID, w.ID)
		sendGauge(out, workerRAM, float64(w.Usage.Memory), e.ID, w.ID)
	}
}

func sendDevice(out chan<- prometheus.Metric, g gpu.DeviceState) {
	sendGauge(out, gpuInfo, 1, g.UUID, strconv.Itoa(g.Index), strings.ToValidUTF8(g.TypeID, "?"), g.MIG)
	sendGauge(out, gpuHealthy, boolGauge(g.Fault == ""), g.UUID)
	sendGauge(out, gpuHeld, boolGauge(g.Owner != ""), g.UUID)
	sendGauge(out, gpuMemory, float64(g.Memory), g.UUID)
	for _, metric := range []struct {
		desc    *prometheus.Desc
		value   int64 // -1 if the device doesn't report it
		divisor float64
	}{
		{gpuUtilization, int64(g.Utilization), 100},
		{gpuMemoryUsed, g.MemoryUsed, 1},
		{gpuPower, int64(g.Power), 1000},
		{gpuTemperature, int64(g.Temperature), 1},
	} {
		if metric.value >= 0 {
			sendGauge(out, metric.desc, float64(metric.value)/metric.divisor, g.UUID)
		}
	}
}

func boolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
