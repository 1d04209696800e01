"""Writes the training examples: the calls that Baton's flows really make, with the replies they should get.

    python prepare.py --data qa_train --routes routes.train.jsonl --render RENDER_CALLS --out OUT

`--render` is the program `cargo build -p baton-flows --example render_calls` builds. Writes train.jsonl, dev.jsonl, plain.jsonl (calls without
passages, whose replies the untuned model writes itself), unanswerable.json (a test set for `baton eval answers`) and manifest.json.
"""

import argparse, collections, hashlib, json, pathlib, random, subprocess

import more_plans as M
import questions as Q
import tasks as T

SEED = 20261116


def rendered(program, requests):
    text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in requests)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def spoken(messages):
    """As `models::evidence::without_evidence_role`: the passages become one message of role `user`."""
    out, evidence = [], [m for m in messages if m["role"] == "evidence"]
    for message in messages:
        if message["role"] != "evidence":
            out.append({"role": message["role"], "content": message["content"]})
        elif message is evidence[0]:
            words = "Evidence, to be cited by number:"
            for number, one in enumerate(evidence, 1):
                source, _, text = one["content"].partition("\n")
                words += f"\n\n[{number}] {source.removeprefix('Source:').strip()}\n{text.strip()}"
            out.append({"role": "user", "content": words})
    return out


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def example(kind, call, reply):
    return {"kind": kind, "messages": spoken(call["messages"]), "reply": compact(reply)}


def accepted(program, pairs):
    """Those whose reply the flow itself takes: it goes on to carry it out instead of asking again."""
    out = rendered(program, [{**request, "models": request.get("models", []) + [reply]} for request, reply, _ in pairs])
    kept = []
    for (request, reply, call), after in zip(pairs, out):
        asks_again = "call" in after and after["call"]["purpose"] == call["purpose"]
        is_replaced = "plan_fallback" in after.get("notes", {})
        if not asks_again and not is_replaced and "error" not in after:
            kept.append((call, reply))
    return kept


def main():
    parser = argparse.ArgumentParser()
    for name in ["data", "routes", "render", "out"]:
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    counts = collections.Counter()
    train, dev = [], []

    asked = list(Q.requests(args.data, SEED))
    for (_, kind, row, is_dev), call in zip(asked, rendered(args.render, [one[0] for one in asked])):
        if "call" not in call or call["call"]["purpose"] == "plan":
            counts[f"{kind} not rendered"] += 1
            continue
        reply = Q.target(row, call["call"]["messages"])
        if reply is None:
            counts["what decides is not shown"] += 1
            continue
        if "missing" in call["call"]["schema"]["properties"]:
            reply = {**reply, "missing": "" if reply["facts"] else Q.keywords(row["question"])[:160]}
        (dev if is_dev else train).append({**example(kind, call["call"], reply), "answers": [row["answer"], *row.get("aliases", [])], "set": row["source"]})

    rows = [row for name, row in Q.rows(args.data) if not Q.is_held_out(name, row) and row["facts"] and Q.share("dev " + row["question"]) >= 0.02]
    rng = random.Random(SEED)
    rng.shuffle(rows)
    checked = {
        "plan": [*T.plans(SEED + 1, 2_000), *M.plans(SEED + 7, 3_000)],
        "search plan": list(T.search_plans(rows[:1_800], SEED + 2)),
        "route": list(T.routes(args.routes, SEED + 3)),
        "intent": list(T.intents(SEED + 4)),
        "critic": list(T.critics(rows[2_000:5_000], SEED + 5)),
    }
    for kind, pairs in checked.items():
        calls = rendered(args.render, [request for request, _ in pairs])
        purpose = {"search plan": "plan"}.get(kind, kind)
        wanted = [(request, reply, call["call"]) for (request, reply), call in zip(pairs, calls) if call.get("call", {}).get("purpose") == purpose]
        kept = accepted(args.render, wanted)
        counts[f"{kind} made"], counts[f"{kind} asked"], counts[f"{kind} accepted"] = len(pairs), len(wanted), len(kept)
        for call, reply in kept:
            is_dev = Q.share("dev " + call["messages"][-1]["content"]) < 0.03
            (dev if is_dev else train).append(example(kind, call, reply))

    plain = [call["call"] for call in rendered(args.render, list(T.plain_questions(args.routes, SEED + 6, 500))) if "call" in call]
    rng.shuffle(train)
    files = {"train.jsonl": train, "dev.jsonl": dev, "plain.jsonl": [{"kind": "plain", "messages": spoken(c["messages"]), "reply": ""} for c in plain]}
    hashes = {}
    for name, lines in files.items():
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (out / name).write_text(text, encoding="utf-8")
        hashes[name] = hashlib.sha256(text.encode()).hexdigest()
        counts.update(f"{name} {line['kind']}" for line in lines)
        counts[f"{name} abstentions"] = sum(line["reply"].startswith('{"facts":[],') for line in lines)
    test = unanswerable(args.data, rng)
    text = json.dumps(test, ensure_ascii=False)
    (out / "unanswerable.json").write_text(text, encoding="utf-8")
    hashes["unanswerable.json"] = hashlib.sha256(text.encode()).hexdigest()
    inputs = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(pathlib.Path(args.data).glob("*.gz"))}
    inputs["routes.train.jsonl"] = hashlib.sha256(pathlib.Path(args.routes).read_bytes()).hexdigest()
    manifest = {"seed": SEED, "inputs": inputs, "outputs": hashes, "held_out_articles": sorted(Q.HELD_OUT), "counts": dict(sorted(counts.items()))}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(manifest["counts"], indent=1))


def unanswerable(folder, rng):
    """100 questions over articles that were not trained on, half of them without an answer, in HotpotQA's form."""
    by_kind = {True: [], False: []}
    for name, row in Q.rows(folder):
        if name == "squad2_dev_part" and Q.is_held_out(name, row):
            by_kind[row["kind"] == "unanswerable"].append(row)
    out = []
    for is_unanswerable, rows in by_kind.items():
        rng.shuffle(rows)
        for row in rows[:50]:
            context = {"title": [p["title"] for p in row["passages"]], "sentences": [[p["text"]] for p in row["passages"]]}
            out.append({"id": str(len(out)), "question": row["question"].strip(), "answer": row["answer"], "type": row["kind"], "context": context,
                        "supporting_facts": {"title": [row["passages"][f["passage"]]["title"] for f in row["facts"]], "sent_id": [0 for _ in row["facts"]]}})
    rng.shuffle(out)
    return out


if __name__ == "__main__":
    main()
