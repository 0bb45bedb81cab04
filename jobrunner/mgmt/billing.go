package mgmt

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// usageQuery selects the usage of resources, and the groups of the records.
type usageQuery struct {
	window   billing.Window
	keep     func(billing.Usage) bool
	groupID  func(billing.Usage) string // the id of a usage's group
	idMember string                     // the record's member with that id; "" if all usage is one group
	filter   string                     // the parameter that selects a group; "" if it is idMember
	owner    string                     // version 2: the only owner to show; "" for all
}

func oneGroup(billing.Usage) string { return "" }

func ownerOf(u billing.Usage) string { return u.Owner }

// groupings maps the values of version 1's parameter grouping to the ids by which they group.
var groupings = map[string]func(billing.Usage) string{
	"endpointId": ownerOf,
	"podId":      func(u billing.Usage) string { return u.ID },
	"gpuTypeId":  func(u billing.Usage) string { return u.GPUType },
}

type group struct {
	bucket int
	id     string
}

var billedKinds = []billing.Kind{billing.Pod, billing.Worker, billing.Volume, billing.Cluster}

type sum struct {
	costs                     [4]billing.Cost // by billedKinds
	time                      time.Duration
	disk, highPerformanceDisk int64 // GB: the largest sizes of the resources, summed; of all storage, and of high-performance storage
}

func (s *sum) add(u billing.Usage) {
	cost := &s.costs[slices.Index(billedKinds, u.Kind)]
	*cost = cost.Plus(u.Cost)
	s.time += u.Time
}

// encode returns an object of a billing answer: labels, and the sums that the contract has at path.
func (s *sum) encode(body contract.Body, path string, labels map[string]any) json.RawMessage {
	pod, worker, volume, cluster := s.costs[0], s.costs[1], s.costs[2], s.costs[3]
	total := pod.Plus(worker).Plus(volume).Plus(cluster)
	out := map[string]any{
		"amount": total.Total(), "diskSpaceBilledGb": s.disk, "timeBilledMs": s.time.Milliseconds(),
		"highPerformanceStorageAmount": total.HighPerformance, "highPerformanceStorageDiskSpaceBilledGb": s.highPerformanceDisk,

		"totalAmount": total.Total(), "gpuAmount": total.GPU, "cpuAmount": total.CPU, "diskAmount": total.Disk, "networkingAmount": total.Networking,
		"standardAmount": total.Standard, "highPerformanceAmount": total.HighPerformance,
		"feeAmount": 0, "serverlessFeeAmount": 0, // deprecated
		"endpointAmount": 0, // the jobrunner has no public endpoints

		"podGpuAmount": pod.GPU, "podCpuAmount": pod.CPU, "podDiskAmount": pod.Disk,
		"serverlessGpuAmount": worker.GPU, "serverlessCpuAmount": worker.CPU, "serverlessDiskAmount": worker.Disk,
		"storageStandardAmount": volume.Standard, "storageHighPerformanceAmount": volume.HighPerformance,
		"clusterGpuAmount": cluster.GPU, "clusterDiskAmount": cluster.Disk, "clusterNetworkingAmount": cluster.Networking,
	}
	maps.DeleteFunc(out, func(name string, _ any) bool { return body.At(path+name) == nil })
	maps.Copy(out, labels)
	return toJSON(out)
}

const maxBillingRecords = 100_000

