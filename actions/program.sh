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

# platform prints how Go names this machine's system and processor.
platform() {
  local processor
  processor=$(uname -m)
  case $processor in
  x86_64) processor=amd64 ;;
  aarch64) processor=arm64 ;;
  esac
  echo "$(uname -s | tr A-Z a-z)_$processor"
}

# install_provider puts the provider where terraform and tofu init look before they ask a
# registry, as `make install` does: no registry has it. One that is there stays. PROVIDER is
# the path of the program, or none.
install_provider() {
  local plugins=$HOME/.terraform.d/plugins name=terraform-provider-gpucloud path source host folder
  local installed=("$plugins"/registry.terraform.io/gpucloud/gpucloud/*/"$(platform)/$name"*)
  if [ "${PROVIDER:-}" = none ] || { [ -z "${PROVIDER:-}" ] && [ -e "${installed[0]}" ]; }; then
    return
  fi
  source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  if [ -n "${PROVIDER:-}" ]; then
    path=$PROVIDER
  elif ! path=$(command -v "$name"); then
    path=${RUNNER_TEMP:-$source}/bin/$name
    if ! command -v go >/dev/null; then
      echo "The provider is not installed, and Go to build it is not either: terraform init will not find it. Install Go, or set PROVIDER to the path of $name" >&2
      return
    fi
    echo "Building the provider from $source" >&2
    # Without the commit, which is in no release's name: the checksum is the same for the same source.
    (cd "$source" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$path" .) >&2 || return
  fi
  for host in registry.terraform.io registry.opentofu.org; do
    folder=$plugins/$host/gpucloud/gpucloud/0.0.1/$(platform)
    # Renamed: another job of this machine may run the one that is there.
    mkdir -p "$folder" && cp "$path" "$folder/.$name.$$" && mv -f "$folder/.$name.$$" "$folder/$name" || return
  done
  echo "The provider is in $plugins, where terraform init finds it" >&2
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
