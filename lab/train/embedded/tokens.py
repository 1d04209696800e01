"""Examples as token ids, and the untuned weights as parts that fit through a small pipe to the training machine.

    python tokens.py --gguf 0.5b.gguf --data OUT --out PACK

Needs `gguf` and `tokenizers`. Only the rows of the vocabulary that the examples use travel, and the first ones up to KEPT_MAX: ids are numbered anew.
Writes base.bin with base.json (tensors as they are in the GGUF file), and examples.npz.xz.
"""

import argparse, io, json, lzma, pathlib

import numpy as np
from gguf import GGUFReader
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

KEPT_MAX = 65_000
TOKENS_MAX = 1_900
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def tokenizer_of(reader):
    """As candle builds it from the same header: no special tokens are ever made from text."""
    tokens = [str(t) for t in reader.fields["tokenizer.ggml.tokens"].contents()]
    merges = [tuple(m.split(" ")) for m in reader.fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, tokens


def encoded(tokenizer, tokens, rows):
    """Prompts as `chat.rs` writes them, and the replies with the mark that ends them."""
    start, end = tokens.index("<|im_start|>"), tokens.index("<|im_end|>")
    newline = tokenizer.encode("\n", add_special_tokens=False).ids
    texts, turns = [], []
    for row in rows:
        messages = row["messages"]
        if messages[0]["role"] != "system":
            messages = [{"role": "system", "content": "You are a helpful assistant."}, *messages]
        said = [f"{ {'developer': 'system', 'tool': 'user'}.get(m['role'], m['role']) }\n{m['content']}" for m in messages]
        turns.append(len(said))
        texts += [*said, "assistant\n", row["reply"]]
    ids = []
    for at in range(0, len(texts), 4_000):
        ids += [np.array(one.ids, np.uint32) for one in tokenizer.encode_batch(texts[at : at + 4_000], add_special_tokens=False)]
    at = 0
    for row, count in zip(rows, turns):
        prompt = np.concatenate([part for turn in ids[at : at + count] for part in ([start], turn, [end], newline)] + [[start], ids[at + count]]).astype(np.uint32)
        reply = np.concatenate([ids[at + count + 1], [end]]).astype(np.uint32) if row["reply"] else np.zeros(0, np.uint32)
        at += count + 2
        yield row, prompt, reply


def main():
    parser = argparse.ArgumentParser()
    for name in ["gguf", "data", "out"]:
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    out, data = pathlib.Path(args.out), pathlib.Path(args.data)
    out.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(args.gguf)
    tokenizer, tokens = tokenizer_of(reader)
    parts, is_used = {}, np.zeros(len(tokens) + 1024, bool)
    for name in ["train", "dev", "plain"]:
        rows = [json.loads(line) for line in open(data / f"{name}.jsonl", encoding="utf-8")]
        pairs = [p for p in encoded(tokenizer, tokens, rows) if len(p[1]) + len(p[2]) <= TOKENS_MAX]
        parts[name] = [(row, np.concatenate([prompt, reply]), len(prompt), len(reply)) for row, prompt, reply in pairs]
        for _, ids, _, _ in parts[name]:
            is_used[ids] = True
    others = np.flatnonzero(~is_used[: len(tokens)])[: max(0, KEPT_MAX - int(is_used.sum()))]
    is_used[others] = True
    kept = np.flatnonzero(is_used).astype(np.uint32)
    assert len(kept) < 65_536, len(kept)
    number = np.zeros(len(tokens) + 1024, np.uint16)
    number[kept] = np.arange(len(kept), dtype=np.uint16)
    arrays = {"kept": kept}
    for name, pairs in parts.items():
        arrays[f"{name}_ids"] = number[np.concatenate([ids for _, ids, _, _ in pairs])]
        arrays[f"{name}_lengths"] = np.array([[p, r] for _, _, p, r in pairs], np.uint16)
        arrays[f"{name}_kinds"] = np.array([row["kind"] for row, _, _, _ in pairs])
        print(name, len(pairs), "examples,", sum(p + r for _, _, p, r in pairs), "tokens")
    arrays["dev_answers"] = np.array([json.dumps(row.get("answers", [])) for row, _, _, _ in parts["dev"]])
    # How each token reads, to score replies there.
    arrays["said"] = np.array([tokens[i] for i in kept])
    file = io.BytesIO()
    np.savez(file, **arrays)
    (out / "examples.npz.xz").write_bytes(lzma.compress(file.getvalue(), preset=1))

    index, offset = [], 0
    with open(out / "base.bin", "wb") as file:
        for tensor in reader.tensors:
            if tensor.name == "token_embd.weight":
                continue  # The same matrix as output.weight, in fewer bits.
            raw = np.ascontiguousarray(tensor.data)
            if tensor.name == "output.weight":
                raw = np.ascontiguousarray(raw.reshape(len(tokens) if raw.shape[0] == len(tokens) else raw.shape[0], -1)[kept])
            data = raw.tobytes()
            shape = [int(n) for n in reversed(tensor.shape)]
            if tensor.name == "output.weight":
                shape[0] = len(kept)
            index.append({"name": tensor.name, "type": tensor.tensor_type.name, "shape": shape, "offset": offset, "bytes": len(data)})
            file.write(data)
            offset += len(data)
    (out / "base.json").write_text(json.dumps(index))
    print("vocabulary", len(kept), "base", offset, "examples", (out / "examples.npz.xz").stat().st_size)


if __name__ == "__main__":
    main()
