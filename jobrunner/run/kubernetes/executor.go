package kubernetes

import (
	"context"

	core "k8s.io/api/core/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// OpenForExecutor connects an executor to the cluster that its file names.
func OpenForExecutor(ctx context.Context, c host.ClusterConfig) (host.Cluster, error) {
	config := Config{
		Kubeconfig: c.Kubeconfig, Context: c.Context, Namespace: c.Namespace, URL: c.URL, GPULabel: c.GPULabel, GPUTypes: c.GPUTypes,
		StorageClass: c.StorageClass, VolumeAccess: core.PersistentVolumeAccessMode(c.VolumeAccess), Overcommit: c.Overcommit,
		Self: FindSelf(), Run: c.Run, Logger: c.Logger,
	}
	for _, t := range c.Tolerations {
		config.Tolerations = append(config.Tolerations, core.Toleration{
			Key: t.Key, Operator: core.TolerationOperator(t.Operator), Value: t.Value, Effect: core.TaintEffect(t.Effect),
		})
	}
	cluster, err := Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return executorCluster{cluster}, nil
}

// executorCluster is a Cluster that takes an executor's workloads.
type executorCluster struct{ *Cluster }

func (c executorCluster) Start(ctx context.Context, w host.Workload) (worker.Process, error) {
	return c.Cluster.Start(ctx, workload(w))
}

func (c executorCluster) StartPod(ctx context.Context, w host.Workload) (pod.Process, error) {
	return c.Cluster.StartPod(ctx, workload(w))
}

func workload(w host.Workload) Workload {
	pull := core.PullIfNotPresent
	if w.PullAlways {
		pull = core.PullAlways
	}
	return Workload{Spec: w.Spec, Pod: w.Pod, Words: w.Words, Registry: w.Registry, Pull: pull}
}
