// Package volume manages the folders of network volumes and pods, and deletes the folders of deleted volumes.
package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

type Config struct {
	DataDir   string                 // if "", a temporary folder that Close deletes
	MakeTemp  func() (string, error) // makes the temporary folder
	Store     *store.Store
	Keeper    run.VolumeKeeper                                   // nil if volumes are folders of this machine
	EverHad   func(ctx context.Context, id string) (bool, error) // reports whether a volume with this id ever existed in this deployment
	IsMounted func(id string) bool                               // reports whether a worker or pod mounts this volume
	Clock     *clock.Clock
	Logger    *slog.Logger
}

// Volumes are the folders of network volumes and of pods.
type Volumes struct {
	Config
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc

	mu         sync.Mutex
	tempDir    string         // "" until it is needed
	goroutines sync.WaitGroup // nothing is added once ctx has ended
}

// New returns Volumes. The caller must call Start.
func New(c Config) *Volumes {
	if c.MakeTemp == nil {
		c.MakeTemp = func() (string, error) { return os.MkdirTemp("", "gpucloud-volumes-") }
	}
	return &Volumes{Config: c}
}

// MountOf returns the mount of a network volume, and creates its folder. The caller sets Path.
func (v *Volumes) MountOf(ctx context.Context, id string) (run.Mount, error) {
	record, err := store.Get[store.NetworkVolume](ctx, v.Store, id)
	if err != nil {
		return run.Mount{}, err
	}
	base, err := v.dataFolder()
	if err != nil {
		return run.Mount{}, err
	}
	dir := filepath.Join(base, volumesFolder, id)
	return run.Mount{Dir: dir, Name: run.NetworkVolumePrefix + id, Size: record.Size}, os.MkdirAll(dir, 0o700)
}

// retryPause is the pause after a failed try to apply a change, in real time.
const retryPause = time.Second

