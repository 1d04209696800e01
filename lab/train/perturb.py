"""Changes to a sentence that change whether a passage supports it. Every function takes a `random.Random`, so a seed fixes the result."""

import re

NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-])")
NAME = re.compile(r"\b[A-Z][a-zà-ÿ]+(?:['’-][A-Z]?[a-z]+)?(?: [A-Z][a-zà-ÿ]+){0,3}\b")
NUMBER_WORDS = "two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty".split()
MONTHS = "January February March April May June July August September October November December".split()
SKIPPED_NAMES = set("The A An In On At It He She They This That These Those There His Her Its Their When While After Before As For If But And Or By With From To Of One No Not All Some Many Most".split())
OPPOSITES = [
    ("increase", "decrease"), ("increased", "decreased"), ("increases", "decreases"), ("rose", "fell"), ("rise", "fall"), ("higher", "lower"), ("highest", "lowest"),
    ("more", "less"), ("larger", "smaller"), ("largest", "smallest"), ("bigger", "smaller"), ("before", "after"), ("first", "last"), ("north", "south"), ("northern", "southern"),
    ("east", "west"), ("eastern", "western"), ("older", "younger"), ("oldest", "youngest"), ("early", "late"), ("earlier", "later"), ("won", "lost"), ("win", "lose"), ("best", "worst"),
    ("above", "below"), ("under", "over"), ("male", "female"), ("man", "woman"), ("father", "mother"), ("brother", "sister"), ("son", "daughter"), ("husband", "wife"), ("king", "queen"),
    ("married", "divorced"), ("born", "died"), ("opened", "closed"), ("started", "ended"), ("began", "ended"), ("success", "failure"), ("successful", "unsuccessful"), ("positive", "negative"),
    ("likely", "unlikely"), ("able", "unable"), ("dependent", "independent"), ("significant", "insignificant"), ("promotes", "inhibits"), ("activates", "suppresses"), ("upregulated", "downregulated"),
    ("improves", "worsens"), ("improved", "worsened"), ("reduces", "raises"), ("reduced", "raised"), ("gained", "lost"), ("bought", "sold"), ("joined", "left"), ("accepted", "rejected"),
    ("allowed", "forbidden"), ("supported", "opposed"), ("supports", "opposes"), ("always", "never"), ("all", "no"), ("many", "few"), ("most", "few"), ("longer", "shorter"), ("longest", "shortest"),
    ("faster", "slower"), ("fastest", "slowest"), ("cheaper", "dearer"), ("hot", "cold"), ("warm", "cool"), ("inside", "outside"), ("public", "private"), ("alive", "dead"), ("at least", "at most"),
    ("more than", "less than"), ("fewer than", "more than"), ("minimum", "maximum"), ("import", "export"), ("imports", "exports"), ("majority", "minority"), ("present", "absent"), ("win", "defeat"),
    ("strong", "weak"), ("stronger", "weaker"), ("agree", "disagree"), ("agreed", "disagreed"), ("approved", "rejected"), ("expanded", "shrank"), ("grew", "shrank"), ("grown", "shrunk"), ("with", "without"),
]
OPPOSITE = {}
for one, other in OPPOSITES:
    OPPOSITE.setdefault(one, other)
    OPPOSITE.setdefault(other, one)
OPPOSITE_PATTERN = re.compile(r"\b(" + "|".join(sorted(map(re.escape, OPPOSITE), key=len, reverse=True)) + r")\b")
AUX = re.compile(r"\b(is|are|was|were|has been|have been|had been|will|can|could|should|would|must|did|does|do)\b(?! not\b| n't|n't)")
SYMMETRIC = re.compile(r"\b(and|or|with|met|married|between|both|together|alongside|co-|equal|same|near|next to)\b", re.I)


def change_number(text, rng, keep=()):
    """Another number in the place of one, none of those in `keep`."""
    found = [m for m in NUMBER.finditer(text)]
    words = [m for m in re.finditer(r"\b(" + "|".join(NUMBER_WORDS) + r")\b", text)]
    if found and (not words or rng.random() < 0.8):
        m = rng.choice(found)
        raw = m[0].replace(",", "")
        if re.fullmatch(r"(1[5-9]|20)\d\d", raw):
            new = str(int(raw) + rng.choice([-30, -12, -10, -7, -5, -3, -2, -1, 1, 2, 3, 4, 5, 8, 10, 20]))
        elif "." in raw:
            places = len(raw.split(".")[1])
            new = f"{float(raw) * rng.choice([0.5, 0.8, 1.2, 1.5, 2, 10]) + 10 ** -places:.{places}f}"
        else:
            value = int(raw)
            options = [value + d for d in (-3, -2, -1, 1, 2, 3, 5)] if value < 50 else [int(value * f) for f in (0.1, 0.5, 0.7, 0.9, 1.1, 1.3, 2, 10)]
            new = str(rng.choice([o for o in options if o > 0 and o != value] or [value + 1]))
            if "," in m[0]:
                new = f"{int(new):,}"
    elif words:
        m = rng.choice(words)
        new = rng.choice([w for w in NUMBER_WORDS if w != m[0]])
    else:
        return None
    return None if new == m[0] or new in keep else text[:m.start()] + new + text[m.end():]


