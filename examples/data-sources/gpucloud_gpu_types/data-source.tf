# GPU types that a serverless endpoint can get now, with prices.
data "gpucloud_gpu_types" "now" {
  product          = ["SERVERLESS"]
  min_memory       = 24
  min_availability = "LOW"
}

output "price_by_type" {
  value = { for t in data.gpucloud_gpu_types.now.gpu_types : t.id => t.price.serverless }
}
