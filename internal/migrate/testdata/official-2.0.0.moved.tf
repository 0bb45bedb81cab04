moved {
  from = runpod_account_ssh_keys.all
  to   = gpucloud_ssh_keys.all
}

moved {
  from = runpod_cluster.train
  to   = gpucloud_cluster.train
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

# runpod_pod_action.stop can't be moved: use the actions gpucloud_pod_start, gpucloud_pod_stop and gpucloud_pod_restart, or desired_state of gpucloud_pod.

moved {
  from = runpod_registry.ci
  to   = gpucloud_registry_auth.ci
}

moved {
  from = runpod_registry_delegation.app
  to   = gpucloud_registry_delegation.app
}

moved {
  from = runpod_serverless_endpoint.api
  to   = gpucloud_endpoint.api
}

moved {
  from = runpod_serverless_endpoint.inline
  to   = gpucloud_endpoint.inline
}

moved {
  from = runpod_template.worker
  to   = gpucloud_template.worker
}
