"""Trains the teacher and the student, and measures both.

    python train.py teacher --base mpnet.int8 --data DATA --keep KEEP --tokenizer TOKENIZER --out OUT   and its logits for every training pair (soft.npy)
    python train.py student --base minilm.int8 --data DATA --keep KEEP --tokenizer TOKENIZER --out OUT
"""

import argparse, gzip, hashlib, json, math, pathlib, time

import numpy as np
import torch
from torch.nn import functional as F

import model as M
from fit import SIGNALS, balance, decision, fitted

SEED = 20261116
TOKENS_MAX = 352
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def rows_of(folder, name, limit=None):
    """The rows of `name.jsonl.gz`, or of `name.jsonl` where the text came unpacked."""
    path = folder / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") if path.exists() else open(folder / f"{name}.jsonl", encoding="utf-8") as file:
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
        ps = [e.ids for e in tokenizer.encode_batch_fast([r["p"] for r in part], add_special_tokens=False)]
        hs = [e.ids for e in tokenizer.encode_batch_fast([r["h"] for r in part], add_special_tokens=False)]
        for p, h in zip(ps, hs):
            h = h[:120]
            p = p[: TOKENS_MAX - 3 - len(h)]
            out.append((np.array([M.CLS, *p, M.SEP, *h, M.SEP], np.int32), len(p) + 2))
    return out


class OnDevice:
    """Encoded pairs in the memory of the device, so that a batch is cut out there."""

    def __init__(self, encoded):
        self.lengths = np.array([len(ids) for ids, _ in encoded] or [0])
        self.starts = torch.from_numpy(np.concatenate([[0], np.cumsum(self.lengths)[:-1]])).to(DEVICE)
        self.sizes = torch.from_numpy(self.lengths).to(DEVICE)
        self.begins = torch.tensor([begin for _, begin in encoded], device=DEVICE)
        self.ids = torch.from_numpy(np.concatenate([ids for ids, _ in encoded] or [np.zeros(1, np.int32)])).to(DEVICE)

    def batch(self, group):
        """(ids, kinds, indexes), padded to a multiple of 16."""
        longest = -(-int(self.lengths[group].max()) // 16) * 16
        at = torch.from_numpy(np.asarray(group)).to(DEVICE, non_blocking=True)
        places = torch.arange(longest, device=DEVICE)[None]
        is_there = places < self.sizes[at][:, None]
        ids = torch.where(is_there, self.ids[(self.starts[at][:, None] + places).clamp(max=len(self.ids) - 1)].long(), 0)
        kinds = ((places >= self.begins[at][:, None]) & is_there).long()
        return ids, kinds, at


def batches(lengths, size, rng=None):
    """Rows of similar length together; shuffled when there is a generator."""
    if rng is None:
        order = np.argsort(lengths, kind="stable")
        return [order[start : start + size] for start in range(0, len(order), size)]
    order = rng.permutation(len(lengths))
    blocks = [order[start : start + size * 50] for start in range(0, len(order), size * 50)]
    groups = [block[start : start + size] for block in (block[np.argsort(lengths[block], kind="stable")] for block in blocks) for start in range(0, len(block), size)]
    return [groups[at] for at in rng.permutation(len(groups))]


def hard_loss(logits, labels, ways):
    """Cross-entropy over three labels, or over supported and not supported where only that is known; 0 where nothing is."""
    logs = F.log_softmax(logits, 1)
    three = F.nll_loss(logs, labels, reduction="none")
    two = torch.where(labels == 0, -logs[:, 0], -torch.logsumexp(logs[:, 1:], 1))
    return torch.where(ways == 3, three, two) * (ways > 0)


def train(net, rows, data, epochs, rate, size, soft=None, alpha=0.7, heat=2.0, seconds_max=480, save=None, compiled=False):
    """The rate falls with the steps or with the clock, whichever is further, so that it always reaches zero. `save` is called every two minutes."""
    net.to(DEVICE).train()
    rng = np.random.default_rng(SEED)
    trained = [p for p in net.parameters() if p.requires_grad]
    decay, other = [p for p in trained if p.ndim > 1], [p for p in trained if p.ndim <= 1]
    forward = torch.compile(net, dynamic=True) if compiled else net
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": other, "weight_decay": 0.0}], lr=rate, fused=DEVICE == "cuda")
    plan = [group for _ in range(epochs) for group in batches(data.lengths, size, rng)]
    labels = torch.tensor([r["y"] for r in rows], device=DEVICE)
    ways = torch.tensor([r["w"] for r in rows], device=DEVICE)
    weights = torch.tensor([r["k"] for r in rows], device=DEVICE)
    soft = torch.tensor(soft, device=DEVICE).float() if soft is not None else None
    # What only the teacher labelled is learnt from it alone.
    share = torch.where(ways > 0, alpha, 1.0) if soft is not None else None
    began, saved, total, losses = time.time(), time.time(), len(plan), []
    for step, group in enumerate(plan):
        done = max(step / total, (time.time() - began) / seconds_max)
        if done >= 1:
            print(f"out of time at step {step} of {total}", flush=True)
            break
        lr = rate * min(1.0, step / total / 0.04, done / 0.02) * (1 - done)
        for part in optimizer.param_groups:
            part["lr"] = lr
        ids, kinds, at = data.batch(group)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            logits = forward(ids, kinds)
        loss = hard_loss(logits, labels[at], ways[at]) * weights[at]
        if soft is not None:
            near = F.kl_div(F.log_softmax(logits / heat, 1), F.softmax(soft[at] / heat, 1), reduction="none").sum(1) * heat**2
            loss = share[at] * near + (1 - share[at]) * loss
        loss = loss.mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        losses.append(loss.detach())
        if step % 500 == 0:
            print(f"step {step}/{total} loss {torch.stack(losses[-500:]).mean().item():.4f} lr {lr:.2e} {time.time() - began:.0f} s", flush=True)
        if save and time.time() - saved > 120:
            save(net)
            saved = time.time()
    return net


@torch.no_grad()
def logits_of(net, data, size=512):
    net.to(DEVICE).eval()
    out = np.zeros((len(data.lengths), 3), np.float32)
    for group in batches(data.lengths, size):
        ids, kinds, _ = data.batch(group)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            out[group] = net(ids, kinds).cpu().numpy()
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
    packed = folder / "calibrate.jsonl.gz"
    found = hashlib.sha256(gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / "calibrate.jsonl").read_bytes()).hexdigest()
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


