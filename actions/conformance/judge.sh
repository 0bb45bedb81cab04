#!/usr/bin/env bash
# Judges a deployment, with reports for people and for CI. In a workflow of GitHub it is the
# step of action.yml; elsewhere its inputs are the same variables:
#
#   BASE_URL=https://… PROFILE=jobs actions/conformance/judge.sh
#
# The reports are in REPORTS, by default conformance-reports. It ends with the status of the suite.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../program.sh"

path=$(program conformance)
reports=${REPORTS:-${RUNNER_TEMP:-.}/conformance-reports}
mkdir -p "$reports"
export GPUCLOUD_BASE_URL=${BASE_URL:-${GPUCLOUD_BASE_URL:-}} GPUCLOUD_API_KEY=${API_KEY:-${GPUCLOUD_API_KEY:-}}
export GPUCLOUD_ENDPOINT_ID=${ENDPOINT_ID:-${GPUCLOUD_ENDPOINT_ID:-}}
read -r -a flags <<<"${FLAGS:-}"
read -r -a patterns <<<"${SELECT:-}"
for pattern in ${patterns[@]+"${patterns[@]}"}; do
  flags+=("--select=$pattern")
done

status=0
"$path" run --profile="${PROFILE:-read}" ${KNOWN_FAILING:+"--known-failing=$KNOWN_FAILING"} --ledger="$reports/ledger.jsonl" \
  --report="html=$reports/report.html" --report="junit=$reports/junit.xml" --report="json=$reports/report.json" --report="markdown=$reports/summary.md" \
  ${flags[@]+"${flags[@]}"} || status=$?

if [ -n "${GITHUB_OUTPUT:-}" ]; then
  { echo "reports=$reports"; echo "status=$status"; } >>"$GITHUB_OUTPUT"
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$reports/summary.md" ]; then
  cat "$reports/summary.md" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$status"
