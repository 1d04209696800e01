"""Requests of our own making for the other calls: plans over tool lists, search queries, routes, intents, critics, reflection."""

import json, random, re

from questions import DOCS, PROFILE, found, fitted, keywords, share, usable


def tool(name, about, read_only=True, required=(), /, **arguments):
    kinds = {"s": "string", "i": "integer", "n": "number", "b": "boolean", "o": "object"}
    properties = {}
    for argument, (kind, words) in arguments.items():
        properties[argument] = {"type": kinds[kind], **({"description": words} if words else {})}
    schema = {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}
    return {"name": name, "description": about, "schema": schema, "read_only": read_only, "destructive": False}


CALC = tool("calc.calculate", "Calculate an expression exactly: arithmetic, fractions, powers, roots, percentages, units and their conversion (`to`), dates.",
            True, ["expression"], expression=("s", "What to calculate, such as `(3 + 4/5) * 12`, `65 mph to km/h`, `15% of 240`"), rates=("o", ""))
CODE = tool("code.run_python", "Runs a short Python program for calculations and for working on text, data and the files of the workspace", False, ["code"],
            code=("s", "Python (a subset: no packages beyond a few of the standard library)"), inputs=("o", "Values the code finds as variables, by name."))
READ = tool("files.read", "Read lines of a text file under the root.", True, ["path"], path=("s", "the file"), from_line=("i", ""), lines=("i", ""))
WRITE = tool("files.write", "Write a text file under the root: whole or not at all", False, ["path", "content"], path=("s", "the file"), content=("s", "the whole text"),
             mode=("s", ""))
LIST = tool("files.list", "List the files and folders in one folder under the root, with sizes.", True, ["path"], path=("s", "the folder"))
FIND = tool("files.find", "Find files and folders under the root by what their path looks like.", True, ["pattern"], pattern=("s", "a glob"))
FETCH = tool("fetch.fetch", "Read a web page (HTML, text, Markdown, JSON, XML) as readable passages", True, ["url"], url=("s", "the address"))
DRAFT = tool("mail.draft", "Writes a mail as a file without sending it, so that a person can read it first.", False, ["to", "subject", "body"],
             to=("s", "the address"), subject=("s", ""), body=("s", ""))
BUILT_IN = [CALC, CODE, READ, WRITE, LIST, FIND, FETCH, DOCS, DRAFT]
OWN = [
    tool("tickets.search", "Search tickets by words in their title and text.", True, ["query"], query=("s", "words")),
    tool("tickets.get", "One ticket with all its comments.", True, ["id"], id=("i", "its number")),
    tool("tickets.create", "Open a new ticket.", False, ["title"], title=("s", "one line"), text=("s", "")),
    tool("tickets.close", "Close a ticket.", False, ["id"], id=("i", "its number")),
    tool("calendar.list_events", "Events of one day.", True, ["date"], date=("s", "YYYY-MM-DD")),
    tool("calendar.create_event", "Put an event into the calendar.", False, ["title", "date", "time"], title=("s", ""), date=("s", "YYYY-MM-DD"), time=("s", "HH:MM")),
    tool("weather.forecast", "The weather of the next days at a place.", True, ["city"], city=("s", "the place"), days=("i", "")),
    tool("db.query", "Run a read-only SQL query.", True, ["sql"], sql=("s", "one SELECT statement")),
    tool("db.tables", "The tables of the database with their columns.", True, []),
    tool("wiki.search", "Search an encyclopedia.", True, ["query"], query=("s", "what to look up")),
    tool("news.latest", "The latest news on a subject.", True, ["topic"], topic=("s", "")),
    tool("repo.list_commits", "The last commits of a branch.", True, ["branch"], branch=("s", ""), count=("i", "")),
    tool("repo.create_branch", "Create a branch.", False, ["name"], name=("s", "")),
    tool("stock.price", "The current price of a share.", True, ["symbol"], symbol=("s", "ticker symbol")),
    tool("notes.add", "Write a note.", False, ["text"], text=("s", "")),
    tool("notes.find", "Find notes by words.", True, ["query"], query=("s", "")),
    tool("translate.text", "Translate a text.", True, ["text", "to"], text=("s", ""), to=("s", "language")),
    tool("shop.order_status", "Where an order is.", True, ["order"], order=("s", "its number")),
]
BY_NAME = {t["name"]: t for t in BUILT_IN + OWN}
CITIES = "Lisbon Oslo Quito Nairobi Osaka Lyon Perth Tampere Bergen Austin Leeds Cork Porto Graz Malmö Turin Ghent Basel".split()
SUBJECTS = ["solar panels", "battery recycling", "the housing market", "open source licences", "tidal power", "quantum networks", "railway strikes", "coffee prices",
            "satellite launches", "water shortages", "electric buses", "chip exports"]
