"""Trains the adapter and measures it, on one GPU.

    python tune.py --pack PACK --out OUT --seconds 420

The rate falls with the share of `--seconds` that has passed, so that a run ends in time on any machine; steps and losses are in log.jsonl. The replies to
calls without passages are the untuned network's own, written before training: they keep it able to answer those.
"""

import argparse, io, json, lzma, math, pathlib, random, re, string, time

import numpy as np
import torch
from torch.nn import functional as F

import network as N

SEED = 20261116
SCALE = 2.0
WARM = 0.03
PART_BYTES = 12_000_000
PLAIN_TOKENS_MAX = 160


def load(path):
    arrays = dict(np.load(io.BytesIO(lzma.decompress(pathlib.Path(path).read_bytes()))))
    out = {}
    for name in ["train", "dev", "plain"]:
        lengths = arrays[f"{name}_lengths"].astype(int)
        ends = lengths.sum(1).cumsum()
        ids = arrays[f"{name}_ids"].astype(np.int64)
        out[name] = [(ids[end - p - r : end - r], ids[end - r : end], kind) for end, (p, r), kind in zip(ends, lengths, arrays[f"{name}_kinds"])]
    return out, arrays


def batches(examples, rng, tokens_per_step):
    """Examples of similar length together, about `tokens_per_step` with padding."""
    order = list(range(len(examples)))
    rng.shuffle(order)
    groups = []
    for start in range(0, len(order), 2_000):
        some = sorted(order[start : start + 2_000], key=lambda at: len(examples[at][0]) + len(examples[at][1]))
        group, longest = [], 0
        for at in some:
            length = len(examples[at][0]) + len(examples[at][1])
            if group and max(longest, length) * (len(group) + 1) > tokens_per_step:
                groups.append(group)
                group, longest = [], 0
            group.append(at)
            longest = max(longest, length)
        groups.append(group)
    rng.shuffle(groups)
    return groups


