removed {
  from = runpod_pod.lab
  lifecycle {
    destroy = false
  }
}

import {
  to = gpucloud_pod.lab
  id = "podNIL"
}
