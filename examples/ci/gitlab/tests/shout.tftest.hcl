provider "gpucloud" {}

run "creates_an_endpoint" {
  assert {
    condition     = gpucloud_endpoint.shout.workers.max == 1
    error_message = "Expected one worker at most, got ${gpucloud_endpoint.shout.workers.max}."
  }
}

run "answers_a_job" {
  module {
    source = "./tests/answers"
  }

  variables {
    endpoint_id = run.creates_an_endpoint.endpoint_id
  }
}
