"""Texts for the vectors' encoder: passages, questions and claims as token ids, and which passages answer which question.

    python vectors_data.py --data DATA --source REPOSITORY --tokenizer tokenizer.json --out vectors_data.npz

Beside it, `vectors_eval.json`: the two sets that are only measured, HotpotQA-100 and the tools of LiveMCPBench.
"""

import argparse, gzip, json, pathlib, random, re

import numpy as np
from tokenizers import Tokenizer

SEED = 20261118
TOKENS_MAX = 256
CLAIM_PAIRS_MAX = 60_000


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


class Texts:
    """Each distinct text once, by number."""

    def __init__(self):
        self.numbers = {}

    def add(self, text):
        return self.numbers.setdefault(" ".join(text.split()), len(self.numbers))


def measured(data, ids):
    """Questions, passages and the numbers of the right ones. These sets are not trained on."""
    questions = json.loads((data / "hotpot100.json").read_text())
    passages = {}
    for row in questions:
        for title, sentences in zip(row["context"]["title"], row["context"]["sentences"]):
            passages.setdefault(title, f"{title}. {''.join(sentences)}")
    titles = list(passages)
    gold = [[titles.index(title) for title in sorted(set(row["supporting_facts"]["title"]))] for row in questions]
    hotpot = {"q": [ids(row["question"]) for row in questions], "p": [ids(passages[title]) for title in titles], "gold": gold}
    servers = json.loads((data / "livemcp_tools.json").read_text())
    tools = [tool for entry in servers for server in entry["tools"].values() for tool in server["tools"]]
    names = [tool["name"] for tool in tools]
    found = {"q": [], "p": [ids(f"{tool['name']}. {tool.get('description', '')}") for tool in tools], "gold": []}
    for task in json.loads((data / "livemcp_tasks.json").read_text()):
        wanted = {re.sub(r"^\d+\.\s*", "", line).strip() for line in task["Annotator Metadata"]["Tools"].split("\n")}
        if wanted & set(names):
            found["q"].append(ids(task["Question"]))
            found["gold"].append(sorted(names.index(name) for name in wanted & set(names)))
    return {"hotpot": hotpot, "tools": found}


def main():
    args = argparse.ArgumentParser()
    for name in ("--data", "--source", "--tokenizer", "--out"):
        args.add_argument(name, type=pathlib.Path, required=True)
    args = args.parse_args()
    rng = random.Random(SEED)
    texts = Texts()
    # One row a question: the question, a passage that answers it, and up to three passages of the same question that do not.
    rows = []
    for path in sorted((args.data / "qa_train").glob("*.jsonl.gz")):
        for row in lines(path):
            question = texts.add(row["question"])
            # As `Passage::meaning` writes a passage: its title, then its text.
            numbers = [texts.add(f"{p['title']}. {p['text']}" if p["title"] else p["text"]) for p in row["passages"]]
            gold = sorted({fact["passage"] for fact in row["facts"]})
            others = [number for at, number in enumerate(numbers) if at not in gold]
            for at in gold:
                rows.append((question, numbers[at], *(rng.sample(others, min(3, len(others))) + [-1] * 3)[:3]))
    pairs = []
    for path in sorted((args.data / "claims_train").glob("*.jsonl.gz")):
        if path.name.split(".")[0] in ("infotabs", "tabfact", "scitab", "med", "conjnli"):
            continue
        for row in lines(path):
            if row["label"] == "supported":
                pairs.append((row["hypothesis"], row["premise"]))
    rng.shuffle(pairs)
    for claim, premise in pairs[:CLAIM_PAIRS_MAX]:
        rows.append((texts.add(claim), texts.add(premise), -1, -1, -1))
    # Technical text, of which the sets above have none: this repository's own documents and code, and descriptions of MCP servers.
    for path in sorted(args.source.rglob("*")):
        if path.suffix in (".md", ".rs", ".js", ".py", ".toml") and path.is_file() and "target" not in path.parts:
            parts = path.read_text(encoding="utf-8", errors="ignore").split("\n\n")
            for start in range(0, len(parts), 3):
                texts.add("\n".join(parts[start : start + 3]))
    for server in json.loads((args.data / "mcp_registry_seed.json").read_text()):
        texts.add(f"{server['name']}. {server.get('description', '')}")
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS_MAX)
    every = list(texts.numbers)
    ids = []
    for start in range(0, len(every), 20_000):
        ids += [np.array(e.ids, np.uint16) for e in tokenizer.encode_batch_fast(every[start : start + 20_000])]
    lengths = np.array([len(i) for i in ids], np.int32)
    np.savez_compressed(args.out, ids=np.concatenate(ids), lengths=lengths, rows=np.array(rows, np.int32))
    (args.out.parent / "vectors_eval.json").write_text(json.dumps(measured(args.data, lambda text: tokenizer.encode(text).ids)))
    print(f"{len(every)} texts, {lengths.sum()} tokens, {len(rows)} rows")


main()
