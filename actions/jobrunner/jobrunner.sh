#!/usr/bin/env bash
# Starts a jobrunner for the tests of a CI job, and stops it.
#
#   variables=$(actions/jobrunner/jobrunner.sh start [flag of jobrunner serve]...)
#   eval "$variables"
#   actions/jobrunner/jobrunner.sh stop
#
# start prints the deployment's variables for eval; use two steps, because eval "$(…)" hides
# a failed start. In GitHub Actions it writes them to GITHUB_ENV and masks the key. The
# jobrunner listens on a free port of this machine, has a new key and stores nothing. start
# also installs the provider in the home folder if it is missing, unless PROVIDER=none.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../program.sh"

# The folder that start leaves for stop. GitLab jobs on one machine have a folder each.
state=${JOBRUNNER_STATE:-${RUNNER_TEMP:-${CI_PROJECT_DIR:-${TMPDIR:-/tmp}}}/.jobrunner}

# running reports whether the recorded jobrunner runs. Its process id may belong to another
# process by now.
running() {
  [ -f "$state/pid" ] && ps -o args= -p "$(cat "$state/pid")" 2>/dev/null | grep -q 'serve --ephemeral'
}

# greeted reports whether the jobrunner has printed its variables or has ended. It doesn't use
# running, because ps shows the jobrunner only some milliseconds after the fork.
greeted() { grep -qs '^Next:' "$state/greeting" || ! kill -0 "$(cat "$state/pid")" 2>/dev/null; }

stopped() { ! running; }

value() { sed -n "s/^export $1=//p" "$state/greeting"; }

# set_variable NAME VALUE sets a variable for the next steps.
set_variable() {
  if [ -n "${GITHUB_ENV:-}" ]; then
    echo "$1=$2" >>"$GITHUB_ENV"
  else
    echo "export $1='$2'"
  fi
}

start() {
  if ! command -v ps >/dev/null; then
    echo "ps is missing, which checks whether the jobrunner runs: install it (Debian: procps)" >&2
    exit 1
  fi
  if running; then
    echo "A jobrunner runs already, with its log in $state: stop it, or set JOBRUNNER_STATE to another folder" >&2
    exit 1
  fi
  local path url key
  path=$(program jobrunner)
  install_provider
  mkdir -p "$state" && chmod 700 "$state" && rm -f "$state"/*
  # Without the settings of another deployment. nohup, so that it outlives this step.
  env -u GPUCLOUD_API_KEY -u GPUCLOUD_API_KEY_FILE -u GPUCLOUD_ENGINE -u GPUCLOUD_ENGINE_FILE -u GITHUB_ENV \
    nohup "$path" serve --ephemeral --listen=127.0.0.1:0 "$@" >"$state/greeting" 2>"$state/log" </dev/null &
  echo $! >"$state/pid"
  if ! within 60 greeted || ! running; then
    echo "The jobrunner did not start:" >&2
    cat "$state/log" >&2
    stop >&2
    exit 1
  fi
  url=$(value GPUCLOUD_BASE_URL) key=$(value GPUCLOUD_API_KEY)
  if [ -n "${GITHUB_ENV:-}" ]; then
    echo "::add-mask::$key"
    { echo "url=$url"; echo "sdk-url=$url/live/v2"; echo "log=$state/log"; } >>"$GITHUB_OUTPUT"
  fi
  echo "A deployment runs at $url, with its log in $state/log" >&2
  set_variable GPUCLOUD_BASE_URL "$url"
  set_variable GPUCLOUD_BASE_URL_V1 ""
  set_variable GPUCLOUD_QUEUE_URL "" # or jobs would go to another deployment
  set_variable GPUCLOUD_API_KEY "$key"
  set_variable RUNPOD_ENDPOINT_BASE_URL "$url/live/v2"
  set_variable RUNPOD_API_KEY "$key"
}

stop() {
  if running; then
    kill "$(cat "$state/pid")"
    within 30 stopped || kill -9 "$(cat "$state/pid")"
  fi
  rm -f "$state/pid" "$state/greeting" # the greeting has the key; the log stays
}

case ${1:-} in
start) shift && start "$@" ;;
stop) stop ;;
*) echo "Usage: $0 start [flag of jobrunner serve]... | stop" >&2 && exit 2 ;;
esac
