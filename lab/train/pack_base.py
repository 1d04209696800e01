"""Packs published weights to int8 by row, so that they can be copied to the training machine.

    python pack_base.py mpnet model.safetensors mpnet.int8
    python pack_base.py minilm model.fp16.safetensors minilm.int8
"""

import sys

import model

model.pack(model.base_weights(sys.argv[2], {"mpnet": model.MPNET, "minilm": model.MINILM}[sys.argv[1]]), sys.argv[3])
