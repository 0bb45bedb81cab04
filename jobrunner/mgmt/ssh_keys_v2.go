package mgmt

// sshKeysV2 is the SSH public keys of the owner of an API key, in the body of an
// update and in answers.
type sshKeysV2 struct {
	Keys []string `json:"keys"`
}

func (c *call) getSSHKeys() (sshKeysV2, error) {
	keys, err := c.store.SSHKeys(c.ctx(), c.owner)
	return sshKeysV2{nonNilList(keys)}, err
}

// replaceSSHKeys replaces the whole list. Existing pods keep their keys.
func replaceSSHKeys(c *call, body sshKeysV2) (sshKeysV2, error) {
	return body, c.store.SetSSHKeys(c.ctx(), c.owner, body.Keys)
}