def change_month(text, rng):
    found = [m for m in re.finditer(r"\b(" + "|".join(MONTHS) + r")\b", text) if text[m.end():m.end() + 1] in (" ", ",", ".")]
    if not found:
        return None
    m = rng.choice(found)
    return text[:m.start()] + rng.choice([o for o in MONTHS if o != m[0]]) + text[m.end():]


def names(text):
    return [m for m in NAME.finditer(text) if m[0].split()[0] not in SKIPPED_NAMES and m[0] not in MONTHS and (m.start() > 0 or " " in m[0])]


def change_name(text, pool, rng):
    """A name from `pool` that the text does not have, in the place of one of its names."""
    found = names(text)
    others = [n for n in pool if n not in text]
    if not found or not others:
        return None
    m = rng.choice(found)
    return text[:m.start()] + rng.choice(others) + text[m.end():]


def swap_names(text, premise, rng):
    """Two names of the text in each other's places, where both are in the premise and the relation between them has a direction."""
    found = [m for m in names(text) if m[0] in premise]
    for i in range(len(found) - 1):
        a, b = found[i], found[i + 1]
        between = text[a.end():b.start()]
        if a[0] != b[0] and not SYMMETRIC.search(between) and 2 <= len(between.split()) <= 8 and re.search(r"\b\w+(ed|s|by|of|to|than)\b", between):
            return text[:a.start()] + b[0] + between + a[0] + text[b.end():]
    return None


def swap_numbers(text, rng):
    """Two numbers of one sentence in each other's places."""
    found = list(NUMBER.finditer(text))
    pairs = [(a, b) for a, b in zip(found, found[1:]) if a[0] != b[0] and len(a[0]) >= 2 and abs(len(a[0]) - len(b[0])) <= 2 and len(text[a.end():b.start()].split()) >= 2]
    pairs = [(a, b) for a, b in pairs if not re.match(r"\s*(to|and|–|-|or)\s*$", text[a.end():b.start()])]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return text[:a.start()] + b[0] + text[a.end():b.start()] + a[0] + text[b.end():]


def opposite(text, rng):
    found = list(OPPOSITE_PATTERN.finditer(text))
    if not found:
        return None
    m = rng.choice(found)
    return text[:m.start()] + OPPOSITE[m[1]] + text[m.end():]


def negate(text, rng):
    """`is` becomes `is not`, and a sentence that denies loses its `not`."""
    if re.search(r"\b(not|n't|never|no)\b|n't\b", text):
        for pattern, new in ((r"\b(is|are|was|were|has|have|had|will|can|could|should|would|must|did|does) not\b", r"\1"), (r"\bnever ", "")):
            changed = re.sub(pattern, new, text, count=1)
            if changed != text:
                return changed
        return None
    found = list(AUX.finditer(text))
    if not found or "?" in text:
        return None
    m = found[0]
    first = m[0].split()
    word = rng.choice(["not", "not", "not", "never"]) if first[0] in ("was", "were", "has", "have", "had", "did") else "not"
    return text[:m.start()] + " ".join([first[0], word, *first[1:]]) + text[m.end():]


BELIEF = ["believes that", "believed that", "claims that", "claimed that", "argued that", "thought that", "hoped that", "suspected that", "predicted that", "alleged that",
          "speculated that", "doubted that", "denied that", "was not sure whether", "wondered whether", "feared that", "dreamed that", "told a newspaper that", "suggested that", "asked whether",
          "insisted that", "assumed that", "imagined that", "rejected the claim that", "wrote in a novel that"]
FACTIVE = ["knew that", "realised that", "discovered that", "proved that", "showed that", "found out that", "confirmed that", "demonstrated that", "was aware that", "regretted that", "noticed that"]
HEDGE = ["It is possible that", "It was rumoured that", "It has been claimed, without evidence, that", "Perhaps", "It is not known whether", "Some critics think that", "If it had been approved,", "There is no evidence that",
         "It is a common misconception that", "It is widely but wrongly believed that"]
SURE = ["It is true that", "It is well established that", "Records show that", "As a result,", "In fact,", "Unsurprisingly,"]
PEOPLE = ["Martin Hale", "Ines Moreau", "the mayor", "a spokesman", "her brother", "the defendant", "Dr Okoro", "one reviewer", "Lena Fischer", "a former employee", "the committee", "Tomás Vega", "the author", "one fan", "an early biographer"]


def lower_first(text):
    return text if NAME.match(text) and text.split()[0] not in SKIPPED_NAMES or text[:2].isupper() else text[:1].lower() + text[1:]


def reported(text, rng):
    """(sentence that reports `text`, the label of `text` given it, the reporting sentence as a claim)."""
    kind, person = rng.random(), rng.choice(PEOPLE)
    plain = lower_first(text).rstrip(".")
    if kind < 0.55:
        verb = rng.choice(BELIEF)
        label = "not_enough"
        said = f"{person[:1].upper()}{person[1:]} {verb} {plain}."
    elif kind < 0.75:
        said, label = f"{person[:1].upper()}{person[1:]} {rng.choice(FACTIVE)} {plain}.", "supported"
    elif kind < 0.9:
        hedge = rng.choice(HEDGE)
        label = "refuted" if "wrongly" in hedge or "misconception" in hedge else "not_enough"
        said = f"{hedge} {plain}."
    else:
        said, label = f"{rng.choice(SURE)} {plain}.", "supported"
    return said, label
