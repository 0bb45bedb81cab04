package contract

var billingV1 = rows(V1, "billing", "v1 document: BillingRecord",
	f("amount", "number", Read, unit("USD")),
	f("diskSpaceBilledGb", "integer", Read, unit("GB")),
	f("endpointId", "string", Read, note("where grouped by it")),
	f("gpuTypeId", "string", Read, known(GPUTypeIDs), note("where grouped by it")),
	f("podId", "string", Read, note("where grouped by it; of an endpoint, that of a worker")),
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
