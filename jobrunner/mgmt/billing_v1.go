package mgmt

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// billingRecordV1 is the cost of a group in a bucket. It has only the id of the grouping.
type billingRecordV1 struct {
	Amount            catalog.USD `json:"amount"`
	DiskSpaceBilledGB int64       `json:"diskSpaceBilledGb"`
	EndpointID        string      `json:"endpointId,omitempty"`
	GPUTypeID         string      `json:"gpuTypeId,omitempty"`
	PodID             string      `json:"podId,omitempty"`
	Time              string      `json:"time"`
	TimeBilledMS      int64       `json:"timeBilledMs"`
}

// groupings say which id of a usage identifies its group, and in which member the record has it.
var groupings = map[string]struct {
	of  func(billing.Usage) string
	set func(*billingRecordV1, string)
}{
	"endpointId": {func(u billing.Usage) string { return u.Owner }, func(r *billingRecordV1, id string) { r.EndpointID = id }},
	"podId":      {func(u billing.Usage) string { return u.ID }, func(r *billingRecordV1, id string) { r.PodID = id }},
	"gpuTypeId":  {func(u billing.Usage) string { return u.GPUType }, func(r *billingRecordV1, id string) { r.GPUTypeID = id }},
}

// sumV1 is the cost of a group in a bucket; fast is the share of high-performance storage.
type sumV1 struct {
	bucket       int
	group        string
	cost, fast   catalog.USD
	time         int64 // ms
	disk, onFast int64 // GB, the largest of each resource
}

// sumsV1 sums the cost of a kind's resources that pass a filter, by bucket and group.
func (c *call) sumsV1(kind billing.Kind, w billing.Window, keep func(billing.Usage) bool, group func(billing.Usage) string) ([]*sumV1, error) {
	type place struct {
		bucket int
		group  string
	}
	type resource struct {
		place
		id   string
		fast bool
	}
	sums, disks := map[place]*sumV1{}, map[resource]int64{}
	err := c.Meter.Usage(c.ctx(), kind, w, func(u billing.Usage) {
		if !keep(u) {
			return
		}
		p := place{u.Bucket, group(u)}
		if sums[p] == nil {
			sums[p] = &sumV1{bucket: p.bucket, group: p.group}
		}
		sums[p].cost += u.Cost.Total()
		sums[p].fast += u.Cost.HighPerformance
		sums[p].time += u.Time.Milliseconds()
		d := resource{p, u.ID, u.HighPerformance}
		disks[d] = max(disks[d], u.Disk)
	})
	for d, gb := range disks {
		sums[d.place].disk += gb
		if d.fast {
			sums[d.place].onFast += gb
		}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b *sumV1) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.group, b.group))
	}), err
}

type usageQueryV1 struct {
	window   billing.Window
	grouping string
	keep     func(billing.Usage) bool
}

func readPodBillingV1(q *query) (out usageQueryV1) {
	out.grouping = cmp.Or(q.value("grouping", oneOf("podId", "gpuTypeId")), "gpuTypeId")
	pod, gpu := q.value("podId", anyText), q.value("gpuTypeId", anyText)
	out.keep = func(u billing.Usage) bool {
		return (pod == "" || u.ID == pod) && (gpu == "" || u.GPUType == gpu)
	}
	out.window = readPeriod(q)
	return out
}

// groupedBillingV1 serves the cost of a kind, with the groups and filters of a query.
func groupedBillingV1(kind billing.Kind, read func(*query) usageQueryV1) handler {
	return queryHandler(read, func(c *call, q usageQueryV1) ([]billingRecordV1, error) {
		by := groupings[q.grouping]
		sums, err := c.sumsV1(kind, q.window, q.keep, by.of)
		return convertAll(sums, func(sum *sumV1) billingRecordV1 {
			r := billingRecordV1{Amount: sum.cost, DiskSpaceBilledGB: sum.disk, Time: billingTime(q.window.Bounds[sum.bucket]), TimeBilledMS: sum.time}
			by.set(&r, sum.group)
			return r
		}), err
	})
}

func readEndpointBillingV1(q *query) (out usageQueryV1) {
	out.grouping = cmp.Or(q.value("grouping", oneOf("endpointId", "podId", "gpuTypeId")), "endpointId")
	endpoint, image, template := q.value("endpointId", anyText), q.value("imageName", anyText), q.value("templateId", anyText)
	gpus, places := q.listParameter("gpuTypeId"), q.listParameter("dataCenterId")
	out.keep = func(u billing.Usage) bool {
		return (endpoint == "" || u.Owner == endpoint) && (image == "" || u.Image == image) && (template == "" || u.Template == template) &&
			(len(gpus) == 0 || slices.Contains(gpus, u.GPUType)) &&
			(len(places) == 0 || slices.ContainsFunc(u.DataCenters, func(d string) bool { return slices.Contains(places, d) }))
	}
	out.window = readPeriod(q)
	return out
}

// listParameter reads values as repeated parameters (document of version 1) or separated by commas.
func (q *query) listParameter(name string) (out []string) {
	q.declare(openapi.Parameter{Name: name, In: "query", Schema: &openapi.Schema{Type: "array", Items: &openapi.Schema{Type: "string"}}})
	for _, value := range q.values[name] {
		for item := range strings.SplitSeq(value, ",") {
			if item != "" {
				out = append(out, item)
			}
		}
	}
	return out
}

// volumeBillingRecordV1 includes high-performance storage in both pairs of members.
type volumeBillingRecordV1 struct {
	Amount                                  catalog.USD `json:"amount"`
	DiskSpaceBilledGB                       int64       `json:"diskSpaceBilledGb"`
	HighPerformanceStorageAmount            catalog.USD `json:"highPerformanceStorageAmount"`
	HighPerformanceStorageDiskSpaceBilledGB int64       `json:"highPerformanceStorageDiskSpaceBilledGb"`
	Time                                    string      `json:"time"`
}

func (c *call) volumeBillingV1(w billing.Window) ([]volumeBillingRecordV1, error) {
	all := func(billing.Usage) bool { return true }
	sums, err := c.sumsV1(billing.Volume, w, all, func(billing.Usage) string { return "" })
	return convertAll(sums, func(sum *sumV1) volumeBillingRecordV1 {
		return volumeBillingRecordV1{sum.cost, sum.disk, sum.fast, sum.onFast, billingTime(w.Bounds[sum.bucket])}
	}), err
}
