"""Examples for the answer check: a question, a short answer, and passages in the order in which the check reads them; right or wrong.

    python answers_data.py --data DATA --tokenizer tokenizer.json --out answers_data

Writes `answers_data.npz` (token ids of every text once, and the examples as numbers of texts) and `development.json`: a set in HotpotQA's form from questions that no example is
made of, for `baton eval answers`. The wrong answers are made to look like those of a small model: names, dates and numbers of the same type as the right one, from sentences that
share words with the question; the bridge of a question of two steps; the other one of two things compared; the answer of another question about the same passage.
"""

import argparse, collections, gzip, hashlib, json, lzma, math, pathlib, random, re

import numpy as np
from tokenizers import Tokenizer

SEED = 20261119
# Examples of each question, by source: those of several steps are rare, and nearest to what is measured.
COPIES = {"hotpotqa": 7, "2wikimultihop": 6, "musique": 8, "iirc": 3, "templates_2wiki": 1, "quoref": 3, "boolq": 1, "entailment_bank": 1}
# Share of the training copies of a question in which another answer stands in place of the right one.
REPLACED_SHARE = 0.4
# Their gold passages are single sentences without titles, their facts guesses, or their answers whole sentences.
LEFT_OUT = {"strategyqa", "covid_qa"}
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
DATE = re.compile(rf"\b(?:\d{{1,2}} )?(?:{MONTHS})(?: \d{{1,2}},?)?(?: \d{{4}})?\b")
YEAR = re.compile(r"\b(?:1[0-9]\d\d|20[0-2]\d)\b")
NUMBER = re.compile(r"\b\d[\d,.]*\d?(?: (?:million|billion|percent|per cent|%|[a-z]{2,9}))?")
NAME = re.compile(r"\b[A-Z][\w.'’-]*(?:(?: (?:of|the|de|van|von|and|del|la|du|in|for|&))* [A-Z][\w.'’-]*)*")
OPENERS = set("The A An It He She They In On At Its His Her Their This That These Those As After Before During When While For From By With And But Or If Since Although However Because There Both Some Many Most Also Such One Two Of To".split())
STOP = set("a an the of in on at to for from by with and or but is are was were be been has have had do does did who whom whose which what when where why how many much that this these those it its he she they his her their as not no than then into also name one other same first".split())


def words(text):
    return re.findall(r"\w+", text.lower())


def key(text):
    """An answer without case, articles and punctuation."""
    return " ".join(w for w in words(text) if w not in ("a", "an", "the"))


def sentences(text):
    return [s for s in re.split(r"(?<=[.!?])\s+", text) if s]


def kind_of(answer):
    if key(answer) in ("yes", "no"):
        return "yesno"
    if re.search(MONTHS, answer) and re.search(r"\d", answer):
        return "date"
    if YEAR.fullmatch(answer.strip()):
        return "year"
    if re.search(r"\d", answer) and len(answer.split()) < 5:
        return "number"
    return "name" if re.match(r"(?:the |a |an )?[A-Z]", answer) else "other"


def kind_wanted(question):
    q = question.lower()
    for pattern, kind in ((r"\bwhat year|\bwhich year|\bin what year", "year"), (r"\bwhen\b|what date|what day", "date"), (r"\bhow (?:many|much|old|long|far|large|tall)|what percent", "number"),
                          (r"\bwho\b|\bwhose\b|\bwhere\b|\bwhat (?:city|country|person|name|band|team|company|film|book|state)", "name")):
        if re.search(pattern, q):
            return kind
    return "other"


def spans_in(sentence, kind):
    if kind == "date":
        found = DATE.findall(sentence) + YEAR.findall(sentence)
    elif kind == "year":
        found = YEAR.findall(sentence)
    elif kind == "number":
        found = NUMBER.findall(sentence)
    elif kind == "name":
        found = []
        for name in NAME.findall(sentence):
            parts = name.split()
            while parts and parts[0] in OPENERS:
                parts = parts[1:]
            if parts and len(parts) <= 7:
                found.append(" ".join(parts))
    else:
        found, run = [], []
        for word in re.findall(r"[\w'’-]+|[^\w\s]", sentence) + ["."]:
            if word.lower() in STOP or not re.match(r"\w", word):
                if 1 <= len(run) <= 5:
                    found.append(" ".join(run))
                run = []
            else:
                run.append(word)
    return [f.strip(" .,'’-") for f in found if len(f.strip(" .,'’-")) > 1]


