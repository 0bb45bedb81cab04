package contract

// sshKeysV2 is replaced as a whole: its update is a PUT.
var sshKeysV2 = rows(V2, "sshKeys", "v2 document: UpdateSshKeysRequest",
	f("keys", "[]string", Update|Read, required(Update|Read), form(SSHKey)),
)
