package contract

import "slices"

// Choices is what this project does where its sources differ or are silent.
var Choices = slices.Concat(choicesOnAll, choicesOnV1, choicesOnV2, choicesOnJobs)

var choiceGroups = []struct {
	title   string
	choices []Choice
}{
	{"All APIs, or both management versions", choicesOnAll},
	{"Management API v1 alone", choicesOnV1},
	{"Management API v2 alone", choicesOnV2},
	{"Job API alone", choicesOnJobs},
}

var choicesOnAll = []Choice{
	{"Which source rules", "The sources differ in places.", "The service description rules, then the two documents, then field notes. Every difference that matters is in this list."},
	{"Authentication", "The description asks for `Authorization: Bearer`; some of its examples send the bare key.", "The jobrunner accepts both forms, the scheme in any case; clients always send Bearer."},
	{"One key for all", "The description says that authentication is the same for both versions and the job API, and not how keys are made.", "The same key opens all three APIs of a deployment."},
	{"401 against 403", "The description calls 401 \"wrong or lacking permission\" and 403 \"valid key without access\". The v1 document lists 401 for a few operations and 403 for none.", "401 for a missing or unknown key, before anything else is looked at; 403 for a valid key without access. Clients report either."},
	{"Wrong method", "The v2 document has an answer 405 that no operation names; the other sources have none.", "405 with `Allow`, and an error body of the API's form; the operation is not carried out. An unknown path is 404."},
	{"Unknown query parameters", "Field notes: live deployments ignore them.", "Ignored."},
	{"Size of a management body", "All sources are silent.", "At most 1 MiB; more is 413."},
	{"Request id", "All sources are silent.", "The jobrunner answers a fresh `X-Request-Id` each time; clients put it into their errors."},
	{"Two versions, one truth", "The documents describe each version by itself.", "Both versions read and write the same objects. A value beyond one version's bounds (a volume of 4096 GB, one of 5 GB) is still shown by it: bounds hold for what is sent."},
	{"Size of a volume", "v1: 0 to 4000 GB; v2: 10 to 4096 GB.", "Each version enforces its own bounds."},
	{"Equal size of a volume", "The description: a new size must exceed the current one. The v2 document allows an equal one.", "Both versions refuse a smaller and an equal size with 400. The provider refuses a smaller one in the plan and sends nothing for an equal one."},
	{"Unique names", "The description says it of templates, the v1 document also of registry auths.", "Template names and registry auth names are unique, over both versions; the second create is 400. Volume and endpoint names need not be."},
	{"Names of 191 characters", "The v1 document bounds endpoint names in v1; the v2 document does not.", "v1 refuses a longer name; v2 takes it and v1 then shows it."},
	{"Ports", "The description: `<port>/<http|tcp>`. The v2 document: port/protocol, no more.", "Both versions accept ports 1 to 65535 and the protocols http and tcp."},
	{"Mount path of a template", "The description: an absolute path. The v2 document says nothing of it.", "Both versions demand a path that begins with `/`."},
	{"Data centers of an endpoint", "The v2 document calls them preferred; field notes say that they are enforced.", "Enforced: workers run in these alone. A list that no worker can satisfy reads like missing stock, not like an error."},
	{"Open lists", "The v1 document writes GPU types, CPU flavours, data centers and CUDA versions as closed lists.", "Open lists everywhere: no client and no server refuses an id because it is not listed. The one check is that v2's `gpu.excludedTypes` are in one of the pools."},
	{"Endpoint time-out", "v1 states no default and no bounds, v2 a default of 300000 ms. Field notes: an endpoint whose time-out was never set shows 0, and its jobs run up to 600000 ms.", "Omitted is 0, never set. What is set is 5000 to 604800000 ms, as for `policy.executionTimeout`, whose default it becomes; 0 clears it."},
	{"Idle time-out", "Omitted it is 5 s in v1 and 10 s in v2.", "The jobrunner follows each document. The provider's default is 10 s in both, so that a configuration means the same."},
	{"Idle time-out with REQUEST_COUNT", "The v2 document: not applicable to a QUEUE endpoint that scales on REQUEST_COUNT. v1 says nothing.", "v2 refuses it there with 422 and omits it from answers; so does the provider's plan on v2. v1 takes it."},
	{"vCPU count", "v2: at least 2 and a power of two. v1: a default of 2, no bounds.", "At least 2 and a power of two in both versions."},
	{"Smallest disk of a container", "v2: 1 GB. v1 states no bound.", "1 GB in both versions."},
	{"CUDA exclusivity", "v2: `minCudaVersion` and a non-empty `allowedCudaVersions` exclude each other. v1 says nothing.", "Refused with 400 in both versions, and in the provider's plan."},
	{"Fewest workers above most", "No source says what happens.", "Refused with 400, and in the provider's plan."},
	{"Template and endpoint", "v1 keeps the link; v2 resolves the template once and returns no template id.", "An endpoint whose template was set through v1 is linked: v1 returns `templateId`, the template's changes reach it, and the template can't be deleted. Set through v2 there is no link. Deleting an endpoint never deletes a user's template, although the v2 document speaks of its bound one."},
	{"Deleting a registry auth", "v2: refused only while a pod uses it; templates that name it lose the reference. v1 says nothing.", "The same in both versions."},
	{"Deleting what is gone", "v1 answers 400 (the description says so of registry auths, the document of all); v2 answers 404.", "So does the jobrunner. Clients take 404 for success, and settle v1's 400 by reading that id."},
	{"Absence", "Several failures can look like a missing object.", "404 alone means absent. Any other failure of a read keeps what the client knows."},
	{"Management rate limits", "The description is silent; the v2 document names 60 a minute, 3000 an hour and 50000 a day.", "v2 answers to a known key carry `RateLimit` and `RateLimit-Policy`, a 403 too, and one without a key does not, of any operation; a request that is refused with 403 counts. A jobrunner without `--management-limits=on` counts nothing and always shows whole quotas; clients obey `Retry-After` on 429 and 503 in both versions, and keep to the windows once one has refused them."},
	{"Deleting a network volume", "All sources are silent on one that endpoints name.", "Deleted; the endpoints that name it lose the reference, so that a replacement is no dead end."},
	{"Compute is fixed", "The v2 document: the compute family can't be changed.", "An endpoint keeps GPU, CPU or any compute; v1 may add GPUs to one that takes any. The provider replaces."},
	{"CUDA versions of a template", "The v2 document: they seed an endpoint's at create.", "At create through v2 alone. The provider sends them when it applies a template again."},
	{"Content type of a request", "The documents name application/json alone.", "A body is read as JSON whatever its `Content-Type` says: `curl -d` names another."},
	{"Empty query parameters", "The documents allow none.", "One without a value is an absent one. Any other that an operation knows is checked: 422 in v2, 400 in v1 and for logs."},
	{"Operations that are not served", "The documents have operations on pods, clusters, billing and more.", "The jobrunner answers 404 for one that it lacks, and says that the contract has it."},
	{"Empty values", "The documents bound few lengths.", "Empty names and images are refused, as are names of environment variables that are empty or hold `=`."},
	{"End of v1", "The description retires v1 on 15 November 2026.", "The jobrunner still serves it; the provider warns when it is chosen."},
}

