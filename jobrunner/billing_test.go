package jobrunner_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// prices make the cost of an hour a round number.
const prices = `
gpus:
  - {id: NVIDIA L4, price: {serverless: 0.44}}
cpus:
  - {id: cpu3c, price: {serverless: 0.03}}
storage: {standard: 0.73, high_performance: 1.46, disk: 0.073}
fees: {serverless: 0.01}
`

func writeCatalog(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "catalog.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// jsonAnswer is a decoded JSON response that keeps the text of its numbers.
type jsonAnswer struct {
	t    *testing.T
	body any
	text string
}

// must sends a request with the deployment's key, requires a status, and decodes the response.
func (d *deployment) must(status int, method, path, body string) jsonAnswer {
	d.t.Helper()
	got, _, text := d.do(method, path, body)
	must.Require(d.t, got == status, method, path, body, got, text, "want", status)
	a := jsonAnswer{t: d.t, text: text}
	if text != "" {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		must.Succeed(d.t, decoder.Decode(&a.body))
	}
	return a
}

// member returns the member at a path, such as metadata.totals, or nil.
func (a jsonAnswer) member(path string) any {
	v := a.body
	for name := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}

// expect compares members; numbers must be exact.
func (a jsonAnswer) expect(members map[string]string) {
	a.t.Helper()
	for path, want := range members {
		got, _ := json.Marshal(a.member(path))
		must.Hold(a.t, string(got) == want, path, "is", string(got), "want", want, "in", a.text)
	}
}

// sum returns the exact sum of a member of records.
func sum(records any, member string) string {
	total := new(big.Rat)
	list, _ := records.([]any)
	for _, r := range list {
		n, _ := r.(map[string]any)[member].(json.Number)
		if amount, ok := new(big.Rat).SetString(n.String()); ok {
			total.Add(total, amount)
		}
	}
	return strings.TrimSuffix(strings.TrimRight(total.FloatString(9), "0"), ".")
}

func (d *deployment) advance(by time.Duration) {
	d.t.Helper()
	body, _ := json.Marshal(map[string]int64{"advance": by.Milliseconds()})
	d.must(http.StatusOK, "POST", "/clock", string(body))
}

// stopClock stops the clock, so that only advance moves it.
func (d *deployment) stopClock() time.Time {
	d.t.Helper()
	text, _ := d.must(http.StatusOK, "POST", "/clock", `{"stop":true}`).member("now").(string)
	return must.Do(time.Parse(time.RFC3339, text))(d.t)
}

func (d *deployment) awaitWorkers(endpoint string, n int) {
	d.t.Helper()
	waitFor(d.t, func() (bool, any) {
		workers := d.must(200, "GET", "/v2/serverless/"+endpoint+"/workers", "")
		count, _ := workers.member("summary.idle").(json.Number).Int64()
		return int(count) == n, workers.text
	})
}

// Both API versions report the cost of workers and volumes: the catalog's price times their lifetime.
func TestBilling(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, c jobrunner.Config) {
		c.AdminClock, c.Catalog = true, writeCatalog(t, prices)
		d := deployWith(t, c)
		now := d.stopClock()
		if tomorrow := now.AddDate(0, 0, 1); tomorrow.Year() != now.Year() { // all usage has to be in one bucket of a year
			d.advance(24 * time.Hour)
		}
		e := d.createObject("/v2/serverless", `{"name":"e","image":"builtin/echo","disk":10,"gpu":{"pools":["ADA_24"],"count":2},"workers":{"min":2,"max":2}}`)
		cpu := d.createObject("/v2/serverless", `{"name":"c","image":"builtin/echo","disk":1,"cpu":[{"id":"cpu3c","vcpuCount":4}],"workers":{"min":1,"max":1}}`)
		v := d.createObject("/v2/network-volumes", `{"name":"v","size":100,"dataCenter":"EU-RO-1"}`)
		fast := d.createObject("/v2/network-volumes", `{"name":"f","size":10,"dataCenter":"EU-RO-1","type":"HIGH_PERFORMANCE"}`)
		d.awaitWorkers(e, 2)
		d.awaitWorkers(cpu, 1)
		d.advance(30 * time.Minute)
		d.must(200, "PATCH", "/v2/network-volumes/"+v, `{"size":200}`)
		d.advance(30 * time.Minute)
		d.must(204, "DELETE", "/v2/serverless/"+cpu, "")
		d.must(204, "DELETE", "/v2/network-volumes/"+fast, "")
		d.advance(time.Hour)

		hours := "bucketSize=hour&lastN=4"
		serverless := d.must(200, "GET", "/v2/billing/serverless?"+hours, "")
		// Two workers with two GPUs for two hours, and one with four vCPUs for one.
		serverless.expect(map[string]string{
			"metadata.totals.gpuAmount": "3.56", "metadata.totals.cpuAmount": "0.13", "metadata.totals.diskAmount": "0.0041", "metadata.totals.feeAmount": "0",
			"metadata.totals.totalAmount": "3.6941", "metadata.uniqueServerlessCount": "2", "metadata.recordCount": "8", "metadata.query.serverlessId": "null",
			"metadata.query.bucketSize": `"hour"`,
		})
		volumes := d.must(200, "GET", "/v2/billing/network-volumes?"+hours, "")
		volumes.expect(map[string]string{
			"metadata.totals.standardAmount": "0.35", "metadata.totals.highPerformanceAmount": "0.02", "metadata.totals.totalAmount": "0.37",
			"metadata.uniqueNetworkVolumeCount": "2", "metadata.recordCount": "8",
		})
		all := d.must(200, "GET", "/v2/billing?"+hours, "")
		all.expect(map[string]string{
			"metadata.totals.totalAmount": "4.0641", "metadata.totals.serverlessGpuAmount": "3.56", "metadata.totals.serverlessCpuAmount": "0.13",
			"metadata.totals.serverlessDiskAmount": "0.0041", "metadata.totals.serverlessFeeAmount": "0", "metadata.totals.storageStandardAmount": "0.35",
			"metadata.totals.storageHighPerformanceAmount": "0.02", "metadata.totals.podGpuAmount": "0", "metadata.totals.endpointAmount": "0", "metadata.recordCount": "4",
		})
		for list, a := range map[string]jsonAnswer{"serverless": serverless, "volumes": volumes, "all": all} {
			got, want := sum(a.member("records"), "totalAmount"), a.member("metadata.totals.totalAmount").(json.Number).String()
			must.Hold(t, got == want, list, "the records add up to", got, "the total is", want)
			// Other buckets have the same sum.
			for _, bucket := range []string{"day", "week", "month", "year"} {
				path := map[string]string{"serverless": "/serverless", "volumes": "/network-volumes", "all": ""}[list]
				other := d.must(200, "GET", "/v2/billing"+path+"?lastN=2&bucketSize="+bucket, "")
				got, want := other.member("metadata.totals.totalAmount"), a.member("metadata.totals.totalAmount")
				must.Hold(t, got == want, list, "the total by", bucket, "is", got, "and by hour", want)
			}
		}
		d.must(200, "GET", "/v2/billing/serverless?lastN=3&bucketSize=hour&serverlessId="+cpu, "").expect(map[string]string{"metadata.totals.totalAmount": "0.1301", "metadata.uniqueServerlessCount": "1", "metadata.query.serverlessId": `"` + cpu + `"`, "metadata.recordCount": "3"})
		d.must(200, "GET", "/v2/billing/serverless?serverlessId=unknown", "").expect(map[string]string{"records": "[]", "metadata.recordCount": "0", "metadata.uniqueServerlessCount": "0"})
		d.must(200, "GET", "/v2/billing/network-volumes?networkVolumeId="+fast, "").expect(map[string]string{"metadata.totals.totalAmount": "0.02"})
		d.must(200, "GET", "/v2/billing/pods", "").expect(map[string]string{"records": "[]", "metadata.totals": `{"cpuAmount":0,"diskAmount":0,"gpuAmount":0,"totalAmount":0}`, "metadata.uniquePodCount": "0"})
		d.must(200, "GET", "/v2/billing/clusters", "").expect(map[string]string{"records": "[]", "metadata.uniqueClusterCount": "0"})
		d.must(200, "GET", "/v2/billing/endpoints?lastN=2", "").expect(map[string]string{"metadata.recordCount": "2", "metadata.totals": `{"totalAmount":0}`})

		// Version 1.
		listRecords := func(path string) []any {
			records, _ := d.must(200, "GET", "/v1/billing"+path, "").body.([]any)
			return records
		}
		for path, want := range map[string]struct {
			records int
			amount  string
			ms      string
		}{
			"/endpoints?bucketSize=year":                                              {2, "3.6941", "18000000"},
			"/endpoints?bucketSize=year&endpointId=" + e:                              {1, "3.564", "14400000"},
			"/endpoints?bucketSize=year&grouping=podId":                               {3, "3.6941", "18000000"},
			"/endpoints?bucketSize=year&grouping=gpuTypeId":                           {2, "3.6941", "18000000"},
			"/endpoints?bucketSize=year&gpuTypeId=NVIDIA%20L4":                        {1, "3.564", "14400000"},
			"/endpoints?bucketSize=year&gpuTypeId=NVIDIA%20A40&gpuTypeId=NVIDIA%20L4": {1, "3.564", "14400000"},
			"/endpoints?bucketSize=year&gpuTypeId=NVIDIA%20A40":                       {0, "0", "0"},
			"/endpoints?bucketSize=year&imageName=builtin/echo":                       {2, "3.6941", "18000000"},
			"/endpoints?bucketSize=year&imageName=other":                              {0, "0", "0"},
			"/endpoints?bucketSize=year&templateId=other":                             {0, "0", "0"},
			"/endpoints?bucketSize=year&dataCenterId=EU-RO-1":                         {2, "3.6941", "18000000"},
			"/endpoints?bucketSize=year&dataCenterId=US-KS-2":                         {0, "0", "0"},
			"/networkvolumes?bucketSize=year":                                         {1, "0.37", "0"},
			"/pods?bucketSize=year":                                                   {0, "0", "0"},
			"/pods?bucketSize=year&grouping=podId&podId=x&gpuTypeId=NVIDIA%20L4":      {0, "0", "0"},
		} {
			records := listRecords(path)
			amount, ms := sum(records, "amount"), sum(records, "timeBilledMs")
			must.Hold(t, len(records) == want.records && amount == want.amount && ms == want.ms, path, len(records), "records,", amount, ms, "ms, want", want, records)
		}
		record, _ := listRecords("/networkvolumes?bucketSize=year")[0].(map[string]any)
		for member, want := range map[string]string{
			"diskSpaceBilledGb": "210", "highPerformanceStorageAmount": "0.02", "highPerformanceStorageDiskSpaceBilledGb": "10",
		} {
			got, _ := json.Marshal(record[member])
			must.Hold(t, string(got) == want, member, "is", string(got), "want", want)
		}
	})
}

