"""A real Triton with small models of every kind our client must get on with. Prints its gRPC address when it is ready, and ends
when nobody holds its standard input any more.

  words    decoupled: streams the prompt's last question back, word by word
  whole    not decoupled: the same in one piece
  json     decoupled: a fence of JSON, in three pieces that cut letters
  broken   decoupled: a word, and then an error
  wrong    not decoupled: an error
  slow     decoupled: a word every second, for a minute
  numbers  takes no text
  asleep   was loaded, and then unloaded
"""
import json, os, socket, sys, time

# The output of Triton's child processes must not mix with the one line that the caller reads.
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import numpy as np
import tritonclient.grpc
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig, TritonSecurityConfig


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def question(requests):
    # Some are batches, some single: `requests` is a list either way.
    text = requests[0].data["text_input"].reshape(-1)[0].decode("utf-8")
    # "System: …\n\nUser: QUESTION\n\nAssistant:"
    return text.split("User: ")[-1].split("\n\n")[0]


def text(value):
    data = value if isinstance(value, bytes) else value.encode("utf-8")
    return [{"text_output": np.array([data], dtype=object)}]


def words(requests):
    for word in question(requests).split(" "):
        yield text(word + " ")


def whole(requests):
    return text(question(requests) + f" [{requests[0].data['max_tokens'].reshape(-1)[0]}]")


def pieces(requests):
    answer = '```json\n{"steps": ["schön"]}\n```'.encode("utf-8")
    for piece in (answer[:9], answer[9:24], answer[24:]):
        yield text(piece)


def broken(requests):
    yield text("Hello ")
    raise RuntimeError("the model fell over")


def wrong(requests):
    raise RuntimeError("the model fell over")


def slow(requests):
    for second in range(60):
        yield text(f"{second} ")
        time.sleep(1)


def numbers(requests):
    return [{"text_output": np.array([b"4"], dtype=object)}]


TEXT = Tensor(name="text_input", dtype=bytes, shape=(1,))
LIMIT = Tensor(name="max_tokens", dtype=np.int32, shape=(1,))
TEXT_OUTPUT = Tensor(name="text_output", dtype=bytes, shape=(1,))
port = free_port()
config = TritonConfig(http_port=free_port(), grpc_port=port, metrics_port=free_port(), http_address="127.0.0.1", grpc_address="127.0.0.1")
# Only so that a model can be put to sleep: by default that wants a token.
with Triton(config=config, security_config=TritonSecurityConfig(restricted_endpoints=[])) as triton:
    for name, infer, inputs, decoupled in [
        ("words", words, [TEXT], True),
        ("whole", whole, [TEXT, LIMIT], False),
        ("json", pieces, [TEXT], True),
        ("broken", broken, [TEXT], True),
        ("wrong", wrong, [TEXT], False),
        ("slow", slow, [TEXT], True),
        ("numbers", numbers, [Tensor(name="input_ids", dtype=np.int32, shape=(1,))], False),
        ("asleep", words, [TEXT], True),
    ]:
        triton.bind(model_name=name, infer_func=infer, inputs=inputs, outputs=[TEXT_OUTPUT], config=ModelConfig(batching=False, decoupled=decoupled))
    triton.run()
    client = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port}")
    client.unload_model("asleep")
    while client.is_model_ready("asleep"):
        time.sleep(0.1)
    print(json.dumps({"url": f"http://127.0.0.1:{port}", "version": client.get_server_metadata().version}), file=out, flush=True)
    sys.stdin.read()
