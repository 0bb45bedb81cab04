package clauses

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

const reasonForClients = "it applies to clients; conformance client tests them"

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
	{
		ID: "CLI-01", Level: suite.Must, Source: "Authentication, 1",
		Statement:  "A client sends its key as Authorization: Bearer on every call.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-02", Level: suite.Should, Source: "Errors, 429",
		Statement:  "After a 429, a client backs off exponentially and retries.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-03", Level: suite.Should, Source: "Events, 1",
		Statement:  "A receiver of webhooks returns 200.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-04", Level: suite.Must, Source: "States and transitions, Network volume size rule",
		Statement:  "A client that plans changes rejects a smaller size for a volume before it sends a request.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-05", Level: suite.Must, Source: "Template",
		Statement:  "A client reports that a name is taken.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-06", Level: suite.Must, Source: "Versioning, 1",
		Statement:  "After the retirement of version 1, a client that uses it warns.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-07", Level: suite.Should, Source: "Errors, 500",
		Statement:  "A client doesn't repeat a create unless it has checked that nothing was created.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-08", Level: suite.Should, Source: "Errors, 400",
		Statement:  "A client doesn't repeat a request after a 4xx other than 429.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-09", Level: suite.Should, Source: "States and transitions, ttl elapsed",
		Statement:  "A client that waits for a job stops and reports it when the job returns 404.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-10", Level: suite.Should, Source: "States and transitions, POST /cancel",
		Statement:  "A client that waits for a job stops and reports it when the job is CANCELLED.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-11", Level: suite.Should, Source: "Authentication, 1",
		Statement:  "A client never prints its key, and sends it only in Authorization.",
		Untestable: reasonForClients,
	},
}
