package api

// Management API v2: nested bodies, lists under the name of the resource,
// unknown members refused. A request says only what it has to.

func networkVolumesV2(t *transport, s *shelf) Collection[NetworkVolume] {
	return &rest[NetworkVolume, networkVolumeV2]{
		transport: t, shelf: s, kind: "network volume", path: "/v2/network-volumes", member: "networkVolumes",
		full:    []string{"name", "size", "dataCenter", "type"},
		id:      func(v NetworkVolume) string { return v.ID },
		name:    func(v NetworkVolume) string { return v.Name },
		fixed:   fixedOfVolume,
		neutral: networkVolumeV2.neutral,
		create: func(want NetworkVolume) (networkVolumeV2, error) {
			return networkVolumeV2{
				Name: &want.Name, Size: &want.Size, DataCenter: &want.DataCenter, Type: want.Type,
			}, nil
		},
		update: func(have, want NetworkVolume) (patch, error) {
			return changed(
				networkVolumeV2{Name: &have.Name, Size: &have.Size},
				networkVolumeV2{Name: &want.Name, Size: &want.Size})
		},
		settle: sameVolume,
	}
}

type networkVolumeV2 struct {
	ID         *string `json:"id,omitempty"`
	Name       *string `json:"name,omitempty"`
	Size       *int64  `json:"size,omitempty"`
	DataCenter *string `json:"dataCenter,omitempty"`
	Type       *string `json:"type,omitempty"`
}

func (w networkVolumeV2) neutral() NetworkVolume {
	return NetworkVolume{
		ID: value(w.ID), Name: value(w.Name), Size: value(w.Size), DataCenter: value(w.DataCenter), Type: w.Type,
	}
}

// sameVolume settles an update that grew the volume and lost its answer: both
// APIs refuse to set the size that it has.
func sameVolume(got, want NetworkVolume) bool {
	return got.Name == want.Name && got.Size == want.Size
}

func registryAuthsV2(t *transport, s *shelf) Collection[RegistryAuth] {
	r := registryAuths(t, s)
	r.path, r.member = "/v2/registries", "registries"
	return r
}
