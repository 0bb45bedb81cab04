package contract

var registryAuthV2 = rows(V2, "registryAuth", "v2 document: CreateRegistryRequest",
	f("id", "string", Read, must(Read), from("v2 document: Registry")),
	f("name", "string", Create|Read, must(Create|Read), atLeast(1), note("unique among registry auths, as v1 demands; no update exists")),
	f("username", "string", Create, must(Create), atLeast(1), note("never returned")),
	f("password", "string", Create, must(Create), atLeast(1), note("never returned")),
)
