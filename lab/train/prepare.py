"""Makes train, calibration and test pairs from the licensed data, with pairs of our own making.

    python prepare.py --data DATA --out OUT

DATA has `claims_train/` and `qa_train/`. Writes OUT/train.jsonl.gz, OUT/unlabelled.jsonl.gz, OUT/calibrate.jsonl.gz, OUT/calibrate.eval.jsonl, OUT/test/*.jsonl and OUT/manifest.json
(SHA-256 of every input and output, counts). Rows: `p` premise, `h` claim, `y` 0 supported, 1 refuted, 2 not enough, `w` 3 or 2 (only supported or not is
known), `s` source, `k` weight.
"""

import argparse, collections, gzip, hashlib, json, pathlib, random, re

import claims, hard, perturb, templates

SEED = 20261116
DROPPED = {"tabfact", "strategyqa", "scitab"}  # Did not help in the first experiment.
HELD_OUT = {"fever_symmetric_dev", "scifact", "q2_dialogue"}  # Whole sets that no model here is trained on.
WEIGHT = {"wice": 2.0, "citation_integrity": 1.5, "summedits": 1.5, "fool_me_twice": 1.5, "snli_dev_test": 0.6, "conjnli": 0.7, "infotabs": 0.7, "med": 0.7, "fever_rte": 0.7, "dialogue_begin_faithdial": 0.8}
LABEL = {"supported": 0, "refuted": 1, "not_enough": 2}
CALIBRATE_SHARE, TEST_SHARE = 0.05, 0.06
TEST_ROWS_MAX = 600


def rows_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest_of_rows(path):
    """Of the text, since compressed bytes differ between versions of zlib."""
    return hashlib.sha256(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).hexdigest()


def tidy(text):
    """Tokenised text as it is written: no space before a comma, brackets as themselves."""
    text = text.replace("-LRB-", "(").replace("-RRB-", ")").replace("-LSB-", "[").replace("-RSB-", "]").replace("``", '"').replace("''", '"')
    text = re.sub(r"\s+([,.;:?!%)\]])(?=\s|$)", r"\1", text)
    text = re.sub(r"([(\[$])\s+", r"\1", text)
    text = re.sub(r"\s+('s|n't|'re|'ve|'ll|'d|'m)\b", r"\1", text)
    return re.sub(r"\s+", " ", text).strip()


def sentences(text):
    return [part for part in re.split(r"(?<=[.!?])\s+(?=[A-Z\"“(])", text) if part.strip()]


def key(text):
    return re.sub(r"\W+", " ", text.lower()).strip()


class Groups:
    """Rows that share a premise or a claim are one document."""

    def __init__(self):
        self.parent = {}

    def root(self, name):
        self.parent.setdefault(name, name)
        while self.parent[name] != name:
            self.parent[name] = self.parent[self.parent[name]]
            name = self.parent[name]
        return name

    def join(self, one, other):
        self.parent[self.root(one)] = self.root(other)


def part_of(name):
    value = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
    return "test" if value < TEST_SHARE else "calibrate" if value < TEST_SHARE + CALIBRATE_SHARE else "train"


def pair(p, h, y, w, s, k=1.0):
    return {"p": p, "h": h, "y": LABEL[y] if isinstance(y, str) else y, "w": w, "s": s, "k": k}


def without_decider(premise, claim, rng):
    """The premise without the sentences that share most words with the claim."""
    parts = sentences(premise)
    if len(parts) < 3:
        return None
    wanted = set(key(claim).split())
    scores = [len(wanted & set(key(part).split())) for part in parts]
    best = max(scores)
    kept = [part for part, score in zip(parts, scores) if score < best * 0.6]
    return " ".join(kept) if len(kept) >= 1 and best >= 3 else None


def surrounded(premise, pool, rng, words_max=280):
    """The premise inside other text, as in a long page."""
    before, after = [], []
    words = len(premise.split())
    target = rng.choice([60, 100, 150, 220, words_max])
    while words < target:
        text = rng.choice(pool)
        words += len(text.split())
        (before if rng.random() < 0.5 else after).append(text)
    return " ".join([*before, premise, *after])


