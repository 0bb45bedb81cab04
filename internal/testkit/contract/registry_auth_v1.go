package contract

var registryAuthV1 = rows(V1, "registryAuth", "v1 document: ContainerRegistryAuthCreateInput",
	f("id", "string", Read, must(Read), from("description: Container registry auth")),
	f("name", "string", Create|Read, must(Create|Read), note("unique among registry auths; no update exists")),
	f("username", "string", Create, must(Create), note("never returned")),
	f("password", "string", Create, must(Create), note("never returned")),
)
