package jobrunner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Names in the data folder.
const (
	podsFolder  = "pods"
	machineFile = "machine"
)

// startPods goes on with the pods of an earlier run, which have the GPUs that they had.
func (j *Jobrunner) startPods(ctx context.Context, c Config, clk *clock.Clock) error {
	folder, err := j.volumes.base()
	if err != nil {
		return err
	}
	config := pod.Config{
		Store: j.store, Programs: c.Pods, Devices: j.gpus, Driver: c.GPUs.Driver, Sample: c.GPUs.Sample, Volume: j.mount,
		Credentials: j.store.Credentials, Secrets: j.store.ResolveSecrets, Folder: filepath.Join(folder, podsFolder), Machine: j.machine, Persistent: c.DataDir != "",
		Catalog: j.catalog, Meter: billed{j}, Price: billed{j}.podPrice, LogTo: c.LogWorkers, Clock: clk, Logger: c.Logger,
	}
	if c.Volumes != nil {
		config.RemoveVolume = c.Volumes.RemoveVolume
	}
	j.pods = pod.New(config)
	j.store.OnPodChange(func(id string) {
		j.pods.Sync(context.WithoutCancel(ctx), id)
		j.engine.Announce(engine.PodChanged, id)
	})
	return j.pods.Load(ctx)
}

// machineID is the id of the deployment on this machine, which it keeps in its data
// folder.
func machineID(folder string) (string, error) {
	fresh := strings.ToLower(rand.Text()[:12])
	if folder == "" {
		return fresh, nil
	}
	path := filepath.Join(folder, machineFile)
	text, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(text)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the id of the deployment: %w", err)
	}
	if err := os.WriteFile(path, []byte(fresh+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("the id of the deployment: %w", err)
	}
	return fresh, nil
}

// podReason is a pod's, or that the jobrunner that has it is gone: nobody can tell how
// the pod is then, and it keeps the state in which it was seen last.
func (j *Jobrunner) podReason(p store.Pod) string {
	if !j.db.Shared() || p.Machine == j.machine || slices.ContainsFunc(j.engine.Nodes(), func(n engine.Node) bool { return n.Machine == p.Machine }) {
		return p.Reason
	}
	return "the jobrunner that has the pod is not there: this is how it was last seen, and what is asked of it is done when that one is back with its data folder"
}
