#!/usr/bin/env bash
# On the training machine: a student by the labels alone, then, if teacher.sh has scored the pairs, the same one by the teacher's scores and the labels. What is kept lies in first/ and out/.
set -eu
cd "$(dirname "$0")"
export PYTHONUNBUFFERED=1
common="--data data --keep keep --tokenizer tokenizer.json"
python3 train.py student --base minilm.int8 --out first --alpha 0 $common --epochs 4 --seconds "${FIRST_SECONDS:-300}" | tee first.log
[ -f keep/soft.npy ] || exit 0
cat first/verifier.bin.? > first.int8
python3 train.py student --base first.int8 --out out $common --epochs 8 --seconds "${STUDENT_SECONDS:-540}" | tee student.log
