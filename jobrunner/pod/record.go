package pod

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const (
	// storeRetryPause is the pause after an error of the database, in real time.
	storeRetryPause = time.Second
	maxReason       = 2000      // bytes
	waitPrefix      = "Waits: " // begins the latest change of a pod that waits
)

// sync reads the record, and interrupts the runner's step if it no longer fits the record.
func (r *runner) sync(ctx context.Context) {
	r.syncMu.Lock()
	defer r.syncMu.Unlock()
	record, err := r.pods.Store.Pod(ctx, r.id)
	p := record
	switch {
	case err == nil && r.pods.isOurs(p):
		r.setDesired(&record, &p)
		r.pods.join(r, p)
	case err == nil: // another node runs the pod, in the folder of that node
		p.Status, p.WipeVolume = store.PodExited, false
		r.setDesired(&record, &p)
	case errors.Is(err, store.ErrNotFound):
		r.setDesired(nil, nil)
	default:
		r.pods.Logger.Error("reading a pod failed: trying again", "pod", r.id, "error", err)
		if ctx = r.pods.ctx; ctx.Err() == nil && r.pods.SingleNode { // several nodes call SyncAll
			r.pods.goroutines.Go(func() {
				if clock.RealSleep(ctx, storeRetryPause) == nil {
					r.sync(ctx)
				}
			})
		}
	}
}

// hasRead reports whether the runner has read exactly this record; nil means deleted.
func (r *runner) hasRead(p *store.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == nil {
		return r.desired == nil
	}
	return r.lastRead != nil && reflect.DeepEqual(*r.lastRead, *p)
}

func (r *runner) setDesired(record, p *store.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastRead, r.desired = record, p
	if p == nil || !p.Status.Active() || p.Run != r.generation {
		r.interrupt()
	}
	notify.Signal(r.wake)
}

func (r *runner) getDesired() *store.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.desired
}

// errOutdated means that the record no longer exists, has another generation, or is in a state in which the
// event doesn't apply. The runner will read it soon.
var errOutdated = errors.New("the record of the pod has changed")

func (r *runner) report(ctx context.Context, generation int64, e event, set func(p *store.Pod)) (store.Pod, error) {
	return r.update(ctx, generation, func(p *store.Pod) bool {
		if !apply(p, e) {
			return false
		}
		set(p)
		return true
	})
}

// update changes the record. If the generation is outdated or change returns false, the error
// is errOutdated. It retries after any other error, until ctx ends.
func (r *runner) update(ctx context.Context, generation int64, change func(p *store.Pod) bool) (store.Pod, error) {
	for logged := false; ; {
		p, err := r.tryUpdate(ctx, generation, change)
		switch {
		case err == nil, errors.Is(err, errOutdated):
			return p, err
		case errors.Is(err, store.ErrNotFound):
			return p, errOutdated
		case !sqldb.Temporary(err) && !logged:
			r.pods.Logger.ErrorContext(ctx, "the state of a pod can't be stored yet", "pod", r.id, "error", err)
			logged = true
		}
		if err := clock.RealSleep(ctx, storeRetryPause); err != nil {
			return p, err
		}
	}
}

func (r *runner) tryUpdate(ctx context.Context, generation int64, change func(p *store.Pod) bool) (store.Pod, error) {
	r.syncMu.Lock()
	defer r.syncMu.Unlock()
	p, err := r.pods.Store.ReportPod(context.WithoutCancel(ctx), r.id, func(p *store.Pod) error {
		if p.Run != generation || !change(p) {
			return errOutdated
		}
		return nil
	})
	if err == nil {
		r.mu.Lock()
		r.desired = &p
		r.mu.Unlock()
	}
	return p, err
}

// reportWait records why the pod waits, and logs it once.
func (r *runner) reportWait(ctx context.Context, p store.Pod, level slog.Level, message, reason string) {
	reason = logline.Shorten(reason, maxReason)
	if current := r.getDesired(); current != nil && current.Status == store.PodProvisioning && current.Reason == reason {
		return
	}
	if _, err := r.report(ctx, p.Run, startDelayed, func(p *store.Pod) { r.note(p, waitPrefix+reason, reason) }); err == nil && r.loggedReason != reason {
		r.loggedReason = reason
		r.log.Note("the pod waits: " + reason)
		r.pods.Logger.Log(ctx, level, message, "pod", r.id, "reason", reason)
	}
}

// note sets the record's latest change and reason.
func (r *runner) note(p *store.Pod, text, reason string) {
	recordChange(p, logline.Shorten(text, maxReason), r.pods.Clock.Wall())
	p.Reason = logline.Shorten(reason, maxReason)
}
