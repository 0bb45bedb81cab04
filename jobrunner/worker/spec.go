package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// volumePath is where workers mount their network volume.
const volumePath = "/runpod-volume"

// spec returns the parameters for the worker's start.
func (w *worker) spec(ctx context.Context, program run.Program) (_ *run.Spec, err error) {
	c := w.pool.config
	s := &run.Spec{ID: w.id, Endpoint: engine.EndpointOf(w.settings.ID), Container: w.settings.Container, Devices: w.devices, Log: w.log}
	if p := w.placement; p.CPU != "" && len(w.settings.CPU) > 0 {
		s.VCPUs, s.Memory = p.VCPUs, c.Catalog.Current().CPUMemory(p.CPU, p.VCPUs)
	}
	switch {
	case w.settings.Balanced && program.Start == nil:
		return nil, fmt.Errorf("the image %s runs jobs, and workers behind a load balancer serve HTTP: choose another image", w.settings.Image)
	case program.Start != nil && c.URL == "":
		return nil, errors.New("workers that are processes need the deployment's URL, which isn't configured")
	case w.settings.Balanced && program.OwnAddress:
		s.Port = httpPort(s.Container)
	case w.settings.Balanced:
		if s.Port, err = run.FreePort(ctx); err != nil {
			return nil, fmt.Errorf("no port for the worker to listen on: %w", err)
		}
	}
	if len(w.settings.Volumes) > 0 && c.Volume != nil && !program.NeedsNoResources {
		volume, err := c.Volume(ctx, w.settings.Volumes[0])
		if err != nil {
			return nil, fmt.Errorf("can't mount the network volume %s: %w", w.settings.Volumes[0], err)
		}
		volume.Path = volumePath
		s.Mounts = []run.Mount{volume}
	}
	if w.settings.Registry != "" && c.Credentials != nil && program.Start != nil {
		login, err := c.Credentials(ctx, w.settings.Registry)
		if err != nil {
			return nil, fmt.Errorf("can't use the registry auth %s: %w", w.settings.Registry, err)
		}
		w.log.Hide(login.Password)
		s.Login = &login
	}
	env, err := c.Secrets.Resolve(ctx, w.environment(*s, program.Start != nil), w.log)
	s.Env = env
	return s, err
}

// defaultPort is the port of a worker with its own address if its template names no HTTP port.
const defaultPort = 8000

// httpPort returns the port where a worker with its own address serves HTTP.
func httpPort(c store.Container) int {
	for _, port := range c.Ports {
		number, protocol, _ := strings.Cut(port, "/")
		if n, err := strconv.Atoi(number); err == nil && protocol == "http" {
			return n
		}
	}
	return defaultPort
}

// environment returns the environment of a worker: the template's variables, and the variables that the
// worker protocol requires, which a template can't override (section "Environment that the worker
// reads" of the worker protocol's description).
func (w *worker) environment(s run.Spec, usesProtocol bool) map[string]string {
	// The SDK checks its machine and exits without internet access, enough free disk or a GPU. These
	// variables skip its checks. A template may turn them on again.
	env := map[string]string{"RUNPOD_SKIP_AUTO_SYSTEM_CHECKS": "true"}
	hardware := "CPU"
	if len(s.Devices) == 0 {
		env["RUNPOD_SKIP_GPU_CHECK"] = "true"
	} else {
		hardware = s.Devices[0].TypeID
	}
	maps.Copy(env, s.Env)
	env["RUNPOD_ENDPOINT_ID"], env["RUNPOD_POD_ID"] = s.Endpoint, s.ID
	if len(s.Devices) > 0 {
		env["CUDA_VISIBLE_DEVICES"] = strings.Join(s.DeviceUUIDs(), ",")
	}
	switch {
	case s.Port != 0:
		env["PORT"], env["PORT_HEALTH"] = strconv.Itoa(s.Port), strconv.Itoa(s.Port)
	case usesProtocol:
		maps.Copy(env, protocolEnv(w.pool.config.URL, w.settings.ID, w.key, hardware))
	}
	return env
}

// protocolEnv returns the variables of the worker protocol. The worker replaces $RUNPOD_POD_ID and
// $ID. $ID is the worker's own id in the first URL, and a job's id in the others. Each URL needs
// the ?, because workers append parameters with &.
func protocolEnv(base, queue, key, hardware string) map[string]string {
	base = strings.TrimSuffix(base, "/") + "/v2/" + queue
	query := "?gpu=" + url.QueryEscape(hardware)
	return map[string]string{
		"RUNPOD_WEBHOOK_GET_JOB":     base + "/job-take/$ID" + query,
		"RUNPOD_WEBHOOK_POST_OUTPUT": base + "/job-done/$RUNPOD_POD_ID/$ID" + query,
		"RUNPOD_WEBHOOK_POST_STREAM": base + "/job-stream/$RUNPOD_POD_ID/$ID" + query,
		"RUNPOD_WEBHOOK_PING":        base + "/ping/$RUNPOD_POD_ID" + query,
		"RUNPOD_PING_INTERVAL":       strconv.FormatInt(pingEvery.Milliseconds(), 10),
		"RUNPOD_AI_API_KEY":          key,
	}
}

// SetSDK records which release of the public SDK a worker uses.
func (w *worker) SetSDK(release string) {
	w.mu.Lock()
	unchanged := w.sdk == release
	w.sdk = release
	w.mu.Unlock()
	if unchanged || !keepsJobsInFolder(release) || !w.sharesFolder() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advise(adviceOnFolder, fmt.Sprintf("release %s of the public SDK lists its running jobs in a file in the working folder, and other workers share this folder: "+
		"they take each other's jobs for their own, and after a while request no more jobs. Use release 1.10 or later, one worker, or containers (docs/guides/worker.md)", release))
}

// sharesFolder reports whether another worker runs in this worker's working folder.
func (w *worker) sharesFolder() bool {
	folder := w.view().folder
	return folder != "" && w.pool.config.allPools.anyWorker(func(other *worker) bool { v := other.view(); return other != w && v.usesProtocol && v.folder == folder }) != nil
}

// keepsJobsInFolder reports whether a release, 1.7.12 to 1.9, lists its jobs in the working folder.
func keepsJobsInFolder(release string) bool {
	var n []int
	for part := range strings.SplitSeq(strings.TrimPrefix(release, "v"), ".") {
		number, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		n = append(n, number)
	}
	return len(n) >= 2 && slices.Compare(n, []int{1, 7, 12}) >= 0 && slices.Compare(n, []int{1, 10}) < 0
}
