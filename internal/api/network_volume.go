package api

// networkVolumes is what the versions have in common.
func networkVolumes(d *deployment, cache *listCache) *restCollection[NetworkVolume] {
	return &restCollection[NetworkVolume]{
		deployment: d, cache: cache, kind: "network volume",
		id:        func(v NetworkVolume) string { return v.ID },
		name:      func(v NetworkVolume) string { return v.Name },
		sameFixed: sameFixedOfVolume,
		update: func(have, want NetworkVolume) (patch, error) {
			return changed(&NetworkVolume{Name: have.Name, Size: have.Size}, NetworkVolume{Name: want.Name, Size: want.Size})
		},
		// Both APIs refuse to set the size that the volume has.
		alreadyApplied: func(got, want NetworkVolume) bool { return got.Name == want.Name && got.Size == want.Size },
	}
}

func sameFixedOfVolume(got, want NetworkVolume) bool {
	return got.DataCenter == want.DataCenter && agrees(got.Type, want.Type)
}
