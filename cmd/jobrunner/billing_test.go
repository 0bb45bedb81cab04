package main_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
)

// billedDeployment is a jobrunner that is stopped and killed between operations, with its expected
// bills.
type billedDeployment struct {
	*process
	env, args []string
	endpoints []string
	volumes   map[string]*billedVolume
}

// billedVolume is a volume with its current size, and the bounds of the time of its last change.
type billedVolume struct {
	size          int64
	after, before time.Time
	low, high     float64 // bounds of its cost at smaller sizes, in USD
	deleted       bool
}

// A GB and a vCPU cost one USD per hour.
const dearCatalog = "storage: {standard: 730}\ncpus: [{id: cpu3c, price: {serverless: 1}}]\n"

func (d *billedDeployment) send(method, path, body string) map[string]any {
	d.t.Helper()
	var text string
	d.call(method, path, body, &text)
	if text == "" {
		return nil
	}
	var out map[string]any
	must.Succeed(d.t, json.Unmarshal([]byte(text), &out), path, text)
	return out
}

// workers returns the billed milliseconds of each worker.
func (d *billedDeployment) workers() map[string]int64 {
	d.t.Helper()
	var records []struct {
		PodID        string `json:"podId"`
		TimeBilledMS int64  `json:"timeBilledMs"`
	}
	_, text := d.get("/v1/billing/endpoints?grouping=podId&bucketSize=year")
	must.Succeed(d.t, json.Unmarshal([]byte(text), &records), text)
	out := map[string]int64{}
	for _, r := range records {
		out[r.PodID] += r.TimeBilledMS
	}
	return out
}

// operate performs a random operation.
func (d *billedDeployment) operate() {
	one := func(of []string) string { return of[rand.IntN(len(of))] }
	var living []string
	for id, v := range d.volumes {
		if !v.deleted {
			living = append(living, id)
		}
	}
	switch op := rand.IntN(6); {
	case op == 0 || len(d.endpoints) == 0:
		id, _ := d.send("POST", "/v2/serverless", `{"name":"e","image":"builtin/echo","cpu":[{"id":"cpu3c","vcpuCount":2}],"workers":{"min":1,"max":3}}`)["id"].(string)
		d.endpoints = append(d.endpoints, id)
	case op == 1 && len(d.endpoints) > 1:
		d.send("DELETE", "/v2/serverless/"+d.endpoints[0], "")
		d.endpoints = d.endpoints[1:]
	case op == 2:
		d.send("PATCH", "/v2/serverless/"+one(d.endpoints), fmt.Sprintf(`{"workers":{"min":%d,"max":3}}`, rand.IntN(4)))
	case op == 3 || len(living) == 0:
		after := time.Now()
		id, _ := d.send("POST", "/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"EU-RO-1"}`)["id"].(string)
		d.volumes[id] = &billedVolume{size: 10, after: after, before: time.Now()}
	case op == 4:
		id := one(living)
		d.volumes[id].resize(d.volumes[id].size*2, func() { d.send("PATCH", "/v2/network-volumes/"+id, fmt.Sprintf(`{"size":%d}`, d.volumes[id].size*2)) })
	default:
		id := one(living)
		d.volumes[id].resize(0, func() { d.send("DELETE", "/v2/network-volumes/"+id, "") })
		d.volumes[id].deleted = true
	}
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // bills count the real time of another process
}

// resize adds the cost of a volume until a change of its size.
func (v *billedVolume) resize(size int64, change func()) {
	after := time.Now()
	change()
	before := time.Now()
	v.low, v.high = v.cost(after, before)
	v.size, v.after, v.before = size, after, before
}

// cost returns the bounds of a volume's cost.
func (v *billedVolume) cost(after, before time.Time) (low, high float64) {
	perHour := float64(v.size)
	return v.low + perHour*max(0, after.Sub(v.before).Hours()), v.high + perHour*before.Sub(v.after).Hours()
}

// judge compares the bills with the expected costs.
func (d *billedDeployment) judge() {
	d.t.Helper()
	for id, v := range d.volumes {
		after := time.Now()
		totals := d.send("GET", "/v2/billing/network-volumes?lastN=2&bucketSize=year&networkVolumeId="+id, "")["metadata"].(map[string]any)["totals"].(map[string]any)
		low, high := v.cost(after, time.Now())
		const millisecond = 1.0 / 3600_000 // in hours; the precision of times
		slack := 3*millisecond*float64(max(10, v.size)) + 1e-6
		got := totals["totalAmount"].(float64)
		must.Hold(d.t, got >= low-slack && got <= high+slack, "a volume of", v.size, "GB costs", got, "want", low, "to", high)
	}
}

// Under random operations, stops and kills, a worker is billed for its running time, less a few
// seconds if its jobrunner was killed. A volume is billed for its whole life.
func TestBillsAfterKills(t *testing.T) {
	acctest.LeaveToCI(t, "jobrunner.TestBilling covers the bills in virtual time")
	t.Parallel()
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	home := t.TempDir()
	file := filepath.Join(home, "catalog.yaml")
	put(t, file, dearCatalog)
	d := &billedDeployment{
		env: environment(home, "GPUCLOUD_API_KEY=k"), args: []string{"--data=" + filepath.Join(home, "data"), "--catalog=" + file}, volumes: map[string]*billedVolume{},
	}
	d.process = serve(t, d.env, d.args...)
	for round := range rounds {
		for range 6 {
			d.operate()
		}
		if round == 1 {
			time.Sleep(20 * time.Second) // another process saves costs every five seconds of real time
		}
		d.judge()
		asked := time.Now()
		before := d.workers()
		killed := round%3 != 2
		if killed {
			d.kill()
		} else {
			d.interrupt()
		}
		elapsed := time.Since(asked).Milliseconds() + 1 // rounded up
		time.Sleep(500 * time.Millisecond)              // real time without a jobrunner: it must not be billed
		d.process = serve(t, d.env, d.args...)
		now := d.workers()
		for id, ms := range before {
			lost := int64(0)
			if killed {
				lost = 3 * billing.CheckpointEvery.Milliseconds() // a busy machine may miss two; without checkpoints all twenty seconds are lost
			}
			got := now[id]
			must.Hold(t, got >= ms-lost && got <= ms+elapsed, "a worker was billed for", ms, "ms, and for", got, "after a restart (killed", killed)
		}
		d.judge()
	}
	for _, id := range d.endpoints { // after their end, all groupings have the same sum
		d.send("DELETE", "/v2/serverless/"+id, "")
	}
	totals := func(buckets string) string {
		return fmt.Sprint(d.send("GET", "/v2/billing/serverless?"+buckets, "")["metadata"].(map[string]any)["totals"])
	}
	for one, other := "", totals("bucketSize=hour&lastN=48"); one != other; {
		time.Sleep(50 * time.Millisecond) // another process stops its last worker
		one, other = other, totals("bucketSize=hour&lastN=48")
	}
	byHour, byYear := totals("bucketSize=hour&lastN=48"), totals("bucketSize=year&lastN=2")
	must.Hold(t, byHour == byYear, "by hour", byHour, "by year", byYear)
}
