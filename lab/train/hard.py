"""Pairs for what the verifier gets wrong, made from sentences of real passages: places that changed, limits, polarity inside a word, several facts in one claim, other words for the same.

Every function takes a `random.Random`. A function that makes a claim from a sentence returns (claim, label) pairs or an empty list; every kind makes claims that hold as well as claims that do not, so that no kind
of change gives the label away by itself.
"""

import collections, re

import perturb

ENTITY = re.compile(r"\b[A-Z](?:\.|[\wà-ÿ'’&-]+)(?:(?: (?:of|of the|de|van|von|da|di|del|la))? [A-Z](?:\.|[\wà-ÿ'’&-]*))*(?<![,'’-])")
LEADING = re.compile(r"^((?:In|On|At|During|After|Before|By|From|Since|Until|Throughout|Following|Under|Within|For|With)\s[^,;:()]{2,60}),\s+(.{15,}?)\.?$")
TRAILING = re.compile(r"^(.{20,}?)\s+((?:in|on|at|during|after|before|by|since|until|throughout)\s(?:the\s)?(?:[A-Z0-9][\w'’-]*(?:\s|$)){1,4})\.?$")
PRONOUN = re.compile(r"^(It|He|She|They|This|These|That|Those|His|Her|Their|Its|However|But|And|Also|There|Here|Then|Thus|Although|While|When|If|As|Both|Another|Other|Such)\b")

# Active past, present, participle: relations with a direction, as encyclopedias and news use them.
RELATIONS = """directed directs directed|wrote writes written|founded founds founded|produced produces produced|defeated defeats defeated|acquired acquires acquired|bought buys bought|designed designs designed|built builds built
composed composes composed|created creates created|published publishes published|discovered discovers discovered|invented invents invented|owned owns owned|operated operates operated|killed kills killed
succeeded succeeds succeeded|replaced replaces replaced|followed follows followed|preceded precedes preceded|inspired inspires inspired|influenced influences influenced|developed develops developed|hosted hosts hosted
played plays played|painted paints painted|recorded records recorded|released releases released|sponsored sponsors sponsored|appointed appoints appointed|elected elects elected|trained trains trained|taught teaches taught
married marries married|raised raises raised|led leads led|managed manages managed|signed signs signed|hired hires hired|invited invites invited|supported supports supported|criticised criticises criticised|praised praises praised
attacked attacks attacked|conquered conquers conquered|invaded invades invaded|surrounded surrounds surrounded|contained contains contained|included includes included|caused causes caused|joined joins joined
commissioned commissions commissioned|translated translates translated|edited edits edited|covered covers covered|performed performs performed|sang sings sung|won wins won|beat beats beaten|overtook overtakes overtaken
named names named|introduced introduces introduced|funded funds funded|sued sues sued|rescued rescues rescued|described describes described|activated activates activated|inhibited inhibits inhibited|regulated regulates regulated
encoded encodes encoded|bound binds bound|infected infects infected|produced produces produced|reduced reduces reduced|increased increases increased|prevented prevents prevented|treated treats treated|blocked blocks blocked"""
RELATIONS = [tuple(part.split()) for line in RELATIONS.splitlines() for part in line.split("|")]
SYMMETRIC_VERBS = {"married", "joined", "included", "followed"}
ACTIVE = {past: (past, part) for past, _, part in RELATIONS} | {now: (now, part) for _, now, part in RELATIONS}
BY_PARTICIPLE = {part: past for past, _, part in RELATIONS}

