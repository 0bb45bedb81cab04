import json
import sys
import time

job_input = json.load(sys.stdin)
time.sleep(job_input.get("seconds", 0))
print(json.dumps({"release": sys.argv[1]}))