def perturbed(row, name_pool, rng):
    """Pairs made from one labelled pair by changing its claim or its premise."""
    p, h, y = row["p"], row["h"], row["y"]
    out = []
    kinds = ["number", "month", "name", "opposite", "negate", "remove"]
    rng.shuffle(kinds)
    # Swapped places are rare, so they are tried first; two kinds are tried, then the pair is left alone.
    kinds = ["swap_names", "swap_numbers", *kinds[:2]] if rng.random() < 0.5 else kinds[:1]
    for kind in kinds if y == 0 else []:
        in_premise = set(perturb.NUMBER.findall(p))
        if kind == "number" and (new := perturb.change_number(h, rng, in_premise)):
            out.append(pair(p, new, "refuted", 2, "own_number"))
        elif kind == "month" and (new := perturb.change_month(h, rng)):
            out.append(pair(p, new, "refuted", 2, "own_month"))
        elif kind == "name":
            near = [m[0] for m in perturb.names(p)]
            if new := perturb.change_name(h, near if near and rng.random() < 0.6 else name_pool, rng):
                out.append(pair(p, new, "not_enough", 2, "own_name"))
        elif kind == "swap_names" and (new := perturb.swap_names(h, p, rng)):
            out.append(pair(p, new, "not_enough", 2, "own_swapped"))
        elif kind == "swap_numbers" and (new := perturb.swap_numbers(h, rng)):
            out.append(pair(p, new, "refuted", 2, "own_swapped"))
        elif kind == "opposite" and (new := perturb.opposite(h, rng)):
            out.append(pair(p, new, "refuted", 2, "own_opposite"))
        elif kind == "negate" and (new := perturb.negate(h, rng)):
            out.append(pair(p, new, "refuted", 3, "own_negated"))
        elif kind == "remove" and (new := without_decider(p, h, rng)):
            out.append(pair(new, h, "not_enough", 2, "own_removed"))
        if out:
            return out
    if y == 1 and row["w"] == 3 and rng.random() < 0.3 and (new := perturb.negate(h, rng)):
        # What is refuted is true when it is denied; this also keeps `not` from giving the label away.
        out.append(pair(p, new, "supported", 3, "own_denied", 0.7))
    return out


def from_questions(rows, name_pool, rng):
    """Claims from questions with right and wrong answers, over one passage, several, and passages that do not hold the answer."""
    out = []
    for row in rows:
        passages = [f"{p['title']}. {p['text']}" if p["title"] and not p["text"].startswith(p["title"]) else p["text"] for p in row["passages"]]
        gold = sorted({fact["passage"] for fact in row["facts"]})
        others = [text for at, text in enumerate(passages) if at not in gold]
        source = f"own_qa_{row['source'].split(' ')[0]}"
        if row["kind"] == "unanswerable":
            continue
        made = []
        if row["kind"] == "yesno":
            if found := claims.yes_no(row["question"], row["answer"]):
                made.append((found[0], "supported" if found[1] else "refuted"))
                if new := perturb.negate(found[0], rng):
                    made.append((new, "refuted" if found[1] else "supported"))
        elif found := claims.comparison(row["question"], row["answer"]):
            made += [(found[0], "supported"), (found[1], "refuted")]
        elif good := claims.declarative(row["question"], row["answer"]):
            made.append((good, "supported"))
            text = " ".join(passages[at] for at in gold)
            if perturb.NUMBER.fullmatch(row["answer"].strip()):
                wrong = perturb.change_number(row["answer"], rng) if rng.random() < 0.5 else rng.choice(perturb.NUMBER.findall(text) or [None])
            else:
                near = [m[0] for m in perturb.names(text)]
                wrong = rng.choice(near) if near and rng.random() < 0.75 else rng.choice(name_pool)
            known = [row["answer"].lower(), *[a.lower() for a in row["aliases"]]]
            if wrong and not any(wrong.lower() in a or a in wrong.lower() for a in known) and wrong.lower() not in row["question"].lower():
                bad = claims.declarative(row["question"], wrong)
                if bad and bad != good:
                    made.append((bad, "not_enough"))
        facts = [fact["sentence"] for fact in row["facts"]]
        for claim, label in made:
            shape = rng.random()
            base = " ".join(facts) if shape < 0.25 and row["kind"] != "single" else facts[0] if shape < 0.15 and facts else " ".join(passages[at] for at in gold)
            if shape > 0.6 and others:
                mixed = [base, *rng.sample(others, min(len(others), rng.randint(1, 2)))]
                rng.shuffle(mixed)
                base = " ".join(mixed)
            out.append(pair(" ".join(base.split()[:330]) if base.find(facts[-1][:30] if facts else "") < 1800 else base[:100] + " " + " ".join(facts), claim, label, 2 if label != "supported" else 3, source))
            if label == "supported" and others and rng.random() < 0.3:
                out.append(pair(rng.choice(others), claim, "not_enough", 2, "own_qa_other_passage"))
            if label == "supported" and rng.random() < 0.3 and (less := without_decider(" ".join(passages[at] for at in gold), " ".join(facts) + claim, rng)):
                if row["answer"].lower() not in less.lower():
                    out.append(pair(less, claim, "not_enough", 2, "own_qa_removed"))
            if len(facts) > 1 and label == "supported" and rng.random() < 0.4:
                out.append(pair(passages[gold[0]] if len(gold) > 1 else facts[0], claim, "not_enough", 2, "own_qa_half", 0.5))
    return out


