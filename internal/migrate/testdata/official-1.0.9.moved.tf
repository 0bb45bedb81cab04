moved {
  from = runpod_container_registry_auth.ci
  to   = gpucloud_registry_auth.ci
}

moved {
  from = runpod_ecr_delegation.app
  to   = gpucloud_registry_delegation.app
}

moved {
  from = runpod_endpoint.api
  to   = gpucloud_endpoint.api
}

moved {
  from = runpod_endpoint.inline
  to   = gpucloud_endpoint.inline
}

moved {
  from = runpod_network_volume.models
  to   = gpucloud_network_volume.models
}

moved {
  from = runpod_pod.lab
  to   = gpucloud_pod.lab
}

moved {
  from = runpod_pod.templated
  to   = gpucloud_pod.templated
}

moved {
  from = runpod_template.worker
  to   = gpucloud_template.worker
}
