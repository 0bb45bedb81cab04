# No single endpoint, pod or cluster may cost more than 5 USD an hour.
provider "gpucloud" {
  max_hourly_cost = 5
}

variable "workers" {
  type    = number
  default = 4
}

# The most expensive GPU of the pool ADA_24 is 1.10 USD: 4 workers may cost 4.40 USD.
resource "gpucloud_endpoint" "chat" {
  name    = "chat"
  image   = "registry.example.com/chat:1"
  gpu     = { pools = ["ADA_24"] }
  workers = { max = var.workers }
}
