package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// follow passes on what the container writes after a time, until it has ended and all is
// read. A stream that breaks off is opened again after its last line.
func (p *process) follow(last time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	told := false
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		pod, gone, changed := p.last()
		over := gone || look(pod).ended
		after, err := p.read(ctx, last)
		if after.After(last) {
			last, pause = after, 100*time.Millisecond
		}
		if err != nil && ctx.Err() == nil && !told {
			told = true
			p.cluster.Logger.Warn("the log of a Pod can't be read: trying again", "pod", p.objects.pod.Name, "error", err)
		}
		if over && err == nil || gone {
			return
		}
		select {
		case <-time.After(pause): // the cluster's time is real
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// read copies the lines after a time, which each line has, and answers the last one's.
func (p *process) read(ctx context.Context, after time.Time) (last time.Time, err error) {
	options := &core.PodLogOptions{Container: containerName, Follow: true, Timestamps: true}
	if !after.IsZero() {
		since := meta.NewTime(after)
		options.SinceTime = &since // of whole seconds: some lines come again
	}
	stream, err := p.cluster.client.CoreV1().Pods(p.cluster.Namespace).GetLogs(p.objects.pod.Name, options).Stream(ctx)
	if err != nil {
		return after, err
	}
	defer func() { _ = stream.Close() }() // it is read to its end, or not wanted any more
	return copyLines(stream, after, p.line)
}

// copyLines passes on the lines after a time, and answers the latest of their times, which is
// their mark: those of stdout and stderr may come in another order than they have. What a stream
// that breaks off has of a line is not passed on: it comes whole with the next one.
func copyLines(stream io.Reader, after time.Time, line func(text, mark string)) (last time.Time, err error) {
	lines := bufio.NewReader(stream)
	mark := ""
	for last = after; ; {
		text, err := lines.ReadString('\n')
		over := errors.Is(err, io.EOF)
		if err != nil && !over {
			return last, err
		}
		stamp, text, found := strings.Cut(text, " ")
		at, invalid := time.Parse(time.RFC3339Nano, stamp)
		if found && invalid == nil && at.After(after) {
			if at.After(last) {
				last, mark = at, stamp
			}
			line(strings.TrimSuffix(text, "\n"), mark)
		}
		if over {
			return last, nil
		}
	}
}
