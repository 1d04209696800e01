"""Chooses the constants of the decision (crates/evidence/src/decide.rs) on the development split alone.

    cargo run -p baton-verifier --example decisions < OUT/calibrate.eval.jsonl > dev.jsonl
    python choose.py tuning crates/evidence/tests/checked/tuning.txt > tuning.jsonl     # the half of the pairs labelled by hand that may be looked at
    cargo run -p baton-verifier --example decisions < tuning.jsonl > tuning.out.jsonl
    python choose.py recalibrate --data OUT --dev dev.jsonl --weights verifier.bin      # the log odds of a whole text and its excerpt are averaged; run both examples again after it
    python choose.py choose --data OUT --dev dev.jsonl --tuning tuning.jsonl --found tuning.out.jsonl

The development split is the calibration part of `prepare.py` (5% of the documents of every set) and `tuning.txt`. The test sets (OUT/test, held_out.txt) are never read here.
"""

import argparse, collections, gzip, itertools, json, math, pathlib, re, sys

TRUE = {"supported", "paraphrase"}
HARD = ["quotation", "address"]


def pairs(path):
    """`tuning.txt` as claims with evidence."""
    span, title, is_open = "", None, False
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith(">> "):
            title = line[3:]
        elif line.startswith("> "):
            span = f"{span}\n{line[2:]}" if is_open else (f"{title}. {line[2:]}" if title else line[2:])
            title, is_open = None, True
        else:
            is_open = False
            label, colon, sentence = line.partition(": ")
            if colon:
                yield {"claim": sentence, "evidence": [span], "label": label}


def log_odds(p):
    p = min(max(p, 1e-4), 1 - 1e-4)
    return math.log(p / (1 - p))


def model_odds(one):
    """As `Judgement::with_excerpt`: the mean of a whole text and its excerpt, where it has one."""
    whole = log_odds(one["model"])
    return whole if one.get("excerpt") is None else (whole + log_odds(one["excerpt"])) / 2


def contradiction(one, model):
    """As `Judgement::with_excerpt` and `ClaimPairs::verdict`: of a claim that the model does not support."""
    if model >= 0.5:
        return 0.0
    if one.get("excerpt") is None:
        return one["contradicted"]
    share = lambda supported, contradicted: contradicted / max(1 - supported, 1e-4)
    both = share(one["model"], one["contradicted"]) + share(one["excerpt"], one["excerpt_contradicted"])
    return min(1.0, both / 2) * (1 - model)


def has_other_numbers(claim, texts):
    """As `EvidenceForm::of`."""
    numbers = lambda text: {part.strip(".,") for part in re.split(r"[^0-9.,]+", text)} - {""}
    return not numbers(claim) <= set().union(*map(numbers, texts))


def is_supported(one, weights, c, is_converted=False):
    """As `CombinedScore::of`, with the constants `c`."""
    if not one["is_checked"]:
        return False
    kinds = set(one["problems"])
    has_fact = bool(kinds & {"number", "date"})
    has_name = "name" in kinds and one["words"] >= c["named_words"]
    if kinds & set(HARD):
        return False
    veto = bool(kinds & {"negation", "opposite", "swapped"}) or one["coverage"] >= c["copy_coverage"] and (has_fact or has_name)
    model = 1 / (1 + math.exp(-model_odds(one)))
    if veto and model < c["overrule"]:
        return False
    if veto and has_fact and model < c["overrule_fact"]:
        return False
    odds = weights["model"] * model_odds(one) + weights["constant"]
    odds += weights["supported"] * one["supported"] + sum(weights[kind] for kind in ("date", "name", "negation", "opposite", "swapped") if kind in kinds)
    odds += weights["number"] * bool(kinds & {"number", "undecided"})
    if one["words"] >= c["passage_words"]:
        is_replaced = one["coverage"] >= c["copy_coverage"] and contradiction(one, model) >= c["contradicted"]
        if one["supported"]:
            odds += c["converted"] if is_converted else c["passage_supported"]
        elif not is_replaced and not kinds & {"number", "date", "name", "undecided"}:
            odds += c["passage_unopposed"]
    return odds >= 0


GRID = {
    "copy_coverage": [0.2, 0.25, 0.3, 0.45],
    "named_words": [40, 80],
    "overrule": [0.96, 1.1],
    "passage_words": [36],
    "passage_supported": [2.25, 2.5, 2.75, 3.05, 3.5],
    "passage_unopposed": [0.0, 0.75, 1.5],
    "contradicted": [0.7, 0.8, 1.1],
    "converted": [6.0],
    "overrule_fact": [0.97, 1.1],
}
# What is shipped; no row of the pairs by hand may get worse.
BEFORE = {"copy_coverage": 0.3, "named_words": 40, "overrule": 1.1, "passage_words": 36, "passage_supported": 3.05, "passage_unopposed": 1.5, "contradicted": 0.7, "converted": 6.0, "overrule_fact": 1.1}


