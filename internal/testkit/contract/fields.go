package contract

import "slices"

// Fields is the table of members, resource by resource.
var Fields = slices.Concat(
	templateV1, networkVolumeV1, registryAuthV1, endpointV1, errorV1,
	templateV2, networkVolumeV2, registryAuthV2, delegationV2, endpointV2, gpuTypeV2, cpuTypeV2, dataCenterV2, errorV2,
	jobSubmission, job, streamChunk, liveStream, health, purge, jobList, errorJobs,
)

// FieldsToCome names the resources of Operations whose members the table does
// not have yet.
var FieldsToCome = []string{"billing", "cluster", "logLine", "pod", "release", "sshKeys", "worker"}
