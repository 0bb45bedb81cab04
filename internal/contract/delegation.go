package contract

var delegationV2 = rows(V2, "delegation", "v2 document: EcrDelegation",
	f("resource", "string", Create, required(Create), form(ECRRepository), from("v2 document: CreateDelegationRequest")),
	f("name", "string", Create|Read, nullable, from("v2 document: CreateDelegationRequest"), note("no update exists")),
	f("id", "string", Read, required(Read)),
	f("delegatorUserId", "string", Read, required(Read), note("the user that created it")),
	f("awsUser", "string", Read, required(Read), note("the account in the ARN")),
	f("repository", "string", Read, required(Read)),
	f("tag", "string", Read, required(Read)),
	f("awsRegion", "string", Read, required(Read)),
	f("dockerRegistryUri", "string", Read, note("the host of the registry")),
	f("createdAt", "string", Read, required(Read), note("RFC 3339")),
)
