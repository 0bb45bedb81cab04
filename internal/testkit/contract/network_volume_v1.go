package contract

var networkVolumeV1 = rows(V1, "networkVolume", "v1 document: NetworkVolumeCreateInput",
	f("id", "string", Read, must(Read), from("description: Network volume")),
	f("name", "string", every, must(Create|Read), note("need not be unique")),
	f("size", "integer", sent, must(Create), between(0, 4000), unit("GB"), from("description: Limits"), note("an update must exceed the current size")),
	f("size", "integer", Read, must(Read), unit("GB"), from("description: Network volume"), note("up to 4096 where v2 made it")),
	f("dataCenterId", "string", Create|Read, must(Create|Read), known(DataCenterIDs)),
)
