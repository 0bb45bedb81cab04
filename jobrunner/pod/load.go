package pod

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Load continues the pods of an earlier run of the deployment. It adopts containers that match
// their record, starts the remaining pods again, and removes leftovers in the background. Each
// pod's log says what happened.
func (p *Pods) Load(ctx context.Context) error {
	all, err := p.Store.Pods(ctx)
	if err != nil {
		return err
	}
	orphans := map[string]run.Orphan{}
	if p.Persistent && slices.ContainsFunc(all, func(record store.Pod) bool { return p.isOurs(record) && record.Status == store.PodRunning }) {
		for _, o := range p.Programs.Orphans(ctx, p.FolderID) {
			if other, duplicate := orphans[o.Pod]; duplicate {
				if other.Run >= o.Run {
					o, other = other, o
				}
				p.goroutines.Go(other.Remove)
			}
			orphans[o.Pod] = o
		}
	}
	for _, record := range all {
		if !p.isOurs(record) {
			continue
		}
		r := newRunner(p, record.ID)
		o, found := orphans[record.ID]
		if found && record.Status == store.PodRunning && o.Run == record.Run {
			r.adopt(ctx, record, o)
		}
		if r.process == nil && (record.Status == store.PodRunning || record.Status == store.PodStarting) {
			r.restore(ctx, record)
			if found { // the pod may have to wait for its start, which removes leftovers, too
				p.goroutines.Go(o.Remove)
			}
		}
		p.mu.Lock()
		p.runners[record.ID] = r
		p.mu.Unlock()
	}
	p.removeFolders(ctx, all)
	if p.Persistent {
		p.goroutines.Go(p.removeLeftovers)
	}
	for _, r := range p.all() {
		r.sync(ctx)
		p.goroutines.Go(func() { p.runUntilDeleted(r) })
	}
	return nil
}

func (p *Pods) isOurs(record store.Pod) bool {
	return p.SingleNode || record.FolderID == "" || record.FolderID == p.FolderID
}

// removeLeftovers removes the containers of pods that don't run, and the networks of clusters
// that don't exist. It reads the records last, so that they have every pod whose container is
// listed. It leaves active pods alone: the start of a pod removes that pod's leftovers.
func (p *Pods) removeLeftovers() {
	orphans, networks := p.Programs.Orphans(p.ctx, p.FolderID), p.Programs.OrphanNetworks(p.ctx, p.FolderID)
	all, err := p.Store.Pods(p.ctx)
	if err != nil {
		return // the next start tries again
	}
	isActive, hasCluster := map[string]bool{}, map[string]bool{} // by pod, by network
	for _, record := range all {
		isActive[record.ID] = p.isOurs(record) && record.Status.Active()
		if record.Cluster != nil {
			hasCluster[networkName(record.Cluster.ID)] = true
		}
	}
	for _, o := range orphans {
		if !isActive[o.Pod] {
			o.Remove()
		}
	}
	for _, name := range networks {
		if !hasCluster[name] {
			p.removeNetwork(p.ctx, name)
		}
	}
}

// adopt continues with a container and its GPUs.
func (r *runner) adopt(ctx context.Context, record store.Pod, o run.Orphan) {
	if len(record.Devices) > 0 {
		devices, err := r.pods.Devices.Claim(record.Devices, r.id)
		if err != nil {
			r.log.Note("the pod's container kept running while the jobrunner was down, but can't continue: " + err.Error())
			return
		}
		r.devices = devices
	}
	if _, err := r.pods.Secrets.Resolve(ctx, environment(record, run.Spec{Pod: &run.Pod{}}), r.log.Log); err != nil { // hides the secrets in the log
		r.pods.Logger.WarnContext(ctx, "the log of an adopted pod may show its account secrets", "pod", r.id, "error", err)
	}
	const text = "the jobrunner restarted, and adopted the pod's container, which had kept running"
	r.log.Note(text)
	r.pods.Logger.InfoContext(ctx, "a pod is adopted", "pod", r.id)
	process := o.Adopt(r.log, r.log.Mark())
	if p, err := r.report(ctx, record.Run, containerStarted, func(p *store.Pod) { recordChange(p, "Adopted: "+text, r.pods.Clock.Wall()) }); err == nil {
		record = p
	}
	r.setRunning(record, process)
}

// restore restarts a pod that wasn't adopted.
func (r *runner) restore(ctx context.Context, record store.Pod) {
	const text = "the jobrunner restarted, and starts the pod again"
	if _, err := r.report(ctx, record.Run, restartQueued, func(p *store.Pod) { r.note(p, "Restarted: "+text, "") }); err == nil {
		r.log.Note(text)
		r.pods.Logger.InfoContext(ctx, "a pod is started again", "pod", r.id)
	}
}

// removeFolders removes the folders of pods whose deletion was interrupted.
func (p *Pods) removeFolders(ctx context.Context, all []store.Pod) {
	folders, err := os.ReadDir(p.Folder)
	if err != nil {
		return // the folder doesn't exist yet
	}
	for _, f := range folders {
		if f.IsDir() && !slices.ContainsFunc(all, func(record store.Pod) bool { return record.ID == f.Name() }) {
			p.removeFolder(ctx, f.Name())
		}
	}
}

// removeFolder removes the volume and folder of a deleted pod. The folder goes last, so that an
// interrupted removal is repeated by the next start.
func (p *Pods) removeFolder(ctx context.Context, id string) {
	err := p.removeVolume(ctx, id)
	if err == nil {
		err = os.RemoveAll(filepath.Join(p.Folder, id))
	}
	if err != nil {
		p.Logger.ErrorContext(ctx, "the files of a deleted pod can't be removed: the next start tries again", "pod", id, "error", err)
	}
}

// removeVolume removes a pod's volume if Keeper has it, instead of the pod's folder.
func (p *Pods) removeVolume(ctx context.Context, id string) error {
	if p.Keeper == nil {
		return nil
	}
	return p.Keeper.RemoveVolume(context.WithoutCancel(ctx), run.PodVolumePrefix+id)
}
