package contract

var errorV1 = rows(V1, "error", "description: Errors",
	f("message", "string", Read, required(Read)),
	f("error", "string", Read, from("field notes: Management v1"), note("some live deployments return it instead of message; read, never sent")),
	f("status", "integer", Read, from("field notes: Management v1"), note("beside error")),
)

var errorV2 = rows(V2, "error", "description: Versioning 9",
	f("title", "string", Read, required(Read)),
	f("status", "integer", Read, required(Read), note("the HTTP status")),
	f("detail", "string", Read, required(Read)),
	f("errors", "[]string", Read, note(`one per fault of the body, such as "$: missing property 'name'"`)),
)

var errorJobs = rows(Jobs, "error", "field notes: Job API",
	f("error", "string", Read, required(Read), note("the description shows no body")),
)