SYNONYMS = """about=approximately=around=roughly|because=since|bought=purchased|film=movie|films=movies|began=started|begins=starts|ended=finished|located=situated|large=big|small=little|near=close to|also=as well|children=kids
many=numerous|several=a number of|often=frequently|usually=generally|died=passed away|killed=slain|received=got|obtained=got|helped=assisted|showed=demonstrated|shows=demonstrates|used=employed|uses=employs|wrote=authored
attempted=tried|however=but|almost=nearly|famous=well-known|important=significant|built=constructed|created=made|creates=makes|won=was the winner of|required=needed|requires=needs|allowed=permitted|allows=permits|ill=sick
physician=doctor|lawyer=attorney|author=writer|actress=female actor|city=town|country=nation|countries=nations|company=firm|companies=firms|job=position|pupil=student|pupils=students|home=house|road=street|car=automobile
picture=image|song=track|songs=tracks|album=record|novel=book|battle=fight|war=conflict|quickly=rapidly|slowly=gradually|mainly=mostly=primarily|main=principal=chief|biggest=largest|entire=whole|total=overall|annual=yearly
annually=every year|each=every|until=till|within=inside|across=throughout|before=prior to|after=following|during=in the course of|currently=at present|formerly=previously|initially=at first|originally=at first|finally=in the end
published=brought out|released=put out|increased=grew=rose|decreased=declined=fell|rose=climbed|fell=dropped|reached=got to|contains=has inside it|includes=comprises|comprises=consists of
consists of=is made up of|known as=called|named=called|resigned=stepped down|appointed=named|elected=chosen|founded=established=set up|established=set up|discovered=found|destroyed=wiped out|damaged=harmed
common=widespread|difficult=hard|easy=simple|ancient=very old|modern=contemporary|different=distinct|similar=alike|same=identical|main character=protagonist|patients=people who were treated|study=investigation
results=findings|associated with=linked to|due to=because of|leads to=results in|led to=resulted in|cause=bring about|causes=brings about|prevent=stop|prevents=stops|treatment=therapy|infection=contagion|risk=danger|severe=serious
symptoms=signs|detected=found|observed=seen|suggests=indicates|indicate=suggest|shown=demonstrated|approximately=about|earliest=first|lived=resided|lives=resides|moved=relocated|attended=went to|taught=gave lessons
served as=worked as|worked=was employed|spoke=talked|said=stated|stated=said|announced=made known|claimed=asserted|wanted=wished|decided=chose|tried=attempted|continued=went on|stopped=ceased|returned=came back|left=departed from
entered=went into|joined=became a member of|defeated=beat|lost=was beaten in|championship=title|match=game|matches=games|team=side|player=sportsman|coach=trainer|record=best mark|located in=found in|capital=seat of government
river=stream|mountain=peak|population=number of inhabitants|residents=inhabitants|language=tongue|money=cash|price=cost|cheap=inexpensive|expensive=costly|wealthy=rich|poor=impoverished|strong=powerful|weak=feeble|fast=quick"""
SYNONYM = collections.defaultdict(list)
for group in SYNONYMS.replace("\n", "|").split("|"):
    words = group.split("=")
    for word in words:
        SYNONYM[word] += [other for other in words if other != word]
SYNONYM_PATTERN = re.compile(r"(?<![\w-])(" + "|".join(sorted(map(re.escape, SYNONYM), key=len, reverse=True)) + r")(?![\w-])")

# Prefixes that turn a word into its contrary, with the endings for which that is so.
CONTRARY = {"un": r"(ed|able|al|ful|y|ent|ic|ous|ly|ing|fair|safe|clear|known|like|even|equal|real|sure|stable|wise)$", "in": r"(able|ible|ent|ant|ate|ect|al|ive|ous|ence|ency|ity|ficient)$", "im": r"(able|ible|ent|ure|al|balance|moral|mobile|patient|proper|perfect|possible)$",
            "ir": r"(able|ible|ar|ational|evant|sponsible)$", "il": r"(al|egal|iterate|ogical|egitimate)$", "dis": r"(agree\w*|approv\w*|appear\w*|like\w*|honest\w*|able\w*|continu\w*|connect\w*|similar\w*|satisf\w*|obey\w*|advantage\w*|comfort\w*|trust\w*)$", "non": r"(\w{5,})$"}
