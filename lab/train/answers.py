"""Trains the answer check: a cross-encoder over passages, a question and a short answer, on the verifier's word embeddings.

    python answers.py student --data answers_data.npz.xz --base verifier.bin --tokenizer tokenizer.json --reference answers_cases.json --seconds 420 --out OUT [--soft soft.npy]
    python answers.py teacher --data answers_data.npz.xz --base mpnet.int8 --seconds 400 --out OUT          its logits for every example: soft.npy

The text of an example, as `crates/verifier/src/answers.rs` writes it:

    [CLS] passage passage … [SEP] question [SEP] answer [SEP]      a passage: PASSAGE title . text, with ANSWER_BEGIN and ANSWER_END around the answer wherever it is
"""

import argparse, hashlib, io, json, lzma, multiprocessing, pathlib, time

import numpy as np
import torch

import model as M
import train as T
from fit import fitted

TOKENS_MAX = 512
QUESTION_TOKENS_MAX = 96
ANSWER_TOKENS_MAX = 32
TITLE_TOKENS_MAX = 24
# Of a longer passage the part is read that has most of the question's and the answer's words.
PASSAGE_TOKENS_MAX = 160
PART_STEP = 16
# A shorter rest of a passage is left out.
REST_TOKENS_MIN = 24
ANSWER_BEGIN, ANSWER_END, PASSAGE, STOP = 1, 2, 3, 1012


def places_of(answer, ids):
    """Where the answer's tokens are, from left to right without overlap."""
    found, at, size = [], 0, len(answer)
    while size and at + size <= len(ids):
        if ids[at] == answer[0] and ids[at : at + size] == answer:
            found.append(at)
            at += size
        else:
            at += 1
    return found


def part_of(text, wanted, answer):
    """The part of a long text with most distinct words of question and answer; one with the whole answer before others."""
    if len(text) <= PASSAGE_TOKENS_MAX:
        return text
    best, best_score = 0, -1
    starts = [*range(0, len(text) - PASSAGE_TOKENS_MAX, PART_STEP), len(text) - PASSAGE_TOKENS_MAX]
    places = places_of(answer, text)
    for start in starts:
        end = start + PASSAGE_TOKENS_MAX
        score = len(wanted & set(text[start:end]))
        if any(start <= place and place + len(answer) <= end for place in places):
            score += len(answer) + 2
        if score > best_score:
            best, best_score = start, score
    return text[best : best + PASSAGE_TOKENS_MAX]


def assembled(question, answer, passages):
    """Ids, and where the question begins. All are lists of ids; `passages` are (title, text)."""
    question, answer = question[:QUESTION_TOKENS_MAX], answer[:ANSWER_TOKENS_MAX]
    room = TOKENS_MAX - 4 - len(question) - len(answer)
    wanted = set(question) | set(answer)
    ids = [M.CLS]
    for title, text in passages:
        text = part_of(text, wanted, answer)
        plain = [*title[:TITLE_TOKENS_MAX], STOP, *text] if title else list(text)
        passage, at = [PASSAGE], 0
        for place in places_of(answer, plain):
            passage += [*plain[at:place], ANSWER_BEGIN, *answer, ANSWER_END]
            at = place + len(answer)
        passage += plain[at:]
        if room < min(REST_TOKENS_MIN, len(passage)):
            break
        ids += passage[:room]
        room -= len(passage[:room])
    ids.append(M.SEP)
    begin = len(ids)
    return [*ids, *question, M.SEP, *answer, M.SEP], begin


def read(path):
    raw = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    return dict(np.load(io.BytesIO(raw)))


def assemble_range(bounds):
    out = []
    for at in range(*bounds):
        numbers = DATA["flat"][DATA["begins"][at] : DATA["begins"][at + 1]]
        texts = [TEXTS[n] for n in numbers]
        ids, begin = assembled(texts[0], texts[1], list(zip(texts[2::2], texts[3::2])))
        out.append((np.array(ids, np.int32), begin))
    return out


