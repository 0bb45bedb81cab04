moved {
  from = runpod_endpoint.api
  to   = gpucloud_endpoint.api
}

moved {
  from = runpod_network_volume.models
  to   = gpucloud_network_volume.models
}

moved {
  from = runpod_pod.lab
  to   = gpucloud_pod.lab
}
