package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// registryAuthBodyV1 is the body of a create; there is no update.
type registryAuthBodyV1 struct {
	Name     *string `json:"name" rule:"must min=1"`
	Username *string `json:"username" rule:"must"`
	Password *string `json:"password" rule:"must"`
}

// registryAuth is a registry auth in an answer of either version, which has
// nothing of the credentials.
type registryAuth struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func newRegistryAuth(r store.RegistryAuth) registryAuth { return registryAuth{ID: r.ID, Name: r.Name} }

func (s *server) listRegistryAuthsV1(c *call) (any, error) {
	all, err := s.store.RegistryAuths(c.ctx())
	return each(all, newRegistryAuth), err
}

func (s *server) getRegistryAuth(c *call) (any, error) {
	r, err := s.store.RegistryAuth(c.ctx(), c.id)
	return newRegistryAuth(r), err
}

func (s *server) createRegistryAuthV1(c *call) (any, error) {
	body, err := decode[registryAuthBodyV1](c, creating)
	if err != nil {
		return nil, err
	}
	r, err := s.store.CreateRegistryAuth(c.ctx(), *body.Name, store.Credentials{Username: *body.Username, Password: *body.Password})
	return newRegistryAuth(r), err
}

func (s *server) deleteRegistryAuth(c *call) (any, error) {
	return nil, s.store.DeleteRegistryAuth(c.ctx(), c.id)
}