// Volumes of a version without billing are billed from its first start with this version. New prices apply at once.
func TestBillingOfOlderFolders(t *testing.T) {
	dir, file := t.TempDir(), writeCatalog(t, prices)
	openFolder := func() (*jobrunner.Jobrunner, *deployment) {
		j := must.Do(jobrunner.New(t.Context(), jobrunner.Config{DataDir: dir, APIKey: "planted-key", AdminClock: true, Catalog: file}))(t)
		server := httptest.NewServer(j.Handler())
		t.Cleanup(server.Close)
		return j, &deployment{t: t, url: server.URL, log: new(livelog.Log)}
	}
	j, d := openFolder()
	volume, _ := d.must(201, "POST", "/v2/network-volumes", `{"name":"v","size":100,"dataCenter":"EU-RO-1"}`).member("id").(string)
	deleted, _ := d.must(201, "POST", "/v2/network-volumes", `{"name":"v","size":100,"dataCenter":"EU-RO-1"}`).member("id").(string)
	must.Succeed(t, j.Close())
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{Dir: dir}))(t)
	err := db.Write(t.Context(), func(tx *sqldb.Tx) error { // as an older version leaves it
		for _, statement := range []string{"DROP TABLE billing_spans", "DELETE FROM meta WHERE component = 'billing'", "DELETE FROM objects WHERE id = '" + deleted + "'"} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	})
	must.Succeed(t, errors.Join(err, db.Close()))
	j, d = openFolder()
	defer func() {
		must.Equal(t, j.Close(), nil)
	}()
	d.stopClock()
	before, _ := d.must(200, "GET", "/v2/billing/network-volumes?lastN=2", "").member("metadata.totals.totalAmount").(json.Number).Float64()
	d.advance(time.Hour)
	after := d.must(200, "GET", "/v2/billing/network-volumes?lastN=2", "")
	got, _ := after.member("metadata.totals.totalAmount").(json.Number).Float64()
	must.Hold(t, got-before >= 0.0999 && got-before <= 0.1001 && before <= 0.01, "an hour of 100 GB costs", got-before, "after", before)
	after.expect(map[string]string{"metadata.uniqueNetworkVolumeCount": "1"})
	must.Succeed(t, os.WriteFile(file, []byte("storage: {standard: 7.3}"), 0o600))
	waitFor(t, func() (bool, any) { // a tenfold price
		before, _ := d.must(200, "GET", "/v2/billing/network-volumes?lastN=2", "").member("metadata.totals.totalAmount").(json.Number).Float64()
		d.advance(time.Minute)
		got, _ := d.must(200, "GET", "/v2/billing/network-volumes?lastN=2&networkVolumeId="+volume, "").member("metadata.totals.totalAmount").(json.Number).Float64()
		return got-before > 0.0166 && got-before < 0.0168, got - before
	})
}

