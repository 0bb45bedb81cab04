package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// registryAuthBodyV2 is the body of a create; there is no update.
type registryAuthBodyV2 struct {
	Name     *string `json:"name" rule:"must min=1"`
	Username *string `json:"username" rule:"must min=1"`
	Password *string `json:"password" rule:"must min=1"`
}

type registriesV2 struct {
	Registries []registryAuth `json:"registries"`
}

func (s *server) listRegistryAuthsV2(c *call) (any, error) {
	all, err := s.store.RegistryAuths(c.ctx())
	return registriesV2{each(all, newRegistryAuth)}, err
}

func (s *server) createRegistryAuthV2(c *call) (any, error) {
	body, err := decode[registryAuthBodyV2](c, creating)
	if err != nil {
		return nil, err
	}
	r, err := s.store.CreateRegistryAuth(c.ctx(), *body.Name, store.Credentials{Username: *body.Username, Password: *body.Password})
	return newRegistryAuth(r), err
}
