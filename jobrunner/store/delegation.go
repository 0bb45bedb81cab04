package store

import "context"

// Delegation lets a deployment pull an image from a registry of AWS (ECR) without a
// password. Its name may be empty and need not be unique.
type Delegation struct {
	Head

	// Owner is the owner of the API key that created it.
	Owner string `json:"owner"`
	ECRImage
}

// ECRImage is an image in a registry of AWS.
type ECRImage struct {
	Partition  string `json:"partition"` // of AWS: aws, aws-cn, …
	Region     string `json:"region"`
	Account    string `json:"account"`
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
}

func (d *Delegation) kind() kind { return delegations }

// CreateDelegation stores a delegation with a new id.
func (s *Store) CreateDelegation(ctx context.Context, d Delegation) (Delegation, error) {
	err := s.write(ctx, func(tx *Tx) error { return tx.insert(&d) })
	return d, err
}

// DeleteDelegation revokes a delegation.
func (s *Store) DeleteDelegation(ctx context.Context, id string) error {
	return s.delete(ctx, func(tx *Tx) error { return tx.remove(delegations, id) })
}
