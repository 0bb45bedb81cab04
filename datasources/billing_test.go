package datasources_test

import (
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// digits returns a number of a state with all its digits.
func digits(t *testing.T, s tfdrive.State, path ...any) string {
	t.Helper()
	at := tftypes.NewAttributePath()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			at = at.WithAttributeName(step)
		case int:
			at = at.WithElementKeyInt(step)
		}
	}
	v, _, err := tftypes.WalkAttributePath(s.Value, at)
	must.Require(t, err == nil, at, err)
	if v.(tftypes.Value).IsNull() {
		return "null"
	}
	var n big.Float
	must.Succeed(t, v.(tftypes.Value).As(&n))
	return n.Text('f', -1)
}

var bills = []string{"billing", "pod_billing", "serverless_billing", "public_endpoint_billing", "network_volume_billing", "cluster_billing"}

// After two days of the deployment's clock, a bill's totals are the exact sums of its records.
func TestBillTotalsAreExactSums(t *testing.T) {
	d := acctest.DeployWith(t, func(c *jobrunner.Config) {
		c.AdminClock, c.Catalog = true, acctest.CatalogFile(t, "storage: {standard: 0.730000073}\n")
	})
	volume := send(t, d, "POST", "/v2/network-volumes", `{"name":"v","size":11,"dataCenter":"EU-RO-1"}`)["id"].(string)
	other := send(t, d, "POST", "/v2/network-volumes", `{"name":"w","size":13,"dataCenter":"EU-RO-1"}`)["id"].(string)
	send(t, d, "POST", "/clock", `{"advance":172800000}`)
	v2, v1 := drive(t, d, api.V2), drive(t, d, api.V1)
	// The cost of past hours doesn't change.
	now := time.Now().UTC().Truncate(time.Hour)
	hours := map[string]any{"bucket_size": "hour", "start_time": now.Format(time.RFC3339), "end_time": now.Add(40 * time.Hour).Format(time.RFC3339)}
	all := read(t, v2, "gpucloud_network_volume_billing", hours)
	ids := map[any]bool{}
	for _, id := range column(all.Get("records"), "network_volume_id") {
		ids[id] = true
	}
	records := all.Get("records").([]any)
	must.Hold(t, len(ids) == 2 && len(records) == 80 && all.Get("period.bucket_size") == "hour" && all.Get("period.start_time") == member(records, 0, "start_time"),
		"expected 80 records of 2 volumes, got", len(records), "of", ids, "in", all.Get("period"))
	billOfFirst := read(t, v2, "gpucloud_network_volume_billing", withChanges(hours, map[string]any{"network_volume_id": volume}))
	billOfSecond := read(t, v2, "gpucloud_network_volume_billing", withChanges(hours, map[string]any{"network_volume_id": other}))
	sum := func(states ...string) string {
		total := new(big.Rat)
		for _, s := range states {
			n, ok := new(big.Rat).SetString(s)
			must.Require(t, ok, "not a number", s)
			total.Add(total, n)
		}
		return strings.TrimRight(total.FloatString(20), "0")
	}
	recordsOf := func(s tfdrive.State) (out []string) {
		for i := range s.Get("records").([]any) {
			out = append(out, digits(t, s, "records", i, "total_amount"))
		}
		return out
	}
	for _, s := range []tfdrive.State{all, billOfFirst, billOfSecond} {
		got, want := digits(t, s, "totals", "total_amount"), sum(recordsOf(s)...)
		must.Hold(t, got == want && got != "0" && got != "0.", "the total is", got, "and the records are", want)
	}
	must.Equal(t, digits(t, all, "totals", "total_amount"), sum(digits(t, billOfFirst, "totals", "total_amount"), digits(t, billOfSecond, "totals", "total_amount")),
		"the total of both volumes isn't the sum of their bills")
	account := read(t, v2, "gpucloud_billing", hours)
	must.Equal(t, digits(t, account, "totals", "storage_standard_amount"), digits(t, all, "totals", "standard_amount"),
		"the bills of the account and of the volumes differ")
	onV1 := read(t, v1, "gpucloud_network_volume_billing", hours)
	must.Equal(t, digits(t, onV1, "totals", "total_amount"), digits(t, all, "totals", "total_amount"), "the totals on v1 and v2 differ")
	must.Hold(t, member(onV1.Get("records"), 0, "disk_space_billed_gb") == 24.0 && member(onV1.Get("records"), 0, "network_volume_id") == nil && onV1.Get("period") == nil,
		"expected records of 24 GB on v1, without an id and a period, got", onV1.Value)
	period := map[string]any{"start_time": "2020-01-01T00:00:00Z", "end_time": "2020-01-03T00:00:00Z"}
	for _, name := range bills {
		got := read(t, v2, "gpucloud_"+name, period)
		must.Hold(t, got.Get("period.end_time") == "2020-01-03T00:00:00Z" && got.Get("period.bucket_size") == "day" && digits(t, got, "totals", "total_amount") == "0",
			"expected a total of 0 for two days of 2020 in", name, "got", got.Value)
	}
}

