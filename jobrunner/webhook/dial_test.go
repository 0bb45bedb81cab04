package webhook

import (
	"errors"
	"net/http"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The policy applies to the dialed address, so a name that resolves to a private network doesn't bypass it.
func TestDialsNoPrivateAddress(t *testing.T) {
	must.Hold(t, Policy{}.transport().(*http.Transport).Proxy == nil, "the address of a proxy is checked instead of the receiver's")
	for _, target := range []string{"http://10.255.255.1/", "http://169.254.169.254/latest", "http://[fd00::1]/", "http://0.0.0.0:1/"} {
		resp, err := Policy{}.transport().RoundTrip(must.Do(http.NewRequestWithContext(t.Context(), http.MethodPost, target, nil))(t))
		var forbidden *ForbiddenError
		must.Hold(t, errors.As(err, &forbidden), "the request to", target, "returned", resp, err, "want a ForbiddenError")
	}
}
