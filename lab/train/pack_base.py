"""Packs the teacher's published weights to int8 by row, so that they can be copied to the training machine in two parts.

    python pack_base.py model.safetensors mpnet.int8
"""

import sys

import model

model.pack(model.base_weights(sys.argv[1], model.MPNET), sys.argv[2])
