data "gpucloud_catalog_templates" "workers" {
  source     = "official"
  serverless = true
}

output "official_images" {
  value = { for t in data.gpucloud_catalog_templates.workers.catalog_templates : t.name => t.image }
}
