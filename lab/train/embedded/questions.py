"""Questions with passages (qa_train) as runs of the flows `direct`, `search` and `reason`, and the replies they should get."""

import gzip, hashlib, json, pathlib, random, re

SENTENCE_CHARS_MAX = 300
SHORT_CHARS_MAX = 90
PASSAGES_MAX = 8
PROFILE = {"is_small": True, "can_abstain": True}
ABSTENTION = {"facts": [], "short_answer": ""}


def share(text):
    """A number from 0 to 1 that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32


def rows(folder):
    for path in sorted(pathlib.Path(folder).glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield path.name.removesuffix(".jsonl.gz"), json.loads(line)


# Articles of SQuAD whose questions are kept for measuring.
HELD_OUT = {"Normans", "Packet switching", "1973 oil crisis", "Harvard University"}


def article(row):
    """The article a question is about: that of the deciding passage, else of the one it shares most words with."""
    if row["facts"]:
        return row["passages"][row["facts"][0]["passage"]]["title"]
    words = set(keywords(row["question"]).lower().split())
    return max(row["passages"], key=lambda p: sum(w in p["text"].lower() for w in words))["title"]


def is_held_out(name, row):
    return name.startswith(("squad", "xquad")) and article(row) in HELD_OUT


def span(number, passage):
    title = passage["title"]
    return {"text": passage["text"], "source": "docs.search", "title": title, "address": f"/documents/{number:05}.md",
            "place": f"{title}, line 3", "rank": number, "trust": "own"}


def found(passages):
    return {"text": "", "spans": [span(number, passage) for number, passage in enumerate(passages)]}


def without_gold(row, rng):
    """The row with the passages that decide it taken out, if what is left does not hold the answer."""
    gold = [f["passage"] for f in row["facts"]]
    gone = {gold[-1]} if len(set(gold)) > 1 and rng.random() < 0.4 else set(gold)
    rest = [p for at, p in enumerate(row["passages"]) if at not in gone]
    answers = [row["answer"], *row.get("aliases", [])]
    text = " ".join(p["title"] + " " + p["text"] for p in rest).lower()
    if len(rest) < 2 or row["kind"] == "yesno" or any(a.lower() in text for a in answers):
        return None
    return {**row, "passages": rest, "facts": [], "answer": "", "kind": "unanswerable"}


def fitted(row, rng):
    """At most PASSAGES_MAX passages, the deciding ones among them, in random order."""
    gold = {f["passage"] for f in row["facts"]}
    others = [at for at in range(len(row["passages"])) if at not in gold]
    rng.shuffle(others)
    kept = [*gold, *others[: max(0, PASSAGES_MAX - len(gold))]]
    if rng.random() < 0.25:
        kept = [*gold, *others[: rng.randint(1, 4)]]
    # Searches rank what decides high, but not always first.
    order = sorted(kept, key=lambda at: rng.random() * (0.6 if at in gold else 1.0))
    facts = [{**f, "passage": order.index(f["passage"])} for f in row["facts"]]
    return {**row, "passages": [row["passages"][at] for at in order], "facts": facts}


def usable(row):
    facts = row["facts"]
    if row["kind"] == "unanswerable":
        return True
    return 0 < len(facts) <= 4 and all(len(f["sentence"]) <= SENTENCE_CHARS_MAX for f in facts) and 0 < len(row["answer"]) <= SHORT_CHARS_MAX


def target(row, messages):
    """The reply for what is shown; none if what decides is not among it and the answer may still be."""
    shown = [m["content"].partition("\n")[2] for m in messages if m["role"] == "evidence"]
    if row["kind"] == "unanswerable":
        return ABSTENTION
    facts = []
    for fact in row["facts"]:
        at = next((n for n, text in enumerate(shown, 1) if fact["sentence"].strip() in text), None)
        if at is None:
            text = " ".join(shown).lower()
            answers = [row["answer"], *row.get("aliases", [])]
            is_gone = row["kind"] != "yesno" and not any(a.lower() in text for a in answers)
            return ABSTENTION if is_gone else None
        facts.append({"sentence": fact["sentence"].strip(), "source": at})
    answer = re.sub(r"\s+", " ", row["answer"]).strip()
    answer = answer.rstrip(".") if len(answer) > 3 and not re.search(r"\b[A-Z]\.$|\.[A-Z]\.$|(Jr|Sr|Inc|Co|Ltd)\.$", answer) else answer
    return {"facts": facts, "short_answer": answer}


def keywords(question):
    stop = set("a an the of in on at to for from by with is are was were be been do does did has have had what which who whom whose when where why how that this these "
               "those it its and or than as there many much some any into during after before".split())
    words = re.findall(r"[\w'’.-]+", question.strip().rstrip("?"))
    return " ".join(w for w in words if w.lower() not in stop)


def requests(folder, seed):
    """(request for render_calls, kind, row, is_dev): one or two for each row."""
    rng = random.Random(seed)
    for name, row in rows(folder):
        if is_held_out(name, row) or not row["question"].strip():
            continue
        is_dev = share("dev " + row["question"]) < 0.02
        variants = [row]
        if row["facts"] and rng.random() < 0.16:
            variants = [without_gold(row, rng) or row]
        elif name == "squad2_dev_part" and row["kind"] == "unanswerable" and not is_dev:
            # Written to look answerable, which is the hardest kind: seen twice, with other passages around it.
            variants = [row, row]
        for one in variants:
            if not usable(one):
                continue
            one = fitted(one, rng)
            question = one["question"].strip()
            found_now = found(one["passages"])
            if not is_dev and rng.random() < 0.12:
                tools = {"registry.tools": [{"text": "", "data": {"tools": [DOCS]}, "spans": []}], "docs.search": [found_now]}
                plan = {"tasks": [{"tool_name": "docs.search", "tool_arguments": {"query": keywords(question)}}]}
                yield {"flow": "search", "input": {"question": question, "model": PROFILE}, "tools": tools, "models": [plan]}, "search", one, is_dev
            else:
                yield {"flow": "direct", "input": {"question": question, "docs": True, "model": PROFILE}, "tools": {"docs.search": [found_now]}}, "direct", one, is_dev


DOCS = {"name": "docs.search", "description": "Search the user's own documents (Markdown, text, HTML, PDF, DOCX, source code). Gives passages with their place.",
        "schema": {"type": "object", "required": ["query"], "additionalProperties": False,
                   "properties": {"query": {"type": "string", "description": "what to look for"}, "size": {"type": "integer"}}},
        "read_only": True, "destructive": False}