def from_sentences(rows, rng, count):
    """Sentences of passages as claims: as they stand, reported, changed. Gives long premises with literal and changed support."""
    out = []
    for _ in range(count):
        row = rng.choice(rows)
        passage = rng.choice(row["passages"])
        parts = [s for s in sentences(passage["text"]) if 6 <= len(s.split()) <= 30]
        if not parts:
            continue
        said = rng.choice(parts)
        premise = f"{passage['title']}. {passage['text']}" if rng.random() < 0.6 else passage["text"]
        kind = rng.random()
        if kind < 0.22:
            if re.match(r"(It|He|She|They|This|These|His|Her|Their|However|But|And|In addition)\b", said):
                continue
            reported, label = perturb.reported(said, rng)
            rest = [s for s in parts if s != said]
            around = rng.sample(rest, min(len(rest), rng.randint(0, 3)))
            around.insert(rng.randint(0, len(around)), reported)
            claim = reported if rng.random() < 0.2 else said
            out.append(pair(" ".join(around), claim, "supported" if claim == reported else label, 3 if label != "not_enough" else 2, "own_reported"))
        else:
            made = perturbed(pair(premise, said, 0, 3, "x"), [], rng)
            if made and rng.random() < 0.8:
                out.extend(made)
            elif rng.random() < 0.35:
                out.append(pair(premise, said, 0, 3, "own_literal", 0.5))
    return out


def from_templates(rng, count, pool):
    out = []
    for _ in range(count):
        name = rng.choice(list(templates.KINDS))
        text, claim, label = templates.KINDS[name](rng)
        if rng.random() < 0.5:
            text = surrounded(text, pool, rng, 120)
        out.append(pair(text, claim, label, 3, f"own_{name}", 0.7))
    return out


def page_around(passage, said, others, rng):
    """A premise that has the sentence: the passage, some sentences around it, or a long page."""
    title = f"{passage['title']}. " if passage["title"] and not passage["text"].startswith(passage["title"]) and rng.random() < 0.7 else ""
    parts = sentences(passage["text"])
    kind = rng.random()
    if kind < 0.35 and said in parts:
        at = parts.index(said)
        return title + " ".join(parts[max(0, at - rng.randint(0, 2)) : at + 1 + rng.randint(0, 2)])
    text = title + " ".join(passage["text"].split()[:260])
    if kind > 0.75 and others:
        other = rng.choice(others)
        both = [text, f"{other['title']}. " + " ".join(other["text"].split()[:120])]
        rng.shuffle(both)
        return " ".join(both)
    return text


