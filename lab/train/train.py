"""Trains the teacher and the student, and measures both.

    python train.py teacher --base mpnet.int8 --data DATA --keep KEEP
    python train.py score   --data DATA --keep KEEP                     the teacher's logits for every training pair
    python train.py student --base minilm.safetensors --data DATA --keep KEEP --out OUT
"""

import argparse, gzip, hashlib, json, math, pathlib, random, time

import numpy as np
import torch
from torch.nn import functional as F

import model as M
from fit import SIGNALS, balance, decision, fitted

SEED = 20261116
TOKENS_MAX = 352
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def rows_of(path, limit=None):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for _, line in zip(range(limit or 10**9), file)]


def encode(rows, tokenizer_path):
    """Ids of `[CLS] premise [SEP] claim [SEP]` and where the claim begins; a premise that is too long loses its end."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    out = []
    for start in range(0, len(rows), 20_000):
        part = rows[start : start + 20_000]
        ps = [e.ids for e in tokenizer.encode_batch([r["p"] for r in part], add_special_tokens=False)]
        hs = [e.ids for e in tokenizer.encode_batch([r["h"] for r in part], add_special_tokens=False)]
        for p, h in zip(ps, hs):
            h = h[:120]
            p = p[: TOKENS_MAX - 3 - len(h)]
            out.append((np.array([M.CLS, *p, M.SEP, *h, M.SEP], np.int32), len(p) + 2))
    return out


def batches(encoded, size, rng=None):
    """Rows of similar length together; shuffled when there is a generator."""
    order = list(range(len(encoded)))
    if rng:
        rng.shuffle(order)
        order = [at for start in range(0, len(order), size * 50) for at in sorted(order[start : start + size * 50], key=lambda at: len(encoded[at][0]))]
    else:
        order.sort(key=lambda at: len(encoded[at][0]))
    groups = [order[start : start + size] for start in range(0, len(order), size)]
    if rng:
        rng.shuffle(groups)
    return groups


def tensors(encoded, group):
    longest = -(-max(len(encoded[at][0]) for at in group) // 16) * 16
    ids, kinds = np.zeros((len(group), longest), np.int64), np.zeros((len(group), longest), np.int64)
    for row, at in enumerate(group):
        tokens, begin = encoded[at]
        ids[row, : len(tokens)] = tokens
        kinds[row, begin : len(tokens)] = 1
    to = lambda array: torch.from_numpy(array).pin_memory().to(DEVICE, non_blocking=True) if DEVICE == "cuda" else torch.from_numpy(array)
    return to(ids), to(kinds)


def hard_loss(logits, labels, ways):
    """Cross-entropy over three labels, or over supported and not supported where only that is known; 0 where nothing is."""
    logs = F.log_softmax(logits, 1)
    three = F.nll_loss(logs, labels, reduction="none")
    two = torch.where(labels == 0, -logs[:, 0], -torch.logsumexp(logs[:, 1:], 1))
    return torch.where(ways == 3, three, two) * (ways > 0)


def train(net, rows, encoded, epochs, rate, size, soft=None, alpha=0.7, heat=2.0, seconds_max=480):
    net.to(DEVICE).train()
    rng = random.Random(SEED)
    decay = [p for n, p in net.named_parameters() if p.ndim > 1]
    other = [p for n, p in net.named_parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": other, "weight_decay": 0.0}], lr=rate, fused=DEVICE == "cuda")
    plan = [group for _ in range(epochs) for group in batches(encoded, size, rng)]
    labels = torch.tensor([r["y"] for r in rows], device=DEVICE)
    ways = torch.tensor([r["w"] for r in rows], device=DEVICE)
    weights = torch.tensor([r["k"] for r in rows], device=DEVICE)
    soft = torch.tensor(soft, device=DEVICE).float() if soft is not None else None
    began, total, losses = time.time(), len(plan), []
    for step, group in enumerate(plan):
        # The plan follows the clock when the machine is slower than expected, so that the rate always reaches zero.
        done = step / total
        lr = rate * min(1.0, done / 0.06) * (1 - done if done > 0.06 else 1.0)
        for part in optimizer.param_groups:
            part["lr"] = lr
        ids, kinds = tensors(encoded, group)
        at = torch.tensor(group, device=DEVICE)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            logits = net(ids, kinds)
        loss = hard_loss(logits, labels[at], ways[at]) * weights[at]
        if soft is not None:
            near = F.kl_div(F.log_softmax(logits / heat, 1), F.softmax(soft[at] / heat, 1), reduction="none").sum(1) * heat**2
            loss = alpha * near + (1 - alpha) * loss
        loss = loss.mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
        if step == 100:
            per_step = (time.time() - began) / 101
            fits = int(seconds_max / per_step)
            if fits < total:
                print(f"only {fits} of {total} steps fit in {seconds_max} s", flush=True)
                total = fits
        if step % 500 == 0:
            print(f"step {step}/{total} loss {torch.stack(losses[-500:]).mean().item():.4f} lr {lr:.2e} {time.time() - began:.0f} s", flush=True)
        if step + 1 >= total:
            break
    return net


@torch.no_grad()
def logits_of(net, encoded, size=512):
    net.to(DEVICE).eval()
    out = np.zeros((len(encoded), 3), np.float32)
    for group in batches(encoded, size):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            out[group] = net(*tensors(encoded, group)).cpu().numpy()
    return out


def margin(logits):
    """log of supported against the rest."""
    return logits[:, 0] - np.logaddexp(logits[:, 1], logits[:, 2])


def calibrate(rows, encoded, logits):
    """Weights (slope, length, constant) of a logistic regression from margin and log evidence tokens to supported, both labels of a source weighing the same."""
    x = np.stack([margin(logits), np.log(np.array([begin for _, begin in encoded]) / 64.0), np.ones(len(rows))], 1)
    y = np.array([r["y"] == 0 for r in rows], float)
    return fitted(x, y, balance(rows)).tolist()


def signals_of(folder):
    """The rules' findings for the calibration pairs, if they were made from the same pairs (`signals.jsonl`: the SHA-256 of the pairs, then a line a pair)."""
    path = folder / "signals.jsonl"
    if not path.exists():
        print("no signals: the rules get default weights", flush=True)
        return None
    lines = path.read_text().splitlines()
    found = hashlib.sha256(gzip.decompress((folder / "calibrate.jsonl.gz").read_bytes())).hexdigest()
    assert json.loads(lines[0]) == found, f"the signals are of other pairs: {lines[0]} {found}"
    return np.array([json.loads(line) for line in lines[1:]], float)


