"""Replaces a language model by an echo. A request to /openai reaches the worker as a job
with its route and its body."""

import json
import os
import sys

job_input = json.load(sys.stdin)
model = os.environ.get("MODEL", "small-chat")


def chat(body):
    text = "You said: " + body["messages"][-1]["content"]
    answer = {"id": "chat-" + os.environ["GPUCLOUD_JOB_ID"], "model": model}
    if not body.get("stream"):
        message = {"role": "assistant", "content": text}
        print(json.dumps(answer | {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
        return
    for word in text.split(" "):  # each chunk is a piece of the event stream
        delta = {"index": 0, "delta": {"content": word + " "}}
        event = json.dumps(answer | {"object": "chat.completion.chunk", "choices": [delta]})
        print(json.dumps("data: " + event + "\n\n"), flush=True)
    print(json.dumps("data: [DONE]\n\n"))


match job_input.get("openai_route"):
    case "/v1/models":
        print(json.dumps({"object": "list", "data": [{"id": model, "object": "model"}]}))
    case "/v1/chat/completions":
        chat(job_input["openai_input"])
    case route:
        sys.exit(f"unknown route {route}")
