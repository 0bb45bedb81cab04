removed {
  from = runpod_account_ssh_keys.all
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_ssh_keys.all
  id = "account"
}

removed {
  from = runpod_cluster.train
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_cluster.train
  id = "cl200"
}

removed {
  from = runpod_network_volume.models
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_network_volume.models
  id = "vol200"
}

removed {
  from = runpod_pod.lab
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_pod.lab
  id = "pod200"
}

removed {
  from = runpod_pod.templated
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_pod.templated
  id = "podt200"
}

# runpod_pod_action.stop can't be moved: use the actions gpucloud_pod_start, gpucloud_pod_stop and gpucloud_pod_restart, or desired_state of gpucloud_pod.

removed {
  from = runpod_registry.ci
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_registry_auth.ci
  id = "auth200"
}

removed {
  from = runpod_registry_delegation.app
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_registry_delegation.app
  id = "del200"
}

removed {
  from = runpod_serverless_endpoint.api
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_endpoint.api
  id = "ep200"
}

removed {
  from = runpod_serverless_endpoint.inline
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_endpoint.inline
  id = "epin200"
}

removed {
  from = runpod_template.worker
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_template.worker
  id = "tpl200"
}