def table(rows, p, logits):
    """By source, on the development split; the test sets are measured with `baton eval claims`, once."""
    lines, values = [], []
    truth, refuted = np.array([r["y"] == 0 for r in rows]), np.array([r["y"] == 1 and r["w"] == 3 for r in rows])
    source = np.array([r["s"].removesuffix("_long") for r in rows])
    for name in sorted(set(source)):
        its = source == name
        said = p[its] >= 0.5
        yes, no = truth[its], ~truth[its]
        sensitivity = said[yes].mean() if yes.any() else math.nan
        specificity = (~said[no]).mean() if no.any() else math.nan
        area = auc(p[its], yes) if yes.any() and no.any() else math.nan
        caught = (logits[its & refuted].argmax(1) == 1).mean() if (its & refuted).any() else math.nan
        lines.append(f"{name:28} n {its.sum():4} balanced {np.nanmean([sensitivity, specificity]):.3f} auc {area:.3f} accepts {sensitivity:.3f} rejects {specificity:.3f} refuted found {caught:.3f}")
        if its.sum() >= 40 and yes.any() and no.any():
            values.append((name.startswith("own"), np.nanmean([sensitivity, specificity]), area))
    for own in (False, True):
        some = [v for v in values if v[0] == own]
        lines.append(f"mean of {len(some)} {'own' if own else 'public'} sources: balanced {np.mean([v[1] for v in some]):.4f} auc {np.mean([v[2] for v in some]):.4f}")
    return lines


