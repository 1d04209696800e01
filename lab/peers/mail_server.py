"""A real SMTP server (aiosmtpd) that stores each accepted mail as a file, and reports on stdout what it does.

    mail_server.py FOLDER SEED [CERTIFICATE KEY]

With a certificate it wants STARTTLS and the user `ann` with the password `open sesame`.
Prints `port N` when it listens, `opened` and `closed` for each connection, and `stored ID` for each mail it answers for. It dawdles before and
after storing, so that a client which is killed meanwhile is killed on either side of it.
"""

import asyncio
import email
import random
import ssl
import sys
import uuid
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult

folder, dice = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
folder.mkdir(parents=True, exist_ok=True)


def tell(*words):
    print(*words, flush=True)


class Keeping:
    async def handle_DATA(self, server, session, envelope):
        await asyncio.sleep(dice.random() * 0.03)
        message_id = email.message_from_bytes(envelope.content)["Message-ID"]
        path = folder / f"{uuid.uuid4().hex}.eml"
        path.write_bytes(envelope.content)
        tell("stored", message_id)
        await asyncio.sleep(dice.random() * 0.03)
        return "250 kept as " + path.stem


class Talk(SMTP):
    def connection_made(self, transport):
        tell("opened")
        super().connection_made(transport)

    def connection_lost(self, error):
        # A mail that is being stored is stored or dropped before the connection counts as closed.
        super().connection_lost(error)
        task = getattr(self, "_handler_coroutine", None)
        if task is None or task.done():
            tell("closed")
        else:
            task.add_done_callback(lambda _: tell("closed"))


def admit(server, session, envelope, mechanism, given):
    return AuthResult(success=(given.login, given.password) == (b"ann", b"open sesame"), handled=False)


def options():
    if len(sys.argv) < 5:
        return {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    return dict(tls_context=context, require_starttls=True, auth_required=True, authenticator=admit)


async def main():
    server = await asyncio.get_running_loop().create_server(lambda: Talk(Keeping(), enable_SMTPUTF8=True, **options()), "127.0.0.1", 0)
    tell("port", server.sockets[0].getsockname()[1])
    await server.serve_forever()


asyncio.run(main())
