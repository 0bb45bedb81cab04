variable "endpoint_id" {
  type = string
}

# terraform apply -invoke=action.gpucloud_endpoint_purge_queue.all -var=endpoint_id=…
action "gpucloud_endpoint_purge_queue" "all" {
  config {
    endpoint_id = var.endpoint_id
  }
}
