package api

// networkVolumes returns the part of the collection that both versions share. The form of an
// update differs.
func networkVolumes(d *deployment, cache *listCache, update func(have, want NetworkVolume) (patch, error)) *restCollection[NetworkVolume] {
	return &restCollection[NetworkVolume]{
		deployment: d, cache: cache, kind: "network volume",
		id:        func(v NetworkVolume) string { return v.ID },
		name:      func(v NetworkVolume) string { return v.Name },
		sameFixed: sameFixedOfVolume,
		update:    update,
		// Both APIs reject setting the size that the volume already has.
		alreadyApplied: func(got, want NetworkVolume) bool {
			left, err := update(got, want)
			return err == nil && len(left) == 0
		},
	}
}

// mutable returns v without the members that only a create sets.
func (v NetworkVolume) mutable() NetworkVolume {
	v.ID, v.DataCenter, v.Type = "", "", nil
	return v
}

func sameFixedOfVolume(got, want NetworkVolume) bool {
	return got.DataCenter == want.DataCenter && agrees(got.Type, want.Type)
}
