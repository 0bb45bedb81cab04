package mgmt

import (
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// authorize tells who asks. A key for certain endpoints is for their job API
// and opens nothing here: what this API shows and changes is all the user's.
func (s *server) authorize(c *call) (apikey.Identity, error) {
	user, err := s.Keys.Authorize(c.http)
	switch {
	case err != nil:
		c.writer.Header().Set("WWW-Authenticate", "Bearer")
		return user, failf(http.StatusUnauthorized, "%s", err)
	case user.Restricted():
		return user, failf(http.StatusForbidden, "this API key is for the job API of certain endpoints only: the management API needs one without that restriction")
	}
	return user, nil
}