def probability(beta, encoded, logits):
    return 1 / (1 + np.exp(-(beta[0] * margin(logits) + beta[1] * np.log(np.array([begin for _, begin in encoded]) / 64.0) + beta[2])))


def auc(scores, truth):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    positives = truth.sum()
    return (ranks[truth].sum() - positives * (positives + 1) / 2) / max(1, positives * (len(truth) - positives))


def table(net, beta, folder, tokenizer):
    lines, values = [], []
    for path in sorted((folder / "test").glob("*.jsonl")):
        rows = [json.loads(line) for line in open(path, encoding="utf-8")]
        rows = [{"p": r["evidence"][0], "h": r["claim"], "y": r["label"]} for r in rows]
        encoded = encode(rows, tokenizer)
        logits = logits_of(net, encoded)
        p = probability(beta, encoded, logits)
        truth = np.array([r["y"] == "supported" for r in rows])
        refuted = np.array([r["y"] == "refuted" for r in rows])
        said = p >= 0.5
        sensitivity = said[truth].mean() if truth.any() else math.nan
        specificity = (~said[~truth]).mean() if (~truth).any() else math.nan
        balanced = np.nanmean([sensitivity, specificity])
        pairs = truth.any() and (~truth).any()
        area = auc(p, truth) if pairs else math.nan
        caught = (logits[refuted].argmax(1) == 1).mean() if refuted.any() else math.nan
        lines.append(f"{path.stem:28} n {len(rows):4} balanced {balanced:.3f} auc {area:.3f} accepts {sensitivity:.3f} rejects {specificity:.3f} refuted found {caught:.3f}")
        if pairs and not path.stem.startswith(("own", "long")):
            values.append((balanced, area))
    lines.append(f"mean over {len(values)} sets of others: balanced {np.mean([v[0] for v in values]):.3f} auc {np.mean([v[1] for v in values]):.3f}")
    return lines


