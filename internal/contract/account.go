package contract

const documentOfSecrets = "changes of November 2026: account secrets"

var secretV2 = rows(V2, "secret", documentOfSecrets,
	f("id", "string", Read, required(Read)),
	f("name", "string", Create|Read, required(Create|Read), between(1, 191), form(SecretName), not(ReservedName), note("unique and not beginning with RUNPOD, ignoring case; fixed at create")),
	f("value", "string", writeOnly, required(Create), between(1, 1<<24-1), unit("bytes"), secret, note("never returned")),
	f("description", "string", writeOnly, atMost(65535), unit("bytes"), clearedBy(`""`)),
	f("description", "string", Read, nullable, note("null if not set")),
	f("createdAt", "string", Read, required(Read), note("RFC 3339")),
	f("valueLastUpdatedAt", "string", Read, nullable, note("a time of RFC 3339; on the jobrunner the creation time until the value changes")),
)

// sshKeysV2 is replaced as a whole: its update is a PUT.
var sshKeysV2 = rows(V2, "sshKeys", "v2 document: UpdateSshKeysRequest",
	f("keys", "[]string", Update|Read, required(Update|Read), form(SSHKey)),
)