NOT_CONTRARY = {"tended", "dent", "vent", "cent", "tent", "stance", "stant", "dependence", "formed", "formal", "vested", "stable", "creased", "terested", "der", "til", "iting", "its", "valuable", "flammable", "different", "famous", "ternal", "tense", "tensive", "volved", "clusive", "dicate", "itial"}
PAIRED_WORDS = {}
WHOLE = """upregulated downregulated|upregulation downregulation|upregulates downregulates|hypertension hypotension|hyperglycemia hypoglycemia|overestimated underestimated|overestimates underestimates|overweight underweight|overexpression underexpression
upstream downstream|upward downward|upwards downwards|uphill downhill|upper lower|upstairs downstairs|inbound outbound|indoor outdoor|indoors outdoors|inward outward|incoming outgoing|prewar postwar|prenatal postnatal|preoperative postoperative
intracellular extracellular|extrinsic intrinsic|internal external|interior exterior|endogenous exogenous|macroscopic microscopic|acidic alkaline|aerobic anaerobic|benign malignant|acute chronic|proximal distal|anterior posterior|dominant recessive
homozygous heterozygous|symptomatic asymptomatic|typical atypical|sensitive resistant|sensitivity resistance|susceptible resistant|synonymous nonsynonymous|dependent independent|dependence independence|dependently independently
soluble insoluble|saturated unsaturated|stable unstable|invasive noninvasive|toxic nontoxic|fiction nonfiction|profit nonprofit|sufficient insufficient|effective ineffective|adequate inadequate|accurate inaccurate|complete incomplete
major minor|majority minority|maximum minimum|maximal minimal|maximize minimize|long-term short-term|high-risk low-risk|wild-type mutant|agonist antagonist|agonists antagonists|stimulates inhibits|stimulated inhibited|stimulation inhibition
enhances impairs|enhanced impaired|accelerates slows|promoted suppressed|promotes suppresses|protective harmful|beneficial detrimental|elevated reduced|gain loss|presence absence|deficiency excess|prior subsequent|rural urban|import export"""
for part in WHOLE.replace("\n", "|").split("|"):
    one, other = part.split()
    PAIRED_WORDS[one], PAIRED_WORDS[other] = other, one


def contraries(vocabulary):
    """Pairs of a word and its contrary by a prefix, both in use."""
    found = dict(PAIRED_WORDS)
    for word in sorted(vocabulary):
        for prefix, ending in CONTRARY.items():
            rest = word[len(prefix):].lstrip("-")
            if word.startswith(prefix) and len(rest) >= 4 and rest in vocabulary and rest not in NOT_CONTRARY and re.search(ending, rest):
                found.setdefault(word, rest)
                found.setdefault(rest, word)
    return found


def cased(new, old):
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def flip_inside(text, contrary, rng):
    """One word for its contrary: `dependent`, `independent`."""
    found = [m for m in re.finditer(r"[A-Za-z][a-z-]{3,}", text) if m[0].lower() in contrary]
    if not found:
        return None
    m = rng.choice(found)
    return text[:m.start()] + cased(contrary[m[0].lower()], m[0]) + text[m.end():]


def reworded(text, rng, most=3):
    """The same with other words."""
    found = [m for m in SYNONYM_PATTERN.finditer(text)]
    if not found:
        return None
    for m in sorted(rng.sample(found, min(len(found), rng.randint(1, most))), key=lambda m: -m.start()):
        text = text[: m.start()] + rng.choice(SYNONYM[m[0]]) + text[m.end():]
    return text


def moved(text, rng):
    """The same in another order: what stands before the first comma goes to the end, or what stands at the end goes before."""
    if m := LEADING.match(text):
        return f"{m[2][:1].upper()}{m[2][1:]} {m[1][:1].lower()}{m[1][1:]}."
    if (m := TRAILING.match(text)) and not re.search(r"[,;:]", m[1][-25:]):
        return f"{m[2][:1].upper()}{m[2][1:].rstrip()}, {perturb.lower_first(m[1])}."
    return None


