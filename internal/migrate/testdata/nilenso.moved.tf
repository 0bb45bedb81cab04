moved {
  from = runpod_pod.lab
  to   = gpucloud_pod.lab
}
