"""Sentences written from templates: who did what to whom, which is more, which number belongs to what; each with claims that hold and claims that do not."""

FIRST = "Anna Boris Carla Derek Elena Farid Greta Hugo Ingrid Jonas Karim Laura Milan Nadia Oscar Petra Quentin Rosa Stefan Tessa Umar Vera Walter Ximena Yusuf Zoe Hanna Pavel Ruth Jim".split()
LAST = "Berg Castillo Dvorak Eriksen Fontaine Gallo Haddad Ivanov Jansen Kowalczyk Lindgren Mbeki Novak Okafor Petrov Quinn Rossi Silva Tanaka Ueda Varga Weber Xu Yilmaz Zeman Lindqvist Haldane".split()
PLACES = "Lisbon Oslo Nairobi Quito Hanoi Tallinn Porto Leeds Lyon Graz Bergen Cusco Kyoto Malmo Ghent Bristol Turin Basel Cork Aarhus Arsenal Tottenham Benfica Ajax Celtic".split()
COMPANIES = "Norvik Altamira Brightwell Castor Delphia Everline Fenwick Granita Helix Ionic Jupitel Kestrel Lumena Meridian Northgate Orion Pinnacle Quarto".split()
THINGS = ["the old bridge", "the new model", "the red car", "the northern lake", "the first engine", "the brass lamp", "the larger pump", "the east tower", "the paper mill", "the copper wire", "the river ferry", "the stone wall",
          "the summer course", "the steel frame", "the wooden roof", "the second sample", "the control group", "the treated group", "the morning shift", "the night shift", "the SSD", "the hard disk", "the local cache", "the remote store"]
# Active past, participle, noun phrases for both sides; claims that hold either way are left out.
VERBS = [("defeated", "defeated", [("lost to", True), ("won against", False)]), ("succeeded", "succeeded", [("was followed by", False), ("came after", None)]), ("taught", "taught", [("was a pupil of", True), ("was the teacher of", False)]),
         ("hired", "hired", [("got a job from", True), ("gave a job to", False)]), ("sued", "sued", [("took to court", False)]), ("bought", "bought", [("acquired", False), ("was sold to", True)]), ("replaced", "replaced", [("took the place of", False), ("gave way to", True)]),
         ("criticised", "criticised", [("spoke badly of", False)]), ("invited", "invited", []), ("rescued", "rescued", [("saved", False), ("was saved by", True)]), ("followed", "followed", [("was behind", False)]), ("paid", "paid", [("received money from", True), ("gave money to", False)]),
         ("employed", "employed", [("worked for", True), ("was the employer of", False)]), ("overtook", "overtaken", [("passed", False), ("was passed by", True)]), ("founded a firm before", None, [("was later than", True)]), ("lent a book to", None, [("borrowed a book from", True)]),
         ("sold a house to", None, [("bought a house from", True)]), ("voted against", None, [("opposed", False)]), ("beat", "beaten", [("won against", False), ("lost to", True), ("was beaten by", True)]), ("trained", "trained", [("was the coach of", False), ("was coached by", True)]),
         ("inspired", "inspired", [("was influenced by", True)]), ("succeeds", "succeeded", [("takes over from", False)]), ("leads", "led", [("is headed by", True), ("is the head of", False)]), ("owns", "owned", [("belongs to", True)])]
ADJECTIVES = [("taller than", "shorter than"), ("older than", "younger than"), ("faster than", "slower than"), ("heavier than", "lighter than"), ("larger than", "smaller than"), ("cheaper than", "more expensive than"), ("north of", "south of"),
              ("east of", "west of"), ("above", "below"), ("earlier than", "later than"), ("more efficient than", "less efficient than"), ("warmer than", "colder than"), ("stronger than", "weaker than"), ("longer than", "shorter than"), ("better than", "worse than")]
MEASURES = [("is {} m high", 800, 6000), ("took {} ms", 2, 900), ("cost {} euros", 10, 9000), ("weighs {} kg", 2, 900), ("has {} pages", 40, 900), ("employs {} people", 10, 5000), ("scored {} points", 3, 120), ("opened in {}", 1820, 2020), ("made up {}% of exports", 3, 60),
            ("received {} votes", 100, 90000), ("sold {} copies", 1000, 900000), ("has a range of {} km", 40, 900), ("reached {} degrees", 11, 95), ("lasted {} days", 2, 300), ("lost {} matches", 2, 30)]


def person(rng):
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def two(rng):
    kind = rng.random()
    pick = (lambda: person(rng)) if kind < 0.5 else (lambda: rng.choice(COMPANIES)) if kind < 0.7 else (lambda: rng.choice(PLACES)) if kind < 0.85 else (lambda: rng.choice(THINGS))
    a, b = pick(), pick()
    while a == b:
        b = pick()
    return a, b, kind


def capital(text):
    return text[:1].upper() + text[1:]


def roles(rng):
    """A sentence with a direction and a claim: (sentence, claim, label)."""
    a, b, _ = two(rng)
    past, participle, others = rng.choice(VERBS)
    tail = rng.choice(["", f" in {rng.randint(1850, 2023)}", f" in {rng.choice(PLACES)}", " last year", " after a long dispute", " on Saturday"])
    is_passive = participle and rng.random() < 0.3
    be = "is" if past.endswith("s") else "was"
    text = f"{b} {be} {participle} by {a}{tail}." if is_passive else f"{a} {past} {b}{tail}."
    claims = [(f"{a} {past} {b}", True), (f"{b} {past} {a}", False)]
    if participle:
        claims += [(f"{b} {be} {participle} by {a}", True), (f"{a} {be} {participle} by {b}", False)]
    for phrase, is_reversed in others:
        if is_reversed is None:
            continue
        first, second = (b, a) if is_reversed else (a, b)
        claims += [(f"{first} {phrase} {second}", True), (f"{second} {phrase} {first}", False)]
    claim, holds = rng.choice(claims)
    return capital(text), capital(claim) + rng.choice([".", tail + "."]), "supported" if holds else "refuted"


