package contract

const documentOfGlobalVolumes = "changes of November 2026: global volumes"

var globalVolumeV2 = rows(V2, "globalVolume", documentOfGlobalVolumes,
	f("id", "string", Read, required(Read)),
	f("name", "string", every, required(Create|Read), between(1, 191), form(Visible), note("trimmed; need not be unique")),
	f("createdAt", "string", Read, required(Read), note("RFC 3339")),
	f("createdByUserId", "string", Read, required(Read), nullable, note("on the jobrunner, the owner of the API key")),
)
