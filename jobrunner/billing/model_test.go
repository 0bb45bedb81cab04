package billing_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// interval is an expected span of a resource, in milliseconds. It computes with unbounded numbers.
type interval struct {
	billing.Resource
	start, end   int64 // end is 0 while it runs
	process      int   // the process that runs it
	survivesKill bool  // it outlives its process
}

// cost returns the cost of a rate up to a time.
func (v *interval) cost(r billing.Rate, at int64) catalog.USD {
	const month = 730 * 60 * 60 * 1000
	n := new(big.Int).Mul(big.NewInt(int64(r)), big.NewInt(max(0, at-v.start)))
	return catalog.USD(n.Div(n, big.NewInt(month)).Int64())
}

// costBetween returns the cost from one time to another. A running interval costs until knownUntil.
func (v *interval) costBetween(from, to, knownUntil int64) (c billing.Cost) {
	end := cmp.Or(v.end, knownUntil)
	from, to = min(max(from, v.start), end), min(to, end)
	if from >= to {
		return c
	}
	cost := func(r billing.Rate) catalog.USD { return v.cost(r, to) - v.cost(r, from) }
	return billing.Cost{
		GPU: cost(v.Rates.GPU), CPU: cost(v.Rates.CPU), Disk: cost(v.Rates.Disk), Networking: cost(v.Rates.Networking),
		Standard: cost(v.Rates.Standard), HighPerformance: cost(v.Rates.HighPerformance),
	}
}

// history applies random operations in two processes that share a database.
type history struct {
	*rapid.T
	ctx       context.Context // of the bubble
	db        *sqldb.DB
	clock     *clock.Clock
	meters    [2]*billing.Meter
	intervals []*interval
}

func (h *history) now() int64 { return h.clock.Now().UnixMilli() }

