#!/usr/bin/env bash
# The step of action.yml. Its inputs are environment variables.
set -euo pipefail
read -r -a flags <<<"${FLAGS:-}"
exec "$(dirname "${BASH_SOURCE[0]}")/jobrunner.sh" start ${CONFIG:+"--config=$CONFIG"} ${SIMULATE_GPUS:+"--simulate-gpus=$SIMULATE_GPUS"} \
  ${CATALOG:+"--catalog=$CATALOG"} ${flags[@]+"${flags[@]}"}
