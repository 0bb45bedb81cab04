package webhook

import (
	"errors"
	"net/http"
	"testing"
)

// The address counts that is connected to: a name that leads into a private
// network is no way around the policy.
func TestDialsNoPrivateAddress(t *testing.T) {
	for _, target := range []string{"http://10.255.255.1/", "http://169.254.169.254/latest", "http://[fd00::1]/", "http://0.0.0.0:1/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := Policy{}.transport().RoundTrip(req)
		var forbidden *ForbiddenError
		if !errors.As(err, &forbidden) {
			t.Errorf("%s: %v, %v", target, resp, err)
		}
	}
}
