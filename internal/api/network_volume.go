package api

// networkVolumes is what the versions have in common; each has an update in its form.
func networkVolumes(d *deployment, cache *listCache, update func(have, want NetworkVolume) (patch, error)) *restCollection[NetworkVolume] {
	return &restCollection[NetworkVolume]{
		deployment: d, cache: cache, kind: "network volume",
		id:        func(v NetworkVolume) string { return v.ID },
		name:      func(v NetworkVolume) string { return v.Name },
		sameFixed: sameFixedOfVolume,
		update:    update,
		// Both APIs refuse to set the size that the volume has.
		alreadyApplied: func(got, want NetworkVolume) bool {
			left, err := update(got, want)
			return err == nil && len(left) == 0
		},
	}
}

// mutable is v without what only a create sets.
func (v NetworkVolume) mutable() NetworkVolume {
	v.ID, v.DataCenter, v.Type = "", "", nil
	return v
}

func sameFixedOfVolume(got, want NetworkVolume) bool {
	return got.DataCenter == want.DataCenter && agrees(got.Type, want.Type)
}
