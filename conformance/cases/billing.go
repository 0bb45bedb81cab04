package cases

import (
	"encoding/json"
	"math/big"
	"net/url"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// billingCases judge the billing history. The description has the operations, but only the
// OpenAPI documents have their answers, so all levels are SHOULD.
var billingCases = section(suite.Case{Level: suite.Should, Needs: suite.V2}, []suite.Case{
	{ID: "BIL-01", Source: "Versioning, 10; v2 document, BillingStartTime and BillingEndTime", Statement: "The period of a billing history is rounded outwards to whole buckets; the default bucket is a day.",
		Requests: 10, Run: func(c *suite.C) {
			for _, history := range sampleHistories(c) {
				expectWindow(history.read(c, "startTime=2026-05-13T14:15:16Z&endTime=2026-05-14T00:00:01Z"), "day", "2026-05-13T00:00:00Z", "2026-05-15T00:00:00Z")
			}
			expectWindow(billingHistories[0].read(c, "bucketSize=month&startTime=2026-05-13T14:15:16Z&endTime=2026-06-01T00:00:00Z"), "month", "2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z")
			expectWindow(billingHistories[0].read(c, "bucketSize=hour&startTime=2026-05-13T14:15:16%2B02:00&endTime=2026-05-13T13:00:00Z"), "hour", "2026-05-13T12:00:00Z", "2026-05-13T13:00:00Z")
			expectWindow(billingHistories[1].read(c, "bucketSize=year&startTime=2025-05-13T14:15:16Z&endTime=2025-05-13T14:15:17Z"), "year", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
		}},
	{ID: "BIL-02", Source: "Versioning, 10; v2 document, BillingLastN", Statement: "lastN=N selects the last N buckets, including the current one.",
		Requests: 5, Run: func(c *suite.C) {
			for _, history := range sampleHistories(c) {
				before := c.Now()
				a := history.read(c, "lastN=3&bucketSize=hour")
				start, end := windowOf(a)
				c.Expect(end.Sub(start) == 3*time.Hour, "a window of three hours", "a window of %s", end.Sub(start))
				// The clocks of the target and of this machine may differ.
				c.Expect(end.After(before.Add(-c.Grace()-clockSkew)) && !end.After(c.Now().Add(time.Hour+c.Grace()+clockSkew)), "the end of the present hour", "the end %s at %s", end, before)
			}
		}},
	{ID: "BIL-03", Source: "Versioning, 10; v2 document, BillingBucketSize and BillingLastN; Errors, 400", Statement: "A malformed parameter, and lastN combined with a start or an end, are rejected.",
		Requests: 8, Run: func(c *suite.C) {
			billingHistories[0].read(c, "bucketSize=week&lastN=1") // a well-formed request succeeds
			for _, query := range []string{"bucketSize=minute", "lastN=0", "lastN=x", "startTime=yesterday", "endTime=tomorrow", "lastN=2&startTime=2026-05-13T00:00:00Z", "lastN=2&endTime=2026-05-13T00:00:00Z"} {
				c.V2("GET", "/billing?"+query, nil).Refused()
			}
		}},
	{ID: "BIL-04", Source: "Versioning, 10; v2 document, BillingMetadata", Statement: "The metadata of a billing history contain the number of records and resources and the sums of the records. Each total is the sum of its components.",
		Requests: 5, Run: func(c *suite.C) {
			for _, history := range sampleHistories(c) {
				history.expectSums(c, history.read(c, "lastN=2&bucketSize=month"))
			}
		}},
	{ID: "BIL-05", Source: "Versioning, 10; v2 document, BillingStartTime and BillingEndTime", Statement: "Without parameters, a billing history covers the last 30 days, by day.",
		Requests: 2, Run: func(c *suite.C) {
			for _, history := range billingHistories[:localOrRemote(c, 2, 1)] {
				now := c.Now().UTC() // a local day may have 23 or 25 hours
				start, end := windowOf(history.read(c, "").Equal("metadata.query.bucketSize", "day"))
				slack := c.Grace() + clockSkew
				c.Expect(!start.After(now.AddDate(0, 0, -30).Add(slack)) && start.After(now.AddDate(0, 0, -31).Add(-slack)), "a start 30 to 31 days ago", "the start %s at %s", start, now)
				c.Expect(end.After(now.Add(-slack)) && end.Before(now.AddDate(0, 0, 1).Add(slack)), "an end within a day from now", "the end %s at %s", end, now)
			}
		}},
	{ID: "BIL-06", Source: "What the service does, 1; v1 document, EndpointBilling", Statement: "A running worker is billed to its endpoint while it runs. A filter omits the records of other endpoints.",
		Needs: suite.V1 | suite.V2 | suite.AdvanceableClock | suite.LocalOnly, Allow: suite.Create, Requests: 30, WaitTime: 3 * time.Hour, Run: func(c *suite.C) {
			id, other := c.NewEndpoint(1, suite.M{"workers": suite.M{"min": 1, "max": 1}}), c.NewEndpoint(1, suite.M{"workers": suite.M{"min": 1, "max": 1}})
			c.Sleep(2*time.Hour + billingSlack)
			a := c.V1("GET", "/billing/endpoints?bucketSize=hour&endpointId="+url.QueryEscape(id), nil).Is(200)
			a.NotContains(other)
			billed := billedTime(a)
			c.Expect(billed >= 2*time.Hour && billed <= 2*time.Hour+2*billingSlack, "two hours of a worker", "%s of a worker", billed)
			for _, record := range a.List("") {
				c.Expect(record["endpointId"] == id, "records of the endpoint", "a record of %v", record["endpointId"])
				start, err := parseRFC3339(stringOrEmpty(record["time"]))
				c.Expect(err == nil && start.Equal(start.Truncate(time.Hour)), "the start of an hour as the time", "the time %v", record["time"])
			}
			workers := c.V1("GET", "/billing/endpoints?bucketSize=hour&grouping=podId&endpointId="+url.QueryEscape(id), nil).Is(200)
			for _, record := range workers.List("") {
				c.Expect(stringOrEmpty(record["podId"]) != "" && record["endpointId"] == nil, "records by podId alone", "the record %v", record)
			}
			history := c.V2("GET", "/billing/serverless?lastN=4&bucketSize=hour&serverlessId="+url.QueryEscape(id), nil).Is(200)
			history.NotContains(other)
			history.Equal("metadata.query.serverlessId", id)
			c.Expect(history.Int("metadata.uniqueServerlessCount") == 1, "one endpoint", "%d endpoints", history.Int("metadata.uniqueServerlessCount"))
		}},
	{ID: "BIL-07", Source: "What the service does, 1; v1 document, BillingRecord", Statement: "The sum over a period doesn't depend on the bucket size.",
		Needs: suite.V1 | suite.V2 | suite.AdvanceableClock | suite.LocalOnly, Allow: suite.Create, Requests: 20, WaitTime: 6 * time.Hour, Run: func(c *suite.C) {
			id := c.NewEndpoint(1, suite.M{"workers": suite.M{"min": 1, "max": 1}})
			c.Sleep(5 * time.Hour)
			read := func(bucket string) (time.Duration, *big.Rat) {
				a := c.V1("GET", "/billing/endpoints?bucketSize="+bucket+"&endpointId="+url.QueryEscape(id), nil).Is(200)
				return billedTime(a), sumOf(a.List(""), "amount")
			}
			hours, amount := read("hour")
			c.Expect(hours > 4*time.Hour, "more than four hours of a worker", "%s of a worker", hours)
			for _, bucket := range []string{"day", "week", "month", "year"} {
				billed, sum := read(bucket)
				// Unless the clock is stopped, time passes between two answers.
				c.Expect((billed-hours).Abs() <= billingSlack, "the same time as by hour, "+hours.String(), "%s by %s", billed, bucket)
				c.Expect(!c.ControlsClock() || sum.Cmp(amount) == 0, "the same amount as by hour, "+amount.FloatString(12), "%s by %s", sum.FloatString(12), bucket)
			}
		}},
	{ID: "BIL-08", Source: "API changes of November 2026, 1.7", Statement: "The deprecated members serverlessFeeAmount and feeAmount are in every record and in the totals, and are 0.",
		Requests: 2, Run: func(c *suite.C) {
			for path, member := range map[string]string{"/billing": "serverlessFeeAmount", "/billing/serverless": "feeAmount"} {
				a := c.V2("GET", path+"?lastN=2&bucketSize=month", nil).Is(200)
				for _, object := range append(a.List("records"), a.Object("metadata.totals")) {
					_, isNumber := object[member].(json.Number)
					c.Expect(isNumber && decimal(object[member]).Sign() == 0, member+" 0", "the amount %s", suite.JSONText(object[member]))
				}
			}
		}},
})

// billingSlack is how late a worker may start, and clockSkew how much clocks may differ.
const (
	billingSlack = time.Minute
	clockSkew    = 5 * time.Minute
)

// billingHistory is a billing history of version 2.
type billingHistory struct {
	path        string
	idMember    string   // of a record, or ""
	countMember string   // of the metadata: the number of distinct ids; or ""
	components  []string // members whose sum is totalAmount
}

var billingHistories = []billingHistory{
	{"/billing", "", "", []string{
		"podGpuAmount", "podCpuAmount", "podDiskAmount", "serverlessGpuAmount", "serverlessCpuAmount", "serverlessDiskAmount", "serverlessFeeAmount",
		"storageStandardAmount", "storageHighPerformanceAmount", "endpointAmount", "clusterGpuAmount", "clusterDiskAmount", "clusterNetworkingAmount",
	}},
	{"/billing/pods", "podId", "uniquePodCount", []string{"gpuAmount", "cpuAmount", "diskAmount"}},
	{"/billing/serverless", "serverlessId", "uniqueServerlessCount", []string{"gpuAmount", "cpuAmount", "diskAmount", "feeAmount"}},
	{"/billing/endpoints", "", "", nil},
	{"/billing/network-volumes", "networkVolumeId", "uniqueNetworkVolumeCount", []string{"standardAmount", "highPerformanceAmount"}},
}

// sampleHistories returns two histories, or all of them at a local target.
func sampleHistories(c *suite.C) []billingHistory {
	if c.IncludeIfLocal("reads of all histories") {
		return billingHistories
	}
	i := c.Random().IntN(len(billingHistories))
	return []billingHistory{billingHistories[i], billingHistories[(i+1)%len(billingHistories)]}
}

func (h billingHistory) read(c *suite.C, query string) *suite.Answer {
	if query != "" {
		query = "?" + query
	}
	return c.V2("GET", h.path+query, nil).Is(200)
}

func (h billingHistory) expectSums(c *suite.C, a *suite.Answer) {
	records, ids := a.List("records"), map[string]bool{}
	c.Expect(a.Int("metadata.recordCount") == int64(len(records)), "the number of the records", "recordCount %d with %d records", a.Int("metadata.recordCount"), len(records))
	for _, record := range records {
		if h.idMember != "" {
			ids[stringOrEmpty(record[h.idMember])] = true
		}
		h.expectComponents(c, record, "a record")
	}
	if h.countMember != "" {
		c.Expect(a.Int("metadata."+h.countMember) == int64(len(ids)), "the number of the resources", "the count %s %d, but records of %d", h.countMember, a.Int("metadata."+h.countMember), len(ids))
	}
	totals := a.Object("metadata.totals")
	h.expectComponents(c, totals, "the totals")
	for _, member := range append([]string{"totalAmount"}, h.components...) {
		sum := sumOf(records, member)
		c.Expect(nearlyEqual(decimal(totals[member]), sum), "the sum of the records, "+sum.FloatString(12), "the total %v of %s", totals[member], member)
	}
}

func (h billingHistory) expectComponents(c *suite.C, amounts map[string]any, name string) {
	if h.components == nil {
		return
	}
	sum := new(big.Rat)
	for _, member := range h.components {
		sum.Add(sum, decimal(amounts[member]))
	}
	c.Expect(nearlyEqual(decimal(amounts["totalAmount"]), sum), "the sum of the components", "%s with the totalAmount %v and components that sum to %s", name, amounts["totalAmount"], sum.FloatString(9))
}

// nearlyEqual compares two amounts with a tolerance for floating-point errors.
func nearlyEqual(a, b *big.Rat) bool {
	difference := new(big.Rat).Sub(a, b)
	return difference.Abs(difference).Cmp(big.NewRat(1, 1_000_000)) <= 0
}

func stringOrEmpty(v any) string {
	s, _ := v.(string)
	return s
}

// decimal returns the exact value of a JSON number, or 0 for another value.
func decimal(v any) *big.Rat {
	number, _ := v.(json.Number)
	if n, ok := new(big.Rat).SetString(number.String()); ok {
		return n
	}
	return new(big.Rat)
}

func sumOf(records []suite.M, member string) *big.Rat {
	sum := new(big.Rat)
	for _, record := range records {
		sum.Add(sum, decimal(record[member]))
	}
	return sum
}

func billedTime(a *suite.Answer) time.Duration {
	ms, _ := sumOf(a.List(""), "timeBilledMs").Float64()
	return time.Duration(ms) * time.Millisecond
}

func windowOf(a *suite.Answer) (start, end time.Time) {
	start, _ = parseRFC3339(a.Str("metadata.query.startTime")) // a time that can't be parsed is zero, which no case expects
	end, _ = parseRFC3339(a.Str("metadata.query.endTime"))
	return start, end
}

func expectWindow(a *suite.Answer, bucket, start, end string) {
	from, to := windowOf(a.Equal("metadata.query.bucketSize", bucket))
	window := from.UTC().Format(time.RFC3339) + " to " + to.UTC().Format(time.RFC3339)
	a.Expect(window == start+" to "+end, "the window "+start+" to "+end)
}