// Two jobrunners on one database report the same usage, with each worker once and the time that an advance skips.
func TestBillingOfSharedDatabase(t *testing.T) {
	c := jobrunner.Config{DatabaseURL: pgtest.Start(t), AdminClock: true}
	d, other := deployWith(t, c), deployWith(t, c)
	d.stopClock()
	id, _ := d.must(201, "POST", "/v2/serverless", `{"name":"e","image":"builtin/echo","workers":{"min":1,"max":1}}`).member("id").(string)
	d.awaitWorkers(id, 1)
	other.awaitWorkers(id, 1) // the same worker
	d.advance(time.Hour)
	const path = "/v1/billing/endpoints?grouping=podId&bucketSize=year&startTime=2000-01-01T00:00:00Z&endTime=2100-01-01T00:00:00Z"
	waitFor(t, func() (bool, any) {
		times := map[string]int64{}
		records, _ := other.must(200, "GET", path, "").body.([]any)
		for _, r := range records {
			ms, _ := r.(map[string]any)["timeBilledMs"].(json.Number).Int64()
			times[r.(map[string]any)["podId"].(string)] += ms
		}
		longest := int64(0)
		for _, ms := range times {
			longest = max(longest, ms)
		}
		must.Require(t, len(times) <= 1 && longest <= time.Hour.Milliseconds(), "the workers are billed for", times, "ms")
		return len(times) == 1 && longest == time.Hour.Milliseconds(), times
	})
}