def main():
    options = argparse.ArgumentParser()
    options.add_argument("mode", choices=["teacher", "score", "student"])
    options.add_argument("--base", type=pathlib.Path)
    options.add_argument("--data", type=pathlib.Path, required=True)
    options.add_argument("--keep", type=pathlib.Path, required=True)
    options.add_argument("--out", type=pathlib.Path)
    options.add_argument("--tokenizer", type=pathlib.Path, required=True)
    options.add_argument("--epochs", type=int)
    options.add_argument("--rate", type=float)
    options.add_argument("--size", type=int, default=128)
    options.add_argument("--alpha", type=float, default=0.7)
    options.add_argument("--limit", type=int)
    options.add_argument("--seconds", type=int, default=480)
    o = options.parse_args()
    torch.manual_seed(SEED)
    torch.backends.cuda.matmul.allow_tf32 = True
    o.keep.mkdir(parents=True, exist_ok=True)
    began = time.time()
    rows = rows_of(o.data / "train.jsonl.gz", o.limit)
    # Unlabelled pairs are of use only with the teacher's scores; without a teacher the student learns from the labels alone.
    has_teacher = o.mode == "score" or (o.keep / "soft.npy").exists()
    more = rows_of(o.data / "unlabelled.jsonl.gz", o.limit) if o.mode != "teacher" and has_teacher else []
    encoded, encoded_more = encode(rows, o.tokenizer), encode(more, o.tokenizer)
    held = rows_of(o.data / "calibrate.jsonl.gz", o.limit)
    encoded_held = encode(held, o.tokenizer)
    print(f"{len(rows)} + {len(encoded_more)} pairs, mean {np.mean([len(e[0]) for e in encoded]):.0f} tokens, read in {time.time() - began:.0f} s, on {DEVICE}", flush=True)
    if o.mode == "score":
        net = M.CrossEncoder(M.MPNET)
        net.load_state_dict(torch.load(o.keep / "teacher.pt", map_location="cpu"))
        np.save(o.keep / "soft.npy", np.concatenate([logits_of(net, encoded), logits_of(net, encoded_more)]))
        print(f"scored in {time.time() - began:.0f} s")
        return
    config = M.MPNET if o.mode == "teacher" else M.MINILM
    net = M.CrossEncoder(config)
    M.load_arrays(net, M.unpack(o.base) if o.mode == "teacher" else M.base_weights(o.base, config))
    if o.mode == "teacher":
        train(net, rows, encoded, o.epochs or 3, o.rate or 3e-5, o.size, seconds_max=o.seconds)
        torch.save(net.state_dict(), o.keep / "teacher.pt")
    else:
        soft = np.load(o.keep / "soft.npy") if has_teacher else None
        train(net, rows + more, encoded + encoded_more, o.epochs or 5, o.rate or 2e-4, o.size, soft, alpha=o.alpha, seconds_max=o.seconds)
        o.out.mkdir(parents=True, exist_ok=True)
        arrays = {name: value.float().cpu().numpy() for name, value in net.state_dict().items()}
        M.pack(arrays, o.out / "verifier.bin")
        # What is measured is what is shipped: the rounded weights.
        M.load_arrays(net, M.unpack(o.out / "verifier.bin"))
    logits = logits_of(net, encoded_held)
    beta = calibrate(held, encoded_held, logits)
    lines = [f"{o.mode}: calibration slope, length, constant: {beta}", *table(net, beta, o.data, o.tokenizer), f"{time.time() - began:.0f} s"]
    print("\n".join(lines), flush=True)
    if o.out:
        o.out.mkdir(parents=True, exist_ok=True)
        (o.out / f"{o.mode}.txt").write_text("\n".join(lines) + "\n")
    if o.mode == "student":
        weights = decision(held, signals_of(o.data), probability(beta, encoded_held, logits))
        print("decision", dict(zip(SIGNALS, np.round(weights, 3))), flush=True)
        M.pack({"calibration": np.array(beta), "decision": np.array(weights), **arrays}, o.out / "verifier.bin")
        # Pairs whose logits the Rust code must reproduce.
        with torch.no_grad():
            some = [held[at] for at in range(0, len(held), len(held) // 12)][:12]
            some_encoded = encode(some, o.tokenizer)
            net.float().eval()
            exact = [net(*tensors(some_encoded, [at]))[0].cpu().tolist() for at in range(len(some))]
        (o.out / "reference.json").write_text(json.dumps([{"evidence": r["p"], "claim": r["h"], "logits": e} for r, e in zip(some, exact)], indent=1, ensure_ascii=False) + "\n")
        np.save(o.out / "calibrate_logits.npy", logits)
        data = (o.out / "verifier.bin").read_bytes()
        print("verifier.bin", len(data), hashlib.sha256(data).hexdigest(), flush=True)
        # No file of more than 12 MB, so that each can be copied back.
        for at in range(0, len(data), 12_000_000):
            (o.out / f"verifier.bin.{at // 12_000_000}").write_bytes(data[at : at + 12_000_000])
        (o.out / "verifier.bin").unlink()


if __name__ == "__main__":
    main()
