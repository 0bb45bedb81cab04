"""Converts text to upper case, word by word: {"text": "hello world"} streams "HELLO!" and
"WORLD!", and returns {"text": "HELLO! WORLD!"}."""

import json
import os
import sys

order = json.load(sys.stdin)
if not isinstance(order, dict) or not isinstance(order.get("text"), str):
    sys.exit('the input has no text: send {"text": "…"}')
words = []
for word in order["text"].split():
    words.append(word.upper() + os.environ.get("END", ""))
    print(json.dumps(words[-1]), flush=True)  # a chunk of the stream
print(json.dumps({"text": " ".join(words)}))  # the last line is the output
