package worker

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// stopped is how a job ends that its worker was told to stop, or was killed for.
const stopped = "STOPPED"

// logJobEnd logs how a job left the worker, with what the worker and its
// GPUs do at that moment. It is called while they are still the worker's, and
// without the worker's lock: a driver may take a while to answer. The ends of jobs
// without a GPU are too many, and say too little, for any but the closest look.
func (w *worker) logJobEnd(ctx context.Context, h *held, outcome string) {
	w.mu.Lock()
	devices, process, endLogged := w.devices, w.process, h.endLogged
	h.endLogged = true
	w.mu.Unlock()
	level := slog.LevelDebug
	if len(devices) > 0 {
		level = slog.LevelInfo
	}
	if endLogged || w.settings.Balanced || !w.pool.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("endpoint", w.pool.id), slog.String("worker", w.id), slog.String("job", h.ref.ID), slog.String("outcome", outcome),
		slog.Duration("ran", w.pool.clock.Now().Sub(h.takenAt)),
	}
	if process != nil {
		if used := process.Usage(); used != (run.Usage{}) {
			attrs = append(attrs, slog.Duration("cpu", used.CPU), slog.Int64("memory_bytes", used.Memory))
		}
	}
	for i, d := range devices {
		attrs = append(attrs, slog.GroupAttrs(fmt.Sprint("gpu", i), w.figures(d)...))
	}
	w.pool.logger.LogAttrs(ctx, level, "a job left its worker", attrs...)
}

// figures are what a device tells of itself, under the names and in the units
// of the metrics.
func (w *worker) figures(d gpu.Device) []slog.Attr {
	attrs := []slog.Attr{slog.String("uuid", d.UUID)}
	if w.pool.config.Sample == nil {
		return attrs
	}
	s, err := w.pool.config.Sample(d.UUID)
	if err != nil { // it is lost; whoever looks after devices says so
		return append(attrs, slog.String("fault", err.Error()))
	}
	for _, one := range []struct {
		name string
		raw  int64 // -1: the device does not tell
		unit float64
	}{
		{"utilization_ratio", int64(s.Utilization), 100},
		{"memory_used_bytes", s.MemoryUsed, 0},
		{"power_watts", int64(s.Power), 1000},
		{"temperature_celsius", int64(s.Temperature), 0},
	} {
		switch {
		case one.raw < 0:
		case one.unit == 0:
			attrs = append(attrs, slog.Int64(one.name, one.raw))
		default:
			attrs = append(attrs, slog.Float64(one.name, float64(one.raw)/one.unit))
		}
	}
	return attrs
}
