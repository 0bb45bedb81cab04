package pod

import (
	"context"
	"os"
	"path/filepath"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Load goes on with the pods of an earlier run of the deployment: it adopts the
// containers that still are what is wanted, removes the others, and starts the rest
// anew. Each pod's log says which.
func (p *Pods) Load(ctx context.Context) error {
	all, err := p.Store.Pods(ctx)
	if err != nil {
		return err
	}
	left := map[string]Left{}
	if p.Lasting {
		for _, l := range p.Programs.Left(ctx, p.Machine) {
			if _, again := left[l.Pod]; again {
				l.Remove()
				continue
			}
			left[l.Pod] = l
		}
	}
	for _, record := range all {
		if !p.ours(record) {
			continue
		}
		r := newRunner(p, record.ID)
		if l, there := left[record.ID]; there && record.Status == store.PodRunning && l.Run == record.Run {
			if r.adopt(ctx, record, l) {
				delete(left, record.ID)
			}
		}
		if r.left == nil && (record.Status == store.PodRunning || record.Status == store.PodStarting) {
			r.restore(ctx, record)
		}
		p.mu.Lock()
		p.runners[record.ID] = r
		p.mu.Unlock()
	}
	for _, l := range left {
		l.Remove()
	}
	p.removeFolders(ctx, all)
	if p.Lasting {
		p.removeNetworks(ctx, all)
	}
	for _, r := range p.all() {
		r.sync(ctx)
		p.running.Go(func() { p.keep(r) })
	}
	return nil
}

// ours tells whether this deployment runs a pod.
func (p *Pods) ours(record store.Pod) bool {
	return record.Machine == "" || record.Machine == p.Machine
}

// adopt goes on with a container, with the GPUs that it has.
func (r *runner) adopt(ctx context.Context, record store.Pod, l Left) bool {
	if len(record.Devices) > 0 {
		devices, err := r.pods.Devices.Claim(record.Devices, r.id)
		if err != nil {
			r.log.Note("the pod's container ran on while the jobrunner was away, and can't go on: " + err.Error())
			return false
		}
		r.devices = devices
	}
	if _, err := r.pods.Secrets.Env(ctx, environment(record, Spec{}), r.log.Log); err != nil { // hides them
		r.pods.Logger.WarnContext(ctx, "the log of an adopted pod may show its account secrets", "pod", r.id, "error", err)
	}
	const text = "the jobrunner started anew, and adopted the pod's container, which ran on meanwhile"
	r.log.Note(text)
	r.pods.Logger.InfoContext(ctx, "a pod is adopted", "pod", r.id)
	r.left = l.Adopt(Spec{Run: l.Run, Line: r.log.line}, r.log.after())
	r.report(ctx, record.Run, up, func(p *store.Pod) { change(p, "Adopted: "+text, r.pods.Clock.Wall()) })
	return true
}

// restore has a pod start anew of which nothing is left.
func (r *runner) restore(ctx context.Context, record store.Pod) {
	const text = "the jobrunner started anew, nothing of the pod ran any more, and it is started again"
	if _, ok := r.report(ctx, record.Run, restored, func(p *store.Pod) { r.note(p, "Restarted: "+text, "") }); ok {
		r.log.Note(text)
		r.pods.Logger.InfoContext(ctx, "a pod is started again", "pod", r.id)
		if !record.StartedAt.IsZero() && record.Status == store.PodRunning {
			r.pods.Meter.Stopped(Span{Pod: record, From: record.StartedAt, To: r.pods.Clock.Wall()})
		}
	}
}

// takeLeft is the process that was adopted, once.
func (r *runner) takeLeft() Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	process := r.left
	r.left = nil
	return process
}

// removeFolders removes those of pods whose deletion was cut short.
func (p *Pods) removeFolders(ctx context.Context, all []store.Pod) {
	known := map[string]bool{}
	for _, record := range all {
		known[record.ID] = true
	}
	folders, err := os.ReadDir(p.Folder)
	if err != nil {
		return // there is none yet
	}
	for _, f := range folders {
		if f.IsDir() && !known[f.Name()] {
			p.removeFolder(ctx, f.Name())
		}
	}
}

// removeFolder removes what is kept of a deleted pod. The folder is the last: with it the
// next start knows that something may be left.
func (p *Pods) removeFolder(ctx context.Context, id string) {
	err := p.removeVolume(ctx, id)
	if err == nil {
		err = os.RemoveAll(filepath.Join(p.Folder, id))
	}
	if err != nil {
		p.Logger.ErrorContext(ctx, "what is kept of a deleted pod can't be removed: the next start tries again", "pod", id, "error", err)
	}
}

// removeVolume removes a pod's volume that is not in its folder.
func (p *Pods) removeVolume(ctx context.Context, id string) error {
	if p.RemoveVolume == nil {
		return nil
	}
	return p.RemoveVolume(context.WithoutCancel(ctx), worker.PodVolumeName+id)
}
