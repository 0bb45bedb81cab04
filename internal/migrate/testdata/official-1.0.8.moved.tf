moved {
  from = module.batch["eu"].runpod_endpoint.cpu
  to   = module.batch["eu"].gpucloud_endpoint.cpu
}

moved {
  from = runpod_container_registry_auth.ci
  to   = gpucloud_registry_auth.ci
}

moved {
  from = runpod_endpoint.api
  to   = gpucloud_endpoint.api
}

moved {
  from = runpod_network_volume.models
  to   = gpucloud_network_volume.models
}

removed {
  from = runpod_network_volume.renamed
  lifecycle {
    destroy = false
  }
}

# The state has no valid id of runpod_network_volume.renamed.
import {
  to = gpucloud_network_volume.renamed
  id = "weights"
}

moved {
  from = runpod_pod.lab
  to   = gpucloud_pod.lab
}

# runpod_pod_action.stop can't be moved: use the actions gpucloud_pod_start, gpucloud_pod_stop and gpucloud_pod_restart, or desired_state of gpucloud_pod.

moved {
  from = runpod_template.worker
  to   = gpucloud_template.worker
}
