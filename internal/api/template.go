package api

import "slices"

// templates returns the part of the collection that both versions share.
func templates(d *deployment, cache *listCache) *restCollection[Template] {
	return &restCollection[Template]{
		deployment: d, cache: cache, kind: "template",
		id:          func(t Template) string { return t.ID },
		name:        func(t Template) string { return t.Name },
		uniqueNames: true,
		sameFixed:   sameFixedOfTemplate,
		normalize:   normalizeTemplates,
	}
}

func sameFixedOfTemplate(got, want Template) bool {
	return got.Serverless == want.Serverless &&
		(want.Category == "" || got.Category == want.Category) &&
		(got.Mounts.Persistent == nil) == (want.Mounts.Persistent == nil)
}

func normalizeTemplates(got, want Template) (Template, Template) {
	got.Ports, want.Ports = slices.Sorted(slices.Values(got.Ports)), slices.Sorted(slices.Values(want.Ports))
	if got.AllowedCUDAVersions != nil && want.AllowedCUDAVersions != nil {
		got.AllowedCUDAVersions = new(inOrderOf(*want.AllowedCUDAVersions, *got.AllowedCUDAVersions))
	}
	return got, want
}
