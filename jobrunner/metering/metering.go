// Package metering tells the billing meter which workers, pods and volumes exist, with their prices.
package metering

import (
	"context"
	"log/slog"
	"sync"
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

// retryPause is the pause before another try if the database is unavailable, in real time.
const retryPause = time.Second

type Config struct {
	DB      *sqldb.DB
	Clock   *clock.Clock
	Store   *store.Store
	Catalog *catalog.Source // nil: the built-in catalog
	Logger  *slog.Logger
}

// Bills starts and ends the billing of objects. It implements the Meter of worker.Config and pod.Config.
type Bills struct {
	Config
	Meter    *billing.Meter
	stop     context.CancelFunc
	follower sync.WaitGroup
}

// Open opens the meter and bills all volumes at the current prices from now on. The caller must call Close.
func Open(ctx context.Context, c Config) (*Bills, error) {
	meter, err := billing.Open(ctx, billing.Config{DB: c.DB, Clock: c.Clock, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	followCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &Bills{Config: c, Meter: meter, stop: stop}
	c.Store.SetVolumeHook(b.volumeChanged)
	changed := c.Catalog.Changed()
	if err := b.reconcileVolumes(ctx); err != nil {
		b.Close()
		return nil, err
	}
	b.follower.Go(func() { b.followPrices(followCtx, changed) })
	return b, nil
}

func (b *Bills) Close() {
	b.stop()
	b.follower.Wait()
	b.Meter.Close()
}

// Begin is called when a worker has started. The rate of its GPUs or CPUs includes the serverless fee.
func (b *Bills) Begin(id string, e worker.Endpoint, p worker.Placement) {
	cat := b.Catalog.Current()
	r := billing.Resource{
		Kind: billing.Worker, ID: id, Owner: engine.EndpointOf(e.ID), GPUType: p.GPU, Image: e.Image, Template: e.Template, DataCenters: dataCenterList(p.DataCenter), Disk: e.Disk,
	}
	r.Rates.Disk = billing.Monthly(cat.Storage.Disk, e.Disk)
	fee := billing.Hourly(cat.Fees.Serverless, 1)
	if p.GPU != "" {
		r.Rates.GPU = billing.Hourly(cat.OfferOf(p.GPU).Price.Serverless, int64(p.GPUs)) + fee
	} else {
		r.Rates.CPU = billing.Hourly(cat.CPUPriceOf(p.CPU).Serverless, p.VCPUs) + fee
	}
	b.Meter.Start(r)
}

func dataCenterList(dataCenter string) []string {
	if dataCenter == "" {
		return nil
	}
	return []string{dataCenter}
}

// End is called when a worker has stopped.
func (b *Bills) End(id string) { b.Meter.Stop(billing.Worker, id) }

// podResource returns a pod as a billed resource at the prices of the catalog. A cluster is billed for the time of each member.
func (b *Bills) podResource(p store.Pod) billing.Resource {
	cat := b.Catalog.Current()
	r := billing.Resource{
		Kind: kindOf(p), ID: p.ID, Owner: p.ID, GPUType: p.GPUType(), Image: p.Image, Template: p.TemplateID, DataCenters: dataCenterList(p.DataCenterID), Disk: p.Disk + p.Volume.Size,
	}
	r.Rates.Disk = billing.Monthly(cat.Storage.Disk, r.Disk)
	switch {
	case p.CPU != nil:
		r.Rates.CPU = billing.Hourly(cat.CPUPriceOf(p.CPU.FlavorIDs[0]).Secure, p.CPU.VCPUCount)
	case p.GPU != nil:
		r.Rates.GPU = billing.Hourly(cat.OfferOf(r.GPUType).PodPrice(p.Cloud, p.Interruptible), p.GPU.Count)
	}
	if p.Cluster != nil {
		r.Owner, r.Rates.Networking = p.Cluster.ID, billing.Hourly(cat.Fees.Networking, 1)
	}
	return r
}

func kindOf(p store.Pod) billing.Kind {
	if p.Cluster != nil {
		return billing.Cluster
	}
	return billing.Pod
}

// PodPrice returns a pod's price in dollars per hour in the current catalog, or 0 if the pod neither runs nor will run.
func (b *Bills) PodPrice(p store.Pod) float64 {
	if !p.Status.Active() {
		return 0
	}
	return billing.PerHour(b.podResource(p).Rates)
}

// Started is called when a pod has started, or was adopted after the deployment was killed.
func (b *Bills) Started(s pod.Span) {
	if err := b.Meter.Continue(context.Background(), b.podResource(s.Pod), s.From); err != nil && !sqldb.Temporary(err) {
		b.Logger.Error("the earlier rates of a running pod could not be read: it is billed at the current rates", "pod", s.Pod.ID, "error", err)
	}
}

// Stopped is called when a pod no longer runs. A pod that was killed with the
// deployment is billed until the last checkpoint.
func (b *Bills) Stopped(s pod.Span) { b.Meter.Stop(kindOf(s.Pod), s.Pod.ID) }

// volumeResource returns a network volume as a billed resource at the prices of the catalog.
func (b *Bills) volumeResource(v store.NetworkVolume) billing.Resource {
	prices := b.Catalog.Current().Storage
	r := billing.Resource{Kind: billing.Volume, ID: v.ID, Owner: v.ID, DataCenters: []string{v.DataCenter}, Disk: v.Size, HighPerformance: v.Type == catalog.HighPerformance}
	if r.HighPerformance {
		r.Rates.HighPerformance = billing.Monthly(prices.HighPerformance, v.Size)
	} else {
		r.Rates.Standard = billing.Monthly(prices.Standard, v.Size)
	}
	return r
}

// volumeChanged is called in the transaction that changes a volume. v is nil if it is deleted.
func (b *Bills) volumeChanged(tx *sqldb.Tx, now time.Time, id string, v *store.NetworkVolume) error {
	if err := billing.StopVolume(tx, now, id); err != nil || v == nil {
		return err
	}
	return billing.StartVolume(tx, now, b.volumeResource(*v))
}

// reconcileVolumes bills all volumes at the current prices from now on.
func (b *Bills) reconcileVolumes(ctx context.Context) error {
	return b.Store.WithNetworkVolumes(ctx, func(tx *sqldb.Tx, now time.Time, all []store.NetworkVolume) error {
		volumes := make([]billing.Resource, len(all))
		for i, v := range all {
			volumes[i] = b.volumeResource(v)
		}
		return billing.ReconcileVolumes(tx, now, volumes)
	})
}

// followPrices bills volumes at new prices whenever the catalog changes, until ctx ends.
// Running workers, pods and clusters keep the prices of their start. changed is closed at the next change.
func (b *Bills) followPrices(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		changed = b.Catalog.Changed()
		err := b.reconcileVolumes(ctx)
		for sqldb.Temporary(err) && clock.RealSleep(ctx, retryPause) == nil {
			err = b.reconcileVolumes(ctx)
		}
		if err != nil && ctx.Err() == nil {
			b.Logger.ErrorContext(ctx, "network volumes are billed at the old prices until the next start", "error", err)
		}
	}
}
