"""Counts the words of {"text": "…"}."""

import json
import os
import sys

job_input = json.load(sys.stdin)
print(json.dumps({"words": len(job_input["text"].split()), "language": os.environ["LANGUAGE"]}))
