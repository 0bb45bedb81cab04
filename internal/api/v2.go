package api

// Management API v2: nested bodies, lists under the name of the resource,
// unknown members refused. A request says only what it has to.

func networkVolumesV2(d *deployment, cache *listCache) Collection[NetworkVolume] {
	return &restCollection[NetworkVolume, NetworkVolume]{
		deployment: d, cache: cache, kind: "network volume", path: "/v2/network-volumes", member: "networkVolumes",
		required:  []string{"name", "size", "dataCenter", "type"},
		id:        func(v NetworkVolume) string { return v.ID },
		name:      func(v NetworkVolume) string { return v.Name },
		sameFixed: sameFixedOfVolume,
		neutral:   func(v NetworkVolume) NetworkVolume { return v },
		create: func(want NetworkVolume) (any, error) {
			want.ID = ""
			return want, nil
		},
		update: func(have, want NetworkVolume) (patch, error) {
			return changed(&NetworkVolume{Name: have.Name, Size: have.Size}, NetworkVolume{Name: want.Name, Size: want.Size})
		},
		alreadyApplied: sameVolume,
	}
}

// sameVolume settles an update that grew the volume and lost its answer: both
// APIs refuse to set the size that it has.
func sameVolume(got, want NetworkVolume) bool {
	return got.Name == want.Name && got.Size == want.Size
}

func registryAuthsV2(d *deployment, cache *listCache) Collection[RegistryAuth] {
	r := registryAuths(d, cache)
	r.path, r.member = "/v2/registries", "registries"
	return r
}
