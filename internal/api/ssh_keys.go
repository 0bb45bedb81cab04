package api

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// SSHKeys are the SSH public keys of the account. Only API v2 has them, so a client of v1 uses v2 for
// them, too.
type SSHKeys struct {
	deployment *deployment
	editing    sync.Mutex
}

type sshKeysV2 struct {
	Keys []string `json:"keys"`
}

func (s *SSHKeys) Get(ctx context.Context) ([]string, error) {
	return s.send(ctx, httpclient.Call{Method: http.MethodGet})
}

// Edit replaces the document by the result of change. If nothing changes, it sends nothing. The
// edits of one client run one after the other.
func (s *SSHKeys) Edit(ctx context.Context, change func(keys []string) []string) ([]string, error) {
	s.editing.Lock()
	defer s.editing.Unlock()
	keys, err := s.Get(ctx)
	if err != nil {
		return nil, err
	}
	want := change(slices.Clone(keys))
	if slices.Equal(keys, want) {
		return keys, nil
	}
	return s.Set(ctx, want)
}

// Set replaces all keys.
func (s *SSHKeys) Set(ctx context.Context, keys []string) ([]string, error) {
	return s.send(ctx, httpclient.Call{Method: http.MethodPut, Body: sshKeysV2{append([]string{}, keys...)}})
}

func (s *SSHKeys) send(ctx context.Context, c httpclient.Call) ([]string, error) {
	c.URL = s.deployment.settings.BaseURL + "/v2/account/ssh-keys"
	answer := listOf[string]{member: "keys"} // an answer without this member is an error
	err := s.deployment.Do(ctx, c, &answer)
	return answer.objects, err
}
