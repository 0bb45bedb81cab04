package clauses

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

// withoutCase are the clauses that no case declares: no case can judge them, or cases of
// other clauses judge them by Given.
var withoutCase = []Clause{
	{
		ID: "JOB-47", Level: suite.Unspec, Source: "What the service does, 4",
		Statement:  "Load-balancing endpoints.",
		Untestable: "the user's own server responds to their requests, so the description doesn't define the responses",
	},
	{
		ID: "RAT-09", Level: suite.Must, Source: "Limits, Rate limits",
		Statement: "Every operation accepts as many requests as its limit allows.",
		// The cases of RAT-01 to RAT-08 judge it by Given.
	},
	{
		ID: "VER-51", Level: suite.Unspec, Source: "Versioning, 12",
		Statement:  "Whether the versions are compatible.",
		Untestable: "the description promises none",
	},
	forClients("CLI-01", suite.Must, "Authentication, 1",
		"A client sends its key as Authorization: Bearer on every call."),
	forClients("CLI-02", suite.Should, "Errors, 429",
		"After a 429, a client backs off exponentially and retries."),
	forClients("CLI-03", suite.Should, "Events, 1",
		"A receiver of webhooks returns 200."),
	forClients("CLI-04", suite.Must, "States and transitions, Network volume size rule",
		"A client that plans changes rejects a smaller size for a volume before it sends a request."),
	forClients("CLI-05", suite.Must, "Template",
		"A client reports that a name is taken."),
	forClients("CLI-06", suite.Must, "Versioning, 1",
		"After the retirement of version 1, a client that uses it warns."),
	forClients("CLI-07", suite.Should, "Errors, 500",
		"A client doesn't repeat a create unless it has checked that nothing was created."),
	forClients("CLI-08", suite.Should, "Errors, 400",
		"A client doesn't repeat a request after a 4xx other than 429."),
	forClients("CLI-09", suite.Should, "States and transitions, ttl elapsed",
		"A client that waits for a job stops and reports it when the job returns 404."),
	forClients("CLI-10", suite.Should, "States and transitions, POST /cancel",
		"A client that waits for a job stops and reports it when the job is CANCELLED."),
	forClients("CLI-11", suite.Should, "Authentication, 1",
		"A client never prints its key, and sends it only in Authorization."),
}

// forClients returns a clause about clients.
func forClients(id string, level suite.Level, source, statement string) Clause {
	return Clause{ID: id, Level: level, Source: source, Statement: statement, Untestable: "it applies to clients; conformance client tests them"}
}