func (c *call) sumUsage(q usageQuery, kinds ...billing.Kind) (sums map[group]*sum, total *sum, err error) {
	sums, total = map[group]*sum{}, new(sum)
	for _, kind := range kinds {
		id, disks := "", map[group]int64{} // of one resource
		err := c.Meter.VisitUsage(c.ctx(), kind, q.window, func(u billing.Usage) {
			if !q.keep(u) || len(sums) > maxBillingRecords {
				return
			}
			g := group{u.Index, q.groupID(u)}
			if sums[g] == nil {
				sums[g] = new(sum)
			}
			if u.ID != id {
				id, disks = u.ID, map[group]int64{}
			}
			s, growth := sums[g], max(0, u.Disk-disks[g])
			s.add(u)
			total.add(u)
			disks[g] += growth
			s.disk += growth
			if u.HighPerformance {
				s.highPerformanceDisk += growth
			}
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if len(sums) > maxBillingRecords {
		return nil, nil, q.tooManyRecords()
	}
	return sums, total, nil
}

func (q usageQuery) tooManyRecords() error {
	return httpanswer.Refuse(http.StatusBadRequest, "the answer would have more than %d records: choose a larger bucketSize or a shorter period, or set %s", maxBillingRecords, cmp.Or(q.filter, q.idMember))
}

// billingV1 shows the cost of a kind by group and bucket. It omits buckets without usage.
func billingV1(resource string, kind billing.Kind, read func(*query) usageQuery) handler {
	record := contract.Body{API: contract.V1, Resource: resource, Use: contract.Read}
	return fromContract(resource, queryHandler(read, func(c *call, q usageQuery) ([]json.RawMessage, error) {
		sums, _, err := c.sumUsage(q, kind)
		byBucket := func(a, b group) int { return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.id, b.id)) }
		return convertAll(slices.SortedFunc(maps.Keys(sums), byBucket), func(g group) json.RawMessage {
			labels := map[string]any{"time": billingTime(q.window.Bounds[g.bucket])}
			if g.id != "" {
				labels[q.idMember] = g.id
			}
			return sums[g].encode(record, "", labels)
		}), err
	}))
}

func readPodBillingV1(q *query) (out usageQuery) {
	out.idMember = cmp.Or(q.value("grouping", oneOf("podId", "gpuTypeId")), "gpuTypeId")
	out.groupID = groupings[out.idMember]
	pod, gpu := q.value("podId", anyText), q.value("gpuTypeId", anyText)
	out.keep = func(u billing.Usage) bool {
		return (pod == "" || u.ID == pod) && (gpu == "" || u.GPUType == gpu)
	}
	out.window = readPeriod(q)
	return out
}

func readEndpointBillingV1(q *query) (out usageQuery) {
	out.idMember, out.filter = cmp.Or(q.value("grouping", oneOf("endpointId", "podId", "gpuTypeId")), "endpointId"), "endpointId"
	out.groupID = groupings[out.idMember]
	endpoint, image, template := q.value("endpointId", anyText), q.value("imageName", anyText), q.value("templateId", anyText)
	gpus, dataCenters := q.listParameter("gpuTypeId"), q.listParameter("dataCenterId")
	out.keep = func(u billing.Usage) bool {
		return (endpoint == "" || u.Owner == endpoint) && (image == "" || u.Image == image) && (template == "" || u.Template == template) &&
			(len(gpus) == 0 || slices.Contains(gpus, u.GPUType)) &&
			(len(dataCenters) == 0 || slices.ContainsFunc(u.DataCenters, func(d string) bool { return slices.Contains(dataCenters, d) }))
	}
	out.window = readPeriod(q)
	return out
}

func readVolumeBillingV1(q *query) usageQuery {
	return usageQuery{window: readPeriod(q), groupID: oneGroup, keep: func(billing.Usage) bool { return true }}
}

// listParameter reads values as repeated parameters (document of version 1) or separated by commas.
func (q *query) listParameter(name string) []string {
	q.declare(openapi.Parameter{Name: name, In: "query", Schema: &openapi.Schema{Type: "array", Items: &openapi.Schema{Type: "string"}}})
	return strings.FieldsFunc(strings.Join(q.values[name], ","), func(r rune) bool { return r == ',' })
}

// billingV2 shows the cost of kinds by bucket and, if records have an id, by owner: an endpoint, a pod,
// a cluster or a volume. idMember is the member with the owner's id, countMember the one with the number of owners.
func billingV2(resource, idMember, countMember string, kinds ...billing.Kind) handler {
	read := func(q *query) (out usageQuery) {
		out.idMember, out.groupID = idMember, oneGroup
		if idMember != "" {
			out.owner, out.groupID = q.value(idMember, anyText), ownerOf
		}
		out.keep = func(u billing.Usage) bool { return out.owner == "" || u.Owner == out.owner }
		out.window = readPeriod(q)
		return out
	}
	body := contract.Body{API: contract.V2, Resource: resource, Use: contract.Read}
	return fromContract(resource, queryHandler(read, func(c *call, q usageQuery) (answer map[string]any, err error) {
		sums, total, err := c.sumUsage(q, kinds...)
		if err != nil {
			return nil, err
		}
		owners := map[string]bool{}
		if idMember == "" {
			owners[""] = true
		}
		for g := range sums {
			owners[g.id] = true
		}
		buckets := q.window.Len()
		if len(owners)*buckets > maxBillingRecords {
			return nil, q.tooManyRecords()
		}
		records := []json.RawMessage{}
		for i := range buckets {
			for _, owner := range slices.Sorted(maps.Keys(owners)) {
				labels := map[string]any{"startTime": billingTime(q.window.Bounds[i]), "endTime": billingTime(q.window.Bounds[i+1])}
				if idMember != "" {
					labels[idMember] = owner
				}
				records = append(records, cmp.Or(sums[group{i, owner}], new(sum)).encode(body, "records[].", labels))
			}
		}
		resolved := map[string]any{"startTime": billingTime(q.window.Start()), "endTime": billingTime(q.window.End()), "bucketSize": q.window.Size}
		metadata := map[string]any{"query": resolved, "recordCount": len(records), "totals": total.encode(body, "metadata.totals.", nil)}
		if idMember != "" {
			resolved[idMember], metadata[countMember] = nilIfEmpty(q.owner), len(owners)
		}
		return map[string]any{"records": records, "metadata": metadata}, nil
	}))
}

// readPeriod reads startTime, endTime, bucketSize and, in version 2, lastN. Call it after all other
// parameters are read, because their errors take precedence.
func readPeriod(q *query) (w billing.Window) {
	bucket := billing.BucketSize(cmp.Or(q.value("bucketSize", oneOf(billing.BucketSizes...)), string(billing.Day)))
	now := q.Clock.Wall()
	start, end := q.time("startTime", now.Add(-billing.DefaultPeriod)), q.time("endTime", now)
	last := int64(0)
	if q.version == 2 {
		last = q.integer("lastN", 0, positive)
		q.refuseIf(last > 0 && (q.has("startTime") || q.has("endTime")), "lastN excludes startTime and endTime: set one or the other")
	}
	if q.err() != nil {
		return w
	}
	var err error
	if last > 0 {
		w, err = billing.LastBuckets(bucket, last, now)
	} else {
		w, err = billing.BucketsBetween(bucket, start, end)
	}
	q.refuseIf(err != nil, "%s", err)
	return w
}

func (q *query) time(name string, defaultValue time.Time) time.Time {
	t := defaultValue
	q.value(name, form{"a time in RFC 3339, such as 2026-06-01T00:00:00Z", &openapi.Schema{Type: "string", Format: "date-time"}, func(text string) (valid bool) {
		var err error
		t, err = parseTime(text)
		return err == nil && t.Year() >= 1
	}})
	return t
}

func billingTime(t time.Time) string { return t.Format(time.RFC3339) }