var choicesOnV1 = []Choice{
	{"Success of a create", "The description shows none; the document says 200 (pods: 201); field notes saw both.", "The jobrunner answers the document's; clients accept either."},
	{"Unknown members", "All sources are silent.", "Refused with 400, as v2 refuses them with 422: a misspelt member is never lost in silence."},
	{"Update of an unknown id", "The document lists 400 alone for updates.", "404, as for reading it, so that absence can be told."},
	{"Update", "The description has POST …/update, the document also PATCH, and clients use both.", "Both, with the same body and effect: omitted members stay as they are, and a default stated in an update body is not applied."},
	{"Clearing a value", "All sources are silent.", "An empty string or null clears `containerRegistryAuthId`, `networkVolumeId` and `minCudaVersion`; an empty list or map clears the others."},
	{"Default ports", "The description has none. The document writes `8888/http,22/tcp`, one string for a list. Field notes saw servers fill it in.", "Omitted, a template gets `8888/http` and `22/tcp`; an explicit empty list stays empty. The provider always sends the list."},
	{"Default volume", "The description: 20 GB at `/workspace`.", "Filled in when omitted; an explicit 0 means no local volume and is v2's absent `mounts.persistent`. The provider always sends the size."},
	{"Official template", "The document calls the flag `isRunpod`, the description `isPlatform`.", "Both are answered, and either is read."},
	{"Error body", "The description: `message`; the v1 document shows no body. Some live deployments answer `error` and `status`.", "The jobrunner answers `message`; clients read both."},
	{"Order of GPU types", "The description: in order of priority. Field notes: a server may reorder the list.", "The jobrunner keeps the order; the provider shows no change when only the order in an answer differs."},
	{"Bound templates", "Lists and reads leave out templates bound to an endpoint, unless `includeEndpointBoundTemplates=true`.", "So does the jobrunner; clients always send it."},
	{"Workers omitted", "The document states no default.", "0 to 3, as in v2."},
	{"Data centers omitted", "The document's default is the list of all that it names.", "All of them and none at all mean the same: any. Clients read the full list as none."},
	{"Name of an endpoint", "The document does not require one.", "Omitted, the endpoint has its template's name. The provider requires one."},
	{"CPU flavours omitted", "The document has no default for a CPU endpoint.", "All known flavours will do."},
	{"What is never returned", "The answer has no flashboot, CPU flavours, vCPU count or endpoint type.", "Clients keep the value that they know."},
}

