removed {
  from = runpod_endpoint.api
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_endpoint.api
  id = "epDEC"
}

removed {
  from = runpod_network_volume.models
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_network_volume.models
  id = "volDEC"
}

removed {
  from = runpod_pod.lab
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_pod.lab["a"]
  id = "podDEC"
}
