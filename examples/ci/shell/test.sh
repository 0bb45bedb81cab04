#!/usr/bin/env bash
# Tests the configuration against a jobrunner, in any CI or by hand. GPUCLOUD_SOURCE is a
# clone of https://github.com/gpucloud/terraform-provider-gpucloud. Needs ps and Go.
set -euo pipefail
cd "$(dirname "$0")"

jobrunner=${GPUCLOUD_SOURCE:?a clone of gpucloud/terraform-provider-gpucloud}/actions/jobrunner/jobrunner.sh
variables=$("$jobrunner" start --config=jobrunner.yaml)
trap '"$jobrunner" stop' EXIT
eval "$variables"

terraform init
terraform test