def assemble_all():
    count = len(DATA["meta"])
    bounds = [(start, min(start + 2_000, count)) for start in range(0, count, 2_000)]
    with multiprocessing.get_context("fork").Pool() as pool:
        return [row for part in pool.map(assemble_range, bounds) for row in part]


def report(name, p, meta, sources, tags):
    """Of the development examples: how many right ones are accepted at thresholds that accept 95, 90, 85 and 80 of a hundred, and how many wrong ones are then refused, by their kind."""
    lines = []
    right = meta[:, 3] == 1
    for label, its in [("HotpotQA, whole", meta[:, 1] == 1), *((str(s), (meta[:, 1] == 2) & (meta[:, 0] == at)) for at, s in enumerate(sources)), ("all others", meta[:, 1] == 2)]:
        if not (its & right).any() or not (its & ~right).any():
            continue
        line = f"{name} {label:18} n {its.sum():5} auc {T.auc(p[its], right[its]):.3f}"
        for share in (0.95, 0.9, 0.85, 0.8):
            line += f"  {share:.2f}: {(p[its & ~right] < np.quantile(p[its & right], 1 - share)).mean():.3f}"
        lines.append(line)
    for label, split in (("HotpotQA, whole", 1), ("others", 2)):
        its = meta[:, 1] == split
        least = np.quantile(p[its & right], 0.15)
        for at, tag in enumerate(tags):
            some = its & (meta[:, 2] == at) & ~right
            if some.any():
                both = its & right | some
                lines.append(f"{name} {label:16} {str(tag):22} n {some.sum():5} auc {T.auc(p[both], right[both]):.3f} refused where 85 of 100 right ones are accepted: {(p[some] < least).mean():.3f}")
    return lines


