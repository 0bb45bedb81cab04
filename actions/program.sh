# Functions that find, build and install this project's programs, for the scripts of actions/.

# program NAME prints a program's path: the variable JOBRUNNER or CONFORMANCE, the program
# on PATH, or a build from this clone.
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
    echo "Neither $1 nor Go, which could build it, is on PATH: install one of them, or set $variable to its path" >&2
    return 1
  fi
}

# platform prints this machine's system and processor in Go's names.
platform() {
  local processor
  processor=$(uname -m)
  case $processor in
  x86_64) processor=amd64 ;;
  aarch64) processor=arm64 ;;
  esac
  echo "$(uname -s | tr A-Z a-z)_$processor"
}

# install_provider installs the provider where terraform and tofu init look before they ask
# a registry, like `make install`. It keeps an installed one. PROVIDER is the program's path,
# or none.
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
      echo "Neither the provider nor Go, which could build it, is installed: terraform init will not find it. Install Go, or set PROVIDER to the path of $name" >&2
      return
    fi
    echo "Building the provider from $source" >&2
    # Without the commit, so that the same source has the same checksum.
    (cd "$source" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$path" .) >&2 || return
  fi
  for host in registry.terraform.io registry.opentofu.org; do
    folder=$plugins/$host/gpucloud/gpucloud/0.0.1/$(platform)
    # Renamed, because another job of this machine may run the old one.
    mkdir -p "$folder" && cp "$path" "$folder/.$name.$$" && mv -f "$folder/.$name.$$" "$folder/$name" || return
  done
  echo "The provider is in $plugins, where terraform init finds it" >&2
}

# within SECONDS COMMAND... waits until a command succeeds. It fails after SECONDS.
within() {
  local left=$(($1 * 10))
  shift
  until "$@"; do
    [ $((left -= 1)) -gt 0 ] || return 1
    sleep 0.1
  done
}
