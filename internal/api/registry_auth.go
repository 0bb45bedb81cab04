package api

// RegistryAuth is a credential for private images. The API never returns
// Username and Password.
type RegistryAuth struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"` // unique
	Username string `json:"username"`
	Password string `json:"password"`
}

// registryAuths returns the part of the collection that both versions share: all except the
// path and the form of the list.
func registryAuths(d *deployment, cache *listCache) *restCollection[RegistryAuth] {
	return &restCollection[RegistryAuth]{
		deployment: d, cache: cache, kind: "registry auth", required: []string{"name"},
		id:          func(a RegistryAuth) string { return a.ID },
		name:        func(a RegistryAuth) string { return a.Name },
		uniqueNames: true,
		writeOnly:   true, // answers lack the credentials
		decode:      decodePlain[RegistryAuth],
		create: func(want RegistryAuth) (any, error) {
			want.ID = ""
			return want, nil
		},
		update: func(have, want RegistryAuth) (patch, error) {
			if want.ID = have.ID; have != want {
				return nil, errNoUpdate
			}
			return nil, nil
		},
	}
}

func registryAuthsV1(d *deployment, cache *listCache) Collection[RegistryAuth] {
	r := registryAuths(d, cache)
	r.path, r.unknownIDIs400 = "/v1/containerregistryauth", true
	return r
}

func registryAuthsV2(d *deployment, cache *listCache) Collection[RegistryAuth] {
	r := registryAuths(d, cache)
	r.path, r.member = "/v2/registries", "registries"
	return r
}
