package mgmt

import (
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

type secretBodyV2 struct {
	Name        *string `json:"name"`
	Value       *string `json:"value"`
	Description *string `json:"description"`
}

// maxSecretBody is the largest body with a secret's value, in bytes. It has room for three times the largest value:
// many clients escape é as \u00e9, six bytes for two.
const maxSecretBody = 49 << 20

func (b *secretBodyV2) maxBody() int64 { return maxSecretBody }

// secretV2 never has the value.
type secretV2 struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Description  *string   `json:"description"`
	Created      time.Time `json:"createdAt"`
	ValueUpdated time.Time `json:"valueLastUpdatedAt"`
}

func readSecretName(q *query) string { return q.value("name", anyText) }

func (c *call) listSecretsV2(name string) ([]secretV2, error) {
	all, err := store.List[store.Secret](c.ctx(), c.Store)
	if c.http.URL.Query().Has("name") {
		all = slices.DeleteFunc(all, func(secret store.Secret) bool { return !strings.EqualFold(secret.Name, name) })
	}
	return convertAll(all, convert[store.Secret, secretV2]), err
}

func createSecretV2(c *call, body secretBodyV2) (store.Secret, error) {
	return c.Store.CreateSecret(c.ctx(), convert[secretBodyV2, store.Secret](body), *body.Value)
}

func updateSecretV2(c *call, body secretBodyV2) (store.Secret, error) {
	return c.Store.UpdateSecret(c.ctx(), c.id, convert[secretBodyV2, store.SecretChange](body))
}

// sshKeysV2 has the SSH public keys of an API key's owner, in bodies and answers.
type sshKeysV2 struct {
	Keys []string `json:"keys"`
}

func (c *call) getSSHKeys() (sshKeysV2, error) {
	keys, err := c.Store.SSHKeys(c.ctx(), c.owner)
	return sshKeysV2{nonNilList(keys)}, err
}

// replaceSSHKeys replaces the whole list. Existing pods keep their keys.
func replaceSSHKeys(c *call, body sshKeysV2) (sshKeysV2, error) {
	return body, c.Store.SetSSHKeys(c.ctx(), c.owner, body.Keys)
}