def comparatives(rng):
    a, b, _ = two(rng)
    more, less = rng.choice(ADJECTIVES)
    if rng.random() < 0.5:
        more, less = less, more
    claims = [(f"{a} is {more} {b}", True), (f"{b} is {less} {a}", True), (f"{b} is {more} {a}", False), (f"{a} is {less} {b}", False), (f"{a} is not {more} {b}", False)]
    claim, holds = rng.choice(claims)
    return capital(f"{a} is {rng.choice(['', 'much ', 'clearly ', 'slightly '])}{more} {b}."), capital(claim) + ".", "supported" if holds else "refuted"


def places_of_numbers(rng):
    """Two things, a number for each, and claims that mix them up."""
    a, b, _ = two(rng)
    pattern, low, high = rng.choice(MEASURES)
    x, y = rng.randint(low, high), rng.randint(low, high)
    if x == y:
        y += 1
    form = rng.choice([0, 1, 2])
    verb = pattern.split(" ")[0]
    rest = pattern.split(" ", 1)[1]
    text = [f"{a} {pattern.format(x)}, {b} {pattern.format(y)}.", f"{a} {pattern.format(x)} and {b} {rest.format(y)}.", f"While {a} {pattern.format(x)}, {b} {verb} {rest.format(y)}."][form]
    larger, smaller = (a, b) if x > y else (b, a)
    claims = [(f"{a} {pattern.format(x)}", "supported"), (f"{b} {pattern.format(y)}", "supported"), (f"{a} {pattern.format(y)}", "refuted"), (f"{b} {pattern.format(x)}", "refuted"),
              (f"{b} {pattern.format(y)} and {a} {rest.format(x)}", "supported"), (f"{a} {pattern.format(y)}, {b} {rest.format(x)}", "refuted"), (f"{b} {pattern.format(x)} and {a} {rest.format(y)}", "refuted")]
    if "{}" in pattern and low > 1 and not pattern.startswith("opened"):
        claims += [(f"the figure for {larger} is higher than that for {smaller}", "supported"), (f"the figure for {smaller} is higher than that for {larger}", "refuted"),
                   (f"{larger} {pattern.format('more than ' + str(min(x, y)))}", "supported"), (f"{smaller} {pattern.format('more than ' + str(max(x, y)))}", "refuted")]
    claim, label = rng.choice(claims)
    return capital(text), capital(claim) + ".", label


def changes(rng):
    """A figure that moved, and claims about its direction and its ends."""
    what = rng.choice(["Revenue", "The population", "The price of a ticket", "Output", "The number of members", "Unemployment", "The budget", "The average wait", "Attendance", "The error rate"])
    x, y = rng.randint(11, 990), rng.randint(11, 990)
    if x == y:
        y += 3
    up = y > x
    verb = rng.choice(["rose", "climbed", "grew", "went up"] if up else ["fell", "dropped", "declined", "went down"])
    text = rng.choice([f"{what} {verb} to {y} from {x}.", f"{what} {verb} from {x} to {y}.", f"{what} was {x} in 2010 and {y} in 2020."])
    good, bad = ("increased", "decreased") if up else ("decreased", "increased")
    claims = [(f"{what} {good}.", "supported"), (f"{what} {bad}.", "refuted"), (f"{what} {good} from {x} to {y}.", "supported"), (f"{what} {good} from {y} to {x}.", "refuted"), (f"{what} {'rose' if not up else 'fell'} to {x} from {y}.", "refuted"),
              (f"{what} {'rose' if up else 'fell'} to {x} from {y}.", "refuted"), (f"{what} stayed the same.", "refuted"), (f"{what} ended at {y}.", "supported"), (f"{what} ended at {x}.", "refuted"), (f"{what} {'doubled' if y >= 2 * x else 'did not double'}.", "supported")]
    claim, label = rng.choice(claims)
    return text, claim, label


def amounts(rng):
    """A part of a whole, and claims that the whole was meant."""
    a = rng.choice(["The company", "The museum", "The city", "The fund", "The team", "The charity", person(rng)])
    thing = rng.choice(["its costs", "the stolen paintings", "the debt", "the lost data", "the forest", "the ships", "the patients", "the members", "the samples", "the seats", "the books", "the area"])
    verb, full = rng.choice([("recovered", "recouped all of"), ("repaid", "repaid all of"), ("lost", "lost every part of"), ("restored", "fully restored"), ("examined", "examined the whole of"), ("sold", "sold all of"), ("kept", "kept all of")])
    part = rng.choice(["about half of", "a third of", "only a small part of", "nearly a quarter of", "most of", "none of", "two of"])
    claims = [(f"{a} {verb} {part} {thing}.", "supported"), (f"{a} {full} {thing}.", "refuted"), (f"{a} {verb} all of {thing}.", "refuted"), (f"{a} did not {full.replace('recouped', 'recoup').replace('repaid', 'repay').replace('lost', 'lose').replace('restored', 'restore').replace('examined', 'examine').replace('sold', 'sell').replace('kept', 'keep')} {thing}.", "supported")]
    if part != "none of":
        claims.append((f"{a} {verb} some of {thing}.", "supported"))
    claim, label = rng.choice(claims)
    return f"{a} {verb} {part} {thing}.", claim, label


KINDS = {"roles": roles, "comparatives": comparatives, "numbers_in_places": places_of_numbers, "changes": changes, "amounts": amounts}
