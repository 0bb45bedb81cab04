#!/usr/bin/env bash
# Judges the deployment that GPUCLOUD_BASE_URL and GPUCLOUD_API_KEY name. It only reads.
set -euo pipefail
cd "$(dirname "$0")"

export PROFILE=read REPORTS=conformance-reports
exec "${GPUCLOUD_SOURCE:?a clone of gpucloud/terraform-provider-gpucloud}/actions/conformance/judge.sh"