def shorter(text, rng):
    """A part of the sentence that holds by itself."""
    short = re.sub(r"\s*\([^()]*\)", "", text)
    options = [short] if short != text and len(short.split()) >= 5 else []
    if m := re.match(r"^(.{25,}?), (?:which|who|where|and (?:he|she|it|they|was|is|were)|but|while|although|with|including|after|before|because) .+\.$", short):
        options.append(m[1] + ".")
    if m := re.match(r"^([A-Z][^,()]{2,40}), ((?:a|an|the) [^,]{5,60}), (.{15,}\.)$", short):
        options += [f"{m[1]} {m[3]}", f"{m[1]} {rng.choice(['is', 'was'])} {m[2]}."]
    options = [option for option in options if 5 <= len(option.split()) <= 40]
    return rng.choice(options) if options else None


# American, Danish, Chinese: of a place, not a name that can do something.
OF_A_PLACE = re.compile(r"\w+(?:an|ish|ese|ench|eek|iss|elsh|tch)|German|Iraqi|Israeli|Pakistani|Thai|BCE|BC|AD|CE|English|I|II|III|IV|Jr|Sr|Sir|Dr|Mr|Mrs|Lord|Lady|President|King|Queen|Born")


def entities(text):
    """Names, without a single word that begins the sentence: that is mostly no name."""
    return [m for m in ENTITY.finditer(text) if m[0].split()[0] not in perturb.SKIPPED_NAMES and m[0] not in perturb.MONTHS and len(m[0]) > 2 and not m[0].endswith(".") and not OF_A_PLACE.fullmatch(m[0]) and (m.start() > 0 or " " in m[0] and not PRONOUN.match(m[0]))]


def swap(text, a, b):
    return text[: a.start()] + b[0] + text[a.end() : b.start()] + a[0] + text[b.end():]


def is_list(between):
    return re.fullmatch(r"[\s,;/&–-]*(?:and|or|nor|with|as well as|to|vs\.?|versus)?[\s,]*(?:the )?", between) is not None


def swapped_names(text, rng):
    """Two names in each other's places anywhere in the sentence; names of a list may change places, which changes nothing."""
    found = entities(text)
    pairs = [(a, b) for i, a in enumerate(found) for b in found[i + 1 : i + 4] if a[0] != b[0] and a[0] not in b[0] and b[0] not in a[0]]
    if not pairs:
        return []
    apart = [(a, b) for a, b in pairs if not is_list(text[a.end() : b.start()]) and len(text[a.end() : b.start()].split()) >= 2 and not perturb.SYMMETRIC.search(text[a.end() : b.start()])]
    listed = [(a, b) for a, b in pairs if re.fullmatch(r"\s+(and|or)\s+", text[a.end() : b.start()])]
    if listed and rng.random() < 0.5:
        return [(swap(text, *rng.choice(listed)), "supported")]
    return [(swap(text, *rng.choice(apart)), "not_enough")] if apart else []


QUANTITY = re.compile(r"(?<![\w.,-])[$€£]?\d+(?:,\d{3})*(?:\.\d+)?(?:\s?%| percent| per cent| million| billion| thousand)?(?![\w-])")


def swapped_numbers(text, rng):
    """Two quantities of the same form in each other's places."""
    found = list(QUANTITY.finditer(text))
    form = lambda m: (re.sub(r"[\d,.]+", "0", m[0]), bool(re.fullmatch(r"(1[0-9]|20)\d\d", m[0])))
    pairs = [(a, b) for i, a in enumerate(found) for b in found[i + 1 : i + 3] if a[0] != b[0] and form(a) == form(b)]
    pairs = [(a, b) for a, b in pairs if len(text[a.end() : b.start()].split()) >= 2 and not re.fullmatch(r"\s*(and|or|–|-|to)\s*", text[a.end() : b.start()])]
    moving = [(a, b) for a, b in pairs if re.search(r"\bto\b|\bfrom\b|\b(rose|fell|grew|dropped|increased|decreased)\b", text[max(0, a.start() - 30) : b.start()])]
    if not pairs:
        return []
    a, b = rng.choice(moving if moving and rng.random() < 0.5 else pairs)
    return [(swap(text, a, b), "refuted")]