// A running pod costs the price of its GPUs, vCPUs and disks. A pod without stock is rejected.
func TestBillingOfPods(t *testing.T) {
	d := deployWith(t, jobrunner.Config{AdminClock: true, Catalog: writeCatalog(t, `
gpus:
  - {id: NVIDIA L4, price: {secure: 0.5, community: 0.4, community_spot: 0.1}, max_count: {secure: 2}}
  - {id: NVIDIA A40, max_count: {community: 0}}
cpus: [{id: cpu3c, price: {secure: 0.04}}]
storage: {disk: 0.73}
stock:
  - {gpus: [NVIDIA H200], level: NONE}
  - {gpus: [NVIDIA H200], data_centers: [US-KS-2], products: [POD], level: LOW, after: 1h}
`)})
	d.stopClock()
	cpu := d.createObject("/v2/pods", `{"name":"c","image":"builtin/echo","disk":10,`+onCPU+`}`)
	d.awaitPod(cpu, "RUNNING")
	d.must(200, "GET", "/v2/pods/"+cpu, "").expect(map[string]string{"cost": "0.09"})
	d.advance(30 * time.Minute)
	d.must(200, "POST", "/v2/pods/"+cpu+"/action", `{"action":"stop"}`)
	d.must(200, "GET", "/v2/pods/"+cpu, "").expect(map[string]string{"cost": "0"})
	d.awaitBilled("/v2/billing/pods?bucketSize=hour&lastN=2&podId="+cpu, "0.045")
	d.advance(time.Hour)
	d.must(200, "GET", "/v2/billing/pods?bucketSize=hour&lastN=4", "").expect(map[string]string{
		"metadata.totals": `{"cpuAmount":0.04,"diskAmount":0.005,"gpuAmount":0,"totalAmount":0.045}`, "metadata.uniquePodCount": "1", "metadata.recordCount": "4",
	})
	d.must(200, "GET", "/v2/billing?bucketSize=hour&lastN=4", "").expect(map[string]string{
		"metadata.totals.podCpuAmount": "0.04", "metadata.totals.podDiskAmount": "0.005", "metadata.totals.totalAmount": "0.045",
	})
	records, _ := d.must(200, "GET", "/v1/billing/pods?bucketSize=year&grouping=podId&podId="+cpu, "").body.([]any)
	must.Hold(t, len(records) != 0 && sum(records, "timeBilledMs") == "1800000" && sum(records, "amount") == "0.045", "version 1", records)
	for body, want := range map[string]string{
		`{"name":"g","image":"i","gpu":{"id":"NVIDIA L4","count":3}}`:                               "expected 2 at most, got 3",
		`{"name":"g","image":"i","cloud":"COMMUNITY","gpu":{"id":"NVIDIA A40","count":1}}`:          "the COMMUNITY cloud does not offer NVIDIA A40",
		`{"name":"g","image":"i","dataCenterIds":["EU-RO-1"],"gpu":{"id":"NVIDIA H200","count":1}}`: "no stock of NVIDIA H200 in EU-RO-1",
	} {
		got := d.must(400, "POST", "/v2/pods", body)
		must.Hold(t, strings.Contains(got.text, want), body, "is answered with", got.text, "want", want)
	}
	d.must(201, "POST", "/v2/pods", `{"name":"g","image":"i","gpu":{"id":"NVIDIA H200","count":1}}`).expect(map[string]string{"dataCenterId": `"US-KS-2"`})
}

