# Each is "error", "warning" or "off". Checks that are left out keep their default.
provider "gpucloud" {
  max_hourly_cost = 5

  plan_checks = {
    names        = "error"   # an unknown GPU type, pool or CPU flavor
    data_centers = "error"   # volumes, data_center_ids and GPUs without a common data center
    stock        = "off"     # no requested GPU or CPU is in stock: by default "warning"
    cost         = "warning" # above max_hourly_cost: by default "error"
  }
}

# It may cost 8.80 USD an hour: the plan only warns.
resource "gpucloud_endpoint" "chat" {
  name    = "chat"
  image   = "registry.example.com/chat:1"
  gpu     = { type_ids = ["NVIDIA GeForce RTX 4090"] }
  workers = { max = 8 }
}
