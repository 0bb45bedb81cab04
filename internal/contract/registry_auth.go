package contract

var registryAuthV1 = rows(V1, "registryAuth", "v1 document: ContainerRegistryAuthCreateInput",
	f("id", "string", Read, required(Read), from("service description: Container registry auth")),
	f("name", "string", Create|Read, required(Create|Read), atLeast(1), note("unique among registry auths; the API has no update")),
	f("username", "string", Create, required(Create), note("never returned")),
	f("password", "string", Create, required(Create), secret, note("never returned")),
)

var registryAuthV2 = rows(V2, "registryAuth", "v2 document: CreateRegistryRequest",
	f("id", "string", Read, required(Read), from("v2 document: Registry")),
	f("name", "string", Create|Read, required(Create|Read), between(1, 191), note("unique among registry auths; the API has no update; maximum lengths from the changes of November 2026")),
	f("username", "string", Create, required(Create), between(1, 191), note("never returned")),
	f("password", "string", Create, required(Create), between(1, 16384), secret, note("never returned")),
)

var delegationV2 = rows(V2, "delegation", "v2 document: EcrDelegation",
	f("resource", "string", Create, required(Create), form(ECRRepository), from("v2 document: CreateDelegationRequest")),
	f("name", "string", Create|Read, nullable, from("v2 document: CreateDelegationRequest"), note("the API has no update")),
	f("id", "string", Read, required(Read)),
	f("delegatorUserId", "string", Read, required(Read), note("the user that created it")),
	f("awsUser", "string", Read, required(Read), note("the account in the ARN")),
	f("repository", "string", Read, required(Read)),
	f("tag", "string", Read, required(Read)),
	f("awsRegion", "string", Read, required(Read)),
	f("dockerRegistryUri", "string", Read, note("the host of the registry")),
	f("createdAt", "string", Read, required(Read), note("RFC 3339")),
)
