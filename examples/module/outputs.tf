output "endpoint_id" {
  description = "Id of the endpoint."
  value       = gpucloud_endpoint.worker.id
}

output "run_url" {
  description = "POST a job here: {\"input\": {…}}."
  value       = gpucloud_endpoint.worker.request_urls.run
}
