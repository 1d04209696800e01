"""The threshold of the answer check, from answers that the embedded model really gave to questions of the development set.

    python answers_choose.py --weights answers.bin --words verifier.bin --tokenizer tokenizer.json RECORDINGS…      one folder or several

A folder has `NNNN.json` ({"question", "known"}, an empty `known` for a question that the passages do not answer) and `NNNN.rec`, what `baton ask --record NNNN.rec --flow direct` wrote.
For each threshold: how many right answers are still given, and how many unanswerable questions get an answer.
"""

import argparse, json, pathlib, re, string

import numpy as np
import torch

import answers as A
import model as M
import train as T


def plain(text):
    """As HotpotQA compares answers."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(w for w in text.split() if w not in ("a", "an", "the"))


def words(text):
    return " ".join(w for w in re.findall(r"\w+", text.lower()) if w not in ("a", "an", "the"))


def read(folder):
    """What the check would be asked about each answer; `short` is None where the model or the rules already abstained."""
    cases = []
    for path in sorted(folder.glob("*.json")):
        if not path.with_suffix(".rec").exists():
            continue
        case = json.loads(path.read_text())
        spans, reply, shown_count = [], None, 0
        for line in path.with_suffix(".rec").read_text().splitlines():
            line = json.loads(line)
            effect, result = line["effect"], line["reply"]["result"]
            value = result.get("Ok", result.get("ok"))
            if "call_model" in effect and isinstance(value, (dict, str)):
                reply = value if isinstance(value, dict) else json.loads(value)
                shown_count = sum(m["role"] == "evidence" for m in effect["call_model"]["messages"])
            elif "call_tool" in effect and effect["call_tool"]["tool"] == "docs.search" and value:
                spans = value["spans"]
        last = [json.loads(line) for line in case["out"].splitlines() if line.startswith("{")]
        output = next((o for line in reversed(last) for o in [find_output(line)] if o), {})
        case["is_marked"] = output.get("answer", "").startswith("The passages")
        case["short"] = (output.get("short") or "") if not case["is_marked"] else None
        case["said"] = (reply or {}).get("short_answer", "")
        sources = [f.get("source") for f in (reply or {}).get("facts", []) if isinstance(f, dict)]
        spans = spans[:shown_count]
        cited = [s - 1 for s in dict.fromkeys(sources) if isinstance(s, int) and 0 < s <= len(spans)]
        key = words(case["said"])
        has = [at for at, s in enumerate(spans) if at not in cited and key and key not in ("yes", "no") and key in words(s["text"] + " " + (s.get("title") or ""))]
        order = [*cited, *has, *(at for at in range(len(spans)) if at not in cited and at not in has)]
        case["passages"] = [{"title": spans[at].get("title") or "", "text": spans[at]["text"]} for at in order[:8]]
        case["statuses"] = [s["status"] for s in output.get("sentences", [])]
        cases.append(case)
    return cases


def find_output(value):
    """The run's output, wherever the last line has it."""
    if isinstance(value, dict):
        if "answer" in value and "sentences" in value:
            return value
        return next((found for inner in value.values() for found in [find_output(inner)] if found), None)
    return None


def load(weights, words_path):
    arrays = M.unpack(weights)
    beta = arrays.pop("calibration")
    layers = 1 + max(int(name.split(".")[1]) for name in arrays if name.startswith("layers."))
    net = M.CrossEncoder({**M.MINILM, "layers": layers})
    M.load_arrays(net, {**arrays, "words.weight": M.unpack(words_path)["words.weight"]})
    return net.eval(), beta


def main():
    options = argparse.ArgumentParser()
    for name in ("--weights", "--words", "--tokenizer"):
        options.add_argument(name, type=pathlib.Path, required=True)
    options.add_argument("--show", action="store_true")
    options.add_argument("folders", type=pathlib.Path, nargs="+")
    o = options.parse_args()
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(o.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    net, beta = load(o.weights, o.words)
    cases = [case for folder in o.folders for case in read(folder)]
    for case in cases:
        case["is_right"] = bool(case["known"]) and plain(case["said"]) == plain(case["known"])
        row = A.assembled(ids(case["question"]), ids(case["said"]), [(ids(p["title"]), ids(p["text"])) for p in case["passages"]])
        with torch.no_grad():
            batch = T.OnDevice([(np.array(row[0], np.int32), row[1])]).batch([0])
            logits = net(batch[0], batch[1]).numpy()
        case["p"] = float(1 / (1 + np.exp(-(beta[0] * T.margin(logits)[0] + beta[1]))))
        if o.show:
            print(f"{case['p']:.3f} {'marked' if case['is_marked'] else '      '} {'right' if case['is_right'] else 'none ' if not case['known'] else 'wrong'} {case['question'][:110]} → {case['said']} ({case['known']}) {case['statuses']}")
    answerable = [c for c in cases if c["known"]]
    none = [c for c in cases if not c["known"]]
    right, wrong = [c for c in answerable if c["is_right"]], [c for c in answerable if not c["is_right"]]
    given = lambda some, least: sum(not c["is_marked"] and (not c["said"] or c["p"] >= least) for c in some)
    p = np.array([c["p"] for c in right + none])
    if right and none:
        print(f"auc of right answers against answers to unanswerable questions {T.auc(p, np.arange(len(p)) < len(right)):.3f}; against wrong ones {T.auc(np.array([c['p'] for c in right + wrong]), np.arange(len(right + wrong)) < len(right)):.3f}")
    print(f"{len(answerable)} answerable questions, {len(right)} right; {len(none)} unanswerable")
    for least in (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        left, abstained = len(none) - given(none, least), len(cases) - given(cases, least)
        print(f"{least:.2f}: abstention precision {left / max(1, abstained):.2f} recall {left / max(1, len(none)):.2f}, exact match {given(right, least)}/{len(answerable)} = {given(right, least) / max(1, len(answerable)):.3f}, wrong answers given {given(wrong, least)}/{len(wrong)}, "
              f"unanswerable answered {given(none, least)}/{len(none)} = {given(none, least) / max(1, len(none)):.3f}")


if __name__ == "__main__":
    main()
