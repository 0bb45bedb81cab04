removed {
  from = module.batch.runpod_endpoint.cpu
  lifecycle {
    destroy = false
  }
}

import {
  to = module.batch["eu"].gpucloud_endpoint.cpu[0]
  id = "epcpu108"
}

removed {
  from = runpod_container_registry_auth.ci
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_registry_auth.ci
  id = "auth108"
}

removed {
  from = runpod_endpoint.api
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_endpoint.api
  id = "ep108"
}

removed {
  from = runpod_network_volume.models
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_network_volume.models
  id = "vol108"
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

removed {
  from = runpod_pod.lab
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_pod.lab
  id = "pod108"
}

# runpod_pod_action.stop can't be moved: use the actions gpucloud_pod_start, gpucloud_pod_stop and gpucloud_pod_restart, or desired_state of gpucloud_pod.

removed {
  from = runpod_template.worker
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_template.worker
  id = "tpl108"
}