def hard_sentences(rows, contrary, rng, count):
    """Claims from sentences of passages: each sentence gives one that holds and one that does not, over the same premise."""
    science = [row for row in rows if row["source"].startswith(("covid", "entailment"))]
    out = []
    while len(out) < count:
        row = rng.choice(science if science and rng.random() < 0.15 else rows)
        passage = rng.choice(row["passages"])
        parts = [s for s in sentences(passage["text"]) if 6 <= len(s.split()) <= 45]
        plain = [s for s in parts if not hard.PRONOUN.match(s)] or parts
        if not plain:
            continue
        said = rng.choice(plain)
        others = [p for p in row["passages"] if p is not passage]
        premise = page_around(passage, said, others, rng)
        if said not in premise:
            continue
        kind = rng.random()
        made = []
        if kind < 0.15:
            name, made = "own_hard_names", hard.swapped_names(said, rng)
        elif kind < 0.42:
            name, made = "own_hard_numbers", hard.swapped_numbers(said, rng)
        elif kind < 0.72:
            name, made = "own_hard_turned", hard.turned(said, rng)
        elif kind < 0.88:
            name, made = "own_hard_limits", hard.limits(said, rng)
        elif kind < 0.93:
            name = "own_hard_inside"
            made = [(new, "refuted")] if (new := hard.flip_inside(said, contrary, rng)) else []
        elif len(parts) >= 2:
            name = "own_hard_several"
            inside = [s for s in parts if s in premise]
            picked = rng.sample(inside, min(len(inside), rng.choice([2, 2, 2, 3])))
            if len(picked) < 2:
                continue
            picked.sort(key=parts.index)
            good = [hard.same(s, rng) if rng.random() < 0.6 else s for s in picked]
            made = [(hard.joined(good, rng), "supported")]
            at = rng.randrange(len(good))
            if new := hard.changed(good[at], contrary, rng):
                made.append((hard.joined([*good[:at], new, *good[at + 1 :]], rng), "not_enough"))
            if rng.random() < 0.2 and (less := premise.replace(picked[at], " ").strip()) and len(less.split()) > 15:
                out.append(pair(less, hard.joined(good, rng), "not_enough", 2, name, 0.7))
        for claim, label in made:
            out.append(pair(premise, claim, label, 3 if label == "supported" else 2, name, 0.8))
        # What holds is as near to the sentence as what does not.
        if made and name != "own_hard_several" and all(label != "supported" for _, label in made):
            near = hard.same(said, rng) if rng.random() < 0.7 else said
            out.append(pair(premise, near, "supported", 3, name, 0.6))
    return out[:count]


def hard_claims(rows, contrary, rng, count):
    """From pairs labelled by people: limits in place of amounts, other words, claims of several facts."""
    by_premise = collections.defaultdict(list)
    for row in rows:
        if row["w"] == 3 and not row["s"].startswith(("own", "med", "conjnli", "snli", "infotabs")):
            by_premise[row["p"]].append(row)
    several = [group for group in by_premise.values() if len({row["h"] for row in group}) >= 2]
    supported = [row for group in by_premise.values() for row in group if row["y"] == 0]
    out = []
    while len(out) < count:
        kind = rng.random()
        if kind < 0.35 and several:
            group = rng.sample(rng.choice(several), 2)
            if group[0]["h"] == group[1]["h"]:
                continue
            labels = {row["y"] for row in group}
            label = "supported" if labels == {0} else "refuted" if 1 in labels else "not_enough"
            out.append(pair(group[0]["p"], hard.joined([row["h"] for row in group], rng), label, 3, "own_hard_several", 0.8))
            continue
        row = rng.choice(supported)
        if kind < 0.7:
            for claim, label in hard.limits(row["h"], rng):
                out.append(pair(row["p"], claim, label, 3 if label == "supported" else 2, "own_hard_limits", 0.8))
        elif kind < 0.85:
            if new := hard.reworded(row["h"], rng):
                out.append(pair(row["p"], new, "supported", 3, "own_hard_reworded", 0.6))
        elif made := hard.turned(row["h"], rng):
            for claim, label in made:
                out.append(pair(row["p"], claim, label, 3 if label == "supported" else 2, "own_hard_turned", 0.8))
        elif new := hard.flip_inside(row["h"], contrary, rng):
            out.append(pair(row["p"], new, "refuted", 2, "own_hard_inside", 0.8))
    return out[:count]


