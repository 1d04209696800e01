#!/usr/bin/env bash
# On the training machine, in the folder with scripts, data and weights: waits for the data, trains the teacher, scores all pairs with it.
set -eu
cd "$(dirname "$0")"
for _ in $(seq 300); do [ -f data/manifest.json ] && break; sleep 1; done
cp -f signals.jsonl data/ 2>/dev/null || true
cat mpnet.int8.0* > mpnet.int8
export PYTHONUNBUFFERED=1
python3 train.py teacher --base mpnet.int8 --data data --keep keep --tokenizer tokenizer.json --seconds "${TEACHER_SECONDS:-360}" --out out
python3 train.py score --data data --keep keep --tokenizer tokenizer.json
touch keep/scored
