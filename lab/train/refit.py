"""Fits the weights of the rules beside a trained model on the calibration pairs, and writes them into its weights file. No GPU, no torch.

    cargo run --release -p evidence --example signals < calibrate.eval.jsonl > signals.jsonl
    cargo run --release -p verifier --example odds -- verifier.bin tokenizer.json < calibrate.eval.jsonl > odds.jsonl
    python refit.py --data DATA --signals signals.jsonl --odds odds.jsonl --weights verifier.bin
"""

import argparse, gzip, hashlib, json, pathlib

import numpy as np

from fit import SIGNALS, decision


def write_floats(path, name, values):
    """Replaces a tensor of floats in a weights file; its size stays."""
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8 : 8 + size])[name]["data_offsets"]
    blob = np.array(values, "<f4").tobytes()
    assert len(blob) == end - begin, f"{name} has another size in the file"
    data[8 + size + begin : 8 + size + end] = blob
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def main():
    options = argparse.ArgumentParser()
    for name in ("data", "signals", "odds", "weights"):
        options.add_argument(f"--{name}", type=pathlib.Path, required=True)
    o = options.parse_args()
    with gzip.open(o.data / "calibrate.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    lines = lambda path: np.array([json.loads(line) for line in path.read_text().splitlines() if not line.startswith('"')], float)
    signals, odds = lines(o.signals), lines(o.odds)
    assert len(rows) == len(signals) == len(odds), "the files are of other pairs"
    weights = decision(rows, signals, odds[:, 0])
    print(dict(zip(SIGNALS, np.round(weights, 3).tolist())))
    print(o.weights, write_floats(o.weights, "decision", weights))


if __name__ == "__main__":
    main()