THINGS = ["login fails on Safari", "export button missing", "slow start after update", "wrong total on invoices", "emails sent twice", "dark mode flickers",
          "search ignores umlauts", "upload stops at 2 GB", "session expires too early"]
FILES = ["report", "notes", "sales", "inventory", "minutes", "budget", "readings", "orders", "survey", "log", "summary", "plan"]
TEXTS = ["water the plants", "call the dentist", "renew the passport", "order paper", "meeting moved to Monday", "remember the keys", "backup finished", "rent is due"]
NAMES = "anna ben carla dmitri elena farid grace hugo ines jonas".split()


def step(name, /, **arguments):
    return {"tool": name, "arguments": arguments}


def a_plan(rng):
    """A request, its steps, and a Python check of each program in it."""
    n = lambda a, b: rng.randint(a, b)
    pick = rng.choice
    file = lambda ext: f"{pick(FILES)}{pick(['', '', '_2025', '-old', str(n(1, 9))])}.{ext}"
    date = f"2027-{n(1, 12):02}-{n(1, 28):02}"
    kind = n(0, 31)
    if kind == 0:
        p, x = n(2, 60), n(20, 9000)
        return pick(["What is {p}% of {x}?", "Work out {p} percent of {x}", "{p}% of {x}, please"]).format(p=p, x=x), [step("calc.calculate", expression=f"{p}% of {x}")]
    if kind == 1:
        a, b, c = n(12, 999), n(12, 99), n(2, 40)
        return pick(["Calculate {a} times {b} plus {c}", "How much is {a} times {b}, plus {c}?", "Multiply {a} by {b} and add {c}"]).format(a=a, b=b, c=c), \
            [step("calc.calculate", expression=f"{a} * {b} + {c}")]
    if kind == 2:
        x = n(5, 400)
        one = pick([("miles", "km"), ("lb", "kg"), ("inches", "cm"), ("gallons", "liters"), ("feet", "m"), ("kg", "lb"), ("km", "miles"), ("hours", "minutes")])
        return pick(["Convert {x} {a} to {b}", "How many {b} are {x} {a}?", "{x} {a} in {b}?"]).format(x=x, a=one[0], b=one[1]), \
            [step("calc.calculate", expression=f"{x} {one[0]} to {one[1]}")]
    if kind == 3:
        d = n(10, 300)
        return pick(["Which date is {d} days after {date}?", "What day is it {d} days after {date}?", "Add {d} days to {date}"]).format(d=d, date=date), \
            [step("calc.calculate", expression=f"@{date} + {d} days")]
    if kind == 4:
        a, b, p = n(100, 5000), n(3, 20), n(2, 25)
        return f"{b} people share {a} euros after {p}% is taken off. How much does each get?", [step("calc.calculate", expression=f"({a} - {p}% of {a}) / {b}")]
    if kind == 5:
        f, t = file("txt"), pick(TEXTS)
        return pick(["Make a file {f} that says: {t}", "Write '{t}' into a new file called {f}", "Create {f} with the text: {t}", "Save the text \"{t}\" as {f}"]).format(f=f, t=t), \
            [step("files.write", path=f, content=t, mode="create")]
    if kind == 6:
        f = file(pick(["txt", "md", "csv", "log"]))
        return pick(["What does {f} say?", "Show me {f}", "Read {f} and tell me what is in it", "Open the file {f}"]).format(f=f), [step("files.read", path=f)]
    if kind == 7:
        d = pick(["reports", "src", "data", "images", "archive", "."])
        return (pick(["List the files in the folder {d}", "Which files are in {d}?", "What is in the directory {d}?"]).format(d=d) if d != "." else "Which files are here?"), \
            [step("files.list", path=d)]
    if kind == 8:
        e = pick(["pdf", "csv", "md", "json", "log", "png"])
        return pick(["Find all {e} files", "Where are the {e} files?", "List every .{e} file in all folders"]).format(e=e), [step("files.find", pattern=f"**/*.{e}")]
    if kind == 9:
        f = file("md")
        return pick(["How many lines has {f}?", "Count the lines of {f}"]).format(f=f), \
            [step("files.read", path=f), step("code.run_python", code="print(len(text.splitlines()))", inputs={"text": "{{1}}"})]
    if kind == 10:
        f, c = file("csv"), n(2, 5)
        code = f"rows = [line.split(',') for line in text.splitlines()[1:]]\nprint(sum(float(row[{c - 1}]) for row in rows))"
        return pick(["Add up column {c} of {f}", "What is the sum of column {c} in {f}?", "Total of column {c} of {f}, please"]).format(c=c, f=f), \
            [step("files.read", path=f), step("code.run_python", code=code, inputs={"text": "{{1}}"})]
    if kind == 11:
        f, c, o = file("csv"), n(2, 5), file("txt")
        code = f"rows = [line.split(',') for line in text.splitlines()[1:]]\nvalues = [float(row[{c - 1}]) for row in rows]\nprint(sum(values) / len(values))"
        return pick(["Write the average of column {c} of {f} into {o}", "Compute the mean of column {c} in {f} and save it as {o}"]).format(c=c, f=f, o=o), \
            [step("files.read", path=f), step("code.run_python", code=code, inputs={"text": "{{1}}"}), step("files.write", path=o, content="{{2}}", mode="create")]
    if kind == 12:
        w, f = pick(["error", "total", "Monday", "warning", "the", "open"]), file(pick(["txt", "log"]))
        return pick(["How often does the word {w} occur in {f}?", "Count '{w}' in {f}"]).format(w=w, f=f), \
            [step("files.read", path=f), step("code.run_python", code=f"print(text.lower().split().count({json.dumps(w.lower())}))", inputs={"text": "{{1}}"})]
    if kind == 13:
        f, o = file("txt"), file("txt")
        return pick(["Copy {f} to {o}", "Make a copy of {f} named {o}"]).format(f=f, o=o), [step("files.read", path=f), step("files.write", path=o, content="{{1}}", mode="create")]
    if kind == 14:
        a, b = n(2, 9), n(20, 60)
        return pick(["Print the multiples of {a} below {b} with Python", "Run Python that prints all multiples of {a} under {b}"]).format(a=a, b=b), \
            [step("code.run_python", code=f"for i in range({a}, {b}, {a}):\n    print(i)")]
    if kind == 15:
        values = [n(1, 99) for _ in range(n(4, 7))]
        told = ", ".join(map(str, values))
        return pick(["Sort these numbers: {v}", "Put {v} in order", "Sort {v} ascending with code"]).format(v=told), [step("code.run_python", code=f"print(sorted([{told}]))")]
    if kind == 16:
        q = pick(["the deadline for travel expenses", "how backups are restored", "who signs contracts", "the warranty period", "how many days of leave we have"])
        return pick(["What do my documents say about {q}?", "Look up in our documents: {q}", "Find {q} in my files"]).format(q=q), [step("docs.search", query=keywords(q))]
    if kind == 17:
        u = f"https://{pick(['example.org', 'docs.example.com', 'status.example.net'])}/{pick(FILES)}"
        return pick(["What is on {u}?", "Sum up the page {u}", "Read {u}"]).format(u=u), [step("fetch.fetch", url=u)]
    if kind == 18:
        who, t = f"{pick(NAMES)}@example.com", pick(TEXTS)
        return f"Draft a mail to {who} with the subject Reminder that says: {t}", [step("mail.draft", to=who, subject="Reminder", body=t)]
    if kind == 19:
        t = pick(THINGS)
        return pick(["Is there a ticket about '{t}'?", "Find tickets on: {t}", "Search the tickets for {t}"]).format(t=t), [step("tickets.search", query=t)]
    if kind == 20:
        i = n(2, 9999)
        return pick(["What is ticket {i} about?", "Show ticket #{i}", "Who commented on ticket {i}?"]).format(i=i), [step("tickets.get", id=i)]
    if kind == 21:
        t = pick(THINGS)
        return pick(["Open a ticket: {t}", "Create a new ticket titled '{t}'", "File a bug: {t}"]).format(t=t), [step("tickets.create", title=t)]
    if kind == 22:
        return pick(["What is on my calendar on {d}?", "Which meetings do I have on {d}?", "Show the events of {d}"]).format(d=date), [step("calendar.list_events", date=date)]
    if kind == 23:
        h, who = f"{n(8, 18):02}:{pick(['00', '15', '30', '45'])}", pick(NAMES).title()
        return pick(["Put lunch with {w} into the calendar on {d} at {h}", "Schedule lunch with {w} for {d}, {h}"]).format(w=who, d=date, h=h), \
            [step("calendar.create_event", title=f"Lunch with {who}", date=date, time=h)]
    if kind == 24:
        c = pick(CITIES)
        return pick(["How will the weather be in {c}?", "Weather forecast for {c}", "Does it rain in {c} this week?"]).format(c=c), [step("weather.forecast", city=c)]
    if kind == 25:
        t, c = pick(["orders", "customers", "invoices", "products"]), pick(["more than 10", "exactly 3", "at least 5"])
        return pick(["How many {t} are in the database?", "Count the {t} in the database"]).format(t=t), [step("db.query", sql=f"SELECT COUNT(*) FROM {t}")]
    if kind == 26:
        s = pick(SUBJECTS)
        return pick(["What is new about {s}?", "Latest news on {s}", "Any news about {s}?"]).format(s=s), [step("news.latest", topic=s)]
    if kind == 27:
        b = pick(["main", "develop", "release-2", "hotfix"])
        return pick(["Show the last commits on {b}", "Who committed to {b} lately?"]).format(b=b), [step("repo.list_commits", branch=b)]
    if kind == 28:
        b = f"{pick(['fix', 'feature'])}-{pick(FILES)}-{n(1, 99)}"
        return pick(["Create a branch called {b}", "Make a new branch {b}"]).format(b=b), [step("repo.create_branch", name=b)]
    if kind == 29:
        t = pick(TEXTS)
        return pick(["Note: {t}", "Make a note: {t}", "Remember this for me: {t}"]).format(t=t), [step("notes.add", text=t)]
    if kind == 30:
        o = f"{pick('ABCD')}{n(1000, 9999)}"
        return pick(["Where is order {o}?", "Has order {o} been shipped?"]).format(o=o), [step("shop.order_status", order=o)]
    who, t = pick(NAMES).title(), pick(["Good morning", "See you tomorrow", "The train is late", "Thank you very much"])
    language = pick(["French", "Spanish", "German", "Italian", "Dutch"])
    return f"Translate '{t}' into {language} with the tool", [step("translate.text", text=t, to=language)]


