package jobrunner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// mount returns a network volume without a mount path.
func (j *Jobrunner) mount(ctx context.Context, id string) (run.Mount, error) {
	v, err := j.store.NetworkVolume(ctx, id)
	if err != nil {
		return run.Mount{}, err
	}
	dir, err := j.volumes.dir(id)
	return run.Mount{Dir: dir, Name: run.NetworkVolumePrefix + id, Size: v.Size}, err
}

// retryVolume is the pause after a call of a keeper that failed, in real time.
const retryVolume = time.Second

// keepVolume has the keeper follow a change of a network volume. It tries until the
// keeper answers, or the deployment ends.
func (j *Jobrunner) keepVolume(ctx context.Context, keeper run.VolumeKeeper, id string) {
	name := run.NetworkVolumePrefix + id
	for logged := false; ; {
		v, err := j.store.NetworkVolume(ctx, id)
		switch {
		case err == nil:
			err = keeper.ResizeVolume(ctx, name, v.Size)
		case errors.Is(err, store.ErrNotFound):
			err = keeper.RemoveVolume(ctx, name)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		if !logged && !errors.Is(err, errMounted) {
			j.log.ErrorContext(ctx, "a change of a network volume can't be made where it is kept: trying again until the jobrunner ends", "volume", name, "error", err)
			logged = true
		}
		select {
		case <-time.After(retryVolume):
		case <-ctx.Done():
			return
		}
	}
}

// followVolumes makes the keeper follow all changes until stop is called.
func (j *Jobrunner) followVolumes(ctx context.Context, keeper run.VolumeKeeper) (running *follower) {
	f := &follower{}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	j.store.OnNetworkVolumeChange(func(id string) { f.start(func() { j.keepVolume(f.ctx, keeper, id) }) })
	return f
}

// follower runs goroutines until it is stopped.
type follower struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // no call starts once stop waits
	running sync.WaitGroup
}

func (f *follower) start(call func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() == nil {
		f.running.Go(call)
	}
}

func (f *follower) stop() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.running.Wait()
}

// keepVolumes starts the watch over network volumes. Without a keeper they are folders.
func (j *Jobrunner) keepVolumes(ctx context.Context, keeper run.VolumeKeeper) error {
	if keeper != nil {
		j.stopVolumes = j.followVolumes(ctx, keeper).stop
		return nil
	}
	folders := folderKeeper{j}
	deleted, strange, err := j.deletedVolumes(ctx)
	if err != nil {
		return err
	}
	for _, id := range strange {
		j.log.WarnContext(ctx, "a folder belongs to no network volume of this deployment: delete it if nobody needs it", "folder", filepath.Join(j.volumes.data, volumesFolder, id))
	}
	f := j.followVolumes(ctx, folders)
	for _, id := range deleted {
		f.start(func() { j.keepVolume(f.ctx, folders, id) })
	}
	if j.volumes.data != "" {
		f.start(func() { j.sweepVolumes(f.ctx, folders) })
	}
	j.stopVolumes = f.stop
	return nil
}

// sweepInterval is the interval between two sweeps.
const sweepInterval = time.Minute

// sweepVolumes deletes the folders of volumes that were deleted at another node.
func (j *Jobrunner) sweepVolumes(ctx context.Context, keeper run.VolumeKeeper) {
	for j.clock.Sleep(ctx, sweepInterval) == nil {
		deleted, _, err := j.deletedVolumes(ctx)
		for _, id := range deleted {
			if failure := keeper.RemoveVolume(ctx, run.NetworkVolumePrefix+id); !errors.Is(failure, errMounted) {
				err = errors.Join(err, failure)
			}
		}
		if err != nil && ctx.Err() == nil {
			j.log.WarnContext(ctx, "folders of deleted network volumes can't be deleted: trying again in a minute", "error", err)
		}
	}
}

// deletedVolumes are deleted volumes whose folders are still here. A folder of a volume
// that this database never had is strange and left alone: the database may be another
// one than before.
func (j *Jobrunner) deletedVolumes(ctx context.Context) (deleted, strange []string, err error) {
	if j.volumes.data == "" {
		return nil, nil, nil
	}
	folders, err := os.ReadDir(filepath.Join(j.volumes.data, volumesFolder))
	if err != nil || len(folders) == 0 {
		return nil, nil, nil //nolint:nilerr // there are none yet
	}
	volumes, err := j.store.NetworkVolumes(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range folders {
		if slices.ContainsFunc(volumes, func(v store.NetworkVolume) bool { return v.ID == f.Name() }) {
			continue
		}
		known, err := j.meter.HasVolume(ctx, f.Name())
		switch {
		case err != nil:
			return nil, nil, err
		case known:
			deleted = append(deleted, f.Name())
		default:
			strange = append(strange, f.Name())
		}
	}
	return deleted, strange, nil
}

// errMounted means that a worker or pod still has the volume.
var errMounted = errors.New("a worker or pod still has the volume")

// folderKeeper keeps network volumes in folders of this machine.
type folderKeeper struct{ j *Jobrunner }

// ResizeVolume does nothing: sizes of folders aren't enforced.
func (folderKeeper) ResizeVolume(context.Context, string, int64) error { return nil }

// RemoveVolume deletes a volume's folder once no worker and no pod has it. It deletes a
// symbolic link instead of what it points to, and nothing while a file system is mounted
// in the folder.
func (k folderKeeper) RemoveVolume(_ context.Context, name string) error {
	id := strings.TrimPrefix(name, run.NetworkVolumePrefix)
	if k.j.pools.Mounts(id) || k.j.pods.Mounts(id) {
		return errMounted
	}
	base, err := k.j.volumes.base()
	if err != nil {
		return err
	}
	dir := filepath.Join(base, volumesFolder, id)
	if at := mountPoint(dir); at != "" {
		return fmt.Errorf("a file system is mounted at %s: unmount it, so that the folder of the deleted volume can go", at)
	}
	return os.RemoveAll(dir)
}

// mountPoint is a mount point at or below a folder, "" if Linux knows none.
func mountPoint(dir string) string {
	if real, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		dir = filepath.Join(real, filepath.Base(dir))
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		at := mountEscapes.Replace(fields[4])
		if at == dir || strings.HasPrefix(at, dir+string(filepath.Separator)) {
			return at
		}
	}
	return ""
}

// mountEscapes are the escapes of paths in mountinfo.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// volumes are the folders of network volumes and of pods, in the data folder, or where there
// is none in one that ends with the deployment.
type volumes struct {
	data string

	mu   sync.Mutex
	temp string
}

// volumesFolder is in the data folder.
const volumesFolder = "volumes"

// dir is the folder of a network volume, which is made on demand.
func (v *volumes) dir(id string) (string, error) {
	base, err := v.base()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, volumesFolder, id)
	return dir, os.MkdirAll(dir, 0o700)
}

// base is the folder that has them, and those of pods.
func (v *volumes) base() (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.data != "" {
		return filepath.Abs(v.data)
	}
	if v.temp == "" {
		temp, err := os.MkdirTemp("", "gpucloud-volumes-")
		if err != nil {
			return "", err
		}
		v.temp = temp
	}
	return v.temp, nil
}

func (v *volumes) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.temp == "" {
		return nil
	}
	return os.RemoveAll(v.temp)
}
