package store

import (
	"context"
	"log/slog"
)

// RegistryAuth is a login for private images, without its Credentials. Its name is unique.
type RegistryAuth struct{ Head }

// Credentials are a registry's user name and password. Printing them doesn't reveal them.
type Credentials struct {
	Username string
	Password string
}

func (Credentials) String() string       { return "(credentials)" }
func (Credentials) GoString() string     { return "store.Credentials{}" }
func (Credentials) LogValue() slog.Value { return slog.StringValue("(credentials)") }

type registryRecord struct {
	RegistryAuth
	Username string `json:"username"`
	Password string `json:"password"`
}

func (r *RegistryAuth) kind() kind { return registryAuths }

// Credentials reads the credentials of a registry auth, for pulling images.
func (s *Store) Credentials(ctx context.Context, id string) (Credentials, error) {
	r, err := Get[registryRecord](ctx, s, id)
	return Credentials{r.Username, r.Password}, err
}

func (s *Store) CreateRegistryAuth(ctx context.Context, name string, c Credentials) (RegistryAuth, error) {
	r, err := Create(ctx, s, registryRecord{RegistryAuth{Head{Name: name}}, c.Username, c.Password})
	return r.RegistryAuth, err
}

// beforeDelete removes the auth from templates and endpoints, and fails while a pod uses it.
func (r *RegistryAuth) beforeDelete(tx *Tx) error {
	if podIDs, err := tx.referrers(pods, r.ID); err != nil {
		return err
	} else if len(podIDs) > 0 {
		return refusef("registry auth %q is in use: delete pod %q or its cluster first, or give the pod another registry auth", r.ID, podIDs[0])
	}
	if err := changeReferrers(tx, r.ID, func(t *Template) { t.Registry = "" }); err != nil {
		return err
	}
	return tx.updateReferrers(r.ID, func(e *Endpoint) { e.Registry = "" })
}

// Delegation lets a deployment pull an image from a registry of AWS (ECR) without a
// password. Its name may be empty and need not be unique.
type Delegation struct {
	Head

	// Owner is the owner of the API key that created it.
	Owner string `json:"owner"`
	ECRImage
}

type ECRImage struct {
	Partition  string `json:"partition"` // of AWS: aws, aws-cn, …
	Region     string `json:"region"`
	Account    string `json:"account"`
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
}

func (d *Delegation) kind() kind { return delegations }
