package contract

import "slices"

// Fields is the table of members, resource by resource.
var Fields = slices.Concat(
	templateV1, networkVolumeV1, registryAuthV1, endpointV1, podV1, billingV1, networkVolumeBillingV1, errorV1,
	templateV2, networkVolumeV2, registryAuthV2, delegationV2, endpointV2, podV2, podActionV2, clusterV2, sshKeysV2, secretV2, globalVolumeV2, buildV2, gpuTypeV2, cpuTypeV2, dataCenterV2,
	billingV2, podBillingV2, serverlessBillingV2, endpointBillingV2, networkVolumeBillingV2, clusterBillingV2, errorV2,
	jobSubmission, job, streamChunk, liveStream, health, purge, jobList, batch, batchList, batchResults, errorJobs,
)

// ResourcesWithoutFields are the resources of Operations whose members the table lacks.
var ResourcesWithoutFields = []string{"logLine", "release", "worker"}