def balanced(rows, decided):
    """The mean share of right decisions over the labels that a set has; some have only one."""
    right = collections.Counter((r, d) for r, d in zip(rows, decided))
    counts = {label: right[label, True] + right[label, False] for label in (True, False)}
    shares = [right[label, label] / count for label, count in counts.items() if count]
    return sum(shares) / len(shares)


def found(path):
    lines = [json.loads(line) for line in open(path, encoding="utf-8")]
    return lines[0]["weights"], lines[1:]


def choose(args):
    weights, dev = found(args.dev)
    with gzip.open(pathlib.Path(args.data) / "calibrate.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert len(rows) == len(dev), "decisions of other pairs"
    sets = collections.defaultdict(list)
    for row, one in zip(rows, dev):
        sets[row["s"]].append((row["y"] == 0, one, has_other_numbers(row["h"], [row["p"]])))
    sets = {name: list_ for name, list_ in sets.items() if len(list_) >= 10}
    labelled = list(pairs_of(args.tuning))
    is_converted = [has_other_numbers(row["claim"], row["evidence"]) for row in labelled]
    _, hand = found(args.found)
    best = []
    # The rows of the weights that were shipped before, with their constants.
    before_weights, before_hand = found(args.floor or args.found)
    floor = collections.Counter(row["label"] for row, one, other in zip(labelled, before_hand, is_converted) if is_supported(one, before_weights, BEFORE, other) == (row["label"] in TRUE))
    print("floor", dict(floor))
    for c in itertools.chain([BEFORE], (dict(zip(GRID, values)) for values in itertools.product(*GRID.values()))):
        by = collections.defaultdict(lambda: [0, 0])
        for row, one, other in zip(labelled, hand, is_converted):
            by[row["label"]][0] += is_supported(one, weights, c, other) == (row["label"] in TRUE)
            by[row["label"]][1] += 1
        if c is not BEFORE and any(right < floor[label] for label, (right, _) in by.items()):
            continue
        score = {name: balanced([y for y, _, _ in list_], [is_supported(one, weights, c, other) for _, one, other in list_]) for name, list_ in sets.items()}
        # Public sets and sets of our own making count the same, however many there are of each.
        means = [[v for name, v in score.items() if name.startswith("own_") == own] for own in (False, True)]
        mean = sum(sum(group) / max(1, len(group)) for group in means) / 2
        rows_mean = sum(a / b for a, b in by.values()) / len(by)
        # Both halves count the same: public sets say how often the decision is right, the pairs by hand which kinds of faults slip through.
        best.append((mean + rows_mean, mean, rows_mean, c, score, {k: f"{a}/{b}" for k, (a, b) in by.items()}))
    before = best[0]
    print(f"before {before[1]:.4f} {before[2]:.4f} {before[5]} {({k: round(v, 3) for k, v in sorted(before[4].items())})}")
    best.sort(key=lambda one: -one[0])
    for total, mean, rows_mean, c, score, by in best[: args.top]:
        print(f"{mean:.4f} {rows_mean:.4f} {json.dumps(c)}")
    total, mean, rows_mean, c, score, by = best[0]
    print(json.dumps({"constants": c, "sets": {k: round(v, 3) for k, v in sorted(score.items())}, "by_hand": by}, indent=1))


def recalibrate(args):
    """Slope and constant of the averaged log odds, multiplied into the weights of the decision."""
    import hashlib

    import numpy as np

    from fit import balance, fitted
    from refit import tensor

    _, dev = found(args.dev)
    with gzip.open(pathlib.Path(args.data) / "calibrate.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert len(rows) == len(dev), "decisions of other pairs"
    x = np.array([[model_odds(one), 1.0] for one in dev])
    slope, constant = fitted(x, np.array([row["y"] == 0 for row in rows], float), balance(rows))
    path = pathlib.Path(args.weights)
    data = bytearray(path.read_bytes())
    at = tensor(data, "decision")
    weights = np.frombuffer(bytes(data[at]), "<f4").astype(float)
    weights[1] += weights[0] * constant
    weights[0] *= slope
    data[at] = weights.astype("<f4").tobytes()
    path.write_bytes(data)
    print(f"slope {slope:.5f} constant {constant:.5f}", hashlib.sha256(data).hexdigest())


def pairs_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tuning").add_argument("path")
    choosing = commands.add_parser("choose")
    for name in ("data", "dev", "tuning", "found"):
        choosing.add_argument(f"--{name}", required=True)
    choosing.add_argument("--floor", help="what `decisions` found in the pairs by hand with the weights that were shipped before; no row may get worse")
    choosing.add_argument("--top", type=int, default=10)
    again = commands.add_parser("recalibrate")
    for name in ("data", "dev", "weights"):
        again.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    if args.command == "recalibrate":
        recalibrate(args)
    elif args.command == "tuning":
        sys.stdout.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in pairs(args.path))
    else:
        choose(args)


if __name__ == "__main__":
    main()
