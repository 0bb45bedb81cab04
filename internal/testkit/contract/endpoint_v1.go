package contract

var endpointV1 = rows(V1, "endpoint", "v1 document: EndpointCreateInput",
	f("id", "string", Read, must(Read), from("v1 document: Endpoint")),
	f("name", "string", every, atMost(191), note("need not be unique")),
	f("templateId", "string", every, must(Create), note("a serverless template; the link is kept; absent where v2 set the template")),
	f("computeType", "string", Create|Read, oneOf("GPU", "CPU"), def(`"GPU"`), note("members of the other kind are ignored")),
	f("gpuTypeIds", "[]string", every, known(GPUTypeIDs), note("in order of priority; a server may reorder")),
	f("gpuCount", "integer", every, def(`1`), atLeast(1)),
	f("allowedCudaVersions", "[]string", every, known(CUDAVersions)),
	f("minCudaVersion", "string", every, known(CUDAVersions), note("an empty string clears it")),
	f("cpuFlavorIds", "[]string", sent, known(CPUFlavorIDs), note("in order of priority; never returned")),
	f("vcpuCount", "integer", sent, def(`2`), atLeast(2), note("a power of two, as v2 demands; never returned")),
	f("instanceIds", "[]string", Read, from("v1 document: Endpoint"), note("CPU configurations, such as cpu3c-8-16")),
	f("dataCenterIds", "[]string", every, known(DataCenterIDs), def(jsonList(DataCenterIDs)), note("all that are listed means any")),
	f("networkVolumeId", "string", every, note("the first of networkVolumeIds; an empty string clears it")),
	f("networkVolumeIds", "[]string", every),
	f("workersMin", "integer", every, def(`0`), atLeast(0), note("the default is v2's; v1 states none")),
	f("workersMax", "integer", every, def(`3`), atLeast(0), note("the default is v2's; v1 states none")),
	f("idleTimeout", "integer", every, def(`5`), between(1, 3600), unit("s")),
	f("scalerType", "string", every, oneOf("QUEUE_DELAY", "REQUEST_COUNT"), def(`"QUEUE_DELAY"`)),
	f("scalerValue", "integer", every, def(`4`), atLeast(1), note("seconds in the queue, or requests per worker")),
	f("executionTimeoutMs", "integer", every, def(`0`), between(5000, 604800000), orZero, unit("ms"), note(timeoutBounds)),
	f("flashboot", "boolean", sent, def(`false`), note("never returned; the default is v2's")),
	f("env", "{}string", Read, from("v1 document: Endpoint"), note("read only: the template's")),
	f("template", "object", Read, from("v1 document: Endpoint"), note("a template, with includeTemplate=true")),
	f("workers", "[]object", Read, from("v1 document: Endpoint"), note("pods, with includeWorkers=true")),
	f("createdAt", "string", Read, from("v1 document: Endpoint"), note("RFC 3339, UTC")),
	f("userId", "string", Read, from("v1 document: Endpoint")),
	f("version", "integer", Read, from("v1 document: Endpoint"), note("rises when the template or its environment changes")),
)

// timeoutBounds: an endpoint's time-out is the default of its jobs'
// policy.executionTimeout, and takes the bounds of that.
const timeoutBounds = "never set is 0; the bounds are those of policy.executionTimeout, whose default it is"
