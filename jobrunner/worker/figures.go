package worker

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// outcomeStopped is the outcome of a job that its worker was told to stop, or was killed for.
const outcomeStopped = "STOPPED"

// logJobEnd logs that a job left the worker, with current figures of the worker and its GPUs. It
// must be called while the worker still has its GPUs, and without the worker's lock, because a
// driver may be slow. Jobs without a GPU are logged at debug level, because there are many and
// their figures say little.
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

// figures returns measurements of a device, under the names and in the units of the metrics.
func (w *worker) figures(d gpu.Device) []slog.Attr {
	attrs := []slog.Attr{slog.String("uuid", d.UUID)}
	if w.pool.config.Sample == nil {
		return attrs
	}
	s, err := w.pool.config.Sample(d.UUID)
	if err != nil { // the device is lost, which the inventory reports
		return append(attrs, slog.String("fault", err.Error()))
	}
	for _, metric := range []struct {
		name string
		raw  int64 // -1: unknown
		unit float64
	}{
		{"utilization_ratio", int64(s.Utilization), 100},
		{"memory_used_bytes", s.MemoryUsed, 0},
		{"power_watts", int64(s.Power), 1000},
		{"temperature_celsius", int64(s.Temperature), 0},
	} {
		switch {
		case metric.raw < 0:
		case metric.unit == 0:
			attrs = append(attrs, slog.Int64(metric.name, metric.raw))
		default:
			attrs = append(attrs, slog.Float64(metric.name, float64(metric.raw)/metric.unit))
		}
	}
	return attrs
}