def main():
    global DATA, TEXTS
    options = argparse.ArgumentParser()
    options.add_argument("mode", choices=["teacher", "student"])
    for name in ("--data", "--base", "--tokenizer", "--reference", "--soft", "--out", "--more"):
        options.add_argument(name, type=pathlib.Path)
    options.add_argument("--layers", default="0,1,2,3,4,5")
    options.add_argument("--epochs", type=int, default=30)
    options.add_argument("--seconds", type=int, default=420)
    options.add_argument("--rate", type=float)
    options.add_argument("--size", type=int, default=256)
    options.add_argument("--alpha", type=float, default=0.7)
    options.add_argument("--limit", type=int)
    o = options.parse_args()
    torch.manual_seed(T.SEED)
    torch.backends.cuda.matmul.allow_tf32 = True
    o.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    DATA = read(o.data)
    if o.limit:
        keep = np.arange(0, len(DATA["meta"]), max(1, len(DATA["meta"]) // o.limit))
        parts = [DATA["flat"][DATA["begins"][at] : DATA["begins"][at + 1]] for at in keep]
        DATA |= {"flat": np.concatenate(parts), "begins": np.concatenate([[0], np.cumsum([len(p) for p in parts])]), "meta": DATA["meta"][keep], "weights": DATA["weights"][keep]}
    ends = np.cumsum(DATA["lengths"])
    TEXTS = [ids.tolist() for ids in np.split(DATA["ids"], ends[:-1])]
    encoded = assemble_all()
    meta = DATA["meta"]
    is_train = meta[:, 1] == 0
    rows = [{"y": 0 if right else 2, "w": 2, "k": float(weight)} for right, weight in zip(meta[:, 3], DATA["weights"])]
    train_rows = [r for r, its in zip(rows, is_train) if its]
    train_encoded = [e for e, its in zip(encoded, is_train) if its]
    data = T.OnDevice(train_encoded)
    print(f"{len(train_rows)} of {len(rows)} examples, mean {data.lengths.mean():.0f} tokens, read in {time.time() - began:.0f} s, on {T.DEVICE}", flush=True)
    arrays_of = lambda net: {name: value.float().cpu().numpy() for name, value in net.state_dict().items() if name != "words.weight"}
    base = M.unpack(o.base)
    for name in ("calibration", "decision"):
        base.pop(name, None)
    if o.mode == "teacher":
        net = M.load_arrays(M.CrossEncoder(M.MPNET), base)
        T.train(net, train_rows, data, o.epochs, o.rate or 4e-5, o.size, seconds_max=o.seconds, compiled=T.DEVICE == "cuda")
        logits = T.logits_of(net, T.OnDevice(encoded))
        np.save(o.out / "soft.npy", logits.astype(np.float16))
    else:
        chosen = [int(at) for at in o.layers.split(",")]
        kept = {name: value for name, value in base.items() if not name.startswith("layers.")}
        for to, of in enumerate(chosen):
            kept |= {name.replace(f"layers.{of}.", f"layers.{to}.", 1): value for name, value in base.items() if name.startswith(f"layers.{of}.")}
        net = M.load_arrays(M.CrossEncoder({**M.MINILM, "layers": len(chosen)}), kept)
        net.words.weight.requires_grad_(False)
        soft = np.load(o.soft).astype(np.float32)[is_train] if o.soft else None
        T.train(net, train_rows, data, o.epochs, o.rate or 3e-4, o.size, soft, alpha=o.alpha, seconds_max=o.seconds, compiled=T.DEVICE == "cuda")
        arrays = arrays_of(net)
        M.pack(arrays, o.out / "answers.bin")
        # What is measured is what is shipped: the rounded weights.
        net.load_state_dict({name: torch.from_numpy(np.array(value, np.float32)) for name, value in M.unpack(o.out / "answers.bin").items()} | {"words.weight": net.words.weight.data})
        # Of the training examples only some are scored, to see how far they are learnt by heart.
        scored = np.flatnonzero(~is_train | (np.arange(len(meta)) % 16 == 0))
        logits = np.zeros((len(meta), 3), np.float32)
        logits[scored] = T.logits_of(net, T.OnDevice([encoded[at] for at in scored]))
    held = ~is_train
    margin = T.margin(logits)
    # Right and wrong weigh the same.
    right = meta[held, 3] == 1
    weights = np.where(right, 0.5 / right.mean(), 0.5 / (~right).mean())
    beta = fitted(np.stack([margin[held], np.ones(held.sum())], 1), right.astype(float), weights)
    print("calibration", beta.tolist())
    p = 1 / (1 + np.exp(-(beta[0] * margin + beta[1])))
    lines = report(o.mode, p[held], meta[held], DATA["sources"], DATA["tags"])
    # How far it is fitted to what it was trained on.
    seen = np.flatnonzero(is_train & (np.arange(len(meta)) % 16 == 0))
    lines.append(f"{o.mode} training examples: auc {T.auc(p[seen], meta[seen, 3] == 1):.3f}; {time.time() - began:.0f} s")
    print("\n".join(lines), flush=True)
    (o.out / f"{o.mode}.txt").write_text("\n".join([f"calibration {beta.tolist()}", *lines]) + "\n")
    np.save(o.out / "held_margins.npy", margin[held])
    if o.mode == "student":
        M.pack({"calibration": np.array(beta), **arrays}, o.out / "answers.bin")
        content = (o.out / "answers.bin").read_bytes()
        print("answers.bin", len(content), hashlib.sha256(content).hexdigest(), flush=True)
        if o.reference:
            from tokenizers import Tokenizer
            tokenizer = Tokenizer.from_file(str(o.tokenizer))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
            cases = json.loads(o.reference.read_text())
            net.float().eval()
            for case in cases:
                row = assembled(ids(case["question"]), ids(case["answer"]), [(ids(p["title"]), ids(p["text"])) for p in case["passages"]])
                with torch.no_grad():
                    ids_of, kinds, _ = T.OnDevice([(np.array(row[0], np.int32), row[1])]).batch([0])
                    case["logits"] = [round(x, 4) for x in net(ids_of, kinds)[0].cpu().tolist()]
                case["tokens"] = len(row[0])
            (o.out / "answers_reference.json").write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
