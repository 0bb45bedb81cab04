package contract

const documentOfBuilds = "changes of November 2026: builds"

var buildV2 = rows(V2, "build", documentOfBuilds,
	f("id", "string", Read, required(Read)),
	f("status", "string", Read, required(Read), known([]string{"PENDING", "BUILDING", "UPLOADING", "TESTING", "COMPLETED", "FAILED", "CANCELLED", "TEST_FAILED"})),
	f("commitHash", "string", Read, nullable),
	f("commitMessage", "string", Read, nullable),
	f("branch", "string", Read, nullable),
	f("commitDate", "string", Read, nullable, note("RFC 3339")),
	f("imageName", "string", Read, nullable),
	f("startedAt", "string", Read, nullable, note("RFC 3339")),
	f("completedAt", "string", Read, nullable, note("RFC 3339")),
	f("error", "string", Read, nullable),
)