def turned(text, rng):
    """Who did what to whom: `X is a film directed by Y` gives that Y directed X and not that X directed Y."""
    found = entities(text)
    first = ENTITY.match(text)
    if first and not PRONOUN.match(text) and first[0] not in perturb.SKIPPED_NAMES and not any(m.start() == 0 for m in found) and re.match(r" (?:is|was) ", text[first.end():]):
        found.insert(0, first)
    out = []
    for i, a in enumerate(found):
        for b in found[i + 1 : i + 3]:
            between = text[a.end() : b.start()]
            if len(between.split()) > 9 or re.search(r"[.;:()]", between) or a[0] == b[0] or a[0] in b[0] or b[0] in a[0]:
                continue
            m = re.search(r"\b(\w+) (?:and (?:\w+) )?by (?:the )?$", between)
            active = re.fullmatch(r" (\w+) (?:the |the (?:film|band|novel|company|album|city) )?", between)
            if m and m[1] in BY_PARTICIPLE and a.start() == 0 and re.match(r" (?:is|was) (?:an? |the |%s by)" % m[1], between):
                doer, done, past, part = b[0], a[0], BY_PARTICIPLE[m[1]], m[1]
            elif active and active[1] in ACTIVE and ACTIVE[active[1]][0] not in SYMMETRIC_VERBS:
                doer, done, past, part = a[0], b[0], active[1], ACTIVE[active[1]][1]
            else:
                continue
            be = rng.choice(["was", "was", "is"]) if past.endswith("ed") else "is" if past.endswith("s") else "was"
            claims = [(f"{doer} {past} {done}.", "supported"), (f"{done} was {part} by {doer}.".replace(" was ", f" {be} ", 1), "supported"), (f"{done} {past} {doer}.", "not_enough"), (f"{doer} {be} {part} by {done}.", "not_enough")]
            out += rng.sample(claims[:2], 1) + rng.sample(claims[2:], 1)
    return out[:4]


def numbers_with_values(text):
    """Matches of plain numbers with value and kind; years apart from amounts."""
    out = []
    for m in re.finditer(r"(?<![\w.,:/\[(-])([$€£]?)(\d+(?:,\d{3})*(?:\.\d+)?)( (?:million|billion|thousand))?(?![\w:/-]|,\d|\.\d)", text):
        raw = m[2].replace(",", "")
        is_year = not m[1] and not m[3] and re.fullmatch(r"(1[0-9]|20)\d\d", raw) is not None and "," not in m[2]
        out.append((m, float(raw), is_year))
    return out


def shown(amount, like):
    """With commas where `like` has them."""
    return f"{amount:,}" if "," in like or amount >= 10_000 else str(amount)


