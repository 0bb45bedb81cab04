#!/usr/bin/env bash
# Judges a deployment and writes human-readable reports and reports for CI. action.yml runs it in GitHub
# Actions; elsewhere set the variables:
#
#   BASE_URL=https://… API_KEY=… PROFILE=jobs actions/conformance/judge.sh
#
#   BASE_URL, API_KEY  the deployment; default GPUCLOUD_BASE_URL and GPUCLOUD_API_KEY
#   ENDPOINT_ID        endpoint that runs the suite's image; default GPUCLOUD_ENDPOINT_ID
#   PROFILE            read (the default), jobs or full
#   SELECT             clauses, separated by spaces, such as JOB-* or !AUT-03
#   KNOWN_FAILING      file of known deviations
#   FLAGS              further flags of conformance run, separated by spaces
#   REPORTS            folder of the reports; default conformance-reports
#   CONFORMANCE        path of the program; otherwise PATH, or a build
#
# It exits with the suite's status.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../program.sh"

export GPUCLOUD_BASE_URL=${BASE_URL:-${GPUCLOUD_BASE_URL:-}} GPUCLOUD_API_KEY=${API_KEY:-${GPUCLOUD_API_KEY:-}}
missing=()
case " ${FLAGS:-} " in
*" --local "* | *" --help "*) ;;
*)
  [ -n "$GPUCLOUD_BASE_URL${GPUCLOUD_BASE_URL_V1:-}${GPUCLOUD_QUEUE_URL:-}" ] || [[ ${FLAGS:-} == *-url* ]] || missing+=(BASE_URL)
  [ -n "$GPUCLOUD_API_KEY" ] || missing+=(API_KEY)
  ;;
esac
if [ ${#missing[@]} -gt 0 ]; then
  echo "No deployment: set ${missing[*]}, or the same variables with the prefix GPUCLOUD_" >&2
  exit 2
fi

path=$(program conformance)
reports=${REPORTS:-${RUNNER_TEMP:-.}/conformance-reports}
mkdir -p "$reports"
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