def listing(names, rng, most):
    others = [t for t in BUILT_IN + OWN if t["name"] not in names]
    tools = [BY_NAME[name] for name in names] + rng.sample(others, max(0, most - len(names)))
    rng.shuffle(tools)
    return {"text": "", "data": {"tools": tools}, "spans": []}


def plans(seed, count):
    rng = random.Random(seed)
    seen = set()
    while len(seen) < count:
        request, steps = a_plan(rng)
        if request in seen:
            continue
        seen.add(request)
        tools = listing(list(dict.fromkeys(s["tool"] for s in steps)), rng, rng.randint(5, 9))
        yield {"flow": "reason", "input": {"question": request, "model": PROFILE}, "tools": {"registry.tools": [tools]}}, {"steps": steps}


def search_plans(rows, seed):
    """Queries for questions: the words that matter; of a comparison, one query for each thing compared."""
    rng = random.Random(seed)
    for row in rows:
        words = keywords(row["question"])
        if not 2 <= len(words.split()) <= 14:
            continue
        queries = [words]
        named = [p["title"] for at, p in enumerate(row["passages"]) if at in {f["passage"] for f in row["facts"]} and p["title"].lower() in row["question"].lower()]
        if row["kind"] == "comparison" and len(named) == 2:
            rest = [w for w in words.split() if not any(w.lower() in title.lower() for title in named)]
            queries = [f"{title} {' '.join(rest[:3])}".strip() for title in named]
        name = rng.choice(["docs.search", "wiki.search"])
        tools = listing([name], rng, rng.randint(1, 5))
        tools["data"]["tools"] = [t for t in tools["data"]["tools"] if t["name"] == name or t["name"] not in ("docs.search", "wiki.search", "notes.find", "tickets.search")]
        request = {"flow": "search", "input": {"question": row["question"].strip(), "model": PROFILE}, "tools": {"registry.tools": [tools]}}
        yield request, {"tasks": [{"tool_name": name, "tool_arguments": {"query": q}} for q in queries]}


