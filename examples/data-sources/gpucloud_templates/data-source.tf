data "gpucloud_templates" "serverless" {
  serverless = true
}

output "images" {
  value = toset([for t in data.gpucloud_templates.serverless.templates : t.image])
}
