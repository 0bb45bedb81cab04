package jobrunner

import (
	"log/slog"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// importance is that of a request's line in the log. What asks every few seconds
// by itself is no news while it is answered well: the page, those who scrape
// metrics, and workers that poll and ping.
func importance(path string, status int) slog.Level {
	switch {
	case path == "/metrics", page.Owns(path), workerapi.Polls(path) && status < http.StatusBadRequest:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
