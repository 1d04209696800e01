"""Trains the encoder of the vectors: fewer layers than all-MiniLM-L6-v2, whose vectors it learns, and the passages that answer questions.

    python vectors.py --teacher minilm.int8 --words verifier.bin --data vectors_data.npz --layers 0,2,5 --contrast 0.25 --seconds 500 --out OUT [--eval vectors_eval.json]

The word embeddings are the verifier's and stay as they are, so that the binary has them once.
"""

import argparse, json, pathlib, time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import model as M

SEED = 20261118
TOKENS_MAX = 256
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Encoder(nn.Module):
    """The mean of a text's rows, normalized."""

    def __init__(self, layers):
        super().__init__()
        c = M.MINILM
        self.words = nn.Embedding(c["vocab"], c["width"])
        self.positions = nn.Embedding(c["positions"], c["width"])
        self.types = nn.Embedding(2, c["width"])
        self.norm = nn.LayerNorm(c["width"], eps=c["eps"])
        self.layers = nn.ModuleList(M.Layer(c, 0.0) for _ in range(layers))

    def forward(self, ids):
        is_there = ids != M.PAD
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)) + self.types.weight[0])
        dtype = torch.bfloat16 if torch.is_autocast_enabled() else x.dtype
        mask = torch.zeros(is_there.shape, device=ids.device, dtype=dtype).masked_fill(~is_there, -1e4)[:, None, None, :].expand(-1, -1, ids.shape[1], -1)
        for layer in self.layers:
            x = layer(x, mask)
        weight = is_there[..., None].float()
        return F.normalize((x.float() * weight).sum(1) / weight.sum(1), dim=1)


def loaded(arrays, chosen):
    """The teacher's parameters, of these layers only."""
    kept = {name: value for name, value in arrays.items() if not name.startswith("layers.")}
    for to, of in enumerate(chosen):
        kept |= {name.replace(f"layers.{of}.", f"layers.{to}.", 1): value for name, value in arrays.items() if name.startswith(f"layers.{of}.")}
    net = Encoder(len(chosen))
    net.load_state_dict({name: torch.from_numpy(np.array(value, np.float32)) for name, value in kept.items()})
    return net.to(DEVICE)


class Texts:
    """All texts in the memory of the device."""

    def __init__(self, ids, lengths):
        self.ids = torch.from_numpy(ids.astype(np.int32)).to(DEVICE)
        self.lengths = torch.from_numpy(lengths.astype(np.int64)).to(DEVICE)
        self.starts = torch.cumsum(self.lengths, 0) - self.lengths

    def batch(self, at):
        return self.cut(self.starts[at], self.lengths[at])

    def crops(self, at):
        """A random part of each text, between the first and the last token."""
        inner = (self.lengths[at] - 2).clamp(min=1)
        size = (torch.rand(len(at), device=DEVICE) * inner).long().clamp(min=6).minimum(inner)
        begin = self.starts[at] + 1 + (torch.rand(len(at), device=DEVICE) * (inner - size + 1)).long()
        ids = self.cut(begin, size)
        ids = F.pad(ids, (1, 1))
        ids[:, 0] = M.CLS
        ids.scatter_(1, size[:, None] + 1, M.SEP)
        return ids

    def cut(self, begin, size):
        places = torch.arange(int(size.max()), device=DEVICE)[None]
        ids = self.ids[(begin[:, None] + places).clamp(max=len(self.ids) - 1)].long()
        return torch.where(places < size[:, None], ids, 0)