def bound(value, is_above, rng):
    """A rounder whole number on one side of the value, near or far."""
    step = 10 ** max(0, len(str(int(value))) - rng.choice([1, 2, 2, 3]))
    base = int(value // step) * step
    far = rng.choice([0, 0, 1, 1, 2, 5, 9])
    out = base + step * (1 + far) if is_above else base - step * far
    if not is_above and out == value:
        out -= step
    return out


OVER = ["more than {}", "over {}", "at least {}", "above {}", "in excess of {}", "no fewer than {}", "upwards of {}", "greater than {}"]
UNDER = ["less than {}", "fewer than {}", "under {}", "at most {}", "below {}", "no more than {}", "not more than {}", "up to {}"]
EARLIER = ["before {}", "prior to {}", "no later than {}", "earlier than {}"]
LATER = ["after {}", "later than {}", "no earlier than {}", "not before {}"]


def limits(text, rng):
    """An amount or a year as a limit, that holds or does not."""
    found = numbers_with_values(text)
    out = []
    rng.shuffle(found)
    for m, value, is_year in found:
        before = text[: m.start()]
        if re.search(r"(more|less|fewer|greater|higher|lower) than $|(over|under|about|around|nearly|almost|least|most|approximately|to|and|between|from|or|No\.|page|chapter|#) $|[–-]$", before) or value < 3 and not is_year:
            continue
        if re.match(r"\s?(–|-|to |and |or |th\b|st\b|nd\b|rd\b|[ap]\.?m\b)", text[m.end():]):
            continue
        # `Hot 100`, `type 2`: part of a name. An amount is of something.
        if not is_year and (re.search(r"\b([A-Z]\w*|virus|type|figure|table|group|stage|day|phase|number|version|age|top|level|grade) $", before) or not re.match(r" [a-z]{3}|\s?%| ?(km|kg|m|cm|ft)\b", text[m.end():]) and not m[1]):
            continue
        if is_year:
            if not re.search(r"\b[Ii]n $", before):
                continue
            start = re.sub(r"\b[Ii]n $", "", before)
            distance = rng.choice([1, 1, 2, 3, 5, 10, 20, 40])
            late, holds = rng.random() < 0.5, rng.random() < 0.5
            year = int(value) + (distance if late != holds else -distance)
            words = rng.choice(LATER if late else EARLIER).format(year)
            claim = start + (words if start else words[:1].upper() + words[1:]) + text[m.end():]
        else:
            is_over, holds = rng.random() < 0.6, rng.random() < 0.5
            amount = bound(value, is_over != holds, rng)
            if amount <= 0 or amount == value:
                continue
            claim = before + rng.choice(OVER if is_over else UNDER).format(m[1] + shown(amount, m[2]) + (m[3] or "")) + text[m.end():]
        out.append((claim, "supported" if holds else "refuted"))
        if len(out) == 2:
            break
    return out


SUBJECTS = """the population of {p}|the number of visitors to {p}|unemployment in {p}|attendance at the festival|the price of wheat|the company's revenue|membership of the union|the number of flights from {p}|rainfall in {p}|the school's enrolment|the herd
the number of breeding pairs|monthly sales|the average rent in {p}|the length of the queue|emissions from the plant|the yield per hectare|the time to first byte|memory use|the error rate of the parser|the share of women on the board|the water level at {p}
the number of nesting birds|the fleet|net profit|exports to {p}|the speed limit|the crew|the death toll|the backlog of cases|the patients' mean blood pressure|the viral load|tumour volume|expression of the gene|mean survival|the dose""".replace("\n", "|").split("|")
UP = ["rose", "increased", "grew", "climbed", "went up", "jumped", "expanded"]
DOWN = ["fell", "decreased", "dropped", "declined", "went down", "shrank", "was cut"]
TOWNS = "Lisbon Oslo Nairobi Quito Hanoi Tallinn Porto Leeds Lyon Graz Bergen Cusco Kyoto Malmo Ghent Bristol Turin Basel Cork Aarhus Utah Peru Kenya Norway Chile Wales Ghana Nepal".split()


def quantity(rng):
    size = rng.choice([10, 100, 1000, 10_000, 100_000, 1_000_000])
    value = rng.randint(size, size * 10)
    value -= value % max(1, size // rng.choice([1, 10, 100]))
    return max(2, value)


def changes(rng):
    """A figure that moved, with years, in many forms; claims about both ends, the direction, and limits."""
    what = rng.choice(SUBJECTS).format(p=rng.choice(TOWNS))
    x = quantity(rng)
    y = max(1, int(x * rng.choice([0.2, 0.35, 0.5, 0.6, 0.75, 0.83, 0.9, 1.1, 1.25, 1.4, 1.8, 2.3, 3])))
    if x == y:
        y += 1
    unit = rng.choice(["", "", "", "%", " tonnes", " km", " people", " euros"])
    if unit == "%":
        x, y = x % 90 + 2, y % 90 + 2
        if x == y:
            y += 1
    form = lambda v: (f"{v:,}" if rng.random() < 0.8 or v < 1000 else str(v)) + unit
    fx, fy = form(x), form(y)
    up = y > x
    first = rng.randint(1950, 2015)
    last = first + rng.randint(1, 12)
    verb, other = (rng.choice(UP), rng.choice(DOWN)) if up else (rng.choice(DOWN), rng.choice(UP))
    other_good, same = rng.choice(UP if up else DOWN), rng.choice(["stayed the same", "did not change", "remained constant"])
    What = what[:1].upper() + what[1:]
    text = rng.choice([f"{What} {verb} from {fx} to {fy}.", f"{What} {verb} from {fx} in {first} to {fy} in {last}.", f"Between {first} and {last} {what} {verb} from {fx} to {fy}.", f"{What} {verb} to {fy} in {last}, from {fx} in {first}.", f"In {last} {what} {verb} to {fy}, compared with {fx} the year before."
                       , f"{What}, which was {fx} in {first}, had {'risen' if up else 'fallen'} to {fy} by {last}."])
    claims = [(f"{What} {verb} from {fx} to {fy}.", "supported"), (f"{What} {other_good} from {fx} to {fy}.", "supported"), (f"{What} {verb} to {fy}.", "supported"), (f"{What} {other_good}.", "supported"), (f"{What} was once {fx}.", "supported"), (f"{What} {verb} by {abs(y - x):,}{unit}.", "supported"),
              (f"{What} {verb} from {fy} to {fx}.", "refuted"), (f"{What} {other} from {fx} to {fy}.", "refuted"), (f"{What} {other} from {fy} to {fx}.", "refuted"), (f"{What} {verb} to {fx}.", "refuted"), (f"{What} {same}.", "refuted"), (f"{What} {other}.", "refuted"), (f"{What} {verb} to {fx} from {fy}.", "refuted")]
    if str(first) in text:
        claims += [(f"In {first} {what} was {fx}.", "supported"), (f"In {last} {what} was {fy}.", "supported"), (f"In {first} {what} was {fy}.", "refuted"), (f"In {last} {what} was {fx}.", "refuted"), (f"{What} was {'higher' if up else 'lower'} in {last} than in {first}.", "supported"), (f"{What} was {'lower' if up else 'higher'} in {last} than in {first}.", "refuted")]
    good = [c for c in claims if c[1] == "supported"]
    bad = [c for c in claims if c[1] == "refuted"]
    return text, *rng.choice(good if rng.random() < 0.5 else bad)


def changed(text, contrary, rng):
    """The sentence with one thing changed so that it no longer follows."""
    makers = [lambda: perturb.change_number(text, rng), lambda: flip_inside(text, contrary, rng), lambda: perturb.opposite(text, rng), lambda: perturb.negate(text, rng), lambda: (swapped_numbers(text, rng) or [(None,)])[0][0],
              lambda: next((c for c, y in swapped_names(text, rng) if y != "supported"), None), lambda: perturb.change_month(text, rng)]
    rng.shuffle(makers)
    for make in makers:
        if (new := make()) and new != text:
            return new
    return None


def same(text, rng):
    """The sentence, or what follows from it, mostly in other words."""
    for make in rng.sample([reworded, moved, shorter], 3):
        if (new := make(text, rng)) and new != text:
            text = new
            if rng.random() < 0.5:
                break
    return text


def joined(parts, rng):
    """Several sentences as one claim."""
    parts = [part.rstrip().rstrip(".") for part in parts]
    if len(parts) == 2 and rng.random() < 0.4:
        return f"{parts[0]}, {rng.choice(['and', 'while', 'and'])} {perturb.lower_first(parts[1])}."
    return ". ".join(parts) + "."