def hard_changes(rng, count, pool):
    out = []
    for _ in range(count):
        text, claim, label = hard.changes(rng)
        out.append(pair(surrounded(text, pool, rng, 150) if rng.random() < 0.5 else text, claim, label, 3, "own_hard_changes", 0.7))
    return out


def unlabelled(train, questions, rng, count):
    """Pairs for the teacher alone: claims against premises they were not written for, changed twice, or cut."""
    by_word = collections.defaultdict(list)
    for at, row in enumerate(train):
        for word in sorted(set(re.findall(r"[A-Z][a-z]{3,}", row["h"]))):
            by_word[word].append(at)
    out = []
    while len(out) < count:
        row = rng.choice(train)
        kind = rng.random()
        if kind < 0.4:
            shared = [w for w in sorted(set(re.findall(r"[A-Z][a-z]{3,}", row["h"]))) if 2 <= len(by_word[w]) <= 300]
            if shared:
                out.append(pair(row["p"], train[rng.choice(by_word[rng.choice(shared)])]["h"], 2, 0, "unlabelled"))
        elif kind < 0.7:
            passage = rng.choice(rng.choice(questions)["passages"])
            parts = sentences(passage["text"])
            if len(parts) >= 3:
                said = rng.choice(parts)
                rest = [s for s in parts if s != said]
                other = perturb.opposite(said, rng) or perturb.change_number(said, rng) or said
                out.append(pair(f"{passage['title']}. " + " ".join(rest), said, 2, 0, "unlabelled") if rng.random() < 0.5 else pair(" ".join(parts), other, 2, 0, "unlabelled"))
        else:
            new = perturb.opposite(row["h"], rng) or perturb.change_number(row["h"], rng) or perturb.negate(row["h"], rng)
            if new:
                out.append(pair(row["p"], new, 2, 0, "unlabelled"))
    return out


