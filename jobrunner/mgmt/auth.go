package mgmt

import (
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// authenticate tells who asks, and refuses whoever has no known key.
func (s *server) authenticate(c *call) (apikey.Identity, error) {
	user, err := s.Keys.Authorize(c.http)
	if err != nil {
		return user, httpanswer.Refuse(http.StatusUnauthorized, "%s", err)
	}
	return user, nil
}

// authorize refuses a key for certain endpoints: it is for their job API and
// opens nothing here, because what this API shows and changes is all the user's.
func authorize(user apikey.Identity) error {
	if user.Restricted() {
		return httpanswer.Refuse(http.StatusForbidden, "this API key is for the job API of certain endpoints only: the management API needs one without that restriction")
	}
	return nil
}
