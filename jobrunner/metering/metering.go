// Package metering reports the workers, pods and network volumes that run to the billing
// meter, with the prices of the catalog.
package metering

import (
	"context"
	"log/slog"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// retryPause is the pause after an unavailable database, in real time.
const retryPause = time.Second

// Bills implements the Meter of worker.Config and pod.Config.
type Bills struct {
	Meter   *billing.Meter
	Store   *store.Store
	Catalog *catalog.Source // nil: the built-in catalog
	Logger  *slog.Logger
}

// Begin is called when a worker has started.
func (b Bills) Begin(id string, e worker.Endpoint, p worker.Placement) {
	r := billing.ForWorker(b.Catalog.Now(), id, engine.EndpointOf(e.ID), billing.Compute{
		GPU: p.GPU, GPUs: int64(p.GPUs), CPU: p.CPU, VCPUs: p.VCPUs, Disk: e.Disk,
	})
	r.Image, r.Template = e.Image, e.Template
	if p.DataCenter != "" {
		r.DataCenters = []string{p.DataCenter}
	}
	b.Meter.Start(r)
}

// End is called when a worker has stopped.
func (b Bills) End(id string) { b.Meter.Stop(billing.Worker, id) }

// pod returns a pod's billed resource at the prices of the catalog.
func (b Bills) pod(p store.Pod) billing.Resource {
	c := billing.Compute{Disk: p.Disk + p.Volume.Size, Cloud: p.Cloud, Spot: p.Interruptible, GPU: p.GPUTypeID}
	switch {
	case p.CPU != nil:
		c.CPU, c.VCPUs = p.CPU.FlavorIDs[0], p.CPU.VCPUCount
	case p.GPU != nil:
		c.GPUs = p.GPU.Count
		if c.GPU == "" && len(p.GPU.TypeIDs) > 0 { // it has no GPUs yet
			c.GPU = p.GPU.TypeIDs[0]
		}
	}
	r := billing.ForPod(b.Catalog.Now(), p.ID, c)
	if p.Cluster != nil { // the cluster is billed for the time of each member
		r = billing.ForCluster(b.Catalog.Now(), p.Cluster.ID, 1, c)
		r.ID = p.ID
	}
	r.Image, r.Template = p.Image, p.TemplateID
	if p.DataCenterID != "" {
		r.DataCenters = []string{p.DataCenterID}
	}
	return r
}

// PodPrice returns a pod's price in dollars per hour.
func (b Bills) PodPrice(p store.Pod) float64 { return billing.PerHour(b.pod(p).Rates) }

// Started is called when a pod has started, and when the deployment adopts a pod that kept
// running after the deployment was killed.
func (b Bills) Started(s pod.Span) {
	if err := b.Meter.Continue(context.Background(), b.pod(s.Pod), s.From); err != nil && !sqldb.Temporary(err) {
		b.Logger.Error("the earlier rates of a running pod could not be read: it is billed at the current rates", "pod", s.Pod.ID, "error", err)
	}
}

// Stopped is called when a pod has released its compute. A pod that was killed with the
// deployment is billed until the last checkpoint.
func (b Bills) Stopped(s pod.Span) {
	kind := billing.Pod
	if s.Pod.Cluster != nil {
		kind = billing.Cluster
	}
	b.Meter.Stop(kind, s.Pod.ID)
}

// volume returns a network volume's billed resource at the prices of the catalog.
func (b Bills) volume(v store.NetworkVolume) billing.Resource {
	return billing.ForVolume(b.Catalog.Now(), v.ID, v.Type, v.DataCenter, v.Size)
}

// VolumeChanged is called in the transaction that changes a volume. v is nil if it is deleted.
func (b Bills) VolumeChanged(tx *sqldb.Tx, now time.Time, id string, v *store.NetworkVolume) error {
	if err := billing.StopVolume(tx, now, id); err != nil || v == nil {
		return err
	}
	return billing.StartVolume(tx, now, b.volume(*v))
}

// SettleVolumes bills all volumes at the current prices.
func (b Bills) SettleVolumes(ctx context.Context) error {
	return b.Store.WithNetworkVolumes(ctx, func(tx *sqldb.Tx, now time.Time, all []store.NetworkVolume) error {
		volumes := make([]billing.Resource, len(all))
		for i, v := range all {
			volumes[i] = b.volume(v)
		}
		return billing.SettleVolumes(tx, now, volumes)
	})
}

// FollowPrices bills volumes at new prices whenever the catalog changes, until ctx ends.
// Running workers keep the prices of their start. changed is closed at the next change.
func (b Bills) FollowPrices(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		changed = b.Catalog.Changed()
		for {
			err := b.SettleVolumes(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			if !sqldb.Temporary(err) {
				b.Logger.ErrorContext(ctx, "network volumes are billed at the old prices until the next start", "error", err)
				break
			}
			_ = clock.RealSleep(ctx, retryPause)
		}
	}
}
