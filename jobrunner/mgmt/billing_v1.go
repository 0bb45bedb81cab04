package mgmt

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// billingRecordV1 is what a group cost in a bucket. Of the ids it has the one that
// the records are grouped by; CPUs have no GPU type.
type billingRecordV1 struct {
	Amount            catalog.USD `json:"amount"`
	DiskSpaceBilledGB int64       `json:"diskSpaceBilledGb"`
	EndpointID        string      `json:"endpointId,omitempty"`
	GPUTypeID         string      `json:"gpuTypeId,omitempty"`
	PodID             string      `json:"podId,omitempty"`
	Time              string      `json:"time"`
	TimeBilledMS      int64       `json:"timeBilledMs"`
}

// groupings say which id of a usage is that of its group, and where the record shows
// it.
var groupings = map[string]struct {
	of  func(billing.Usage) string
	set func(*billingRecordV1, string)
}{
	"endpointId": {func(u billing.Usage) string { return u.Owner }, func(r *billingRecordV1, id string) { r.EndpointID = id }},
	"podId":      {func(u billing.Usage) string { return u.ID }, func(r *billingRecordV1, id string) { r.PodID = id }},
	"gpuTypeId":  {func(u billing.Usage) string { return u.GPUType }, func(r *billingRecordV1, id string) { r.GPUTypeID = id }},
}

// groupedV1 shows what the resources of a kind cost that pass a filter, a record for
// each group and bucket in which it was billed.
func (s *server) groupedV1(c *call, kind billing.Kind, w billing.Window, grouping string, keep func(billing.Usage) bool) ([]billingRecordV1, error) {
	type place struct {
		bucket int
		group  string
	}
	type disk struct {
		place
		resource string
	}
	by, sums, disks := groupings[grouping], map[place]billingRecordV1{}, map[disk]int64{}
	err := s.usage(c.ctx(), kind, w, func(u billing.Usage) {
		if !keep(u) {
			return
		}
		p := place{u.Bucket, by.of(u)}
		r := sums[p]
		r.Amount += u.Cost.Total()
		r.TimeBilledMS += u.Time.Milliseconds()
		sums[p] = r
		d := disk{p, u.ID}
		disks[d] = max(disks[d], u.Disk)
	})
	if err != nil {
		return nil, err
	}
	for d, gb := range disks {
		r := sums[d.place]
		r.DiskSpaceBilledGB += gb
		sums[d.place] = r
	}
	places := make([]place, 0, len(sums))
	for p := range sums {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.bucket != b.bucket {
			return a.bucket - b.bucket
		}
		return strings.Compare(a.group, b.group)
	})
	return convertAll(places, func(p place) billingRecordV1 {
		r := sums[p]
		by.set(&r, p.group)
		r.Time = billingTime(w.Bounds[p.bucket])
		return r
	}), nil
}

// usageQueryV1 is the period, the grouping and the filter of a call.
type usageQueryV1 struct {
	window   billing.Window
	grouping string
	keep     func(billing.Usage) bool
}

func (s *server) readPodBillingV1(c *call) (out usageQueryV1, err error) {
	q := newQuery(c)
	out.grouping = cmp.Or(q.enumValue("grouping", "podId", "gpuTypeId"), "gpuTypeId")
	pod, gpu := q.text("podId"), q.text("gpuTypeId")
	out.keep = func(u billing.Usage) bool {
		return (pod == "" || u.ID == pod) && (gpu == "" || u.GPUType == gpu)
	}
	out.window, err = s.period(c, q)
	return out, err
}

func (s *server) podBillingV1(c *call) (any, error) {
	q, err := s.readPodBillingV1(c)
	if err != nil {
		return nil, err
	}
	return s.groupedV1(c, billing.Pod, q.window, q.grouping, q.keep)
}

func (s *server) readEndpointBillingV1(c *call) (out usageQueryV1, err error) {
	q := newQuery(c)
	out.grouping = cmp.Or(q.enumValue("grouping", "endpointId", "podId", "gpuTypeId"), "endpointId")
	endpoint, image, template := q.text("endpointId"), q.text("imageName"), q.text("templateId")
	gpus, places := q.repeated("gpuTypeId"), q.repeated("dataCenterId")
	out.keep = func(u billing.Usage) bool {
		return (endpoint == "" || u.Owner == endpoint) && (image == "" || u.Image == image) && (template == "" || u.Template == template) &&
			(len(gpus) == 0 || slices.Contains(gpus, u.GPUType)) &&
			(len(places) == 0 || slices.ContainsFunc(u.DataCenters, func(d string) bool { return slices.Contains(places, d) }))
	}
	out.window, err = s.period(c, q)
	return out, err
}

func (s *server) endpointBillingV1(c *call) (any, error) {
	q, err := s.readEndpointBillingV1(c)
	if err != nil {
		return nil, err
	}
	return s.groupedV1(c, billing.Worker, q.window, q.grouping, q.keep)
}

// repeated reads a list of any values. They stand one by one, as the document of
// version 1 has it, or separated by commas.
func (q *query) repeated(name string) (out []string) {
	q.declare(openapi.Parameter{Name: name, In: "query", Schema: &openapi.Schema{Type: "array", Items: &openapi.Schema{Type: "string"}}})
	for _, value := range q.values[name] {
		for one := range strings.SplitSeq(value, ",") {
			if one != "" {
				out = append(out, one)
			}
		}
	}
	return out
}

// volumeBillingRecordV1 is what all network volumes cost in a bucket. Both pairs of
// members count high-performance storage.
type volumeBillingRecordV1 struct {
	Amount                                  catalog.USD `json:"amount"`
	DiskSpaceBilledGB                       int64       `json:"diskSpaceBilledGb"`
	HighPerformanceStorageAmount            catalog.USD `json:"highPerformanceStorageAmount"`
	HighPerformanceStorageDiskSpaceBilledGB int64       `json:"highPerformanceStorageDiskSpaceBilledGb"`
	Time                                    string      `json:"time"`
}

func (s *server) volumeBillingV1(c *call) (any, error) {
	w, err := s.readPeriod(c)
	if err != nil {
		return nil, err
	}
	type size struct {
		bucket int
		volume string
		fast   bool
	}
	sums, sizes := map[int]volumeBillingRecordV1{}, map[size]int64{}
	err = s.usage(c.ctx(), billing.Volume, w, func(u billing.Usage) {
		r := sums[u.Bucket]
		r.Amount += u.Cost.Total()
		r.HighPerformanceStorageAmount += u.Cost.HighPerformance
		sums[u.Bucket] = r
		at := size{u.Bucket, u.ID, u.HighPerformance}
		sizes[at] = max(sizes[at], u.Disk)
	})
	if err != nil {
		return nil, err
	}
	for at, gb := range sizes {
		r := sums[at.bucket]
		r.DiskSpaceBilledGB += gb
		if at.fast {
			r.HighPerformanceStorageDiskSpaceBilledGB += gb
		}
		sums[at.bucket] = r
	}
	out := []volumeBillingRecordV1{}
	for i := range w.Len() {
		if r, billed := sums[i]; billed {
			r.Time = billingTime(w.Bounds[i])
			out = append(out, r)
		}
	}
	return out, nil
}
