package api

// registryAuths is what the two versions have in common: the whole kind, but
// for the path and the form of the list.
func registryAuths(t *transport, s *shelf) *rest[RegistryAuth, registryAuthWire] {
	return &rest[RegistryAuth, registryAuthWire]{
		transport: t, shelf: s, kind: "registry auth", full: []string{"name"},
		id:      func(a RegistryAuth) string { return a.ID },
		name:    func(a RegistryAuth) string { return a.Name },
		unique:  true,
		opaque:  true, // the credentials
		neutral: registryAuthWire.neutral,
		create: func(want RegistryAuth) (registryAuthWire, error) {
			return registryAuthWire{Name: &want.Name, Username: &want.Username, Password: &want.Password}, nil
		},
		update: func(have, want RegistryAuth) (patch, error) {
			if want.ID = have.ID; have != want {
				return nil, errNoUpdate
			}
			return nil, nil
		},
		secret: func(a RegistryAuth) []string { return []string{a.Password} },
	}
}

type registryAuthWire struct {
	ID       *string `json:"id,omitempty"`
	Name     *string `json:"name,omitempty"`
	Username *string `json:"username,omitempty"` // never answered
	Password *string `json:"password,omitempty"` // never answered
}

func (w registryAuthWire) neutral() RegistryAuth {
	return RegistryAuth{ID: value(w.ID), Name: value(w.Name)}
}
