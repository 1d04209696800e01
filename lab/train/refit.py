"""Fits a trained model's calibration and the weights of the rules beside it on the calibration pairs, and writes both into its weights file. No GPU, no torch.

    cargo run --release -p evidence --example signals < calibrate.eval.jsonl > signals.jsonl
    python refit.py --data DATA --signals signals.jsonl --logits calibrate_logits.npy --tokenizer tokenizer.json --weights verifier.bin
"""

import argparse, gzip, hashlib, json, pathlib

import numpy as np
from tokenizers import Tokenizer

from fit import SIGNALS, balance, decision, fitted

# As in train.py: tokens of a window with its claim, and of a claim.
TOKENS_MAX, CLAIM_TOKENS_MAX = 352, 120


def tensor(data, name):
    """The bytes of a tensor in a weights file, as a slice."""
    size = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8 : 8 + size])[name]["data_offsets"]
    return slice(8 + size + begin, 8 + size + end)


def claim_starts(rows, path):
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    count = lambda key: np.array([len(e.ids) for e in tokenizer.encode_batch([row[key] for row in rows], add_special_tokens=False)])
    return np.minimum(count("p"), TOKENS_MAX - 3 - np.minimum(count("h"), CLAIM_TOKENS_MAX)) + 2


def main():
    options = argparse.ArgumentParser()
    for name in ("data", "signals", "logits", "tokenizer", "weights"):
        options.add_argument(f"--{name}", type=pathlib.Path, required=True)
    o = options.parse_args()
    with gzip.open(o.data / "calibrate.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    signals = np.array([json.loads(line) for line in o.signals.read_text().splitlines() if not line.startswith('"')], float)
    logits = np.load(o.logits).astype(float)
    assert len(rows) == len(signals) == len(logits), "the files are of other pairs"
    data = bytearray(o.weights.read_bytes())
    margin = logits[:, 0] - np.logaddexp(logits[:, 1], logits[:, 2])
    x = np.stack([margin, np.log(claim_starts(rows, o.tokenizer) / 64.0), np.ones(len(rows))], 1)
    calibration = fitted(x, np.array([row["y"] == 0 for row in rows], float), balance(rows))
    weights = decision(rows, signals, 1 / (1 + np.exp(-x @ calibration)))
    for name, values in (("calibration", calibration), ("decision", weights)):
        data[tensor(data, name)] = np.array(values, "<f4").tobytes()
    print("calibration: slope, length, constant", np.round(calibration, 4).tolist())
    o.weights.write_bytes(data)
    print(dict(zip(SIGNALS, np.round(weights, 3).tolist())))
    print(o.weights.name, len(data), hashlib.sha256(data).hexdigest())


if __name__ == "__main__":
    main()