func (h *history) openMeter(process int) {
	m, err := billing.Open(h.ctx, billing.Config{DB: h.db, Clock: h.clock, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		h.Fatal(err)
	}
	h.meters[process] = m
}

func (h *history) write(fn func(tx *sqldb.Tx) error) {
	if err := h.db.Write(h.ctx, fn); err != nil {
		h.Fatal(err)
	}
}

// running returns the running intervals of volumes or of other resources.
func (h *history) running(volumes bool) (out []*interval) {
	for _, v := range h.intervals {
		if v.end == 0 && volumes == (v.Kind == billing.Volume) {
			out = append(out, v)
		}
	}
	return out
}

func (h *history) drawRates() billing.Rates {
	rate := rapid.SampledFrom([]billing.Rate{0, 1, 7, 999_999_999, billing.Hourly(440_000_000, 1), billing.Hourly(5_580_000_000, 8), billing.Monthly(70_000_000, 123)})
	draw := func() billing.Rate { return rate.Draw(h.T, "rate") }
	return billing.Rates{GPU: draw(), CPU: draw(), Disk: draw(), Networking: draw(), Standard: draw(), HighPerformance: draw()}
}

func (h *history) pick(t *rapid.T, all []*interval) *interval {
	if len(all) == 0 {
		t.Skip("nothing runs")
	}
	return rapid.SampledFrom(all).Draw(t, "interval")
}

func (h *history) operations() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"start": func(t *rapid.T) {
			kind := rapid.SampledFrom([]billing.Kind{billing.Worker, billing.Pod, billing.Cluster}).Draw(t, "kind")
			v := &interval{
				Resource: billing.Resource{Kind: kind, ID: fmt.Sprintf("r%d", len(h.intervals)), Owner: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner"), Rates: h.drawRates()},
				start:    h.now(), process: rapid.IntRange(0, 1).Draw(t, "process"),
			}
			h.meters[v.process].Start(v.Resource)
			h.intervals = append(h.intervals, v)
		},
		"stop": func(t *rapid.T) {
			v := h.pick(t, h.running(false))
			h.meters[v.process].Stop(v.Kind, v.ID)
			v.end = h.now()
		},
		"start again without a stop": func(t *rapid.T) {
			v := h.pick(t, h.running(false))
			next := &interval{Resource: v.Resource, start: h.now(), process: v.process}
			next.Rates = h.drawRates()
			h.meters[v.process].Start(next.Resource)
			v.end = h.now()
			h.intervals = append(h.intervals, next)
		},
		"create a volume": func(*rapid.T) {
			v := &interval{Resource: billing.Resource{Kind: billing.Volume, ID: fmt.Sprintf("v%d", len(h.intervals)), Rates: h.drawRates()}, start: h.now()}
			v.Owner = v.ID
			h.write(func(tx *sqldb.Tx) error { return billing.StartVolume(tx, h.clock.Now(), v.Resource) })
			h.intervals = append(h.intervals, v)
		},
		"grow a volume": func(t *rapid.T) {
			v := h.pick(t, h.running(true))
			next := &interval{Resource: v.Resource, start: h.now()}
			next.Rates = h.drawRates()
			h.write(func(tx *sqldb.Tx) error {
				if err := billing.StopVolume(tx, h.clock.Now(), v.ID); err != nil {
					return err
				}
				return billing.StartVolume(tx, h.clock.Now(), next.Resource)
			})
			v.end = h.now()
			h.intervals = append(h.intervals, next)
		},
		"delete a volume": func(t *rapid.T) {
			v := h.pick(t, h.running(true))
			h.write(func(tx *sqldb.Tx) error { return billing.StopVolume(tx, h.clock.Now(), v.ID) })
			v.end = h.now()
		},
		"wait": func(t *rapid.T) {
			time.Sleep(time.Duration(rapid.Int64Range(1, 20_000).Draw(t, "ms")) * time.Millisecond)
		},
		"advance": func(t *rapid.T) { // as clients of /clock do
			h.clock.Advance(time.Duration(rapid.SampledFrom([]int64{1, 59, 3600, 3 * 3600, 86400, 40 * 86400, 400 * 86400}).Draw(t, "s")) * time.Second)
			for _, m := range h.meters {
				m.Checkpoint(h.ctx)
			}
		},
		"restart": func(t *rapid.T) {
			p := rapid.IntRange(0, 1).Draw(t, "process")
			h.meters[p].Close()
			for _, v := range h.running(false) {
				if v.process == p {
					v.end = h.now()
				}
			}
			h.openMeter(p)
		},
		"kill": func(t *rapid.T) {
			p := rapid.IntRange(0, 1).Draw(t, "process")
			synctest.Wait()
			h.meters[p].Kill()
			for _, v := range h.running(false) {
				if v.process == p {
					v.end = h.lastCheckpoint(t, v)
					lost := h.now() - v.end
					must.Require(t, lost >= 0 && lost <= billing.CheckpointEvery.Milliseconds(), "a kill loses", lost, "ms")
				}
			}
			h.openMeter(p)
		},
		"start a pod that may outlive its process": func(t *rapid.T) {
			v := &interval{
				Resource: billing.Resource{Kind: billing.Pod, ID: fmt.Sprintf("p%d", len(h.intervals)), Owner: "p", Rates: h.drawRates()},
				start:    h.now(), process: rapid.IntRange(0, 1).Draw(t, "process"), survivesKill: true,
			}
			h.resume(t, v)
			h.intervals = append(h.intervals, v)
		},
		"kill a process whose pods go on": func(t *rapid.T) {
			p := rapid.IntRange(0, 1).Draw(t, "process")
			synctest.Wait()
			h.meters[p].Kill()
			for _, v := range h.running(false) {
				if v.process == p && !v.survivesKill {
					v.end = h.lastCheckpoint(t, v)
				}
			}
			time.Sleep(time.Duration(rapid.Int64Range(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			h.openMeter(p)
			for _, v := range h.running(false) {
				if v.process == p {
					before := v.Rates
					v.Rates = h.drawRates() // new prices, which don't apply
					h.resume(t, v)
					v.Rates = before
				}
			}
		},
		"": h.check,
	}
}

func (h *history) resume(t *rapid.T, v *interval) {
	must.Succeed(t, h.meters[v.process].Continue(h.ctx, v.Resource, time.UnixMilli(v.start)))
}

func (h *history) lastCheckpoint(t *rapid.T, v *interval) (until int64) {
	must.Succeed(t, h.db.Read(h.ctx, func(r *sqldb.Reader) error {
		return r.QueryRow("SELECT max(until) FROM billing_spans WHERE kind = ? AND resource = ? AND started = ?", string(v.Kind), v.ID, v.start).Scan(&until)
	}))
	return until
}

// check compares the costs in a random window with the model's, by bucket and in total.
func (h *history) check(t *rapid.T) {
	synctest.Wait()
	kind := rapid.SampledFrom([]billing.Kind{billing.Worker, billing.Pod, billing.Cluster, billing.Volume}).Draw(t, "kind")
	size := billing.BucketSize(rapid.SampledFrom(billing.BucketSizes).Draw(t, "bucket"))
	now := h.now()
	end := time.UnixMilli(now).Add(time.Duration(rapid.Int64Range(-100, 100).Draw(t, "end")) * time.Hour)
	w := must.Do(billing.BucketsBetween(size, end.Add(-time.Duration(rapid.Int64Range(1, 1500).Draw(t, "length"))*time.Hour), end))(t)
	reader := rapid.IntRange(0, 1).Draw(t, "reader")
	costs := h.usage(t, reader, kind, w)
	for _, owner := range owners(h.intervals, kind) {
		for i := range w.Len() {
			var want billing.Cost
			for _, v := range h.intervals {
				// The reader knows running resources of the other process only up to their last checkpoint: see below.
				if v.Kind == kind && v.Owner == owner && (v.Kind == billing.Volume || v.end > 0 || v.process == reader) {
					want = want.Plus(v.costBetween(w.Bounds[i].UnixMilli(), w.Bounds[i+1].UnixMilli(), now))
				}
			}
			got := costs[owner][i]
			for _, v := range h.intervals {
				if v.Kind == kind && v.Owner == owner && v.Kind != billing.Volume && v.end == 0 && v.process != reader {
					want = want.Plus(v.costBetween(w.Bounds[i].UnixMilli(), w.Bounds[i+1].UnixMilli(), h.lastCheckpoint(t, v)))
				}
			}
			must.Equal(t, got, want, kind, owner, "in the", size, "from", w.Bounds[i])
		}
	}
	otherWindow, err := billing.BucketsBetween(billing.Day, w.Start(), w.End())
	if err != nil {
		t.Skip("too many days")
	}
	if size == billing.Hour {
		otherWindow = billing.Window{Size: size, Bounds: []time.Time{w.Start(), w.End()}} // one bucket
	}
	must.Equal(t, sum(h.usage(t, reader, kind, otherWindow)), sum(costs), "the sum in other buckets, compared with buckets of a", size)
}

func (h *history) usage(t *rapid.T, reader int, kind billing.Kind, w billing.Window) map[string]map[int]billing.Cost {
	costs := map[string]map[int]billing.Cost{}
	must.Succeed(t, h.meters[reader].VisitUsage(h.ctx, kind, w, func(u billing.Usage) {
		if costs[u.Owner] == nil {
			costs[u.Owner] = map[int]billing.Cost{}
		}
		costs[u.Owner][u.Index] = costs[u.Owner][u.Index].Plus(u.Cost)
	}))
	return costs
}

func owners(all []*interval, kind billing.Kind) (out []string) {
	for _, v := range all {
		if v.Kind == kind && !slices.Contains(out, v.Owner) {
			out = append(out, v.Owner)
		}
	}
	return out
}

func sum(costs map[string]map[int]billing.Cost) (all billing.Cost) {
	for _, buckets := range costs {
		for _, c := range buckets {
			all = all.Plus(c)
		}
	}
	return all
}

// With random starts, stops and kills in two processes, each bucket of each window costs what the model says.
func TestCostsMatchTheModel(t *testing.T) {
	checkHistories(t, func(*testing.T) sqldb.Config { return sqldb.Config{} })
}

// TestCostsOnPostgres is TestCostsMatchTheModel on a shared PostgreSQL, with fewer histories.
func TestCostsOnPostgres(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	must.Succeed(t, checks.Value.Set("8"))
	t.Cleanup(func() { _ = checks.Value.Set(before) })
	// Hints need a connection that LISTENs, which would stop virtual time.
	checkHistories(t, func(t *testing.T) sqldb.Config { return sqldb.Config{URL: pgtest.Start(t), NoNotify: true} })
}

func checkHistories(t *testing.T, database func(t *testing.T) sqldb.Config) {
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		var failure any // a panic must not leave the bubble
		n++
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			config := database(t)
			synctest.Test(t, func(t *testing.T) {
				defer func() { failure = recover() }()
				db := must.Do(sqldb.Open(t.Context(), config))(t)
				h := &history{T: rt, ctx: t.Context(), db: db, clock: new(clock.Clock)}
				for p := range h.meters {
					h.openMeter(p)
				}
				defer func() {
					for _, m := range h.meters {
						m.Close()
					}
					must.Equal(t, db.Close(), nil)
				}()
				rt.Repeat(h.operations())
			})
		})
		if failure != nil {
			panic(failure)
		}
	})
}

// A pod that starts after a jump of the clock is billed for the time in which it runs.
func TestPodAfterAJump(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			clk := new(clock.Clock)
			clk.Correct(0)
			must.Equal(t, clk.Correct(jump), jump)
			db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
			defer db.Close()
			m := must.Do(billing.Open(t.Context(), billing.Config{DB: db, Clock: clk, Logger: slog.New(slog.DiscardHandler)}))(t)
			defer m.Close()
			pod := billing.Resource{Kind: billing.Pod, ID: "p", Owner: "p", Rates: billing.Rates{GPU: billing.Hourly(1, 1)}}
			must.Succeed(t, m.Continue(t.Context(), pod, clk.Wall()))
			time.Sleep(10 * time.Minute)
			m.Stop(billing.Pod, "p")
			billed, window := time.Duration(0), must.Do(billing.LastBuckets(billing.Day, 3, clk.Wall().Add(24*time.Hour)))(t)
			must.Succeed(t, m.VisitUsage(t.Context(), billing.Pod, window, func(u billing.Usage) { billed += u.Time }))
			must.Equal(t, billed, 10*time.Minute, "the billed time after a jump of", jump)
		})
	}
}
