package mgmt

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

type releaseV2 struct {
	ID              string         `json:"id"`
	Version         int64          `json:"version"`
	Source          string         `json:"source"` // always MANUAL: the jobrunner builds no images
	BuildID         *string        `json:"buildId"`
	CreatedByUserID *string        `json:"createdByUserId"`
	WorkerCount     int            `json:"workerCount"`
	CreatedAt       time.Time      `json:"createdAt"`
	Diff            []store.Change `json:"diff"`
}

type rolloutV2 struct {
	InProgress      bool `json:"inProgress"`
	WorkersOnLatest int  `json:"workersOnLatest"`
	WorkersTotal    int  `json:"workersTotal"`
	PercentOnLatest int  `json:"percentOnLatest"`
}

type releaseListV2 struct {
	EndpointVersion int64        `json:"endpointVersion"`
	Rollout         rolloutV2    `json:"rollout"`
	Releases        []releaseV2  `json:"releases"`
	Pagination      paginationV2 `json:"pagination"`
}

// listReleasesV2 shows the releases of an endpoint, newest first, and the current rollout.
func (c *call) listReleasesV2(p pageQuery) (out releaseListV2, err error) {
	e, err := c.Store.Endpoint(c.ctx(), c.id)
	if err != nil {
		return out, err
	}
	releases, next, err := c.Store.ReleasePage(c.ctx(), c.id, p.Page)
	if err != nil {
		return out, err
	}
	workers := c.Workers.Workers(e.ID)
	workersByVersion := map[int64]int{}
	for _, w := range workers {
		workersByVersion[w.Version]++
	}
	page := convertAll(releases, func(r store.Release) releaseV2 {
		return releaseV2{
			ID: fmt.Sprintf("%s-%d", e.ID, r.Version), Version: r.Version, Source: "MANUAL", WorkerCount: workersByVersion[r.Version], CreatedAt: r.Created,
			Diff: convertAll(r.Changes, identity), // not null
		}
	})
	return releaseListV2{e.Version, rollout(workers), page, p.pagination(next)}, nil
}

func rollout(workers []worker.Info) rolloutV2 {
	r := rolloutV2{WorkersTotal: len(workers)}
	for _, w := range workers {
		if !w.Stale {
			r.WorkersOnLatest++
		}
	}
	r.InProgress = r.WorkersOnLatest < r.WorkersTotal
	if r.WorkersTotal > 0 {
		r.PercentOnLatest = 100 * r.WorkersOnLatest / r.WorkersTotal
	}
	return r
}

const maxBuildPage = 100

// buildV2 is a build that a catalog file lists: the jobrunner builds no images.
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

// builds lists the builds of the path's endpoint. A catalog file lists the newest first.
func (c *call) builds() ([]catalog.Build, error) {
	e, err := c.Store.Endpoint(c.ctx(), c.id)
	return c.Catalog.Current().BuildsOf(e.Name), err
}

// listBuildsV2 shows a page of builds. A build's position counts from the end of the list, whose last build is 1.
func (c *call) listBuildsV2(p pageQuery) (part []buildV2, next int64, err error) {
	all, err := c.builds()
	first, last := int(max(0, int64(len(all))-p.Before+1)), len(all)
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
	if i := slices.IndexFunc(all, func(b catalog.Build) bool { return b.ID == c.subID }); i >= 0 {
		return convert[catalog.Build, buildV2](all[i]), nil
	}
	return out, httpanswer.Refuse(http.StatusNotFound, "endpoint %q has no build %q", c.id, c.subID)
}
