package jobrunner

import (
	"context"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// billed tells the meter what runs, at the prices of the catalog.
type billed struct{ *Jobrunner }

// Begin is called when a worker runs.
func (b billed) Begin(id string, e worker.Endpoint, p worker.Placement) {
	r := billing.ForWorker(b.catalog.Now(), id, e.ID, billing.Compute{
		GPU: p.GPU, GPUs: int64(p.GPUs), CPU: p.CPU, VCPUs: p.VCPUs, Disk: e.Disk,
	})
	r.Image, r.Template = e.Image, e.Template
	if p.DataCenter != "" {
		r.DataCenters = []string{p.DataCenter}
	}
	b.meter.Start(r)
}

// End is called when nothing of a worker runs any more.
func (b billed) End(id string) { b.meter.Stop(billing.Worker, id) }

// pod is a pod at the prices of the catalog.
func (b billed) pod(p store.Pod) billing.Resource {
	c := billing.Compute{Disk: p.Disk + p.Volume.Size, Cloud: p.Cloud, Spot: p.Interruptible, GPU: p.GPUTypeID}
	switch {
	case p.CPU != nil:
		c.CPU, c.VCPUs = p.CPU.FlavorIDs[0], p.CPU.VCPUCount
	case p.GPU != nil:
		c.GPUs = p.GPU.Count
		if c.GPU == "" && len(p.GPU.TypeIDs) > 0 { // it has not got any yet
			c.GPU = p.GPU.TypeIDs[0]
		}
	}
	r := billing.ForPod(b.catalog.Now(), p.ID, c)
	if p.Cluster != nil { // each member is billed for its own time, to the cluster
		r = billing.ForCluster(b.catalog.Now(), p.Cluster.ID, 1, c)
		r.ID = p.ID
	}
	r.Image, r.Template = p.Image, p.TemplateID
	if p.DataCenterID != "" {
		r.DataCenters = []string{p.DataCenterID}
	}
	return r
}

// podPrice is what a pod costs in an hour, in dollars.
func (b billed) podPrice(p store.Pod) float64 { return billing.PerHour(b.pod(p).Rates) }

// Started is called when a pod runs, and when one that ran on while the deployment was
// killed is adopted.
func (b billed) Started(s pod.Span) {
	if err := b.meter.Continue(context.Background(), b.pod(s.Pod), s.From); err != nil && !sqldb.Temporary(err) {
		b.log.Error("the rates of a pod that runs on could not be read: it is billed at those of now", "pod", s.Pod.ID, "error", err)
	}
}

// Stopped is called when a pod gave its compute back. One that was killed with the
// deployment ended when it was last noted.
func (b billed) Stopped(s pod.Span) {
	kind := billing.Pod
	if s.Pod.Cluster != nil {
		kind = billing.Cluster
	}
	b.meter.Stop(kind, s.Pod.ID)
}

// volume is a network volume at the prices of the catalog.
func (b billed) volume(v store.NetworkVolume) billing.Resource {
	return billing.ForVolume(b.catalog.Now(), v.ID, v.Type, v.DataCenter, v.Size)
}

// volumeChanged is called in the transaction that changes a volume.
func (b billed) volumeChanged(tx *sqldb.Tx, now time.Time, id string, v *store.NetworkVolume) error {
	if err := billing.StopVolume(tx, now, id); err != nil || v == nil {
		return err
	}
	return billing.StartVolume(tx, now, b.volume(*v))
}

// settleVolumes has the volumes that there are billed at the prices of now.
func (b billed) settleVolumes(ctx context.Context) error {
	return b.store.WithNetworkVolumes(ctx, func(tx *sqldb.Tx, now time.Time, all []store.NetworkVolume) error {
		volumes := make([]billing.Resource, len(all))
		for i, v := range all {
			volumes[i] = b.volume(v)
		}
		return billing.SettleVolumes(tx, now, volumes)
	})
}

// followPrices has volumes billed at the catalog's prices whenever these change.
// Workers keep those of their start.
func (b billed) followPrices(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		changed = b.catalog.Changed()
		for {
			err := b.settleVolumes(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			if !sqldb.Temporary(err) {
				b.log.ErrorContext(ctx, "network volumes are billed at the old prices until the next start", "error", err)
				break
			}
			select {
			case <-time.After(resyncPause):
			case <-ctx.Done():
			}
		}
	}
}
