variable "endpoint_id" {
  type = string
}

# terraform apply -invoke=action.gpucloud_endpoint_recycle_workers.latest -var=endpoint_id=…
action "gpucloud_endpoint_recycle_workers" "latest" {
  config {
    endpoint_id = var.endpoint_id
    timeout     = "15m"
  }
}
