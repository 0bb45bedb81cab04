package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// minRewind is the smallest difference between jobs' times and the clock that rewind corrects.
const minRewind = time.Second

const (
	// latestTimes returns the latest times of the running and the newest 1000 jobs. Reading all jobs would take long.
	latestTimes = `SELECT COALESCE(MAX(submitted), 0), COALESCE(MAX(queued), 0), COALESCE(MAX(started), 0), COALESCE(MAX(finished), 0) FROM (
		SELECT submitted, queued, started, finished FROM (SELECT submitted, queued, started, finished FROM jobs ORDER BY k DESC LIMIT 1000) AS newest
		UNION ALL SELECT submitted, queued, started, finished FROM jobs WHERE state = 'IN_PROGRESS' AND done = 0) AS recent_times`
	// rewindJobs moves all times of jobs back. Arguments: the difference in milliseconds, nine times.
	rewindJobs = `UPDATE jobs SET submitted = submitted - ?, turn = turn - ?, queued = queued - ?, expires = expires - ?, gone = gone - ?,
		started = CASE WHEN started > 0 THEN started - ? ELSE 0 END, deadline = CASE WHEN deadline > 0 THEN deadline - ? ELSE 0 END,
		finished = CASE WHEN finished > 0 THEN finished - ? ELSE 0 END, call_at = CASE WHEN call_at > 0 THEN call_at - ? ELSE 0 END`
	rewindBatches = `UPDATE batches SET created = created - ?, ends = CASE WHEN ends > 0 THEN ends - ? ELSE 0 END, gone = gone - ?`
)

// rewind moves the times of all jobs back if the clock was set back since they were
// written. Otherwise jobs would expire too late. It does nothing if the database lists other
// processes: if they are alive, their clocks agree with the times of the jobs.
func (e *Engine) rewind(ctx context.Context) error {
	shift := int64(0)
	err := e.DB.WriteWithReservedSpace(ctx, func(tx *sqldb.Tx) error {
		shift = 0
		others, err := processesBesides(tx, e.Process())
		// The data folder is locked, so another process with its id was killed.
		maps.DeleteFunc(others, func(_ string, p process) bool { return p.node.FolderID == e.Node.FolderID })
		if err != nil || len(others) > 0 {
			return err
		}
		times := make([]int64, 4)
		if err := tx.QueryRow(latestTimes).Scan(&times[0], &times[1], &times[2], &times[3]); err != nil {
			return err
		}
		ahead := slices.Max(times) - e.now()
		if ahead < minRewind.Milliseconds() {
			return nil
		}
		shift = ahead
		if _, err := tx.Exec(rewindJobs, shift, shift, shift, shift, shift, shift, shift, shift, shift); err != nil {
			return err
		}
		_, err = tx.Exec(rewindBatches, shift, shift, shift)
		return err
	})
	if err == nil && shift > 0 {
		e.Logger.Warn("the clock was set back since the last start: the times of all jobs are moved back with it", "by", duration(shift))
	}
	return err
}