// applyChange applies a change of a network volume to its storage. It retries until that succeeds or ctx ends.
func (v *Volumes) applyChange(ctx context.Context, id string) {
	name := run.NetworkVolumePrefix + id
	for logged := false; ; {
		record, err := store.Get[store.NetworkVolume](ctx, v.Store, id)
		switch {
		case err == nil && v.Keeper != nil: // sizes of folders aren't enforced
			err = v.Keeper.ResizeVolume(ctx, name, record.Size)
		case errors.Is(err, store.ErrNotFound) && v.Keeper != nil:
			err = v.Keeper.RemoveVolume(ctx, name)
		case errors.Is(err, store.ErrNotFound):
			err = v.removeFolder(id)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		if !logged && !errors.Is(err, errMounted) {
			v.Logger.ErrorContext(ctx, "a change of a network volume can't be applied to its storage: trying again until the jobrunner ends", "volume", name, "error", err)
			logged = true
		}
		if clock.RealSleep(ctx, retryPause) != nil {
			return
		}
	}
}

// background runs call in a goroutine, unless Stop was called.
func (v *Volumes) background(call func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx.Err() == nil {
		v.goroutines.Go(call)
	}
}

// Start applies volumes' changes until Stop, and deletes folders of volumes that were deleted before the call.
func (v *Volumes) Start(ctx context.Context) error {
	deleted, unknown, err := v.findDeleted(ctx)
	if err != nil {
		return err
	}
	for _, id := range unknown {
		v.Logger.WarnContext(ctx, "a folder belongs to no network volume of this deployment: delete it if nobody needs it", "folder", filepath.Join(v.DataDir, volumesFolder, id))
	}
	v.ctx, v.cancel = context.WithCancel(context.WithoutCancel(ctx))
	onChange := func(id string) { v.background(func() { v.applyChange(v.ctx, id) }) }
	store.OnChange[store.NetworkVolume](v.Store, onChange)
	for _, id := range deleted {
		onChange(id)
	}
	if v.Keeper == nil && v.DataDir != "" {
		v.background(func() { v.sweep(v.ctx) })
	}
	return nil
}

// Stop ends what Start started.
func (v *Volumes) Stop() {
	v.mu.Lock()
	v.cancel()
	v.mu.Unlock()
	v.goroutines.Wait()
}

const sweepInterval = time.Minute

// sweep deletes the folders of volumes that were deleted at another node.
func (v *Volumes) sweep(ctx context.Context) {
	for v.Clock.Sleep(ctx, sweepInterval) == nil {
		deleted, _, err := v.findDeleted(ctx)
		for _, id := range deleted {
			if failure := v.removeFolder(id); !errors.Is(failure, errMounted) {
				err = errors.Join(err, failure)
			}
		}
		if err != nil && ctx.Err() == nil {
			v.Logger.WarnContext(ctx, "folders of deleted network volumes can't be deleted: trying again in a minute", "error", err)
		}
	}
}

// findDeleted returns deleted volumes whose folders still exist. A folder of a volume that this database
// never had is unknown and isn't deleted: the deployment may use another database than before.
func (v *Volumes) findDeleted(ctx context.Context) (deleted, unknown []string, err error) {
	if v.Keeper != nil || v.DataDir == "" {
		return nil, nil, nil
	}
	folders, err := os.ReadDir(filepath.Join(v.DataDir, volumesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("the folders of network volumes can't be read: %w", err)
	}
	if len(folders) == 0 {
		return nil, nil, nil
	}
	volumes, err := store.List[store.NetworkVolume](ctx, v.Store)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range folders {
		if slices.ContainsFunc(volumes, func(record store.NetworkVolume) bool { return record.ID == f.Name() }) {
			continue
		}
		everHad, err := v.EverHad(ctx, f.Name())
		switch {
		case err != nil:
			return nil, nil, err
		case everHad:
			deleted = append(deleted, f.Name())
		default:
			unknown = append(unknown, f.Name())
		}
	}
	return deleted, unknown, nil
}

var errMounted = errors.New("a worker or pod still mounts the volume")

// removeFolder deletes a volume's folder, or returns errMounted while a worker or pod mounts it. It deletes
// a symbolic link instead of its target, and nothing while a file system is mounted in the folder.
func (v *Volumes) removeFolder(id string) error {
	if v.IsMounted(id) {
		return errMounted
	}
	base, err := v.dataFolder()
	if err != nil {
		return err
	}
	dir := filepath.Join(base, volumesFolder, id)
	if point := mountPoint(dir); point != "" {
		return fmt.Errorf("a file system is mounted at %s: unmount it, so that the folder of the deleted volume can be deleted", point)
	}
	return os.RemoveAll(dir)
}

// mountPoint returns a mount point at or below a folder, or "". It only works on Linux.
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
		point := mountEscapes.Replace(fields[4])
		if point == dir || strings.HasPrefix(point, dir+string(filepath.Separator)) {
			return point
		}
	}
	return ""
}

// mountEscapes are the escapes of paths in mountinfo.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

const (
	volumesFolder = "volumes"
	podsFolder    = "pods"
)

// PodsFolder returns the folder that has a folder for each pod. It may not exist yet.
func (v *Volumes) PodsFolder() (string, error) {
	base, err := v.dataFolder()
	return filepath.Join(base, podsFolder), err
}

// dataFolder returns the folder that has the folders of volumes and pods.
func (v *Volumes) dataFolder() (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.DataDir != "" {
		return filepath.Abs(v.DataDir)
	}
	if v.tempDir == "" {
		dir, err := v.MakeTemp()
		if err != nil {
			return "", fmt.Errorf("creating a temporary folder for volumes: %w", err)
		}
		v.tempDir = dir
	}
	return v.tempDir, nil
}

func (v *Volumes) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := os.RemoveAll(v.tempDir); err != nil {
		v.Logger.Error("removing the folders of network volumes failed", "error", err)
	}
}