def loss_of(network, examples, group, device):
    longest = max(len(examples[at][0]) + len(examples[at][1]) for at in group)
    longest = -(-longest // 64) * 64
    ids = np.zeros((len(group), longest), np.int64)
    rows, columns, wanted = [], [], []
    for row, at in enumerate(group):
        prompt, reply, _ = examples[at]
        ids[row, : len(prompt) + len(reply)] = np.concatenate([prompt, reply])
        rows += [row] * len(reply)
        columns += range(len(prompt) - 1, len(prompt) + len(reply) - 1)
        wanted += reply.tolist()
    hidden = network(torch.from_numpy(ids).to(device))
    hidden = hidden[torch.tensor(rows, device=device), torch.tensor(columns, device=device)]
    logits = (hidden @ network.embedding.T).float()
    return F.cross_entropy(logits, torch.tensor(wanted, device=device)), len(wanted)


def normal(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def bytes_of():
    """GPT-2's printable characters back to bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


def replies(network, examples, arrays, tokens_max, end):
    table = bytes_of()
    out = [None] * len(examples)
    order = sorted(range(len(examples)), key=lambda at: len(examples[at][0]))
    for start in range(0, len(order), 384):
        part = order[start : start + 384]
        for at, ids in zip(part, network.generate([examples[at][0] for at in part], tokens_max, end)):
            said = "".join(str(arrays["said"][i]) for i in ids)
            out[at] = (bytes(table[c] for c in said if c in table).decode("utf-8", "replace"), ids)
    return out


def measure(network, dev, arrays, end):
    """On examples that were not trained on: exact matches, abstentions, other replies that are the wanted ones."""
    score = {}
    add = lambda name, value: score.setdefault(name, []).append(float(value))
    table = bytes_of()
    for (prompt, reply, kind), answers, (said, _) in zip(dev, arrays["dev_answers"], replies(network, dev, arrays, 260, end)):
        wanted = bytes(table[c] for c in "".join(str(arrays["said"][i]) for i in reply[:-1]) if c in table).decode("utf-8", "replace")
        if kind not in ("direct", "search"):
            add(f"{kind}: exactly as wanted", said == wanted)
            continue
        try:
            found, known = json.loads(said), json.loads(wanted)
        except ValueError:
            found = None
        found = found if isinstance(found, dict) else None
        add("JSON", found is not None)
        if found is None:
            continue
        short = str(found.get("short_answer", ""))
        if not known["facts"]:
            add("abstains where it should", not found.get("facts"))
        else:
            add("abstains where it should not", not found.get("facts"))
            add("exact match", normal(short) in {normal(a) for a in [known["short_answer"], *json.loads(str(answers))]})
            add("sources right", {f.get("source") for f in found.get("facts", [])} == {f["source"] for f in known["facts"]})
    return {name: [round(sum(v) / len(v), 4), len(v)] for name, v in sorted(score.items())}


def quantized(a, b):
    """Each of the parts has its own scale on both sides."""
    scale_a, scale_b = a.abs().amax(1).clamp(min=1e-12) / 127, b.abs().amax(0).clamp(min=1e-12) / 127
    return (a / scale_a[:, None]).round().to(torch.int8), scale_a, (b / scale_b).round().to(torch.int8), scale_b


def save(network, path, about):
    """A safetensors file: for each matrix `a` (rank × width) and `b` (rows × rank) in int8 with their scales. The change is `b · a`."""
    arrays = {}
    for at, layer in enumerate(network.layers):
        for name in N.MATRICES:
            linear = getattr(layer, name)
            a, scale_a, b, scale_b = quantized(linear.a.detach().float(), linear.b.detach().float() * SCALE)
            for part, value in {"a": a, "a_scale": scale_a, "b": b, "b_scale": scale_b}.items():
                arrays[f"blk.{at}.{name}.{part}"] = value.cpu().numpy()
    header, offset = {"__metadata__": about}, 0
    for name, value in sorted(arrays.items()):
        header[name] = {"dtype": "I8" if value.dtype == np.int8 else "F32", "shape": list(value.shape), "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, value in sorted(arrays.items()):
            file.write(value.tobytes())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pack", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--tokens-per-step", type=int, default=32_768, help="16384 for the 1.5B")
    parser.add_argument("--base-sha256", default="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32")
    parser.add_argument("--only-train", action="store_true", help="without replies of its own and without measuring, where time is short")
    parser.add_argument("--small", action="store_true", help="a few examples, to try it out")
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    began = time.time()
    network = N.Network(N.tensors(args.pack, device), args.rank, SCALE, dtype)
    data, arrays = load(pathlib.Path(args.pack) / "examples.npz.xz")
    if args.small:
        data = {name: rows[:6] for name, rows in data.items()}
        arrays["dev_answers"] = arrays["dev_answers"][:6]
    end = int(data["train"][0][1][-1])
    log = open(out / "log.jsonl", "w")

    def note(**what):
        line = json.dumps({"at": round(time.time() - began, 1), **what})
        print(line, flush=True)
        log.write(line + "\n")
        log.flush()

    note(what="loaded", train=len(data["train"]), dev=len(data["dev"]), plain=len(data["plain"]))
    if args.only_train:
        data["plain"] = data["plain"][:1]
    network.set_scale(0.0)
    plain = replies(network, data["plain"], arrays, PLAIN_TOKENS_MAX if not args.small else 8, end)
    kept = [(prompt, np.array([*ids, end], np.int64), kind) for (prompt, _, kind), (_, ids) in zip(data["plain"], plain) if len(ids) < PLAIN_TOKENS_MAX]
    note(what="own replies", kept=len(kept), sample=plain[0][0][:200])
    with torch.no_grad():
        order = [rng.sample(range(len(data["dev"])), min(16, len(data["dev"]))) for _ in range(4)]
        dev_loss = lambda: round(sum(float(loss_of(network, data["dev"], group, device)[0]) for group in order) / len(order), 4)
        note(what="untuned", dev_loss=dev_loss())
    network.set_scale(SCALE)
    train = data["train"] + kept
    parameters = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=args.rate, betas=(0.9, 0.98), weight_decay=0.0, fused=device == "cuda")
    started, step, epoch, total = time.time(), 0, 0, 0.0
    passed = lambda: (time.time() - started) / args.seconds
    while passed() < 1:
        for group in batches(train, rng, args.tokens_per_step):
            share = passed()
            if share >= 1:
                break
            for one in optimizer.param_groups:
                one["lr"] = args.rate * min(1.0, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
            loss, _ = loss_of(network, train, group, device)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            total, step = total + float(loss.detach()), step + 1
            if step % 50 == 0 or args.small:
                note(step=step, epoch=epoch, loss=round(total / (1 if args.small else 50), 4), share=round(share, 3))
                total = 0.0
            if args.small and step >= 4:
                args.seconds = 0.001
        epoch += 1
    with torch.no_grad():
        for layer in network.layers:
            for name in N.MATRICES:
                linear = getattr(layer, name)
                a, scale_a, b, scale_b = quantized(linear.a.float(), linear.b.float() * SCALE)
                linear.a.copy_(a.float() * scale_a[:, None])
                linear.b.copy_(b.float() * scale_b / SCALE)
        note(what="tuned, in int8", steps=step, epochs=epoch, dev_loss=dev_loss())
        save(network, out / "adapter.safetensors", {"base_sha256": args.base_sha256, "rank": str(args.rank), "steps": str(step), "seed": str(SEED)})
        # In parts too: what comes back from the training machine is limited in size.
        whole = (out / "adapter.safetensors").read_bytes()
        for at in range(0, len(whole), PART_BYTES):
            (out / f"adapter.{at // PART_BYTES}").write_bytes(whole[at : at + PART_BYTES])
        note(what="saved", bytes=len(whole))
        if args.only_train:
            return
        note(what="tuned, in int8", dev=measure(network, data["dev"], arrays, end))


if __name__ == "__main__":
    main()