def write(path, rows):
    # A fixed time in the gzip header keeps the hash the same for the same rows.
    with open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
        for row in rows:
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--data", type=pathlib.Path, required=True)
    options.add_argument("--out", type=pathlib.Path, required=True)
    options = options.parse_args()
    rng = random.Random(SEED)
    inputs = sorted(options.data.glob("claims_train/*.jsonl.gz")) + sorted(options.data.glob("qa_train/*.jsonl.gz"))
    manifest = {"seed": SEED, "inputs": {str(path.relative_to(options.data)): digest(path) for path in inputs}}

    labelled, groups = [], Groups()
    for path in inputs:
        name = path.name.removesuffix(".jsonl.gz")
        if path.parent.name != "claims_train" or name in DROPPED:
            continue
        for row in rows_of(path):
            one = pair(tidy(row["premise"]), tidy(row["hypothesis"]), row["label"], row["ways"], name, WEIGHT.get(name, 1.0))
            if one["p"] and one["h"]:
                labelled.append(one)
                groups.join("p " + key(one["p"]), "h " + key(one["h"]))
    held = {groups.root("p " + key(row["p"])) for row in labelled if row["s"] in HELD_OUT}
    parts = {"train": [], "calibrate": [], "test": []}
    for row in labelled:
        root = groups.root("p " + key(row["p"]))
        part = "test" if row["s"] in HELD_OUT else None if root in held else part_of(root)
        if part:
            parts[part].append(row)

    questions = {"train": [], "calibrate": [], "test": []}
    for path in inputs:
        if path.parent.name == "qa_train":
            for row in rows_of(path):
                gold = sorted({fact["passage"] for fact in row["facts"]}) or [0]
                questions[part_of("q " + row["passages"][gold[0]]["title"])].append(row)
    # A passage that is a distractor of another question stays on one side.
    held_titles = {p["title"] for part in ("calibrate", "test") for row in questions[part] for f in row["facts"] for p in [row["passages"][f["passage"]]]}
    for row in questions["train"]:
        gold = {fact["passage"] for fact in row["facts"]}
        keep = [at for at, p in enumerate(row["passages"]) if at in gold or p["title"] not in held_titles]
        row["facts"] = [{"passage": keep.index(f["passage"]), "sentence": f["sentence"]} for f in row["facts"]]
        row["passages"] = [row["passages"][at] for at in keep]
    questions["train"] = [row for row in questions["train"] if row["passages"]]

    vocabulary = collections.Counter(word for row in questions["train"] for p in row["passages"] for word in re.findall(r"[a-z][a-z-]{3,}", p["text"]))
    vocabulary.update(word for row in parts["train"] for word in re.findall(r"[a-z][a-z-]{3,}", row["h"]))
    contrary = hard.contraries({word for word, count in vocabulary.items() if count >= 12})

    for part in parts:
        rng = random.Random(f"{SEED} {part}")
        pool = sorted({s for row in questions[part] for p in row["passages"] for s in sentences(p["text"])[:3]})
        name_pool = sorted({m[0] for s in pool[::7] for m in perturb.names(s)})
        own = []
        for row in parts[part]:
            if row["s"] not in HELD_OUT:
                own += perturbed(row, name_pool, rng)
        share = {"train": 1.0, "calibrate": CALIBRATE_SHARE, "test": TEST_SHARE}[part]
        own += from_questions(questions[part], name_pool, rng)
        own += from_sentences(questions[part], rng, int(60_000 * share))
        own += from_templates(rng, int(24_000 * share), pool)
        # With a generator of their own, so that the pairs of before stay the same.
        hard_rng = random.Random(f"{SEED} hard {part}")
        labelled_rows = [row for row in parts[part] if row["s"] not in HELD_OUT]
        added = hard_sentences(questions[part], contrary, hard_rng, int(110_000 * share))
        added += hard_claims(labelled_rows, contrary, hard_rng, int(40_000 * share))
        added += hard_changes(hard_rng, int(16_000 * share), pool)
        if part == "train":
            rows = parts[part] + own
            # Long pages: the same pair with other text around it.
            long = [dict(row, p=surrounded(row["p"], pool, rng), s=row["s"] + "_long") for row in rng.sample(rows, int(0.17 * len(rows))) if len(row["p"].split()) < 120]
            rows += long
            rng.shuffle(rows)
            extra = unlabelled(rows, questions[part], rng, 110_000)
            rows += added
            hard_rng.shuffle(rows)
            parts[part] = rows
        else:
            long = [dict(row, p=surrounded(row["p"], pool, rng), s=row["s"] + "_long") for row in rng.sample(parts[part], len(parts[part]) // 4) if row["s"] not in HELD_OUT]
            parts[part] = parts[part] + own + long + added

    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "test").mkdir(exist_ok=True)
    write(options.out / "train.jsonl.gz", parts["train"])
    write(options.out / "unlabelled.jsonl.gz", extra)
    write(options.out / "calibrate.jsonl.gz", parts["calibrate"])
    names = {0: "supported", 1: "refuted", 2: "not_enough"}

    def as_eval(rows, path):
        """In the form of `baton eval claims`."""
        with open(path, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps({"claim": row["h"], "evidence": [row["p"]], "label": names[row["y"]]}, ensure_ascii=False) + "\n")

    as_eval(parts["calibrate"], options.out / "calibrate.eval.jsonl")
    sets = collections.defaultdict(list)
    for row in parts["test"]:
        name = "own_qa" if row["s"].startswith("own_qa") else "long_pages" if row["s"].endswith("_long") else row["s"]
        sets[name].append(row)
    rng = random.Random(SEED)
    # Sets that were added later come last, so that the others stay the same.
    for name, rows in sorted(sets.items(), key=lambda one: (one[0].startswith("own_hard"), one[0])):
        rng.shuffle(rows)
        as_eval(rows[:TEST_ROWS_MAX], options.out / "test" / f"{name}.jsonl")
    manifest["counts"] = {part: dict(sorted(collections.Counter(row["s"] for row in rows).items())) for part, rows in [*parts.items(), ("unlabelled", extra)]}
    manifest["outputs"] = {str(path.relative_to(options.out)): digest_of_rows(path) for path in sorted(options.out.rglob("*.jsonl*"))}
    (options.out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    for part, rows in [*parts.items(), ("unlabelled", extra)]:
        print(part, len(rows), collections.Counter(row["y"] for row in rows))


if __name__ == "__main__":
    main()
