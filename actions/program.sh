# Sourced by the scripts of actions/: finds the programs of this project.

# program NAME prints the path of one: that of a variable (JOBRUNNER, CONFORMANCE), the one
# on PATH, else it is built from the source that this script is a part of.
program() {
  local variable source bin
  variable=$(echo "$1" | tr a-z A-Z)
  source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  bin=${RUNNER_TEMP:-$source}/bin
  if [ -n "${!variable:-}" ]; then
    echo "${!variable}"
  elif command -v "$1"; then
    :
  elif [ -x "$bin/$1" ]; then
    echo "$bin/$1"
  elif command -v go >/dev/null; then
    echo "Building $1 from $source" >&2
    (cd "$source" && CGO_ENABLED=0 go build -trimpath -o "$bin/" "./cmd/$1") >&2 || return
    echo "$bin/$1"
  else
    echo "$1 is not on PATH, and Go to build it is not either: install one of them, or set $variable to its path" >&2
    return 1
  fi
}

# within SECONDS COMMAND... waits until a command succeeds, and fails where it does not in time.
within() {
  local left=$(($1 * 10))
  shift
  until "$@"; do
    [ $((left -= 1)) -gt 0 ] || return 1
    sleep 0.1
  done
}
