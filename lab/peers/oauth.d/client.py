"""Baton as a client of an MCP server that wants OAuth: the refusal, the sign-in by loopback and by pasting, the refresh by several processes, revocation, refusal by the person, sign-out,
and the same from `baton serve`. Nothing of the tokens is in output, logs or the database.

client.py BATON SERVER.PY PORT
"""

import concurrent.futures
import html
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

BATON, SERVER, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
BASE = f"http://127.0.0.1:{PORT}"
# Baton refreshes a token that is valid for less than 30 s, so this one is refreshed after two.
LIFETIME_S = 32
folder = Path(tempfile.mkdtemp(prefix="baton-oauth-"))
outputs: list[str] = []


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay)


def visit(url: str, data: bytes | None = None, headers: dict | None = None) -> tuple[int, str, str]:
    """The status, where it leads, and the text."""
    try:
        with opener.open(urllib.request.Request(url, data=data, headers=headers or {}), timeout=20) as answer:
            return answer.status, answer.headers.get("location", ""), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("location", ""), error.read().decode()


def agree(address: str, button: str = "yes") -> str:
    """A person who goes to the address and presses the button; the address the browser is sent to."""
    status, to, _ = visit(address)
    assert status in (302, 303, 307), status
    status, _, page = visit(to)
    assert status == 200 and "May Baton use your notes?" in html.unescape(page), page
    status, back, _ = visit(to, data=urllib.parse.urlencode({button: "1"}).encode())
    assert status == 303, status
    return back


def control(what: str) -> dict:
    return json.loads(visit(f"{BASE}/control/{what}", data=b"")[2])


environment = {**os.environ, "XDG_DATA_HOME": f"{folder}/data", "XDG_CONFIG_HOME": f"{folder}/config", "XDG_CACHE_HOME": f"{folder}/cache", "BATON_REGISTRY_URL": "off", "RUST_LOG": "debug"}


def command(*args: str) -> list[str]:
    return [BATON, *args, "--db", f"{folder}/baton.db"]


def baton(*args: str, stdin: str = "") -> subprocess.CompletedProcess:
    done = subprocess.run(command(*args), env=environment, input=stdin, capture_output=True, text=True, timeout=120)
    outputs.extend([done.stdout, done.stderr])
    return done