// awaitBilled waits until a total has the expected value.
func (d *deployment) awaitBilled(path, want string) {
	d.t.Helper()
	waitFor(d.t, func() (bool, any) {
		got := d.must(200, "GET", path, "").member("metadata.totals.totalAmount").(json.Number).String()
		return got == want, path + ": " + got + ", want " + want
	})
}

// Every rule of the parameters holds in both API versions, except that only v2 has lastN.
func TestBillingParameters(t *testing.T) {
	d := deployWith(t, jobrunner.Config{AdminClock: true})
	for _, path := range []string{"", "/pods", "/serverless", "/endpoints", "/network-volumes", "/clusters"} {
		for query, want := range map[string]struct {
			status int
			text   string
		}{
			"bucketSize=minute": {422, "bucketSize: got 'minute', want one of hour, day, week, month, year"}, "bucketSize=Day": {422, "bucketSize"},
			"startTime=yesterday": {422, "startTime: got 'yesterday', want a time in RFC 3339"}, "endTime=2026-06-01": {422, "endTime"}, "startTime=2026-13-01T00:00:00Z": {422, "startTime"},
			"lastN=0": {422, "lastN: got '0', want an integer of at least 1"}, "lastN=-1": {422, "lastN"}, "lastN=x": {422, "lastN"}, "lastN=1.5": {422, "lastN"},
			"lastN=3&startTime=2026-06-01T00:00:00Z": {400, "lastN excludes startTime and endTime"}, "lastN=3&endTime=2026-06-01T00:00:00Z": {400, "lastN excludes"},
			"startTime=2026-06-02T00:00:00Z&endTime=2026-06-01T00:00:00Z": {400, "is not before endTime"}, "startTime=2026-06-01T00:00:00Z&endTime=2026-06-01T00:00:00Z": {400, "is not before"},
			"startTime=0001-01-01T00:00:00Z&bucketSize=hour": {400, "too many buckets"}, "lastN=10001": {400, "too many buckets"}, "lastN=9000&bucketSize=year": {400, "too many buckets"},
			"lastN=9000000000000000000": {400, "too many buckets"}, "endTime=9999-01-01T00:00:01Z&bucketSize=year": {400, "too many buckets"},
		} {
			got, _, text := d.do("GET", "/v2/billing"+path+"?"+query, "")
			must.Hold(t, got == want.status && strings.Contains(text, want.text), "/v2/billing"+path+"?"+query, "is answered", got, text, "want", want.status, want.text)
		}
		for query, want := range map[string]map[string]string{
			"startTime=2026-05-13T14:15:16Z&endTime=2026-05-14T00:00:00Z":                        {"startTime": `"2026-05-13T00:00:00Z"`, "endTime": `"2026-05-14T00:00:00Z"`, "bucketSize": `"day"`},
			"startTime=2026-05-13T14:15:16Z&endTime=2026-05-14T00:00:01%2B02:00&bucketSize=hour": {"startTime": `"2026-05-13T14:00:00Z"`, "endTime": `"2026-05-13T23:00:00Z"`},
			"startTime=2026-05-13t14:15:16z&endTime=2026-05-14T00:00:00Z&bucketSize=week":        {"startTime": `"2026-05-11T00:00:00Z"`, "endTime": `"2026-05-18T00:00:00Z"`},
			"startTime=2026-05-17T23:59:59Z&endTime=2026-05-18T00:00:00Z&bucketSize=week":        {"startTime": `"2026-05-11T00:00:00Z"`, "endTime": `"2026-05-18T00:00:00Z"`},
			"startTime=2026-01-31T00:00:00Z&endTime=2026-02-01T00:00:00Z&bucketSize=month":       {"startTime": `"2026-01-01T00:00:00Z"`, "endTime": `"2026-02-01T00:00:00Z"`, "bucketSize": `"month"`},
			"startTime=2025-12-31T23:00:00Z&endTime=2026-01-01T00:00:01Z&bucketSize=year":        {"startTime": `"2025-01-01T00:00:00Z"`, "endTime": `"2027-01-01T00:00:00Z"`},
			"unknown=1&startTime=2026-05-13T00:00:00Z&endTime=2026-05-14T00:00:00Z":              {"startTime": `"2026-05-13T00:00:00Z"`},
		} {
			members := map[string]string{}
			for name, text := range want {
				members["metadata.query."+name] = text
			}
			d.must(200, "GET", "/v2/billing"+path+"?"+query, "").expect(members)
		}
	}
	for _, path := range []string{"/pods", "/endpoints", "/networkvolumes"} {
		for query, want := range map[string]string{
			"bucketSize=minute": "bucketSize", "startTime=x": "startTime", "endTime=x": "endTime", "startTime=2026-06-02T00:00:00Z&endTime=2026-06-01T00:00:00Z": "is not before",
		} {
			got, _, text := d.do("GET", "/v1/billing"+path+"?"+query, "")
			must.Hold(t, got == 400 && strings.Contains(text, want) && strings.HasPrefix(text, `{"message":`), "/v1/billing"+path+"?"+query, "is answered", got, text, "want 400 with", want)
		}
		d.must(200, "GET", "/v1/billing"+path+"?lastN=0", "") // version 2 alone has it
	}
	for path, status := range map[string]int{"/pods?grouping=endpointId": 400, "/pods?grouping=podId": 200, "/endpoints?grouping=x": 400, "/endpoints?grouping=podId": 200} {
		d.must(status, "GET", "/v1/billing"+path, "")
	}
	// The last buckets include the current one.
	now := d.stopClock()
	midnight := now.UTC().Truncate(24 * time.Hour)
	d.must(200, "GET", "/v2/billing?lastN=3", "").expect(map[string]string{
		"metadata.query.startTime": `"` + midnight.AddDate(0, 0, -2).Format(time.RFC3339) + `"`, "metadata.query.endTime": `"` + midnight.AddDate(0, 0, 1).Format(time.RFC3339) + `"`, "metadata.recordCount": "3",
	})
	d.must(200, "GET", "/v2/billing", "").expect(map[string]string{
		"metadata.query.startTime": `"` + now.Add(-30*24*time.Hour).UTC().Truncate(24*time.Hour).Format(time.RFC3339) + `"`, "metadata.query.endTime": `"` + midnight.AddDate(0, 0, 1).Format(time.RFC3339) + `"`,
	})
}

