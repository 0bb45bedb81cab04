package contract

var networkVolumeV1 = rows(V1, "networkVolume", "v1 document: NetworkVolumeCreateInput",
	f("id", "string", Read, required(Read), from("service description: Network volume")),
	f("name", "string", readWrite, required(Create|Read), atLeast(1), note("need not be unique")),
	f("size", "integer", writeOnly, required(Create), between(0, 4000), unit("GB"), from("service description: Limits"), note("an update must exceed the current size")),
	f("size", "integer", Read, required(Read), unit("GB"), from("service description: Network volume"), note("up to 4096 if created by v2")),
	f("dataCenterId", "string", Create|Read, v2Name("dataCenter"), required(Create|Read), openEnum(DataCenterIDs), atLeast(1), form(ID)),
)

var networkVolumeV2 = rows(V2, "networkVolume", "v2 document: CreateNetworkVolumeRequest",
	f("id", "string", Read, required(Read), from("v2 document: NetworkVolume")),
	f("name", "string", readWrite, required(Create|Read), atLeast(1), note("need not be unique")),
	f("size", "integer", readWrite, required(Create|Read), between(10, 4096), unit("GB"), note("an update must exceed the current size; v1 may have created a smaller one")),
	f("dataCenter", "string", Create|Read, required(Create|Read), atLeast(1), openEnum(DataCenterIDs), form(ID), note("fixed at create")),
	f("type", "string", Create|Read, required(Read), oneOf("STANDARD", "HIGH_PERFORMANCE"), note("fixed at create; omitted: the data center's own tier")),
)

const documentOfGlobalVolumes = "changes of November 2026: global volumes"

var globalVolumeV2 = rows(V2, "globalVolume", documentOfGlobalVolumes,
	f("id", "string", Read, required(Read)),
	f("name", "string", readWrite, required(Create|Read), between(1, 191), form(Visible), note("trimmed; need not be unique")),
	f("createdAt", "string", Read, required(Read), note("RFC 3339")),
	f("createdByUserId", "string", Read, required(Read), nullable, note("on the jobrunner, the owner of the API key")),
)