// A data source omits a deployment's 15,500 records without an amount: 500 pods over the default period.
func TestBillingHasNoRecordsOfZeros(t *testing.T) {
	d := acctest.Deploy(t)
	for i := range 20 {
		send(t, d, "POST", "/v2/network-volumes", fmt.Sprintf(`{"name":"v%d","size":11,"dataCenter":"EU-RO-1"}`, i))
	}
	for _, v := range acctest.Versions {
		got := read(t, drive(t, d, v), "gpucloud_network_volume_billing", nil)
		for i := range got.Get("records").([]any) {
			must.Hold(t, digits(t, got, "records", i, "total_amount") != "0" || v != api.V2 && member(got.Get("records"), i, "disk_space_billed_gb") != 0.0,
				v, "record", i, "has zeros only", got.Get("records").([]any)[i])
		}
		must.Equal(t, digits(t, got, "totals", "total_amount"), "0", v, "the total")
	}
}

// fakeBilling returns bills whose amounts have more digits than a float.
type fakeBilling struct {
	*httptest.Server
	requests []string // path and query
}

func newFakeBilling(t *testing.T) *fakeBilling {
	t.Helper()
	f := new(fakeBilling)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "req-7")
		w.Header().Set("Content-Type", "application/json")
		switch path := r.URL.Path; {
		case path == "/v1/templates":
			fmt.Fprint(w, `[]`)
			return
		case path == "/v2/templates":
			fmt.Fprint(w, `{"templates":[]}`)
			return
		case r.URL.Query().Get("bucketSize") == "week":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"title":"Bad Request","status":400,"detail":"no weeks here","message":"no weeks here"}`)
			return
		case strings.HasPrefix(path, "/v1/"):
			fmt.Fprint(w, `[{"amount":0.1,"time":"2026-06-01T00:00:00Z","podId":"p","endpointId":"e","timeBilledMs":9007199254740993,"diskSpaceBilledGb":5.0,"highPerformanceStorageAmount":0.000000001},
				{"amount":123456789012345.67890123456789,"gpuTypeId":"NVIDIA L4","time":"2026-06-02T00:00:00Z","highPerformanceStorageAmount":2e-7},{"amount":0.2,"time":"2026-06-02T00:00:00Z"}]`)
		case strings.HasSuffix(path, "/clusters"):
			fmt.Fprint(w, `{"metadata":{}}`)
		default:
			fmt.Fprint(w, `{"records":[{"startTime":"2026-06-01T00:00:00Z","endTime":"2026-06-02T00:00:00Z","podId":"p","totalAmount":0.1234567890123456789012345678901,"gpuAmount":1e-9},
				{"startTime":"2026-06-02T00:00:00Z","endTime":"2026-06-03T00:00:00Z","podId":"q","totalAmount":0.00,"gpuAmount":0e9}],
				"metadata":{"query":{"startTime":"a","endTime":"b","bucketSize":"day"},"totals":{"totalAmount":98765432109876543210.000000000000001}}}`)
		}
		f.requests = append(f.requests, r.URL.RequestURI())
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeBilling) drive(t *testing.T, v api.Version) *tfdrive.Provider {
	t.Helper()
	return drive(t, &acctest.Deployment{URL: f.URL, Key: "key-of-the-fake"}, v)
}

// Amounts keep all digits, even more than a floating-point number has.
func TestBillingKeepsAllDigits(t *testing.T) {
	f := newFakeBilling(t)
	got := read(t, f.drive(t, api.V2), "gpucloud_pod_billing", nil)
	for want, path := range map[string][]any{
		"0.1234567890123456789012345678901":    {"records", 0, "total_amount"},
		"0.000000001":                          {"records", 0, "gpu_amount"},
		"null":                                 {"records", 0, "cpu_amount"},
		"98765432109876543210.000000000000001": {"totals", "total_amount"},
	} {
		must.Equal(t, digits(t, got, path...), want, path)
	}
	records := got.Get("records").([]any)
	must.Hold(t, len(records) == 1, "expected only the record with amounts", records)
	onV1 := read(t, f.drive(t, api.V1), "gpucloud_pod_billing", nil)
	for want, path := range map[string][]any{
		"123456789012345.97890123456789": {"totals", "total_amount"},
		"9007199254740993":               {"records", 0, "time_billed_ms"},
	} {
		must.Equal(t, digits(t, onV1, path...), want, "v1", path)
	}
	first := onV1.Get("records").([]any)[0].(map[string]any)
	must.Hold(t, member(onV1.Get("records"), 1, "gpu_type_id") == "NVIDIA L4" && first["pod_id"] == "p" && first["start_time"] == "2026-06-01T00:00:00Z" && first["end_time"] == nil,
		"the ids or times of the records on v1 are wrong", onV1.Value)
	volumes := read(t, f.drive(t, api.V1), "gpucloud_network_volume_billing", nil)
	must.Equal(t, digits(t, volumes, "totals", "high_performance_amount"), "0.000000201", "the volumes' total on v1")
}

// Each bill is requested at its address, with its filters under the version's names.
func TestBillingQueries(t *testing.T) {
	f := newFakeBilling(t)
	for _, c := range []struct {
		version api.Version
		name    string
		config  map[string]any
		path    string
		query   url.Values
	}{
		{api.V2, "billing", nil, "/v2/billing", nil},
		{api.V2, "billing", map[string]any{"start_time": "2026-06-01T00:00:00Z", "end_time": "2026-06-02T00:00:00+02:00", "bucket_size": "hour"}, "/v2/billing",
			url.Values{"startTime": {"2026-06-01T00:00:00Z"}, "endTime": {"2026-06-02T00:00:00+02:00"}, "bucketSize": {"hour"}}},
		{api.V2, "pod_billing", map[string]any{"pod_id": "p", "last_n": 5}, "/v2/billing/pods", url.Values{"podId": {"p"}, "lastN": {"5"}}},
		{api.V1, "pod_billing", map[string]any{"pod_id": "p"}, "/v1/billing/pods", url.Values{"podId": {"p"}, "grouping": {"podId"}}},
		{api.V1, "pod_billing", map[string]any{"gpu_type_id": "g", "grouping": "gpuTypeId"}, "/v1/billing/pods", url.Values{"gpuTypeId": {"g"}, "grouping": {"gpuTypeId"}}},
		{api.V2, "serverless_billing", map[string]any{"serverless_id": "e"}, "/v2/billing/serverless", url.Values{"serverlessId": {"e"}}},
		{api.V1, "serverless_billing", map[string]any{"serverless_id": "e", "image": "i", "template_id": "t", "gpu_type_ids": []any{"a b", "c"}, "data_center_ids": []any{"x"}}, "/v1/billing/endpoints",
			url.Values{"endpointId": {"e"}, "imageName": {"i"}, "templateId": {"t"}, "gpuTypeId": {"a b", "c"}, "dataCenterId": {"x"}, "grouping": {"endpointId"}}},
		{api.V2, "public_endpoint_billing", nil, "/v2/billing/endpoints", nil},
		{api.V2, "network_volume_billing", map[string]any{"network_volume_id": "v"}, "/v2/billing/network-volumes", url.Values{"networkVolumeId": {"v"}}},
		{api.V1, "network_volume_billing", map[string]any{"bucket_size": "month"}, "/v1/billing/networkvolumes", url.Values{"bucketSize": {"month"}}},
	} {
		f.requests = nil
		read(t, f.drive(t, c.version), "gpucloud_"+c.name, c.config)
		requested := must.Do(url.Parse(f.requests[len(f.requests)-1]))(t)
		got := requested.Query()
		for _, list := range got {
			slices.Sort(list)
		}
		must.Hold(t, requested.Path == c.path && maps.EqualFunc(got, c.query, func(a, b []string) bool { return reflect.DeepEqual(a, b) }),
			c.version, c.name, c.config, "requested", requested.Path, got)
	}
}

func TestBillingRules(t *testing.T) {
	f := newFakeBilling(t)
	v2, v1 := f.drive(t, api.V2), f.drive(t, api.V1)
	for _, name := range bills {
		expectErrors(t, v2, "gpucloud_"+name, map[string]any{"last_n": 1, "start_time": "2026-06-01T00:00:00Z"}, "start_time: Two periods")
		tfdrive.Do(v2.Data("gpucloud_"+name, map[string]any{"last_n": 1, "end_time": tfdrive.Unknown}))(t) // may become null
		expectErrors(t, v2, "gpucloud_"+name, map[string]any{"last_n": 0}, "expected at least 1, got 0")
		expectErrors(t, v2, "gpucloud_"+name, map[string]any{"last_n": 1.5}, "expected a whole number, got 1.5")
		expectErrors(t, v2, "gpucloud_"+name, map[string]any{"bucket_size": "minute"}, `expected "hour", "day", "week", "month" or "year", got "minute"`)
		expectErrors(t, v2, "gpucloud_"+name, map[string]any{"start_time": "yesterday"}, "start_time:", `such as 2026-06-01T00:00:00Z, got "yesterday"`)
		expectErrors(t, v2, "gpucloud_"+name, map[string]any{"start_time": "2026-06-01T00:00:00Z", "end_time": "2026-06-01T00:00:00Z"}, "expected a time after start_time")
		tfdrive.Do(v2.Data("gpucloud_"+name, map[string]any{"start_time": tfdrive.Unknown}))(t)
	}
	expectErrors(t, v2, "gpucloud_pod_billing", map[string]any{"bucket_size": "week"}, "Could not look up the bill of the pods", "GET", "/v2/billing/pods: 400", "no weeks here", "req-7")
	expectErrors(t, v2, "gpucloud_cluster_billing", nil, `it has no member "records"`)
	expectErrors(t, v2, "gpucloud_pod_billing", map[string]any{"pod_id": ""}, "pod_id:", "at least one character")
	for _, c := range []struct {
		name      string
		attribute string
		value     any
	}{
		{"pod_billing", "grouping", "podId"}, {"pod_billing", "gpu_type_id", "g"}, {"serverless_billing", "grouping", "podId"}, {"serverless_billing", "image", "i"},
		{"serverless_billing", "template_id", "t"}, {"serverless_billing", "gpu_type_ids", []any{"g"}}, {"serverless_billing", "data_center_ids", []any{"d"}},
	} {
		expectErrors(t, v2, "gpucloud_"+c.name, map[string]any{c.attribute: c.value}, c.attribute+": API v2 can't express this", `api_version = "v1"`)
	}
	expectErrors(t, v1, "gpucloud_pod_billing", map[string]any{"last_n": 2}, "last_n: API v1 can't express this", `api_version = "v2"`)
	expectErrors(t, v1, "gpucloud_serverless_billing", map[string]any{"gpu_type_ids": []any{nil}}, "gpu_type_ids: ", "an element is null")
	expectErrors(t, v1, "gpucloud_network_volume_billing", map[string]any{"network_volume_id": "v"}, "network_volume_id: API v1 can't express this")
	for _, name := range []string{"billing", "public_endpoint_billing", "cluster_billing"} {
		expectErrors(t, v1, "gpucloud_"+name, nil, "gpucloud_"+name+" exists in management API v2 only")
	}
}