// Running pods of a cluster are billed to the cluster and not as pods.
func TestBillingOfClusters(t *testing.T) {
	machine := filepath.Join(t.TempDir(), "gpus.yaml")
	must.Succeed(t, os.WriteFile(machine, []byte("gpus: [{type: NVIDIA L4, count: 4}]"), 0o600))
	inventory := must.Do(gpu.Simulate(machine, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(inventory.Close)
	d := deployWith(t, jobrunner.Config{AdminClock: true, GPUs: inventory, Catalog: writeCatalog(t, `
gpus: [{id: NVIDIA L4, price: {secure: 0.5}}]
storage: {disk: 0.73}
`)})
	d.stopClock()
	id, _ := d.must(201, "POST", "/v2/clusters", `{"name":"c","type":"TRAINING","image":"builtin/echo","disk":10,"compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":2,"podCount":2}}`).member("id").(string)
	waitFor(t, func() (bool, any) {
		c := d.must(200, "GET", "/v2/clusters/"+id, "")
		return c.member("pods.byStatus.RUNNING") != nil && c.member("pods.byStatus.PROVISIONING") == nil && c.member("pods.byStatus.STARTING") == nil, c.text
	})
	d.advance(30 * time.Minute)
	d.must(204, "DELETE", "/v2/clusters/"+id, "")
	// 4 GPUs at 0.5 and 2 disks of 10 GB at 0.001, for half an hour.
	d.awaitBilled("/v2/billing/clusters?bucketSize=hour&lastN=2&clusterId="+id, "1.01")
	d.advance(time.Hour)
	d.must(200, "GET", "/v2/billing/clusters?bucketSize=hour&lastN=4", "").expect(map[string]string{"metadata.totals.totalAmount": "1.01", "metadata.uniqueClusterCount": "1"})
	d.must(200, "GET", "/v2/billing/pods?bucketSize=hour&lastN=4", "").expect(map[string]string{"metadata.totals.totalAmount": "0", "metadata.uniquePodCount": "0"})
}
