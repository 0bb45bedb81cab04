package contract

var templateV1 = rows(V1, "template", "description: Template",
	f("id", "string", Read, must(Read)),
	f("name", "string", every, must(Create|Read), note("unique among templates")),
	f("imageName", "string", every, must(Create|Read)),
	f("category", "string", Create|Read, oneOf("NVIDIA", "AMD", "CPU"), def(`"NVIDIA"`), note("no update body has it")),
	f("containerDiskInGb", "integer", every, def(`50`), atLeast(1), unit("GB"), note("wiped on restart; the lower bound is v2's")),
	f("containerRegistryAuthId", "string", every, note("an empty string clears it")),
	f("dockerEntrypoint", "[]string", every, def(`[]`), note("empty: the image's own")),
	f("dockerStartCmd", "[]string", every, def(`[]`), note("empty: the image's own")),
	f("env", "{}string", every, def(`{}`)),
	f("isPublic", "boolean", every, def(`false`), note("pod templates only")),
	f("isServerless", "boolean", Create|Read, def(`false`), note("true for workers, false for pods; no update body has it")),
	f("ports", "[]string", every, def(`["8888/http","22/tcp"]`), pattern(portForm), from("v1 document: TemplateCreateInput"), note("the description has no default, the document writes it as one comma-separated string")),
	f("readme", "string", every, def(`""`), note("Markdown")),
	f("volumeInGb", "integer", every, def(`20`), atLeast(0), unit("GB"), note("0 for no local volume; the lower bound is chosen here")),
	f("volumeMountPath", "string", every, def(`"/workspace"`), pattern(absolutePath)),
	f("earned", "number", Read, note("credits")),
	f("isRunpod", "boolean", Read, from("v1 document: Template"), note("true for an official template; the description names it isPlatform, so both are answered and read")),
	f("isPlatform", "boolean", Read, note("the described name of isRunpod")),
	f("runtimeInMin", "integer", Read, unit("min")),
)

const (
	portForm     = `^([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])/(http|tcp)$`
	absolutePath = `^/`
)
