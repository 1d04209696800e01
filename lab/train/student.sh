#!/usr/bin/env bash
# On the training machine, after teacher.sh: trains the student; everything that is kept lies in out/.
set -eu
cd "$(dirname "$0")"
for _ in $(seq 540); do [ -f keep/scored ] && break; sleep 1; done
export PYTHONUNBUFFERED=1
python3 train.py student --base model.fp16.safetensors --data data --keep keep --tokenizer tokenizer.json --seconds "${STUDENT_SECONDS:-270}" --out out | tee student.log
cp data/manifest.json student.log teacher.log out/ 2>/dev/null || true
