package mgmt

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// billingRangeV2 is a half-open range of time.
type billingRangeV2 struct {
	StartTime string `json:"startTime"`
	EndTime   string `json:"endTime"`
}

// billingQueryV2 repeats the resolved query.
type billingQueryV2 struct {
	billingRangeV2
	BucketSize string `json:"bucketSize"`
}

// billingMetadata describes the records of an answer: the query Q and the totals A.
type billingMetadata[Q, A any] struct {
	Query       Q     `json:"query"`
	RecordCount int64 `json:"recordCount"`
	Totals      A     `json:"totals"`
}

type billingAnswer[R, M any] struct {
	Records  []R `json:"records"`
	Metadata M   `json:"metadata"`
}

func newBillingQuery(w billing.Window) billingQueryV2 {
	return billingQueryV2{billingRangeV2{billingTime(w.Start()), billingTime(w.End())}, string(w.Bucket)}
}

type billingAmountsV2 struct {
	TotalAmount                  catalog.USD `json:"totalAmount"`
	PodGPUAmount                 catalog.USD `json:"podGpuAmount"`
	PodCPUAmount                 catalog.USD `json:"podCpuAmount"`
	PodDiskAmount                catalog.USD `json:"podDiskAmount"`
	ServerlessGPUAmount          catalog.USD `json:"serverlessGpuAmount"`
	ServerlessCPUAmount          catalog.USD `json:"serverlessCpuAmount"`
	ServerlessDiskAmount         catalog.USD `json:"serverlessDiskAmount"`
	ServerlessFeeAmount          catalog.USD `json:"serverlessFeeAmount"` // deprecated: always 0
	StorageStandardAmount        catalog.USD `json:"storageStandardAmount"`
	StorageHighPerformanceAmount catalog.USD `json:"storageHighPerformanceAmount"`
	EndpointAmount               catalog.USD `json:"endpointAmount"`
	ClusterGPUAmount             catalog.USD `json:"clusterGpuAmount"`
	ClusterDiskAmount            catalog.USD `json:"clusterDiskAmount"`
	ClusterNetworkingAmount      catalog.USD `json:"clusterNetworkingAmount"`
}

type billingRecordV2 struct {
	billingRangeV2
	billingAmountsV2
}

type billingMetadataV2 billingMetadata[billingQueryV2, billingAmountsV2]

type billingV2 billingAnswer[billingRecordV2, billingMetadataV2]

type costsByKind map[billing.Kind]billing.Cost

func (k costsByKind) add(kind billing.Kind, c billing.Cost) { k[kind] = k[kind].Plus(c) }

func newBillingAmounts(k costsByKind) billingAmountsV2 {
	pod, worker, volume, cluster := k[billing.Pod], k[billing.Worker], k[billing.Volume], k[billing.Cluster]
	return billingAmountsV2{
		TotalAmount:  pod.Total() + worker.Total() + volume.Total() + cluster.Total(),
		PodGPUAmount: pod.GPU, PodCPUAmount: pod.CPU, PodDiskAmount: pod.Disk,
		ServerlessGPUAmount: worker.GPU, ServerlessCPUAmount: worker.CPU, ServerlessDiskAmount: worker.Disk,
		StorageStandardAmount: volume.Standard, StorageHighPerformanceAmount: volume.HighPerformance,
		ClusterGPUAmount: cluster.GPU, ClusterDiskAmount: cluster.Disk, ClusterNetworkingAmount: cluster.Networking,
	}
}

// billing shows the total cost, with a record for each bucket.
func (c *call) billing(w billing.Window) (out billingV2, err error) {
	buckets, total := make([]costsByKind, w.Len()), costsByKind{}
	for i := range buckets {
		buckets[i] = costsByKind{}
	}
	for _, kind := range []billing.Kind{billing.Pod, billing.Worker, billing.Volume, billing.Cluster} {
		err := c.Meter.Usage(c.ctx(), kind, w, func(u billing.Usage) {
			buckets[u.Bucket].add(kind, u.Cost)
			total.add(kind, u.Cost)
		})
		if err != nil {
			return out, err
		}
	}
	out = billingV2{make([]billingRecordV2, w.Len()), billingMetadataV2{newBillingQuery(w), int64(w.Len()), newBillingAmounts(total)}}
	for i, costs := range buckets {
		out.Records[i] = billingRecordV2{bucketRange(w, i), newBillingAmounts(costs)}
	}
	return out, nil
}

type podBillingAmountsV2 struct {
	TotalAmount catalog.USD `json:"totalAmount"`
	GPUAmount   catalog.USD `json:"gpuAmount"`
	CPUAmount   catalog.USD `json:"cpuAmount"`
	DiskAmount  catalog.USD `json:"diskAmount"`
}

type podBillingRecordV2 struct {
	billingRangeV2
	PodID string `json:"podId"`
	podBillingAmountsV2
}

type podBillingQueryV2 struct {
	billingQueryV2
	PodID *string `json:"podId"`
}

type podBillingMetadataV2 struct {
	billingMetadata[podBillingQueryV2, podBillingAmountsV2]
	UniquePodCount int64 `json:"uniquePodCount"`
}

