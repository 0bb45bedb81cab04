package jobrunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// refuseWhileOthersRun refuses a change of a shared database that older jobrunners can't
// work with, while some are there.
func (j *Jobrunner) refuseWhileOthersRun(ctx context.Context) error {
	if !j.db.Shared() {
		return nil
	}
	alive, err := engine.OthersAlive(ctx, j.db)
	if err == nil && alive > 0 {
		err = fmt.Errorf("this version changes the database in a way that older jobrunners can't work with, and %d run: stop all of them, then start this one", alive)
	}
	return err
}

// checkVersions ends what this process does on a database that another one has changed
// in such a way.
func (j *Jobrunner) checkVersions(ctx context.Context) error {
	err := j.db.CheckVersions(ctx)
	if errors.Is(err, sqldb.ErrNewer) {
		select {
		case <-j.outdated:
		default:
			j.log.ErrorContext(ctx, "this jobrunner does nothing any more: another one has changed the database, and this version can't work with it", "error", err)
			close(j.outdated)
		}
	}
	return err
}
