#!/usr/bin/env bash
# The step of action.yml. Its inputs are environment variables.
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/../jobrunner.sh" stop
log=${JOBRUNNER_STATE:-$RUNNER_TEMP/.jobrunner}/log
if [ -f "$log" ]; then
  echo "::group::Log of the jobrunner"
  tail -n "${LINES_OF_LOG:-50}" "$log"
  echo "::endgroup::"
fi