def main():
    options = argparse.ArgumentParser()
    options.add_argument("mode", choices=["teacher", "student"])
    options.add_argument("--base", type=pathlib.Path)
    options.add_argument("--data", type=pathlib.Path, required=True)
    options.add_argument("--keep", type=pathlib.Path, required=True)
    options.add_argument("--out", type=pathlib.Path, required=True)
    options.add_argument("--tokenizer", type=pathlib.Path, required=True)
    options.add_argument("--epochs", type=int)
    options.add_argument("--rate", type=float)
    options.add_argument("--size", type=int, default=256)
    options.add_argument("--alpha", type=float, default=0.6)
    options.add_argument("--limit", type=int)
    options.add_argument("--seconds", type=int, default=480)
    options.add_argument("--fixed-words", action="store_true", help="leave the word embeddings as they are: vectors.bin reads them too")
    options.add_argument("--compile", action="store_true", help="with torch.compile")
    o = options.parse_args()
    torch.manual_seed(SEED)
    torch.backends.cuda.matmul.allow_tf32 = True
    o.keep.mkdir(parents=True, exist_ok=True)
    began = time.time()
    rows = rows_of(o.data, "train", o.limit)
    # Unlabelled pairs are of use only with the teacher's scores; without a teacher the student learns from the labels alone.
    has_teacher = o.mode == "student" and (o.keep / "soft.npy").exists() and o.alpha > 0
    more = rows_of(o.data, "unlabelled", o.limit) if has_teacher or o.mode == "teacher" else []
    held = rows_of(o.data, "calibrate", o.limit)
    encoded_held = encode(held, o.tokenizer)
    encoded = encode(rows + more, o.tokenizer)
    data, data_held = OnDevice(encoded), OnDevice(encoded_held)
    print(f"{len(rows)} + {len(more)} pairs, mean {data.lengths.mean():.0f} tokens, read in {time.time() - began:.0f} s, on {DEVICE}", flush=True)
    config = M.MPNET if o.mode == "teacher" else M.MINILM
    net = M.CrossEncoder(config)
    M.load_arrays(net, M.base_weights(o.base, config) if o.base.suffix == ".safetensors" else {name: value for name, value in M.unpack(o.base).items() if name not in ("calibration", "decision")})
    arrays_of = lambda net: {name: value.float().cpu().numpy() for name, value in net.state_dict().items()}
    o.out.mkdir(parents=True, exist_ok=True)
    if o.mode == "teacher":
        labelled = OnDevice(encoded[: len(rows)])
        train(net, rows, labelled, o.epochs or 3, o.rate or 4e-5, o.size, seconds_max=o.seconds, save=lambda net: torch.save(net.state_dict(), o.keep / "teacher.part.pt"), compiled=o.compile)
        torch.save(net.state_dict(), o.keep / "teacher.pt")
        np.save(o.keep / "soft.npy", logits_of(net, data).astype(np.float16))
    else:
        soft = np.load(o.keep / "soft.npy") if has_teacher else None
        net.words.weight.requires_grad_(not o.fixed_words)
        train(net, rows + more, data, o.epochs or 5, o.rate or 3e-4, o.size, soft, alpha=o.alpha, seconds_max=o.seconds, save=lambda net: M.pack(arrays_of(net), o.out / "part.bin"), compiled=o.compile)
        arrays = arrays_of(net)
        M.pack(arrays, o.out / "verifier.bin")
        # What is measured is what is shipped: the rounded weights.
        M.load_arrays(net, M.unpack(o.out / "verifier.bin"))
    logits = logits_of(net, data_held)
    beta = calibrate(held, encoded_held, logits)
    p = probability(beta, encoded_held, logits)
    lines = [f"{o.mode}: calibration slope, length, constant: {beta}", *table(held, p, logits), f"{time.time() - began:.0f} s"]
    print("\n".join(lines), flush=True)
    (o.out / f"{o.mode}.txt").write_text("\n".join(lines) + "\n")
    np.save(o.out / "calibrate_logits.npy", logits)
    if o.mode == "student":
        weights = decision(held, signals_of(o.data), p)
        print("decision", dict(zip(SIGNALS, np.round(weights, 3))), flush=True)
        M.pack({"calibration": np.array(beta), "decision": np.array(weights), **arrays}, o.out / "verifier.bin")
        # Pairs whose logits the Rust code must reproduce.
        with torch.no_grad():
            some = [held[at] for at in range(0, len(held), len(held) // 12)][:12]
            some_data = OnDevice(encode(some, o.tokenizer))
            net.float().eval()
            exact = [net(*some_data.batch([at])[:2])[0].cpu().tolist() for at in range(len(some))]
        (o.out / "reference.json").write_text(json.dumps([{"evidence": r["p"], "claim": r["h"], "logits": e} for r, e in zip(some, exact)], indent=1, ensure_ascii=False) + "\n")
        content = (o.out / "verifier.bin").read_bytes()
        print("verifier.bin", len(content), hashlib.sha256(content).hexdigest(), flush=True)
        # No file of more than 12 MB, so that each can be copied back.
        for at in range(0, len(content), 12_000_000):
            (o.out / f"verifier.bin.{at // 12_000_000}").write_bytes(content[at : at + 12_000_000])
        (o.out / "verifier.bin").unlink()
        (o.out / "done").touch()


if __name__ == "__main__":
    main()
