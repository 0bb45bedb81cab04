package api

// Management API v2 has nested bodies and lists under the name of the resource, and rejects
// unknown members. A request has only the members that it needs.

func networkVolumesV2(d *deployment, cache *listCache) Collection[NetworkVolume] {
	r := networkVolumes(d, cache, func(have, want NetworkVolume) (patch, error) {
		return changedMembers(nil, new(have.mutable()), want.mutable())
	})
	r.path, r.member = "/v2/network-volumes", "networkVolumes"
	r.required = []string{"name", "size", "dataCenter", "type"}
	r.decode = decodePlain[NetworkVolume]
	r.create = func(want NetworkVolume) (any, error) {
		want.ID = ""
		return want, nil
	}
	return r
}

func registryAuthsV2(d *deployment, cache *listCache) Collection[RegistryAuth] {
	r := registryAuths(d, cache)
	r.path, r.member = "/v2/registries", "registries"
	return r
}
