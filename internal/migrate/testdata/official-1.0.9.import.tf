removed {
  from = runpod_container_registry_auth.ci
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_registry_auth.ci
  id = "auth109"
}

removed {
  from = runpod_ecr_delegation.app
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_registry_delegation.app
  id = "del109"
}

removed {
  from = runpod_endpoint.api
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_endpoint.api
  id = "ep109"
}

removed {
  from = runpod_endpoint.inline
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_endpoint.inline
  id = "epin109"
}

removed {
  from = runpod_network_volume.models
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_network_volume.models
  id = "vol109"
}

removed {
  from = runpod_pod.lab
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_pod.lab
  id = "pod109"
}

removed {
  from = runpod_pod.templated
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_pod.templated
  id = "podt109"
}

removed {
  from = runpod_template.worker
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_template.worker
  id = "tpl109"
}
