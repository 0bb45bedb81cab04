# Runs a cluster with one node on this machine, in the current folder, until its input ends.
# Then it deletes the folder. $1 is the folder of the programs, $2 a number that no other cluster
# of this machine has, $3 to $6 are the ports of the API server, of etcd (clients, peers) and the
# scheduler. A line of input adds a node (`node 2`) or starts a program that was killed
# (`begin kubelet1`). NAME.pid contains the process id of a program.
programs=$1 number=$2 api_port=$3 etcd_port=$4 peer_port=$5 scheduler_port=$6 here=$PWD
# Only this machine and its Pods reach the addresses of nodes and of the jobrunner.
# Each cluster has its own subnet, because the routes of a killed cluster stay.
nodes=198.19.$number pods=198.18.$number added=

cat >kubeconfig <<end
{"apiVersion": "v1", "kind": "Config", "current-context": "test",
 "clusters": [{"name": "test", "cluster": {"server": "https://127.0.0.1:$api_port", "insecure-skip-tls-verify": true}}],
 "users": [{"name": "test", "user": {"token": "test"}}],
 "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}]}
end
echo 'test,test,test,"system:masters"' >tokens.csv
openssl genrsa -out accounts.key 2048 2>/dev/null

start() {
  name=$1
  shift
  "$@" >>"$name.log" 2>&1 </dev/null &
  eval "$name=\$!"
  echo "$!" >"$name.new" && mv "$name.new" "$name.pid"
}

begin() {
  case $1 in
  etcd) start etcd etcd --data-dir etcd --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" --listen-peer-urls "http://127.0.0.1:$peer_port" ;;
  apiserver) start apiserver "$programs/kube-apiserver" --etcd-servers="http://127.0.0.1:$etcd_port" --bind-address=127.0.0.1 --secure-port="$api_port" --cert-dir=certificates \
    --service-account-key-file=accounts.key --service-account-signing-key-file=accounts.key --service-account-issuer=https://kubernetes.default.svc \
    --token-auth-file=tokens.csv --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16 --disable-admission-plugins=ServiceAccount --kubelet-preferred-address-types=InternalIP ;;
  scheduler) start scheduler "$programs/kube-scheduler" --kubeconfig=kubeconfig --leader-elect=false --bind-address=127.0.0.1 --secure-port="$scheduler_port" ;;
  containerd*) start "$1" containerd -c "$1.toml" ;;
  kubelet*) start "$1" "$programs/kubelet" --kubeconfig=kubeconfig --config="$1.json" --root-dir="$here/$1" --hostname-override="node-${1#kubelet}" --node-ip="$nodes.${1#kubelet}" ;;
  esac
}

# node adds a node with its own containers, whose Pods have half of the subnet. It also has its
# own folder of logs, because a kubelet removes logs of Pods that it does not know.
node() {
  added="$added $1"
  cat >"kubelet$1.json" <<end
{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": "$nodes.$1", "healthzPort": 0,
 "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}}, "authorization": {"mode": "AlwaysAllow"},
 "containerRuntimeEndpoint": "unix://$here/containerd$1.sock", "cgroupDriver": "cgroupfs", "cgroupsPerQOS": false, "enforceNodeAllocatable": [], "podLogsDir": "$here/logs$1",
 "failCgroupV1": false, "failSwapOn": false, "localStorageCapacityIsolation": false,
 "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "1Mi"}}
end
  cat >"containerd$1.toml" <<end
version = 2
root = "$here/containerd$1"
state = "$here/containerd$1-state"
[grpc]
  address = "$here/containerd$1.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  containerd.snapshotter = "native"
  netns_mounts_under_state_dir = true
  cni = {bin_dir = "/usr/lib/cni", conf_dir = "$here/network$1"}
end
  mkdir -p "network$1"
  echo '{"cniVersion": "0.4.0", "name": "test", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "dataDir": "'"$here/addresses$1"'", "subnet": "'"$pods.$((($1 - 1) * 128))"'/25", "routes": [{"dst": "0.0.0.0/0"}]}}]}' >"network$1/10.conflist"
  ip addr add "$nodes.$1/32" dev lo
  begin "containerd$1"
  until [ -S "containerd$1.sock" ]; do sleep 0.1; done
  begin "kubelet$1"
}

begin etcd
# The API server exits if etcd does not answer within 20 s, which happens on a busy machine.
while kill -0 "$etcd" && [ -z "$(ss -Hltn "sport = :$etcd_port")" ]; do sleep 0.1; done
begin apiserver
begin scheduler
node 1
while read -r verb name; do "$verb" "$name"; done

for n in $added; do eval "kill \$kubelet$n"; done
kill "$scheduler" "$apiserver"
for n in $added; do
  for task in $(ctr -a "containerd$n.sock" -n k8s.io tasks ls -q); do ctr -a "containerd$n.sock" -n k8s.io tasks kill -s KILL "$task"; done
done
sleep 1
for n in $added; do eval "kill \$containerd$n"; done
kill "$etcd"
wait
for n in $added; do ip addr del "$nodes.$n/32" dev lo; done
ip -o route show root "$pods.0/24" | sed 's/.* dev \([^ ]*\) .*/\1/' | while read -r link; do ip link del "$link"; done
awk -v here="$here/" 'index($2, here) == 1 {print $2}' /proc/mounts | sort -r | while read -r mount; do umount -l "$mount"; done
rm -rf --one-file-system "$here"
