package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/internal/contract"

// sshKeysV2 is the SSH public keys of the owner of an API key, in the body of an
// update and in answers.
type sshKeysV2 struct {
	Keys []string `json:"keys"`
}

func (s *server) getSSHKeys(c *call) (any, error) {
	keys, err := s.store.SSHKeys(c.ctx(), c.owner)
	return sshKeysV2{nonNilList(keys)}, err
}

// replaceSSHKeys replaces the whole list. Existing pods keep their keys.
func (s *server) replaceSSHKeys(c *call) (any, error) {
	body, err := decode[sshKeysV2](c, contract.Update)
	if err != nil {
		return nil, err
	}
	return body, s.store.SetSSHKeys(c.ctx(), c.owner, body.Keys)
}
