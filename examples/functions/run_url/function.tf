terraform {
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

variable "endpoint_id" {
  description = "Endpoint of another team."
  type        = string
  default     = "wg7k2m4n6p"
}

output "run_url" {
  value = provider::gpucloud::run_url(var.endpoint_id, "https://queue.example.com") # https://queue.example.com/v2/wg7k2m4n6p/run
}
