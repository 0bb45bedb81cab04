#!/bin/sh
# A fake CLI of a container engine with the commands that the jobrunner uses. A
# container is a file in $FAKE_ENGINE/containers, and the process that started it.
# The file calls has the arguments of every call.
cd "${FAKE_ENGINE:?}" || exit 1
{
	printf 'CALL'
	for word; do printf '|%s' "$word"; done
	printf '\n'
} >>calls
[ -e down ] && { echo "Cannot connect to the daemon. Is it running?" >&2; exit 1; }

config=
if [ "$1" = --config ]; then
	config=$2/config.json
	shift 2
fi
command=$1
shift
case $command in
version)
	[ -p slow ] && read -r _ <slow
	echo 99.1
	;;
context) echo unix:///run/fake.sock ;;
logs) cat logs ;;
network) ;; # succeeds, and lists no network
image)
	for last; do :; done
	grep -qxF "$last" images 2>/dev/null || { echo "Error: No such image" >&2; exit 1; }
	;;
pull)
	for last; do :; done
	[ "$1 $2" = "--quiet --authfile" ] && config=$3
	[ -n "$config" ] && { stat -c %a "$config"; cat "$config"; echo; echo "host $DOCKER_HOST"; } >login
	case $last in *private*) [ -n "$config" ] || { printf 'pulling\nunauthorized: log in first\n' >&2; exit 1; } ;; esac
	echo "pulling $last" >&2
	echo "$last" >>images
	;;
create)
	[ -p creating ] && read -r _ <creating
	name= run=
	while [ $# -gt 0 ]; do
		case $1 in
		--name) name=$2; shift ;;
		--label) case $2 in gpucloud.run=*) run=${2#*=} ;; esac; shift ;;
		--env-file) stat -c %a "$2" >env.mode; sort "$2" >env; shift ;;
		--env) eval "printf '%s=%s\n' \"$2\" \"\$$2\"" >>env.inherited; shift ;;
		--storage-opt) echo "Error response from daemon: --storage-opt is not supported" >&2; exit 125 ;;
		--network | --mount | --pull | --gpus | --device | --entrypoint | --publish | --add-host | --log-driver | --stop-timeout) shift ;;
		--*) ;;
		*) break ;;
		esac
		shift
	done
	shift # the image
	mkdir -p containers
	echo "$run" >"containers/$name"
	[ $# -gt 0 ] && printf '%s\n' "$@" >words
	echo "0123456789ab"
	;;
start)
	[ "$1" = --attach ] && shift
	[ -p starting ] && read -r _ <starting
	echo "$1" >started
	[ -e "containers/$1" ] || { echo "No such container: $1" >&2; exit 1; }
	echo "$OLDPWD" >start.dir
	echo "hello from $1"
	echo $$ >"containers/$1.pid"
	[ -e exit ] && exit "$(cat exit)"
	while [ -e "containers/$1" ]; do sleep 0.02; done
	exit 137
	;;
inspect)
	for last; do :; done
	[ -e "containers/$last" ] || { echo "No such container: $last" >&2; exit 1; }
	case $2 in
	*OOMKilled*) echo false "$(cat exit 2>/dev/null || echo 137)" "$(cat oom 2>/dev/null || echo false)" ;;
	*) cat "containers/$last.pid" ;;
	esac
	;;
rm)
	[ "$1 $2" = "--force --volumes" ] || { echo "it would leave volumes" >&2; exit 1; }
	shift 2
	for c; do
		[ -e "containers/$c" ] || { echo "No such container: $c" >&2; code=1; continue; }
		rm -f "containers/$c" "containers/$c.pid"
	done
	exit ${code:-0}
	;;
ps)
	for last; do :; done
	case $last in
	name=*) name=${last#name=^/?}; name=$(printf %s "${name%?}" | tr -d '\\'); [ -e "containers/$name" ] && echo "$name" ;;
	\{\{.Names*) [ ! -e orphans ] || cat orphans; exit ;;
	label=gpucloud.run=*) cd containers 2>/dev/null && grep -lxF "${last#label=gpucloud.run=}" -- * ;;
	esac
	exit 0
	;;
*) echo "no such command: $command" >&2; exit 1 ;;
esac