def encoded(net, ids, group=256):
    """Rows of like length together, so that little is padding."""
    lengths = (ids != M.PAD).sum(1)
    order = torch.argsort(lengths)
    parts = [net(ids[some][:, : int(-(-int(lengths[some].max()) // 16) * 16)]) for some in order.split(group)]
    return torch.cat(parts)[torch.argsort(order)]


def recall(net, path):
    """Recall of the gold passages by vectors alone."""
    net.eval()
    found = []
    for name, its in json.loads(path.read_text()).items():
        def vectors(rows):
            ids = torch.zeros(len(rows), TOKENS_MAX, dtype=torch.long, device=DEVICE)
            for at, row in enumerate(rows):
                ids[at, : len(row)] = torch.tensor(row)
            return encoded(net, ids)
        with torch.no_grad():
            order = (vectors(its["q"]) @ vectors(its["p"]).T).argsort(1, descending=True).tolist()
        for k in (5, 10, 20):
            found.append(f"{name}@{k} {np.mean([len(set(o[:k]) & set(g)) / len(g) for o, g in zip(order, its['gold'])]):.3f}")
    net.train()
    return "  ".join(found)


def main():
    args = argparse.ArgumentParser()
    for name in ("--teacher", "--words", "--data", "--out", "--eval"):
        args.add_argument(name, type=pathlib.Path)
    args.add_argument("--layers", default="0,2,5")
    args.add_argument("--seconds", type=float, default=500)
    args.add_argument("--rate", type=float, default=4e-4)
    args.add_argument("--contrast", type=float, default=0.25)
    args.add_argument("--heat", type=float, default=0.05)
    args.add_argument("--rows", type=int, default=384)
    args.add_argument("--own-words", action="store_true")
    args = args.parse_args()
    torch.manual_seed(SEED)
    data = np.load(args.data)
    texts = Texts(data["ids"], data["lengths"])
    rows = torch.from_numpy(data["rows"]).long().to(DEVICE)
    arrays = M.unpack(args.teacher)
    chosen = [int(at) for at in args.layers.split(",")]
    teacher, net = loaded(arrays, range(6)).eval(), loaded(arrays, chosen)
    if args.eval:
        print("teacher", recall(teacher, args.eval), flush=True)
    if not args.own_words:
        net.words.weight.data = torch.from_numpy(M.unpack(args.words)["words.weight"]).to(DEVICE)
        net.words.weight.requires_grad = False
    learnt = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=args.rate, weight_decay=0.01, fused=DEVICE == "cuda")
    began, step, losses = time.time(), 0, []
    while (done := (time.time() - began) / args.seconds) < 1:
        for part in optimizer.param_groups:
            part["lr"] = args.rate * min(1.0, step / 300) * (1 - done)
        group = rows[torch.randint(len(rows), (args.rows,), device=DEVICE)]
        questions, right = group[:, 0], group[:, 1]
        wrong = torch.unique(group[:, 2:][group[:, 2:] >= 0])[: args.rows]
        passages = torch.cat([right, wrong])
        whole = torch.cat([questions, passages])
        some = torch.randint(len(texts.lengths), (args.rows,), device=DEVICE)
        whole_ids, crop_ids = texts.batch(whole), texts.crops(some)
        wide = max(whole_ids.shape[1], crop_ids.shape[1])
        ids = torch.cat([F.pad(part, (0, wide - part.shape[1])) for part in (whole_ids, crop_ids)])
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            with torch.no_grad():
                wanted = encoded(teacher, ids)
            found = encoded(net, ids)
        near = (1 - (found * wanted).sum(1)).mean()
        count = len(questions)
        q, p = found[:count], found[count : count + len(passages)]
        tq, tp = wanted[:count], wanted[count : count + len(passages)]
        # The same passage in another row is no wrong answer, nor is one that the teacher finds as near as the right one.
        scores, theirs = q @ p.T, tq @ tp.T
        is_same = passages[None] == right[:, None]
        own = torch.arange(count, device=DEVICE)
        is_right = F.one_hot(own, len(passages)).bool()
        scores_of_labels = (scores / args.heat).masked_fill(is_same & ~is_right, -1e4)
        contrast = F.cross_entropy(scores_of_labels, own)
        ranking = F.kl_div(F.log_softmax(scores / args.heat, 1), F.softmax(theirs / args.heat, 1), reduction="batchmean")
        loss = near * 10 + ranking + args.contrast * contrast
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        losses.append(torch.stack([near, ranking, contrast]).detach())
        step += 1
        if step % 500 == 0:
            near, ranking, contrast = torch.stack(losses[-500:]).mean(0).tolist()
            print(f"step {step} far {near:.4f} ranking {ranking:.4f} contrast {contrast:.4f} {time.time() - began:.0f} s", flush=True)
            if args.eval and step % 2000 == 0:
                print("      ", recall(net, args.eval), flush=True)
    args.out.mkdir(exist_ok=True, parents=True)
    arrays = {name: value.detach().float().cpu().numpy() for name, value in net.state_dict().items() if args.own_words or name != "words.weight"}
    M.pack(arrays, args.out / "vectors.bin")
    packed = M.unpack(args.out / "vectors.bin")
    net.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in packed.items()}, strict=False)
    if args.eval:
        print(f"packed, layers {args.layers}, contrast {args.contrast}, own words {args.own_words}:", recall(net, args.eval), flush=True)


main()
