package contract

import (
	"slices"
	"strings"
)

var billingV1 = rows(V1, "billing", "v1 document: BillingRecord",
	f("amount", "number", Read, unit("USD")),
	f("diskSpaceBilledGb", "integer", Read, unit("GB")),
	f("endpointId", "string", Read, note("if grouped by it")),
	f("gpuTypeId", "string", Read, openEnum(GPUTypeIDs), note("if grouped by it")),
	f("podId", "string", Read, note("if grouped by it; in endpoint billing, the worker's id")),
	f("time", "string", Read, note("RFC 3339, the start of the bucket")),
	f("timeBilledMs", "integer", Read, unit("ms")),
)

var networkVolumeBillingV1 = rows(V1, "networkVolumeBilling", "v1 document: NetworkVolumeBillingRecord",
	f("amount", "number", Read, unit("USD")),
	f("diskSpaceBilledGb", "integer", Read, unit("GB")),
	f("highPerformanceStorageAmount", "number", Read, unit("USD")),
	f("highPerformanceStorageDiskSpaceBilledGb", "integer", Read, unit("GB")),
	f("time", "string", Read, note("RFC 3339, the start of the bucket")),
)

var bucketSizes = []string{"hour", "day", "week", "month", "year"}

// billingFields returns the fields of a billing response: a record per bucket and, if the kind has
// ids, per resource; the query; and the total. uniqueCount is the metadata's member that counts the resources.
func billingFields(resource, record, id, uniqueCount string, amounts ...string) []Field {
	source := "v2 document: " + record
	fields := []Field{
		f("records", "[]object", Read, required(Read), from("v2 document: List"+record+"Response"), note("ordered by time")),
		f("records[].startTime", "string", Read, required(Read), note("RFC 3339, inclusive")),
		f("records[].endTime", "string", Read, required(Read), note("RFC 3339, exclusive")),
	}
	metadata := []Field{
		f("metadata", "object", Read, required(Read)),
		f("metadata.query", "object", Read, required(Read), note("the resolved window")),
		f("metadata.query.startTime", "string", Read, required(Read)),
		f("metadata.query.endTime", "string", Read, required(Read)),
		f("metadata.query.bucketSize", "string", Read, required(Read), oneOf(bucketSizes...)),
		f("metadata.recordCount", "integer", Read, required(Read), note("number of buckets times number of resources")),
		f("metadata.totals", "object", Read, required(Read), note("sums over all records")),
	}
	if id != "" {
		fields = append(fields, f("records[]."+id, "string", Read, required(Read)))
		metadata = append(metadata, f("metadata.query."+id, "string", Read, nullable, note("the value of this filter, or null")), f("metadata."+uniqueCount, "integer", Read, required(Read)))
	}
	for _, amount := range amounts {
		facts := []fact{required(Read), unit("USD")}
		if strings.HasSuffix(strings.ToLower(amount), "feeamount") {
			facts = append(facts, note("deprecated: always 0 (changes of November 2026)"))
		}
		fields = append(fields, f("records[]."+amount, "number", Read, facts...))
		metadata = append(metadata, f("metadata.totals."+amount, "number", Read, facts...))
	}
	for i := range metadata {
		metadata[i].Source = strings.Replace(source, "Record", "Metadata", 1)
	}
	return rows(V2, resource, source, slices.Concat(fields, metadata)...)
}

var (
	billingV2 = billingFields("billing", "BillingRecord", "", "", "totalAmount", "podGpuAmount", "podCpuAmount", "podDiskAmount",
		"serverlessGpuAmount", "serverlessCpuAmount", "serverlessDiskAmount", "serverlessFeeAmount", "storageStandardAmount", "storageHighPerformanceAmount",
		"endpointAmount", "clusterGpuAmount", "clusterDiskAmount", "clusterNetworkingAmount")
	podBillingV2           = billingFields("podBilling", "PodBillingRecord", "podId", "uniquePodCount", "totalAmount", "gpuAmount", "cpuAmount", "diskAmount")
	serverlessBillingV2    = billingFields("serverlessBilling", "ServerlessBillingRecord", "serverlessId", "uniqueServerlessCount", "totalAmount", "gpuAmount", "cpuAmount", "diskAmount", "feeAmount")
	endpointBillingV2      = billingFields("endpointBilling", "EndpointBillingRecord", "", "", "totalAmount")
	networkVolumeBillingV2 = billingFields("networkVolumeBilling", "NetworkVolumeBillingRecord", "networkVolumeId", "uniqueNetworkVolumeCount", "totalAmount", "standardAmount", "highPerformanceAmount")
	clusterBillingV2       = billingFields("clusterBilling", "ClusterBillingRecord", "clusterId", "uniqueClusterCount", "totalAmount", "gpuAmount", "diskAmount", "networkingAmount")
)
