package jobrunner

import (
	"context"
	"path/filepath"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// workerConfig returns the configuration of the worker pools.
func (j *Jobrunner) workerConfig(c Config) worker.Config {
	w := worker.Config{
		Queue: j.engine, Programs: c.Programs, URL: c.URL, Volume: j.volumes.Mount, Credentials: j.store.Credentials, Secrets: j.store.ResolveSecrets, Sample: c.GPUs.Sample,
		LogTo: c.LogWorkers, Catalog: j.catalog, Meter: j.bills, Clock: j.clock, Logger: c.Logger,
	}
	if j.db.Shared() {
		w.MayScale = j.engine.MayScale
	}
	// Without a driver, the workers of endpoints with GPUs run on the CPU. With a driver, they
	// wait until it reports GPUs.
	if len(c.GPUs.Devices()) > 0 || c.GPUs.Driver().Version != "" {
		w.Devices = j.gpus
	}
	return w
}

const podsFolder = "pods" // in the data folder

// startPods starts the pods. It adopts the pods of an earlier run with their GPUs.
func (j *Jobrunner) startPods(ctx context.Context, c Config) error {
	folder, err := j.volumes.Folder()
	if err != nil {
		return err
	}
	j.pods = pod.New(pod.Config{
		Store: j.store, Programs: c.Pods, Devices: j.gpus, Driver: c.GPUs.Driver, Sample: c.GPUs.Sample, Volume: j.volumes.Mount,
		Credentials: j.store.Credentials, Secrets: j.store.ResolveSecrets, Folder: filepath.Join(folder, podsFolder), Machine: j.machine, Persistent: c.DataDir != "",
		Catalog: j.catalog, Meter: j.bills, LogTo: c.LogWorkers, Clock: j.clock, Logger: c.Logger, Keeper: c.Volumes,
	})
	j.onClose(j.pods.Close)
	store.OnChange[store.Pod](j.store, func(id string) {
		j.pods.Sync(context.WithoutCancel(ctx), id)
		j.engine.Announce(engine.PodChanged, id)
	})
	return j.pods.Load(ctx)
}