var choicesOnV2 = []Choice{
	{"Refusal of a body", "The description: title, status, detail, errors. Field notes: 422 for the schema, 400 for a rule.", "An unknown, missing, ill-typed or out-of-bounds member is 422 with a line in `errors` for each fault; a rule between objects is 400 with prose in `detail`."},
	{"Smallest endpoint", "The description: from `templateId`, or from name, image and gpu. The document also requires `type`, `scaling`, and one of gpu and cpu.", "The jobrunner takes `type` omitted as QUEUE and `scaling` omitted as QUEUE_DELAY 4; neither gpu nor cpu means any compute, both is 400. `name` is required always, as in the document. The provider always sends type and scaling."},
	{"Scaling of a LOAD_BALANCER endpoint", "The document demands REQUEST_COUNT for it.", "Anything else, QUEUE_DELAY 4 by omission included, is 422."},
	{"Ports", "The document states no default, v1 has one.", "No default."},
	{"Disk of a template", "The document states no default; the description has 50 GB for v1.", "50 GB."},
	{"Disk of an endpoint", "The document states no default.", "The template's, or 50 GB without one."},
	{"What unlinks an endpoint", "Field notes: a template set through v2 is a copy.", "A PATCH with templateId or any container setting makes a linked endpoint one with a container of its own; other members keep the link."},
	{"Prices", "The document has them in the catalog.", "0 on the jobrunner: nothing is billed."},
	{"Tier of a volume", "The document: omitted, the data center's own tier.", "The jobrunner's data centers have STANDARD as their own tier."},
	{"Template of an update", "The document bounds the length of `templateId` on create alone.", "An empty id is refused in both; a template that is not serverless is 422, an unknown one 404."},
	{"GPU selection", "The document: a PATCH with pools and without excludedTypes clears the exclusions.", "So does the jobrunner; clients always send both."},
	{"GPU types of no pool", "The document has no words for them: `gpu.pools` has at least one pool. v1 takes any type.", "An endpoint that v1 gave such types alone has no `gpu` in v2, and keeps them until a PATCH sends pools. With types in pools beside them, v2 shows these pools."},
	{"An ambiguous create", "Field notes: a POST was answered 500 although the object was made and billed.", "Clients repeat a create only where the server did nothing for sure (429, or nothing was sent), where the name would refuse a second one, or where a 503 with Retry-After asks for it and no new object is to be seen. Otherwise a lost answer is settled by the list."},
	{"Resource of a delegation", "The document: an ECR resource ARN; its answer shows account, region, repository and a tag, which an ARN does not have.", "`arn:aws:ecr:<region>:<12 digits>:repository/<name>`, of any partition of AWS; anything else is 422. A tag may follow the name after a colon; omitted it is `latest`."},
	{"Answer to a delegation", "The document: `dockerRegistryUri` need not stand, `delegatorUserId` is a user.", "`dockerRegistryUri` stands for the partitions aws, aws-cn and aws-us-gov. `delegatorUserId` is the owner of the API key. An empty name is no name, which is shown as null."},
	{"What a delegation does", "All sources are silent, also on two of one repository.", "The jobrunner keeps, lists and revokes delegations, any number of one repository and of one name; it has no account of AWS and pulls nothing with them. A restricted key is refused, as everywhere in the management API."},
	{"Path parameters", "The description calls all of them `{id}`, and has `{workerId}` beside it.", "The first parameter of a path is `{id}`."},
}

