"""llama.cpp's own server, from PyPI's xllamacpp, over given weights: `llamacpp.py WEIGHTS THREADS`.

Prints one line of JSON with its address when it is ready, and ends when nobody holds its standard input any more.
"""
import importlib.metadata, json, sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[2])
params.n_ctx = 4096
params.n_parallel = 1
params.use_jinja = True
params.hostnames = ["127.0.0.1"]
params.port = 0
server = xllamacpp.Server(params)
version = importlib.metadata.version("xllamacpp")
print(json.dumps({"url": server.listening_address, "version": version, "system": xllamacpp.get_system_info()}), flush=True)
sys.stdin.read()
