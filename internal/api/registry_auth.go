package api

import "errors"

// registryAuths is what the two versions have in common: the whole kind, but
// for the path and the form of the list.
func registryAuths(t *transport) *rest[RegistryAuth, registryAuthWire] {
	return &rest[RegistryAuth, registryAuthWire]{
		transport: t, kind: "registry auth",
		id:      func(a RegistryAuth) string { return a.ID },
		neutral: registryAuthWire.neutral,
		create: func(want RegistryAuth) (registryAuthWire, error) {
			return registryAuthWire{Name: &want.Name, Username: &want.Username, Password: &want.Password}, nil
		},
		update: func(have, want RegistryAuth) (patch, error) {
			if want.ID = have.ID; have != want {
				return nil, errors.New("a registry auth can't be changed: make a new one with the new name or credentials, and delete this one")
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
