resource "gpucloud_network_volume" "work" {
  name        = "work"
  size        = 100
  data_center = "EU-RO-1"
}

# desired_state = "EXITED" stops the pod and keeps its volume.
resource "gpucloud_pod" "notebook" {
  name  = "notebook"
  image = "registry.example.com/notebook:3"
  gpu   = { id = "NVIDIA L4", count = 1 }
  disk  = 40
  ports = ["8888/http", "22/tcp"]
  env   = { MODE = "lab" }

  mounts = {
    network = [{ volume_id = gpucloud_network_volume.work.id, path = "/work" }]
  }

  start_ssh           = true
  desired_state       = "RUNNING"
  deletion_protection = false # true rejects every plan that would delete it
}
