data "gpucloud_cpu_types" "all" {
  product = ["SERVERLESS"]
}

output "price_of_16_vcpus" {
  value = { for t in data.gpucloud_cpu_types.all.cpu_types : t.id => 16 * t.price.serverless_per_vcpu if t.vcpu.max >= 16 }
}
