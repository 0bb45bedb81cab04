package kubernetes

import (
	"context"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// followLog passes on the container's lines that are later than last, until the container has ended. If
// the stream breaks, it is opened again after its last line.
func (p *process) followLog(last time.Time) {
	ctx, logged := p.life, false
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		pod, gone, changed := p.latest()
		ended := gone || statusOf(pod).ended
		newest, err := p.readLog(ctx, last)
		if newest.After(last) {
			last, pause = newest, 100*time.Millisecond
		}
		if err != nil && ctx.Err() == nil && !logged {
			logged = true
			p.cluster.Logger.Warn("the log of a Pod can't be read: trying again", "pod", p.objects.pod.Name, "error", err)
		}
		if ended && err == nil || gone {
			return
		}
		select {
		case <-time.After(pause): // real time: a cluster doesn't follow the deployment's clock
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// readLog passes on the lines that are later than since, and returns the time of the last line.
func (p *process) readLog(ctx context.Context, since time.Time) (last time.Time, err error) {
	options := &core.PodLogOptions{Container: containerName, Follow: true, Timestamps: true}
	if !since.IsZero() {
		options.SinceTime = new(meta.NewTime(since)) // in whole seconds: the cluster sends some lines again, which CopyLines skips
	}
	stream, err := p.cluster.client.core.Pods(p.cluster.namespace).GetLogs(p.objects.pod.Name, options).Stream(ctx)
	if err != nil {
		return since, err
	}
	defer func() { _ = stream.Close() }() // nothing more is read
	return run.CopyLines(stream, since, p.log)
}
