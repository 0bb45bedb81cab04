package jobrunner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// VolumeKeeper keeps volumes elsewhere than in folders of this machine, by their names.
// What it lacks it has neither to resize nor to remove.
type VolumeKeeper interface {
	ResizeVolume(ctx context.Context, name string, size int64) error
	RemoveVolume(ctx context.Context, name string) error
}

// mount is a network volume, to be seen nowhere yet.
func (j *Jobrunner) mount(ctx context.Context, id string) (worker.Mount, error) {
	v, err := j.store.NetworkVolume(ctx, id)
	if err != nil {
		return worker.Mount{}, err
	}
	dir, err := j.volumes.dir(id)
	return worker.Mount{Dir: dir, Name: worker.NetworkVolumeName + id, Size: v.Size}, err
}

// retryVolume is the pause after a call of a keeper that failed, in real time.
const retryVolume = 5 * time.Second

// keepVolume has the keeper follow a change of a network volume. It tries until the
// keeper answers, or the deployment ends.
func (j *Jobrunner) keepVolume(ctx context.Context, keeper VolumeKeeper, id string) {
	name := worker.NetworkVolumeName + id
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
		if !logged {
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

// followVolumes has the keeper follow all changes until the function that it answers is
// called.
func (j *Jobrunner) followVolumes(ctx context.Context, keeper VolumeKeeper) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	j.store.OnNetworkVolumeChange(func(id string) {
		if ctx.Err() == nil {
			running.Go(func() { j.keepVolume(ctx, keeper, id) })
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

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
