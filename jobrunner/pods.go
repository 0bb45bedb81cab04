package jobrunner

import (
	"context"
	"path/filepath"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
)

const podsFolder = "pods" // in the data folder

// startPods starts the pods, and adopts those of an earlier run with their GPUs.
func (j *Jobrunner) startPods(ctx context.Context, c Config) error {
	folder, err := j.volumes.Folder()
	if err != nil {
		return err
	}
	config := pod.Config{
		Store: j.store, Programs: c.Pods, Devices: j.gpus, Driver: c.GPUs.Driver, Sample: c.GPUs.Sample, Volume: j.volumes.Mount,
		Credentials: j.store.Credentials, Secrets: j.store.ResolveSecrets, Folder: filepath.Join(folder, podsFolder), Machine: j.machine, Persistent: c.DataDir != "",
		Catalog: j.catalog, Meter: j.bills, Price: j.bills.PodPrice, LogTo: c.LogWorkers, Clock: j.clock, Logger: c.Logger,
	}
	if c.Volumes != nil {
		config.RemoveVolume = c.Volumes.RemoveVolume
	}
	j.pods = pod.New(config)
	j.onClose(j.pods.Close)
	j.store.OnPodChange(func(id string) {
		j.pods.Sync(context.WithoutCancel(ctx), id)
		j.engine.Announce(engine.PodChanged, id)
	})
	return j.pods.Load(ctx)
}
