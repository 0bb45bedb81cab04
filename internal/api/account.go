package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// Secret is an account secret. The API never returns Value.
type Secret struct {
	ID                 string `json:"id,omitempty"`
	Name               string `json:"name"` // unique, ignoring case
	Value              string `json:"value,omitempty"`
	Description        string `json:"description,omitempty"`
	CreatedAt          string `json:"createdAt,omitempty"`          // RFC 3339
	ValueLastUpdatedAt string `json:"valueLastUpdatedAt,omitempty"` // RFC 3339; "" if unknown
}

func secretsV2(d *deployment, cache *listCache) *Collection[Secret] {
	return &Collection[Secret]{
		deployment: d, cache: cache, kind: "secret", path: "/v2/account/secrets", member: "secrets", required: []string{"name"},
		uniqueNames: true, namesFold: true,
		writeOnly: true,
		decode:    decodePlain[Secret],
		create: func(want Secret) (any, error) {
			return Secret{Name: want.Name, Value: want.Value, Description: want.Description}, nil
		},
		update: func(have, want Secret) (patch, error) {
			if !strings.EqualFold(have.Name, want.Name) {
				return nil, errMustReplace
			}
			return changedMembers(clearingValues(contract.V2, "secret"), &Secret{Description: have.Description}, Secret{Value: want.Value, Description: want.Description})
		},
	}
}

// SSHKeys are the SSH public keys of the account. Only API v2 has them, so a client of v1 uses v2 for
// them, too.
type SSHKeys struct {
	deployment *deployment
	editMu     sync.Mutex
	added      []string // by the edits of this client
}

func (s *SSHKeys) Get(ctx context.Context) ([]string, error) {
	return s.send(ctx, httpclient.Call{Method: http.MethodGet})
}

// Edit calls change with the account's keys and the keys that earlier edits of this client have added. It
// replaces the account's keys with the result. adds are the keys that change adds: later edits get them as added. If
// nothing changes, Edit sends nothing. The edits run one after the other.
func (s *SSHKeys) Edit(ctx context.Context, adds []string, change func(keys, added []string) []string) ([]string, error) {
	s.editMu.Lock()
	defer s.editMu.Unlock()
	keys, err := s.Get(ctx)
	if err != nil {
		return nil, err
	}
	if want := change(slices.Clone(keys), s.added); !slices.Equal(keys, want) {
		keys, err = s.Set(ctx, want)
	}
	if err == nil {
		s.added = append(s.added, adds...)
	}
	return keys, err
}

func (s *SSHKeys) Set(ctx context.Context, keys []string) ([]string, error) {
	return s.send(ctx, httpclient.Call{Method: http.MethodPut, Body: map[string][]string{"keys": append([]string{}, keys...)}})
}

func (s *SSHKeys) send(ctx context.Context, c httpclient.Call) ([]string, error) {
	c.URL = s.deployment.settings.BaseURL + "/v2/account/ssh-keys"
	answer := listAnswer[string]{member: "keys"} // an answer without this member is an error
	_, err := s.deployment.Do(ctx, c, &answer)
	return answer.objects, err
}
