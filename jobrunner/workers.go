package jobrunner

import (
	"context"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// workerConfig is the configuration of the worker pools.
func (j *Jobrunner) workerConfig(c Config, clk *clock.Clock) worker.Config {
	w := worker.Config{
		Queue: j.engine, Programs: c.Programs, URL: c.URL, Volume: j.mount, Credentials: j.store.Credentials, Secrets: j.store.ResolveSecrets, Sample: c.GPUs.Sample,
		LogTo: c.LogWorkers, Catalog: j.catalog, Meter: billed{j}, Clock: clk, Logger: c.Logger,
	}
	if j.db.Shared() {
		w.MayScale = j.engine.MayScale
	}
	// Where there is not even a driver, endpoints with GPUs run on the CPU. Where
	// there is one, they wait for what it may show later.
	if len(c.GPUs.Devices()) > 0 || c.GPUs.Driver().Version != "" {
		w.Devices = j.gpus
	}
	return w
}

// settings are the settings of an endpoint's workers.
func settings(e store.Endpoint) worker.Endpoint {
	return worker.Endpoint{
		ID: e.ID, Container: e.Container, Version: e.Version, GPU: e.GPU, CPU: e.CPU, Volumes: e.NetworkVolumes, Balanced: e.Type == store.LoadBalancer,
		Min: int(e.WorkersMin), Max: int(e.WorkersMax),
		IdleTimeout: time.Duration(e.IdleTimeout) * time.Second,
		Timeout:     time.Duration(e.Timeout) * time.Millisecond,
		ByRequests:  e.Scaling.Type == store.RequestCount,
		ScalerValue: e.Scaling.Value,
		DataCenters: e.DataCenterIDs, Template: e.TemplateID,
	}
}

// limiter counts the requests of the job API: here, or where several share a database
// for all.
func (j *Jobrunner) limiter(ctx context.Context, clk *clock.Clock) (_ jobapi.Limiter, err error) {
	if !j.db.Shared() {
		return limits.New(clk), nil
	}
	j.limits, err = limits.NewShared(ctx, limits.SharedConfig{
		DB: j.db, Clock: clk, Process: j.engine.Process, Nodes: func() int { return len(j.engine.Nodes()) + 1 },
		Announce: func(key string) { j.engine.Announce(engine.LimitReached, key) },
	})
	return j.limits, err
}

// running counts the workers of an endpoint that run a job. Those of another process
// are as many as the jobs that run.
func (j *Jobrunner) running(endpoint string) int {
	if _, here := j.pools.Leads(endpoint); here || !j.db.Shared() {
		return j.pools.Counts(endpoint).Running
	}
	return j.engine.Counts(endpoint).InProgress
}

// workers counts an endpoint's workers as its health tells them.
func (j *Jobrunner) workers(endpoint string) jobapi.Workers {
	c := j.pools.Counts(endpoint)
	return jobapi.Workers{
		Idle: c.Idle, Initializing: c.Initializing, Ready: c.Idle + c.Running, Running: c.Running, Throttled: c.Throttled, Unhealthy: c.Unhealthy,
	}
}