def routes(path, seed):
    """The classifier's own training lines; never the held-out ones."""
    rng = random.Random(seed)
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        tools = listing([], rng, rng.randint(2, 6))
        settings = {"router": "model", "flows": ["direct", "search", "chat", "reason"]}
        yield {"flow": "auto", "input": {"question": row["request"], "model": PROFILE, "settings": settings}, "tools": {"registry.tools": [tools]}}, {"flow": row["flow"]}


INTENTS = {
    "summarize": ["Summarize that", "Give me the short version", "tl;dr", "Sum up your last answers", "Condense what you found", "In three sentences, please: what have you told me?",
                  "Recap the answers so far", "Make a summary of all that", "Boil it down for me", "Can you shorten that to the main points?", "Main points only, please",
                  "Put the results above in one paragraph"],
    "conversation_query": ["What was my first question?", "What did I ask before?", "Which topics have we talked about?", "What did you say about {x} earlier?", "Did I mention {x}?",
                           "Repeat what you answered about {x}", "What was the question before this one?", "Did we already talk about {x}?", "Who brought up {x}, you or me?",
                           "How many questions have I asked?", "What did I tell you at the start?", "Which of my questions was about {x}?"],
    "search": ["What is new about {x}?", "Find out how {x} works", "Who invented {x}?", "Compare {x} with its alternatives", "How expensive is {x}?", "Research the history of {x}",
               "Are there risks in {x}?", "Look up facts about {x}", "Which countries lead in {x}?", "When did {x} begin?", "Tell me about {x}", "Statistics on {x}"],
}


