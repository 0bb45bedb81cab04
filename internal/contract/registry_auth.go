package contract

var registryAuthV1 = rows(V1, "registryAuth", "v1 document: ContainerRegistryAuthCreateInput",
	f("id", "string", Read, required(Read), from("description: Container registry auth")),
	f("name", "string", Create|Read, required(Create|Read), atLeast(1), note("unique among registry auths; no update exists")),
	f("username", "string", Create, required(Create), note("never returned")),
	f("password", "string", Create, required(Create), secret, note("never returned")),
)

var registryAuthV2 = rows(V2, "registryAuth", "v2 document: CreateRegistryRequest",
	f("id", "string", Read, required(Read), from("v2 document: Registry")),
	f("name", "string", Create|Read, required(Create|Read), between(1, 191), note("unique among registry auths; no update exists; maximum lengths: changes of November 2026")),
	f("username", "string", Create, required(Create), between(1, 191), note("never returned")),
	f("password", "string", Create, required(Create), between(1, 16384), secret, note("never returned")),
)
