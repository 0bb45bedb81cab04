package mgmt

import (
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// maxBuildPage is the maximum number of builds of a page.
const maxBuildPage = 100

// buildV2 is a build of an endpoint's image. The jobrunner builds no images: a catalog file lists the
// builds.
type buildV2 struct {
	ID            string     `json:"id"`
	Status        string     `json:"status"`
	CommitHash    *string    `json:"commitHash"`
	CommitMessage *string    `json:"commitMessage"`
	Branch        *string    `json:"branch"`
	CommitDate    *time.Time `json:"commitDate"`
	ImageName     *string    `json:"imageName"`
	StartedAt     *time.Time `json:"startedAt"`
	CompletedAt   *time.Time `json:"completedAt"`
	Error         *string    `json:"error"`
}

func readBuildsQuery(q *query) pageQuery { return q.page("", maxBuildPage) }

// builds lists the builds of the path's endpoint, the newest first.
func (c *call) builds() ([]catalog.Build, error) {
	e, err := c.store.Endpoint(c.ctx(), c.id)
	return c.Catalog.Now().BuildsOf(e.Name), err
}

// listBuildsV2 shows a page of builds. A build's position counts from the oldest one, which is 1.
func (c *call) listBuildsV2(p pageQuery) (part []buildV2, next int64, err error) {
	all, err := c.builds()
	first := 0
	if int64(len(all)) >= p.Before {
		first = len(all) - int(p.Before) + 1
	}
	last := len(all)
	if last-first > p.Limit {
		last, next = first+p.Limit, int64(last-first-p.Limit+1)
	}
	return convertAll(all[first:last], convert[catalog.Build, buildV2]), next, err
}

func (c *call) getBuildV2() (out buildV2, err error) {
	all, err := c.builds()
	if err != nil {
		return out, err
	}
	for _, b := range all {
		if b.ID == c.subID {
			return convert[catalog.Build, buildV2](b), nil
		}
	}
	return out, httpanswer.Refuse(http.StatusNotFound, "endpoint %q has no build %q", c.id, c.subID)
}