type podBillingV2 billingAnswer[podBillingRecordV2, podBillingMetadataV2]

func newPodBilling(b billedByOwner) podBillingV2 {
	records, metadata := answerByOwner(b, podBillingQueryV2{newBillingQuery(b.window), b.filter},
		func(c billing.Cost) podBillingAmountsV2 { return podBillingAmountsV2{c.Total(), c.GPU, c.CPU, c.Disk} },
		func(r billingRangeV2, owner string, a podBillingAmountsV2) podBillingRecordV2 {
			return podBillingRecordV2{r, owner, a}
		})
	return podBillingV2{records, podBillingMetadataV2{metadata, int64(len(b.owners))}}
}

type serverlessBillingAmountsV2 struct {
	TotalAmount catalog.USD `json:"totalAmount"`
	GPUAmount   catalog.USD `json:"gpuAmount"`
	CPUAmount   catalog.USD `json:"cpuAmount"`
	DiskAmount  catalog.USD `json:"diskAmount"`
	FeeAmount   catalog.USD `json:"feeAmount"` // deprecated: always 0
}

type serverlessBillingRecordV2 struct {
	billingRangeV2
	ServerlessID string `json:"serverlessId"`
	serverlessBillingAmountsV2
}

type serverlessBillingQueryV2 struct {
	billingQueryV2
	ServerlessID *string `json:"serverlessId"`
}

type serverlessBillingMetadataV2 struct {
	billingMetadata[serverlessBillingQueryV2, serverlessBillingAmountsV2]
	UniqueServerlessCount int64 `json:"uniqueServerlessCount"`
}

type serverlessBillingV2 billingAnswer[serverlessBillingRecordV2, serverlessBillingMetadataV2]

func newServerlessBilling(b billedByOwner) serverlessBillingV2 {
	records, metadata := answerByOwner(b, serverlessBillingQueryV2{newBillingQuery(b.window), b.filter},
		func(c billing.Cost) serverlessBillingAmountsV2 {
			return serverlessBillingAmountsV2{c.Total(), c.GPU, c.CPU, c.Disk, 0}
		},
		func(r billingRangeV2, owner string, a serverlessBillingAmountsV2) serverlessBillingRecordV2 {
			return serverlessBillingRecordV2{r, owner, a}
		})
	return serverlessBillingV2{records, serverlessBillingMetadataV2{metadata, int64(len(b.owners))}}
}

type volumeBillingAmountsV2 struct {
	TotalAmount           catalog.USD `json:"totalAmount"`
	StandardAmount        catalog.USD `json:"standardAmount"`
	HighPerformanceAmount catalog.USD `json:"highPerformanceAmount"`
}

type volumeBillingRecordV2 struct {
	billingRangeV2
	NetworkVolumeID string `json:"networkVolumeId"`
	volumeBillingAmountsV2
}

type volumeBillingQueryV2 struct {
	billingQueryV2
	NetworkVolumeID *string `json:"networkVolumeId"`
}

type volumeBillingMetadataV2 struct {
	billingMetadata[volumeBillingQueryV2, volumeBillingAmountsV2]
	UniqueNetworkVolumeCount int64 `json:"uniqueNetworkVolumeCount"`
}

type volumeBillingV2 billingAnswer[volumeBillingRecordV2, volumeBillingMetadataV2]

func newVolumeBilling(b billedByOwner) volumeBillingV2 {
	records, metadata := answerByOwner(b, volumeBillingQueryV2{newBillingQuery(b.window), b.filter},
		func(c billing.Cost) volumeBillingAmountsV2 {
			return volumeBillingAmountsV2{c.Total(), c.Standard, c.HighPerformance}
		},
		func(r billingRangeV2, owner string, a volumeBillingAmountsV2) volumeBillingRecordV2 {
			return volumeBillingRecordV2{r, owner, a}
		})
	return volumeBillingV2{records, volumeBillingMetadataV2{metadata, int64(len(b.owners))}}
}

type clusterBillingAmountsV2 struct {
	TotalAmount      catalog.USD `json:"totalAmount"`
	GPUAmount        catalog.USD `json:"gpuAmount"`
	DiskAmount       catalog.USD `json:"diskAmount"`
	NetworkingAmount catalog.USD `json:"networkingAmount"`
}

type clusterBillingRecordV2 struct {
	billingRangeV2
	ClusterID string `json:"clusterId"`
	clusterBillingAmountsV2
}

type clusterBillingQueryV2 struct {
	billingQueryV2
	ClusterID *string `json:"clusterId"`
}

type clusterBillingMetadataV2 struct {
	billingMetadata[clusterBillingQueryV2, clusterBillingAmountsV2]
	UniqueClusterCount int64 `json:"uniqueClusterCount"`
}

type clusterBillingV2 billingAnswer[clusterBillingRecordV2, clusterBillingMetadataV2]