def login(*args: str, button: str = "yes") -> subprocess.CompletedProcess:
    going = subprocess.Popen(command("tools", "login", "notes", "--no-browser", *args), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = going.stdout.readline().strip()
    assert address.startswith(f"{BASE}/authorize?"), address
    asked = urllib.parse.parse_qs(urllib.parse.urlparse(address).query)
    assert asked["code_challenge_method"] == ["S256"] and asked["resource"] == [f"{BASE}/mcp"] and asked["scope"] == ["notes"], asked
    back = agree(address, button)
    # Somebody else on this machine knocks first, without the secret.
    status, _, page = visit(back.split("?")[0] + "?code=evil&state=evil")
    assert status == 400 and "another sign-in" in page, (status, page)
    status, _, page = visit(back)
    assert status == 200 and "Back to the terminal" in page, (status, page)
    out, err = going.communicate(timeout=60)
    outputs.extend([out, err])
    return subprocess.CompletedProcess(going.args, going.returncode, out, err)


def check(name: str) -> None:
    print(f"ok   {name}", flush=True)


def main() -> None:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": {"url": f"{BASE}/mcp"}}}))

    done = baton("tools", "call", "notes.whoami")
    assert done.returncode != 0 and "baton tools login notes" in done.stderr, done.stderr[-2000:]
    done = baton("tools", "list")
    assert "notes is down" in done.stderr and "baton tools login notes" in done.stderr, done.stderr[-2000:]
    check("the error of a server that answers 401 names the command to run")

    done = login(button="no")
    assert done.returncode != 0 and "access_denied Ada said no" in done.stderr, done.stderr[-2000:]
    assert not list((folder / "oauth").glob("*.json")) if (folder / "oauth").exists() else True
    check("a refusal of the person is reported")

    done = login()
    assert done.returncode == 0 and "signed in at notes" in done.stderr and "notes offers 1 tools" in done.stderr, done.stderr[-2000:]
    kept = list((folder / "oauth").glob("*.json"))
    assert len(kept) == 1 and stat.S_IMODE(kept[0].stat().st_mode) == 0o600 and stat.S_IMODE(kept[0].parent.stat().st_mode) == 0o700, kept
    done = baton("tools", "call", "notes.whoami")
    assert done.stdout.strip() == f"ada {BASE}/mcp notes", (done.stdout, done.stderr[-2000:])
    check("the sign-in by loopback is kept in a file of the account, and other commands use it")

    before = control("counts")
    time.sleep(3)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda _: baton("tools", "call", "notes.whoami"), range(4)))
    assert all(done.stdout.strip() == f"ada {BASE}/mcp notes" for done in answers), [done.stderr[-500:] for done in answers]
    after = control("counts")
    assert after["refreshed"] > before["refreshed"] and after["reused"] == 0 and after["registered"] == before["registered"], (before, after)
    check(f"four processes at once refresh a token of which each can be used once ({after['refreshed'] - before['refreshed']} refreshes)")

    control("expire")
    done = baton("tools", "call", "notes.whoami")
    assert done.returncode == 0, done.stderr[-2000:]
    check("a token that the server does not accept any more is refreshed")

    control("revoke")
    done = baton("tools", "call", "notes.whoami")
    assert done.returncode != 0 and "baton tools login notes" in done.stderr, done.stderr[-2000:]
    check("after a revocation the error names the command to run")

    pasting = subprocess.Popen(command("tools", "login", "notes", "--paste"), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    back = agree(pasting.stdout.readline().strip())
    out, err = pasting.communicate(back + "\n", timeout=60)
    outputs.extend([out, err])
    assert pasting.returncode == 0 and "signed in at notes" in err, err[-2000:]
    check("the address can be pasted where no browser is")

    served(after)

    done = baton("tools", "logout", "notes")
    assert done.returncode == 0 and not list((folder / "oauth").glob("*.json")), done.stderr[-2000:]
    done = baton("tools", "logout", "notes")
    assert "there were no tokens of notes" in done.stderr
    for server, words in [("nobody", "there are notes"), ("docs", "not reached over HTTP")]:
        done = baton("tools", "login", server)
        assert done.returncode == 2 and words in done.stderr, (server, done.stderr[-500:])
    check("sign-out forgets the tokens; wrong servers are refused with words")

    audit = "".join(file.read_text() for file in (folder / "audit").glob("*"))
    assert "server_sign_in" in audit and "server_sign_out" in audit
    database = b"".join(file.read_bytes() for file in folder.glob("baton.db*"))
    for text in [*outputs, audit, database.decode("latin-1"), (folder / "tools.json").read_text()]:
        leaked = re.search(r"(access|refresh)-[A-Za-z0-9_-]{20,}", text)
        assert not leaked, f"a token is in what was written: …{text[max(0, leaked.start() - 200):leaked.start()]}…"
    check("no token is in output, debug logs, the audit log or the database")


def served(_counts: dict) -> None:
    """The page's way: an operator begins, the browser comes back to the server."""
    baton("tools", "logout", "notes")
    port = PORT + 1
    log = open(folder / "serve.log", "w+")
    serving = subprocess.Popen(command("serve", "--port", str(port)), env=environment, stdout=log, stderr=log)
    try:
        api = f"http://127.0.0.1:{port}/api/registry"
        for _ in range(300):
            try:
                if visit(f"http://127.0.0.1:{port}/readyz")[0] == 200:
                    break
            except OSError:
                time.sleep(0.2)

        def notes() -> dict:
            visit(f"{api}/tools")
            servers = json.loads(visit(f"{api}/servers")[2])["servers"]
            return next(server for server in servers if server["name"] == "notes")

        def until(wanted) -> dict:
            for _ in range(100):
                known = notes()
                if wanted(known):
                    return known
                time.sleep(0.2)
            raise AssertionError(known)

        known = until(lambda known: known.get("sign_in") == "needed")
        assert known["health"] == "down" and "baton tools login notes" in known["why"], known
        address = json.loads(visit(f"{api}/servers/notes/login", data=b"", headers={"content-type": "application/json"})[2])["address"]
        back = agree(address)
        assert back.startswith(f"http://127.0.0.1:{port}/oauth/callback?"), back
        # A browser that comes from another site brings no cookie, and a wrong secret opens nothing.
        status, _, page = visit(f"http://127.0.0.1:{port}/oauth/callback?code=evil&state=evil", headers={"sec-fetch-site": "cross-site"})
        assert status == 400 and "not begun here" in page, (status, page)
        status, to, page = visit(back, headers={"sec-fetch-site": "cross-site"})
        assert (status, to) == (303, "/#/tools"), (status, to, page)
        assert visit(back)[0] == 400, "it is used once"
        known = until(lambda known: known["health"] == "up")
        assert known["sign_in"] == "done" and known["tools"] == 1, known
        called = json.loads(visit(f"{api}/tools/notes.whoami/call", data=b'{"arguments": {}}', headers={"content-type": "application/json"})[2])
        assert called["text"] == f"ada {BASE}/mcp notes", called
        # The session outlives its first token.
        control("expire")
        called = json.loads(visit(f"{api}/tools/notes.whoami/call", data=b'{"arguments": {}}', headers={"content-type": "application/json"})[2])
        assert called["text"] == f"ada {BASE}/mcp notes", called
        visit(f"{api}/servers/notes/logout", data=b"")
        until(lambda known: known.get("sign_in") == "needed")
        check("the same from the page's API: needed, begun by the operator, back from another site, done, out")
    finally:
        serving.terminate()
        serving.wait(30)
        log.seek(0)
        outputs.append(log.read())


process = subprocess.Popen([sys.executable, SERVER, str(PORT), str(LIFETIME_S)], stdout=subprocess.PIPE, stderr=open(folder / "server.log", "w"), text=True)
try:
    process.stdout.readline()
    for _ in range(100):
        try:
            visit(f"{BASE}/mcp")
            break
        except OSError:
            time.sleep(0.1)
    main()
except BaseException:
    print(f"the end of the server's log:\n{(folder / 'server.log').read_text()[-3000:]}", file=sys.stderr)
    raise
finally:
    process.terminate()
    process.wait(10)