def intents(seed):
    rng = random.Random(seed)
    for intent, forms in INTENTS.items():
        for form in forms:
            for subject in rng.sample(SUBJECTS, 8 if "{x}" in form else 4):
                other = rng.choice([s for s in SUBJECTS if s != subject])
                history = [{"role": "user", "content": f"What is known about {subject}?"}, {"role": "assistant", "content": f"There are several recent reports about {subject}."}]
                if rng.random() < 0.5:
                    history += [{"role": "user", "content": f"And about {other}?"}, {"role": "assistant", "content": f"Less has been written about {other}."}]
                yield {"flow": "chat", "input": {"question": form.format(x=subject), "history": history, "model": PROFILE}}, {"intent": intent}


def critics(rows, seed):
    """Sound drafts are sentences of the passages; the others answer something else or change a name."""
    rng = random.Random(seed)
    rows = [r for r in rows if r["facts"] and usable(r)]
    for at, row in enumerate(rows):
        row = fitted(row, rng)
        sound = " ".join(f["sentence"].strip() for f in row["facts"][:2])
        kind = rng.random()
        if kind < 0.5:
            draft, fault, reply = sound, "none", {"decision": "approve", "feedback": ""}
        elif kind < 0.75:
            gold = {f["passage"] for f in row["facts"]}
            other = next((p for n, p in enumerate(row["passages"]) if n not in gold), None)
            if other is None:
                continue
            draft, fault = re.split(r"(?<=[.!?])\s", other["text"])[0], "off_topic"
            reply = {"decision": "reject", "feedback": f"It does not answer the question; it is about {other['title']}."}
        else:
            wrong = rng.choice(rows)
            if row["kind"] == "yesno" or wrong["kind"] == "yesno" or row["answer"] not in sound or wrong["answer"] == row["answer"]:
                continue
            draft, fault = sound.replace(row["answer"], wrong["answer"]), "wrong_name"
            reply = {"decision": "reject", "feedback": f"The passages say {row['answer']}, not {wrong['answer']}."}
        passages = [{"title": p["title"], "text": p["text"]} for p in row["passages"][:5]]
        if any(f["passage"] >= 5 for f in row["facts"]) or len(reply["feedback"]) > 150:
            continue
        record = {"id": str(at), "fault": fault, "question": row["question"].strip(), "draft": draft, "passages": passages}
        yield {"flow": "panel_critic", "input": {"draft": record, "model": PROFILE}}, reply


def plain_questions(path, seed, count):
    """Requests that are answered without passages: the untuned model's own answers keep it able to."""
    rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    rows = [r for r in rows if r["flow"] == "direct"]
    random.Random(seed).shuffle(rows)
    for row in rows[:count]:
        yield {"flow": "direct", "input": {"question": row["request"], "model": PROFILE}}