func newClusterBilling(b billedByOwner) clusterBillingV2 {
	records, metadata := answerByOwner(b, clusterBillingQueryV2{newBillingQuery(b.window), b.filter},
		func(c billing.Cost) clusterBillingAmountsV2 {
			return clusterBillingAmountsV2{c.Total(), c.GPU, c.Disk, c.Networking}
		},
		func(r billingRangeV2, owner string, a clusterBillingAmountsV2) clusterBillingRecordV2 {
			return clusterBillingRecordV2{r, owner, a}
		})
	return clusterBillingV2{records, clusterBillingMetadataV2{metadata, int64(len(b.owners))}}
}

type publicBillingAmountsV2 struct {
	TotalAmount catalog.USD `json:"totalAmount"`
}

type publicBillingRecordV2 struct {
	billingRangeV2
	publicBillingAmountsV2
}

type publicBillingMetadataV2 billingMetadata[billingQueryV2, publicBillingAmountsV2]

type publicBillingV2 billingAnswer[publicBillingRecordV2, publicBillingMetadataV2]

// publicBilling shows the cost of public endpoints. The jobrunner has none, so it's always empty.
func (c *call) publicBilling(w billing.Window) (publicBillingV2, error) {
	out := publicBillingV2{make([]publicBillingRecordV2, w.Len()), publicBillingMetadataV2{Query: newBillingQuery(w), RecordCount: int64(w.Len())}}
	for i := range out.Records {
		out.Records[i].billingRangeV2 = bucketRange(w, i)
	}
	return out, nil
}

// maxBillingRecords limits the records of an answer.
const maxBillingRecords = 100_000

// readPeriod reads startTime, endTime, bucketSize and, in version 2, lastN. It must be called last,
// because errors about invalid values take precedence.
func readPeriod(q *query) (w billing.Window) {
	bucket := billing.Bucket(cmp.Or(q.value("bucketSize", oneOf(billing.Buckets...)), string(billing.Day)))
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
		w, err = billing.Last(bucket, last, now)
	} else {
		w, err = billing.Between(bucket, start, end)
	}
	q.refuseIf(err != nil, "%s", err)
	return w
}

func (q *query) time(name string, defaultValue time.Time) time.Time {
	t := defaultValue
	q.value(name, form{"a time in RFC 3339, such as 2026-06-01T00:00:00Z", &openapi.Schema{Type: "string", Format: "date-time"}, func(text string) (valid bool) {
		var err error
		t, err = time.Parse(time.RFC3339, text)
		return err == nil && t.Year() >= 1
	}})
	return t
}

// billedByOwner is the cost of each owner (an endpoint, a pod, a cluster or a volume) in each bucket.
type billedByOwner struct {
	window billing.Window
	filter *string // the only owner to show; nil for all
	owners []string
	costs  map[string][]billing.Cost // by owner, one per bucket
}

// ownerHandler shows the cost of a kind by owner. The parameter selects one owner.
func ownerHandler[W any](kind billing.Kind, parameter string, show func(billedByOwner) W) handler {
	read := func(q *query) (b billedByOwner) {
		b.filter = nilIfEmpty(q.value(parameter, anyText))
		b.window = readPeriod(q)
		return b
	}
	return queryHandler(read, func(c *call, b billedByOwner) (answer W, err error) {
		if err := c.sumByOwner(kind, &b); err != nil {
			return answer, err
		}
		if n := len(b.owners) * b.window.Len(); n > maxBillingRecords {
			return answer, httpanswer.Refuse(http.StatusBadRequest, "the answer would have %d records: expected at most %d; choose a larger bucketSize or a shorter period, or set %s", n, maxBillingRecords, parameter)
		}
		return show(b), nil
	})
}

func (c *call) sumByOwner(kind billing.Kind, b *billedByOwner) error {
	b.costs = map[string][]billing.Cost{}
	err := c.Meter.Usage(c.ctx(), kind, b.window, func(u billing.Usage) {
		if b.filter != nil && *b.filter != u.Owner {
			return
		}
		costs := b.costs[u.Owner]
		if costs == nil {
			costs = make([]billing.Cost, b.window.Len())
			b.costs[u.Owner] = costs
			b.owners = append(b.owners, u.Owner)
		}
		costs[u.Bucket] = costs[u.Bucket].Plus(u.Cost)
	})
	slices.Sort(b.owners)
	return err
}

func (b billedByOwner) total() (sum billing.Cost) {
	for _, costs := range b.costs {
		for _, c := range costs {
			sum = sum.Plus(c)
		}
	}
	return sum
}

// answerByOwner returns the records of each bucket and owner, by time, and their metadata.
func answerByOwner[R, Q, A any](b billedByOwner, query Q, amounts func(billing.Cost) A, record func(billingRangeV2, string, A) R) ([]R, billingMetadata[Q, A]) {
	out := make([]R, 0, len(b.owners)*b.window.Len())
	for i := range b.window.Len() {
		for _, owner := range b.owners {
			out = append(out, record(bucketRange(b.window, i), owner, amounts(b.costs[owner][i])))
		}
	}
	return out, billingMetadata[Q, A]{query, int64(len(out)), amounts(b.total())}
}

func bucketRange(w billing.Window, i int) billingRangeV2 {
	return billingRangeV2{billingTime(w.Bounds[i]), billingTime(w.Bounds[i+1])}
}

func billingTime(t time.Time) string { return t.Format(time.RFC3339) }