class Index:
    """Passages by rare words, to find some that resemble what a search shows."""

    def __init__(self, passages):
        self.passages = passages
        self.postings = collections.defaultdict(list)
        for number, (title, text) in enumerate(passages):
            for word in set(words(title)) | set(words(text)):
                if word not in STOP:
                    self.postings[word].append(number)

    def idf(self, word):
        return math.log(len(self.passages) / (1 + len(self.postings.get(word, ()))))

    def search(self, text, count):
        found = collections.Counter()
        for word in set(words(text)):
            its = self.postings.get(word, ())
            if len(its) < 3_000:
                for number in its:
                    found[number] += self.idf(word)
        return [number for number, _ in found.most_common(count)]


class Maker:
    def __init__(self, rng, index, answers):
        self.rng, self.index, self.answers = rng, index, answers
        self.examples = []

    def replaced(self, row, golds, kind):
        """The gold passages with another answer of the same type in place of the right one, and that answer: what a question's answer is must be read, not remembered."""
        answer = row["answer"]
        if kind not in ("name", "date", "year", "number") or len(answer) < 3 or not any(answer in text for _, text in golds):
            return None
        other = self.rng.choice(self.answers[kind])
        if key(other) in key(answer) or key(answer) in key(other) or key(other) in key(row["question"]) or key(answer) in key(row["question"]) or any(key(other) in key(text) for _, text in golds):
            return None
        return [(title.replace(answer, other), text.replace(answer, other)) for title, text in golds], other

    def wrong(self, question, passages, kind, right, count, extra=()):
        """Spans of the same type, half of them from the sentences nearest to the question."""
        wanted = set(words(question)) - STOP
        right_keys = [key(r) for r in right if r]
        ranked = []
        for at, (title, text) in enumerate(passages):
            for place, sentence in enumerate(sentences(text)):
                its = set(words(sentence)) | (set(words(title)) if title else set())
                near = sum(self.index.idf(w) for w in wanted & its)
                for span in spans_in(sentence, kind) + ([title] if kind == "name" and title and place == 0 else []):
                    ranked.append((near, span, at))
        for span in extra:
            ranked.append((1e3, span, None))
        seen, usable = set(), []
        for near, span, at in sorted(ranked, key=lambda r: -r[0]):
            k = key(span)
            is_right = any(k in r or r in k for r in right_keys) if right_keys else False
            in_question = k and k in key(question)
            if not k or k in seen or is_right or in_question and self.rng.random() > 0.15 or len(span) > 64:
                continue
            seen.add(k)
            usable.append((span, at))
        best, rest = usable[: count + 2], usable[count + 2 :]
        self.rng.shuffle(best)
        self.rng.shuffle(rest)
        half = -(-count * 2 // 3)
        return (best[:half] + rest + best[half:])[:count]

    def shortened(self, text):
        """A passage as its first sentences, since the gold passages of some sets are so short."""
        parts = sentences(text)
        return " ".join(parts[: self.rng.choice((1, 1, 2))])

    def add(self, source, split, question, answer, shown, cited, is_right, weight=1.0, tag=""):
        """`shown` in the order of the search; `cited` are positions in it."""
        others = [at for at in range(len(shown)) if at not in cited]
        answer_key = key(answer)
        has = [at for at in others if answer_key and answer_key not in ("yes", "no") and answer_key in key(shown[at][1] + " " + shown[at][0])]
        order = [*cited, *has, *(at for at in others if at not in has)]
        self.examples.append((source, split, tag, question, answer, tuple(shown[at] for at in order[:8]), int(is_right), weight))


def variants(row, rng):
    """The right answer as a model may write it."""
    answer = row["answer"]
    if kind_of(answer) == "yesno":
        return [answer, answer.capitalize(), answer.upper() if rng.random() < 0.1 else answer.capitalize()]
    out = [answer, answer, *row["aliases"][:3]]
    if re.match(r"(?:The|the|a|an|A|An) ", answer):
        out.append(answer.split(" ", 1)[1])
    elif kind_of(answer) == "name" and rng.random() < 0.15:
        out.append("the " + answer)
    if "(" in answer:
        out.append(re.sub(r"\s*\([^)]*\)", "", answer))
    if answer.count(",") == 1 and kind_of(answer) == "name" and len(answer.split(",")[0]) > 3:
        out.append(answer.split(",")[0])
    day = re.fullmatch(rf"(\d{{1,2}}) ({MONTHS}) (\d{{4}})", answer)
    if day:
        out.append(f"{day[2]} {day[1]}, {day[3]}")
    day = re.fullmatch(rf"({MONTHS}) (\d{{1,2}}), (\d{{4}})", answer)
    if day:
        out.append(f"{day[2]} {day[1]} {day[3]}")
    # A little of the sentence around it, as a small model copies it.
    for fact in row["facts"]:
        place = fact["sentence"].find(answer)
        if place > 0 and rng.random() < 0.3:
            before = fact["sentence"][:place].split()
            wide = " ".join([*before[-rng.choice((1, 2)) :], answer])
            if len(wide) < 60:
                out.append(wide)
                break
    return [o for o in out if o.strip()]


def main():
    args = argparse.ArgumentParser()
    for name in ("--data", "--tokenizer", "--out"):
        args.add_argument(name, type=pathlib.Path, required=True)
    args.add_argument("--development", type=int, default=160, help="questions of HotpotQA that are left for the development set")
    args = args.parse_args()
    rng = random.Random(SEED)
    measured = json.loads((args.data / "hotpot100.json").read_text())
    measured_questions = {key(row["question"]) for row in measured}
    measured_gold = {frozenset(row["supporting_facts"]["title"]) for row in measured}
    rows, dropped = [], 0
    for path in sorted((args.data / "qa_train").glob("*.jsonl.gz")):
        source = path.name.removesuffix(".jsonl.gz")
        if source in LEFT_OUT:
            continue
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                row["source"] = source
                gold_titles = frozenset(row["passages"][f["passage"]]["title"] for f in row["facts"])
                if key(row["question"]) in measured_questions or gold_titles in measured_gold:
                    dropped += 1
                    continue
                rows.append(row)
    # The whole passage where another row has it: gold passages are often cut to their deciding sentence.
    longest = {}
    for row in rows:
        for p in row["passages"]:
            if p["title"] and len(p["text"]) > len(longest.get(p["title"], "")):
                longest[p["title"]] = p["text"]
    extended = 0
    for row in rows:
        for p in row["passages"]:
            whole = longest.get(p["title"], "") if p["title"] else ""
            if len(whole) > len(p["text"]) and p["text"][:60] in whole and len(whole) < 1_500:
                p["text"] = whole
                extended += 1
    # Development: questions of HotpotQA whose passages are whole, and 4% of all others.
    def is_whole(row):
        gold = {f["passage"] for f in row["facts"]}
        facts = {at: " ".join(f["sentence"] for f in row["facts"] if f["passage"] == at) for at in gold}
        return row["source"] == "hotpotqa" and len(gold) == 2 and len(row["passages"]) >= 8 and all(len(row["passages"][at]["text"]) > len(facts[at]) + 20 for at in gold)
    whole = [row for row in rows if is_whole(row)]
    rng.shuffle(whole)
    held = whole[: args.development]
    held_keys = {key(row["question"]) for row in held}
    for row in rows:
        digest = int(hashlib.sha256(key(row["question"]).encode()).hexdigest()[:8], 16)
        row["split"] = 1 if key(row["question"]) in held_keys else 2 if digest % 25 == 0 else 0
    (args.out.parent / "development.json").write_text(json.dumps([hotpot_form(row) for row in held], ensure_ascii=False))
    passages = sorted({(p["title"], p["text"]) for row in rows for p in row["passages"]})
    index = Index(passages)
    by_passage = collections.defaultdict(list)
    for row in rows:
        for at in {f["passage"] for f in row["facts"]}:
            p = row["passages"][at]
            by_passage[(p["title"], p["text"])].append(row)
    answers = collections.defaultdict(list)
    for row in rows:
        if row["answer"] and row["split"] == 0 and len(row["answer"]) < 50:
            answers[kind_of(row["answer"])].append(row["answer"])
    maker = Maker(rng, index, answers)
    for row in rows:
        make(row, maker, passages, index, by_passage, rng)
    pack(maker.examples, args)
    counts = collections.Counter((e[0], e[1], e[6]) for e in maker.examples)
    for source in sorted({e[0] for e in maker.examples}):
        print(f"{source:18} " + "  ".join(f"{name} {counts[source, split, 1]} right {counts[source, split, 0]} wrong" for split, name in ((0, "train"), (1, "hotpot dev"), (2, "dev"))))
    print(f"{len(maker.examples)} examples of {len(rows)} questions; {dropped} rows share a question or gold passages with hotpot100; {extended} passages made whole")
    print(collections.Counter(e[2] for e in maker.examples))


def hotpot_form(row):
    gold = sorted({f["passage"] for f in row["facts"]})
    return {"id": hashlib.sha256(row["question"].encode()).hexdigest()[:12], "question": row["question"], "answer": row["answer"], "type": row["kind"], "level": "hard",
            "supporting_facts": {"title": [row["passages"][at]["title"] for at in gold], "sent_id": [0] * len(gold)},
            "context": {"title": [p["title"] for p in row["passages"]], "sentences": [[p["text"]] for p in row["passages"]]}}


def make(row, maker, passages, index, by_passage, rng):
    question, source, split = row["question"], row["source"], row["split"]
    own = [(p["title"], p["text"]) for p in row["passages"]]
    gold = sorted({f["passage"] for f in row["facts"]})
    right = [row["answer"], *row["aliases"]]
    titles = {own[at][0] for at in gold if own[at][0]}
    golds = own_golds = [own[at] for at in gold]
    own_right = right
    distractors = [p for at, p in enumerate(own) if at not in gold]
    answer_key = key(row["answer"])
    is_yesno = answer_key in ("yes", "no")
    # Passages that a search would show beside these; none that may have the answer.
    found = [passages[n] for n in index.search(question, 12)]
    found = [p for p in found if p not in own and not (p[0] and p[0] in titles) and (is_yesno or not answer_key or answer_key not in key(p[1]))]
    kind = kind_of(row["answer"]) if row["answer"] else kind_wanted(question)
    is_unanswerable = not row["answer"]

    def short(p):
        return (p[0], maker.shortened(p[1])) if rng.random() < (0.35 if source in ("hotpotqa", "templates_2wiki", "2wikimultihop") else 0.1) else p

    def shown(some, count):
        """Golds or what stands in their place, among others."""
        others = rng.sample(distractors, min(len(distractors), count)) if distractors else []
        if rng.random() < 0.5:
            others = (others + found[: rng.randint(1, 4)])[: count + 2]
        others = [short(p) for p in others]
        out = [*some, *others]
        # The right ones tend to be ranked first.
        return sorted(out, key=lambda p: rng.random() * (0.6 if p in some else 1.0))

    def cited_of(context, must):
        cited = [context.index(p) for p in must if p in context]
        rng.shuffle(cited)
        if rng.random() < 0.25 and len(context) > len(cited):
            cited.insert(rng.randint(0, len(cited)), rng.choice([at for at in range(len(context)) if at not in cited]))
        return cited[:4]

    def wrongs(context, count, tag, extra=(), weight=1.0):
        for span, at in maker.wrong(question, context, kind, right if not is_unanswerable else [], count, extra):
            must = [context[at]] if at is not None else []
            # A second citation, as for a question of two steps.
            if rng.random() < 0.5 and context:
                must.append(rng.choice(context))
            maker.add(source, split, question, span, context, cited_of(context, list(dict.fromkeys(must))), False, weight, tag)

    for _ in range(COPIES.get(source, 2)):
        if is_unanswerable:
            context = shown([], 7)
            wrongs(context, 3, "unanswerable")
            if is_yesno_question(question):
                maker.add(source, split, question, rng.choice(("yes", "no", "Yes", "No")), context, cited_of(context, rng.sample(context, min(2, len(context)))), False, 1.0, "unanswerable")
            continue
        golds, right, forms = own_golds, own_right, variants(row, rng)
        swapped = maker.replaced(row, golds, kind) if split == 0 and rng.random() < REPLACED_SHARE else None
        if swapped:
            golds, other = swapped
            right, forms = [other], [other]
            context = shown(golds, rng.randint(2, 6))
            maker.add(source, split, question, row["answer"], context, cited_of(context, golds), False, 1.0, "replaced")
        titles = {title for title, _ in golds if title}
        answer_key = key(right[0])
        for _ in range(3):
            context = shown(golds, rng.randint(2, 6))
            must = golds if rng.random() < 0.7 else rng.sample(golds, max(1, len(golds) - 1))
            maker.add(source, split, question, rng.choice(forms), context, cited_of(context, must), True, 1.0, "right")
        without = shown([], 7) or found
        # Nothing of the gold: what is measured.
        if without:
            if is_yesno:
                for word in ("Yes", "No"):
                    maker.add(source, split, question, rng.choice((word, word.lower())), without, cited_of(without, rng.sample(without, min(2, len(without)))), False, 1.0, "no gold")
            else:
                wrongs(without, 3, "no gold")
                maker.add(source, split, question, rng.choice(forms), without, cited_of(without, rng.sample(without, min(2, len(without)))), False, 0.7, "right without gold")
        # All of the gold, and another answer.
        context = shown(golds, rng.randint(2, 6))
        if is_yesno:
            word = "no" if answer_key == "yes" else "yes"
            for _ in range(2):
                maker.add(source, split, question, rng.choice((word, word.capitalize())), context, cited_of(context, golds), False, 1.0, "flipped")
        else:
            extra = []
            if row["kind"] == "comparison":
                extra = [t for t in titles if key(t) != answer_key and key(t) in key(question)]
                for span in extra:
                    if not any(key(span) in key(r) or key(r) in key(span) for r in right):
                        maker.add(source, split, question, span, context, cited_of(context, golds), False, 1.0, "other one")
            wrongs(context, 2, "wrong")
            # What other questions ask of the same passage.
            others = [r["answer"] for p in own_golds for r in by_passage[p] if r is not row and r["answer"] and key(r["answer"]) not in ("yes", "no")]
            others = [o for o in dict.fromkeys(others) if not any(key(o) in key(r) or key(r) in key(o) for r in right)]
            same = [o for o in others if kind_of(o) == kind]
            for other in rng.sample(same, min(2, len(same))) or rng.sample(others, min(1, len(others))):
                maker.add(source, split, question, other, context, cited_of(context, golds), False, 1.0, "of another question")
            # The bridge instead of the answer.
            bridges = [t for t in titles if t and not any(key(t) in key(r) or key(r) in key(t) for r in right) and key(t) not in key(question)]
            if bridges:
                maker.add(source, split, question, rng.choice(bridges), context, cited_of(context, golds), False, 1.0, "bridge")
        # One of two gold passages: the one with the answer is missing.
        if len(golds) > 1 and not is_yesno:
            rest = [p for p in golds if answer_key not in key(p[0] + " " + p[1])]
            if rest and len(rest) < len(golds):
                wrongs(shown(rest, rng.randint(3, 6)), 2, "half of the gold")
        elif len(golds) > 1:
            context = shown(rng.sample(golds, len(golds) - 1), rng.randint(3, 6))
            maker.add(source, split, question, rng.choice(("Yes", "No", "yes", "no")), context, cited_of(context, context[:2]), False, 0.7, "half of the gold")


def is_yesno_question(question):
    return bool(re.match(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b", question.lower()))


def pack(examples, args):
    """Every text once as ids, and the examples as numbers of texts."""
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    numbers = {}
    number = lambda text: numbers.setdefault(text, len(numbers))
    flat, begins = [], [0]
    sources, tags = sorted({e[0] for e in examples}), sorted({e[2] for e in examples})
    meta = np.zeros((len(examples), 4), np.uint8)
    weights = np.zeros(len(examples), np.float16)
    for at, (source, split, tag, question, answer, shown, is_right, weight) in enumerate(examples):
        flat += [number(question), number(answer), *(n for title, text in shown for n in (number(title), number(text)))]
        begins.append(len(flat))
        meta[at] = sources.index(source), split, tags.index(tag), is_right
        weights[at] = weight
    texts = list(numbers)
    ids = []
    for start in range(0, len(texts), 20_000):
        ids += [np.array(e.ids[:700], np.uint16) for e in tokenizer.encode_batch_fast(texts[start : start + 20_000], add_special_tokens=False)]
    lengths = np.array([len(i) for i in ids], np.int32)
    raw = args.out.with_suffix(".npz")
    np.savez(raw, ids=np.concatenate(ids), lengths=lengths, flat=np.array(flat, np.int32), begins=np.array(begins, np.int32), meta=meta, weights=weights,
             sources=np.array(sources), tags=np.array(tags))
    packed = lzma.compress(raw.read_bytes(), preset=4)
    args.out.with_suffix(".npz.xz").write_bytes(packed)
    print(f"{len(texts)} texts, {lengths.sum()} tokens, {len(packed)} bytes packed, sha256 {hashlib.sha256(raw.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
