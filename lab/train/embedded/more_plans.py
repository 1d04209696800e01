"""More requests with their plans: databases, tickets and mail behind servers of different names, several languages, chains. None of them is a task of `baton eval tasks`."""

import random

from tasks import BUILT_IN, CALC, CODE, DOCS, FILES, LIST, NAMES, PROFILE, READ, TEXTS, THINGS, WRITE, step, tool

SERVERS = ["sql", "db", "warehouse", "shopdb", "records", "sqlite", "pg"]
APPEND = tool("files.append", "Add text at the end of a text file under the root; the file is made if it is not there.", False, ["path", "content"], path=("s", "the file"), content=("s", "what is added"))
DESKS = ["tickets", "tracker", "helpdesk", "issues", "desk"]
POSTS = ["mail", "post", "mailer"]
TABLES = {
    "books": [("title", "s"), ("author", "s"), ("year", "i"), ("pages", "i"), ("language", "s")],
    "employees": [("name", "s"), ("department", "s"), ("salary", "i"), ("office", "s")],
    "flights": [("number", "s"), ("origin", "s"), ("destination", "s"), ("seats", "i"), ("status", "s")],
    "sensors": [("name", "s"), ("room", "s"), ("reading", "i"), ("state", "s")],
    "members": [("name", "s"), ("town", "s"), ("fee", "i"), ("joined", "i")],
    "parts": [("name", "s"), ("supplier", "s"), ("amount", "i"), ("cost", "i")],
    "songs": [("title", "s"), ("band", "s"), ("seconds", "i"), ("genre", "s")],
}
VALUES = {
    "author": ["Lem", "Woolf", "Achebe"], "language": ["French", "English", "Polish"], "department": ["sales", "research", "support"], "office": ["Cork", "Graz", "Osaka"],
    "origin": ["Oslo", "Lyon"], "destination": ["Porto", "Quito"], "status": ["late", "boarding", "cancelled"], "room": ["cellar", "attic", "lab"], "state": ["ok", "broken"],
    "town": ["Basel", "Ghent", "Turin"], "supplier": ["Hansen", "Moreau"], "band": ["Low", "Can"], "genre": ["jazz", "folk"],
    "title": ["Solaris", "The Waves"], "name": ["Ida Holm", "Raj Patel", "Lena Vogt"], "number": ["SK402", "LH77"],
}


def database(rng):
    server = rng.choice(SERVERS)
    ask = rng.choice(["query", "select", "read_query", "run_query"])
    change = rng.choice(["execute", "write_query", "run_statement"])
    argument = rng.choice(["sql", "sql", "query", "statement"])
    query = tool(f"{server}.{ask}", "Run one SELECT statement and return its rows.", True, [argument], **{argument: ("s", "the SELECT statement")})
    execute = tool(f"{server}.{change}", "Run one statement that changes rows: INSERT, UPDATE or DELETE.", False, [argument], **{argument: ("s", "the statement")})
    tables = tool(f"{server}.tables", "The tables and their columns.", True, [])
    return [query, execute, tables], lambda sql: step(query["name"], **{argument: sql}), lambda sql: step(execute["name"], **{argument: sql})


def ticket_desk(rng):
    server = rng.choice(DESKS)
    prefix = rng.choice(["T-", "BUG-", "#", ""])
    number = lambda: f"{prefix}{rng.randint(10, 990)}"
    listing = tool(f"{server}.{rng.choice(['list_tickets', 'list', 'all'])}", "Tickets, all or those with one status.", True, [], status=("s", "open or closed"))
    get = tool(f"{server}.{rng.choice(['get_ticket', 'show', 'get'])}", "One ticket with its comments.", True, ["id"], id=("s", "its number"))
    create = tool(f"{server}.{rng.choice(['create_ticket', 'open', 'new'])}", "Open a ticket.", False, ["title"], title=("s", "one line"), text=("s", ""), priority=("s", "low, normal or high"))
    close = tool(f"{server}.{rng.choice(['close_ticket', 'close', 'resolve'])}", "Close a ticket.", False, ["id"], id=("s", "its number"), reason=("s", "why"))
    comment = tool(f"{server}.{rng.choice(['add_comment', 'comment'])}", "Write a comment on a ticket.", False, ["id", "text"], id=("s", "its number"), text=("s", ""))
    return [listing, get, create, close, comment], number


