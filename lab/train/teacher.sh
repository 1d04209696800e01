#!/usr/bin/env bash
# On the training machine, in the folder with scripts, data and weights: trains the teacher, scores all pairs with it.
set -eu
cd "$(dirname "$0")"
export PYTHONUNBUFFERED=1
common="--data data --keep keep --tokenizer tokenizer.json"
python3 train.py teacher --base mpnet.int8 --out teacher $common --epochs 3 --size 128 --seconds "${TEACHER_SECONDS:-420}" | tee teacher.log