var choicesOnJobs = []Choice{
	{"Stream", "The description: an array of chunks. All three public SDKs read an object with `status` and `stream`.", "Two doors: the array under `{queue_url}/v2`, the object under `{queue_url}/live/v2`. Our client reads both."},
	{"What a stream read returns", "The description is silent.", "Each read returns the chunks not read yet. With none the answer is held, about 10 s or `wait` ms; the last chunks come with the terminal status."},
	{"Output of a chunk", "The description: an object defined by the handler. Workers also yield text and numbers.", "Any JSON value."},
	{"Methods", "The Go SDK sends POST where the description has GET.", "POST to /status, /status-sync and /stream only under /live; 405 under the described door."},
	{"Text of a submission", "All sources are silent on bodies that are not UTF-8, which JSON has to be.", "400: most workers could not read the input."},
	{"MB", "No source says whether 10^6 or 2^20.", "2^20 bytes: /run takes 10,485,760 bytes and /runsync 20,971,520; one more is 413, without reading on and without a job. So is a stream chunk of 1 MB measured."},
	{"Wait elapsed", "The description is silent; field notes: the SDKs expect the unfinished job.", "200 with id and status IN_QUEUE or IN_PROGRESS; the job goes on."},
	{"Value out of bounds", "The description gives bounds for wait, executionTimeout and ttl, and no consequence.", "400, never a silent clamp; so is a value that is not an integer. The `ttl` of /status has the bounds of `policy.ttl`."},
	{"Retention with wait", "The description: up to 5 minutes with a wait setting. Other documentation says that wait does not control it.", "1 minute after completion without `wait`; with it as long as `wait`, at least 1 and at most 5 minutes."},
	{"Cancel of a finished job", "All sources are silent.", "200 with the unchanged terminal status."},
	{"Retry of another state", "The description allows FAILED and TIMED_OUT, and names no code.", "400; state and output stay."},
	{"Expired results", "The description: can no longer be retried; 404 after the ttl.", "404 in both cases, for every operation on the job."},
	{"TIMED_OUT", "The description: the execution time-out passed while running. Other documentation adds jobs that expired in the queue.", "Only the former; a job whose ttl passes is gone."},
	{"States", "The description has six; other documentation shows RUNNING.", "The six."},
	{"A lost worker", "The description speaks of automatic retries and gives no number.", "The job is dispatched once more (`retries` 1), then FAILED."},
	{"GET /requests", "The description says that it exists.", "`{\"requests\": [jobs]}`, newest first, at most 100."},
	{"Webhook", "The description names neither method, body nor states.", "POST of the job with its `input` and `webhook`, on COMPLETED and FAILED; never a key or s3Config."},
	{"Error body", "The description shows none.", "`{\"error\": \"text\"}`."},
	{"Success code", "Two SDKs refuse anything but 200.", "Exactly 200."},
	{"Health of workers", "The description has idle and running; field notes have four more.", "All six."},
	{"Requests_per_worker", "The description leaves its value open.", "Per running worker and 10 s: 200 for /run, 400 for /runsync, /status, /stream and /openai, 20 for /cancel. Also 429 while the queue holds more than 50 jobs and more than 500 per allowed worker."},
}