def mailer(rng):
    return tool(f"{rng.choice(POSTS)}.send", "Send a mail.", False, ["to", "subject", "body"], to=("s", "the address"), subject=("s", "one line"), body=("s", "the text"))


def a_plan(rng):
    """Request, tools that must be listed, steps."""
    pick, n = rng.choice, rng.randint
    file = lambda ext: f"{pick(FILES)}{pick(['', '', '_2024', '-new', str(n(1, 9))])}.{ext}"
    who = pick(NAMES)
    address = f"{who}@{pick(['office', 'team', 'firm'])}.example"
    kind = n(0, 25)
    if kind <= 7:
        tools, query, execute = database(rng)
        table = pick(list(TABLES))
        columns = TABLES[table]
        texts, numbers = [c for c, k in columns if k == "s" and c in VALUES], [c for c, k in columns if k == "i"]
        column, value, amount = pick(texts), None, pick(numbers)
        value = pick(VALUES[column])
        bound = n(5, 900)
        if kind == 0:
            request = pick(["How many rows of {t} have {c} {v}?", "Count the {t} whose {c} is {v}, in the database.", "In the database: how many {t} have the {c} {v}?",
                            "Wie viele Zeilen der Tabelle {t} haben {c} {v}?", "Combien de lignes de la table {t} ont {c} = {v} ?"])
            return request.format(t=table, c=column, v=value), tools, [query(f"SELECT COUNT(*) FROM {table} WHERE {column} = '{value}'")]
        if kind == 1:
            request = pick(["What is the total {a} of all {t} with {c} {v}?", "Add up {a} in the table {t} where {c} is {v}.", "Sum of {a} over the {t} whose {c} is {v}?",
                            "Suma {a} en la tabla {t} donde {c} es {v}."])
            return request.format(a=amount, t=table, c=column, v=value), tools, [query(f"SELECT SUM({amount}) FROM {table} WHERE {column} = '{value}'")]
        if kind == 2:
            word, order = pick([("largest", "DESC"), ("highest", "DESC"), ("smallest", "ASC"), ("lowest", "ASC")])
            first = columns[0][0]
            return f"Which of the {table} has the {word} {amount}? Look in the database.", tools, [query(f"SELECT {first}, {amount} FROM {table} ORDER BY {amount} {order} LIMIT 1")]
        if kind == 3:
            word, sign = pick([("more than", ">"), ("over", ">"), ("less than", "<"), ("fewer than", "<"), ("at least", ">=")])
            first = columns[0][0]
            return pick(["List the {t} with {w} {b} {a}.", "Which {t} have {w} {b} {a}? It is in the database."]).format(t=table, w=word, b=bound, a=amount), tools, \
                [query(f"SELECT {first} FROM {table} WHERE {amount} {sign} {bound}")]
        if kind == 4:
            return pick(["For each {c}, what is the average {a} of the {t}?", "Average {a} of the {t} by {c}, please."]).format(c=column, a=amount, t=table), tools, \
                [query(f"SELECT {column}, AVG({amount}) FROM {table} GROUP BY {column}")]
        if kind == 5:
            ident, other = n(2, 60), pick(VALUES[column])
            return pick(["Set {c} to {v} for number {i} in the table {t}.", "Change the {c} of row {i} of {t} to {v}.", "Update {t}: id {i} gets {c} {v}."]).format(c=column, v=other, i=ident, t=table), tools, \
                [execute(f"UPDATE {table} SET {column} = '{other}' WHERE id = {ident}")]
        if kind == 6:
            first = columns[0][0]
            out = file("txt")
            return pick(["Take {f} of all {t} from the database and write them into {o}.", "Put the {f} of every row of {t} into the file {o}."]).format(f=first, t=table, o=out), [*tools, WRITE], \
                [query(f"SELECT {first} FROM {table}"), step("files.write", path=out, content="{{1}}", mode="create")]
        ident = n(2, 60)
        chosen = [(c, pick(VALUES[c])) for c in texts[:2]]
        told = ", ".join(f"{c} {v}" for c, v in chosen)
        names, values = ", ".join(c for c, _ in chosen), ", ".join(f"'{v}'" for _, v in chosen)
        return pick(["Add a row to {t}: id {i}, {w}.", "Insert into the table {t}: id {i}, {w}."]).format(t=table, i=ident, w=told), tools, \
            [execute(f"INSERT INTO {table} (id, {names}) VALUES ({ident}, {values})")]
    if kind <= 14:
        tools, number = ticket_desk(rng)
        listing, get, create, close, comment = (t["name"] for t in tools)
        i, thing = number(), pick(THINGS)
        if kind == 8:
            status = pick(["open", "closed"])
            return pick(["Which tickets are {s}?", "How many {s} tickets are there?", "List all {s} tickets.", "Welche Tickets sind {s}?"]).format(s=status), tools, [step(listing, status=status)]
        if kind == 9:
            return pick(["What does ticket {i} say?", "Show me {i}.", "Who wrote comments on ticket {i}?", "Was steht in Ticket {i}?"]).format(i=i), tools, [step(get, id=i)]
        if kind == 10:
            priority = pick(["low", "high", "normal"])
            return pick(["Open a ticket with {p} priority: {t}.", "Please file '{t}' as a ticket, priority {p}."]).format(p=priority, t=thing), tools, [step(create, title=thing, priority=priority)]
        if kind == 11:
            reason = pick(["done", "cannot be reproduced", "fixed in the last release"])
            return pick(["Close ticket {i} with the reason: {r}.", "{i} can be closed: {r}."]).format(i=i, r=reason), tools, [step(close, id=i, reason=reason)]
        if kind == 12:
            text = pick(TEXTS)
            return pick(["Comment on ticket {i}: {t}", "Write on {i} that {t}."]).format(i=i, t=text), tools, [step(comment, id=i, text=text)]
        if kind == 13:
            out, status = file("md"), pick(["open", "closed"])
            return pick(["Save a list of the {s} tickets as {o}.", "Write all {s} tickets into {o}."]).format(s=status, o=out), [*tools, WRITE], \
                [step(listing, status=status), step("files.write", path=out, content="{{1}}", mode="create")]
        source, word = file("log"), pick(["WARN", "timeout", "refused", "FATAL"])
        code = f"print(sum({word!r} in line for line in text.splitlines()))"
        return f"Count the lines of {source} that contain {word} with Python and comment the number on ticket {i}.", [*tools, READ, CODE], \
            [step("files.read", path=source), step("code.run_python", code=code, inputs={"text": "{{1}}"}), step(comment, id=i, text="{{2}}")]
    if kind <= 17:
        send = mailer(rng)
        text, subject = pick(TEXTS), pick(["Reminder", "Today", "Short note", "Friday", "Numbers"])
        if kind == 15:
            return pick(["Send a mail to {a} with the subject {s} that says: {t}", "Mail {a}, subject {s}: {t}", "Schicke {a} eine Mail mit dem Betreff {s}: {t}"]).format(a=address, s=subject, t=text), [send], \
                [step(send["name"], to=address, subject=subject, body=text)]
        if kind == 16:
            source = file("txt")
            return pick(["Mail the content of {f} to {a} with the subject {s}.", "Send {a} what is in {f}, subject {s}."]).format(f=source, a=address, s=subject), [send, READ], \
                [step("files.read", path=source), step(send["name"], to=address, subject=subject, body="{{1}}")]
        source, column = file("csv"), n(2, 4)
        code = f"rows = [line.split(',') for line in text.splitlines()[1:]]\nprint(max(float(row[{column - 1}]) for row in rows))"
        return f"Find the largest value of column {column} of {source} with Python and mail it to {address} with the subject {subject}.", [send, READ, CODE], \
            [step("files.read", path=source), step("code.run_python", code=code, inputs={"text": "{{1}}"}), step(send["name"], to=address, subject=subject, body="{{2}}")]
    if kind == 18:
        p, x = n(2, 40), n(20, 3000)
        return pick(["Wie viel sind {p} % von {x}?", "Combien font {p} % de {x} ?", "¿Cuánto es el {p} % de {x}?", "Quanto fa il {p} % di {x}?"]).format(p=p, x=x), [CALC], \
            [step("calc.calculate", expression=f"{p}% of {x}")]
    if kind == 19:
        x, y, d = n(3, 60) + pick([0, 0.25, 0.5]), n(3, 40), pick([(1, 4, "a quarter"), (1, 2, "a half"), (3, 4, "three quarters"), (2, 3, "two thirds"), (5, 6, "five sixths")])
        return pick(["What is {x} times {y} plus {w}?", "Work out {x} multiplied by {y}, and add {w}."]).format(x=x, y=y, w=d[2]), [CALC], [step("calc.calculate", expression=f"{x} * {y} + {d[0]}/{d[1]}")]
    if kind == 20:
        x = n(11, 60) ** 2
        return pick(["Square root of {x}?", "Was ist die Wurzel aus {x}?", "Quelle est la racine carrée de {x} ?", "What number squared gives {x}?"]).format(x=x), [CALC], \
            [step("calc.calculate", expression=f"sqrt({x})")]
    if kind == 21:
        x, p, y = n(500, 9000), n(1, 9), n(2, 8)
        return pick(["{x} euros earn {p}% interest a year, compounded. How much is it after {y} years?", "What becomes of {x} dollars at {p} percent compound interest in {y} years?"]).format(x=x, p=p, y=y), [CALC], \
            [step("calc.calculate", expression=f"{x} * (1 + {p}/100)^{y}")]
    if kind == 22:
        m = n(40, 400)
        return pick(["Use Python to sum the squares of the numbers from 1 to {m}.", "With code: the sum of i*i for i up to {m}.", "Berechne mit Python die Summe der Quadrate bis {m}."]).format(m=m), [CODE], \
            [step("code.run_python", code=f"print(sum(i * i for i in range(1, {m + 1})))")]
    if kind == 23:
        word, letter = pick(["possession", "committee", "bookkeeper", "Mississippi", "balloon"]), None
        letter = pick(sorted(set(word.lower())))
        return f"How many times does the letter {letter} occur in {word}? Count it with Python.", [CODE], [step("code.run_python", code=f"print({word.lower()!r}.count({letter!r}))")]
    if kind == 24:
        one, two, out = file("txt"), file("txt"), file("txt")
        code = "print('\\n'.join(sorted(set(first.splitlines()) | set(second.splitlines()))))"
        if one == two:
            two = "second.txt"
        return f"Join the lines of {one} and {two} without repeats with Python and write them to {out}.", [READ, CODE, WRITE], \
            [step("files.read", path=one), step("files.read", path=two), step("code.run_python", code=code, inputs={"first": "{{1}}", "second": "{{2}}"}), step("files.write", path=out, content="{{3}}", mode="create")]
    line, out = pick(TEXTS), file(pick(["txt", "md"]))
    if rng.random() < 0.5:
        return pick(["Append the line '{t}' to {o}.", "Add to {o}: {t}", "Füge an {o} die Zeile an: {t}"]).format(t=line, o=out), [APPEND, WRITE], [step("files.append", path=out, content=line)]
    return pick(["Replace what is in {o} by: {t}", "Overwrite {o} with '{t}'."]).format(t=line, o=out), [WRITE, LIST, DOCS], [step("files.write", path=out, content=line, mode="replace")]


def plans(seed, count):
    rng = random.Random(seed)
    seen = set()
    while len(seen) < count:
        request, tools, steps = a_plan(rng)
        if request in seen:
            continue
        seen.add(request)
        others = [t for t in [*BUILT_IN, APPEND] if t["name"] not in {one["name"] for one in tools}]
        shown = [*tools, *rng.sample(others, rng.randint(2, min(6, len(others))))]
        rng.shuffle(shown)
        listing = {"text": "", "data": {"tools": shown}, "spans": []}
        yield {"flow": "reason", "input": {"question": request, "model": PROFILE}, "tools": {"registry.tools": [listing]}}, {"steps": steps}
