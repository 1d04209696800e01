"""The official MCP client against the flows: over streamable HTTP of `baton serve` with a token, and over stdio of `baton mcp flows`: `mcp.py BATON FOLDER`."""
import asyncio
import json
import os
import sys
import urllib.request
from pathlib import Path

from mcp import Client, types
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

sys.path.insert(0, str(Path(__file__).parent.parent / "langserve.d"))
from processes import started  # noqa: E402
from tokens import token  # noqa: E402

baton, folder = sys.argv[1], Path(sys.argv[2]).resolve()
script = Path(__file__).with_name("agent.script").resolve()


def text_of(result):
    return "".join(block.text for block in result.content if block.type == "text")


async def drive(name, connect):
    asked = []

    async def elicit(context, params):
        asked.append(params)
        return types.ElicitResult(action="accept", content={"approve": True})

    for mode in ["auto", "legacy"]:
        async with Client(connect(), mode=mode, elicitation_callback=elicit) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"auto", "direct", "search", "answer_question"} <= set(tools) and "completion" not in tools, tools
            steps = []

            async def progress(done, total, message):
                steps.append(message)

            result = await client.call_tool("search", {"question": "what are tides?"}, progress_callback=progress)
            assert "moon" in text_of(result) and not result.is_error, result
            assert result.structured_content["sources"][0]["address"] == "https://sea.example/tides", result
            assert any("docs.search" in step for step in steps) and any(step.startswith("search.") for step in steps), steps
            links = [block for block in result.content if block.type == "resource_link"]
            source = (await client.read_resource(links[0].uri)).contents[0].text
            assert "Tides are caused by the moon." in source, source
            run = result.structured_content["run"]
            assert "moon" in (await client.read_resource(f"baton://runs/{run}/answer")).contents[0].text
            assert any(str(one.uri).endswith(f"{run}/answer") for one in (await client.list_resources()).resources)
            assert len((await client.list_resource_templates()).resource_templates) == 3
            # A person is asked by the host.
            before = len(asked)
            result = await client.call_tool("research", {"question": "what are tides?", "approve": True})
            if (name, mode) == ("stdio", "auto"):
                # In the newest revision there is no handshake over stdio that shows whether the host can ask the user: the reply describes how to answer.
                run = result.structured_content["run"]
                result = await client.call_tool("answer_question", {"run": run, "answer": "yes"})
            else:
                assert len(asked) == before + 1 and "May I answer" in asked[-1].message, (result, asked)
            assert "moon" in text_of(result), result
            prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
            assert "search" in prompts, prompts
            prompt = await client.get_prompt("search", {"question": "tides?"})
            assert "tides?" in prompt.messages[0].content.text
            failed = await client.call_tool("direct", {"question": "this fails"})
            assert failed.is_error and "nobody thinks" in text_of(failed), failed
            for bad in [("nothing", {"question": "x"}), ("direct", {"quest": "x"})]:
                try:
                    await client.call_tool(*bad)
                    raise AssertionError(f"{bad} went well")
                except Exception as error:
                    assert "nothing" in str(error) or "arguments" in str(error), error
            # A call that is given up stops its run.
            try:
                await asyncio.wait_for(client.call_tool("search", {"question": "slow tides"}), 1.5)
                raise AssertionError("it should hang")
            except (asyncio.TimeoutError, TimeoutError):
                pass
        print("ok", name, mode, flush=True)

    # A host that cannot ask the user receives the question, and answers with a tool.
    async with Client(connect(), mode="legacy") as client:
        result = await client.call_tool("research", {"question": "what are tides?", "approve": True})
        run = result.structured_content["run"]
        assert "May I answer" in text_of(result) and "answer_question" in text_of(result), result
        done = await client.call_tool("answer_question", {"run": run, "answer": "yes"})
        assert "moon" in text_of(done), done
    print("ok", name, "without elicitation", flush=True)


async def over_http(url, key):
    def connect():
        return streamable_http_client(f"{url}/mcp", http_client=create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}))

    await drive("http", connect)
    # Runs of calls that were given up are stopped.
    for _ in range(100):
        request = urllib.request.Request(f"{url}/api/runs?status=running", headers={"Authorization": f"Bearer {key}"})
        if not json.load(urllib.request.urlopen(request))["runs"]:
            break
        await asyncio.sleep(0.1)
    else:
        raise AssertionError("a run goes on that nobody waits for")
    print("ok http cancelled", flush=True)


async def over_stdio():
    server = StdioServerParameters(
        command=baton,
        args=["--script", str(script), "--db", str(folder / "stdio.db"), "mcp", "flows"],
        env={**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), "XDG_DATA_HOME": str(folder / "data"), "BATON_NO_PULL": "1"},
    )
    await drive("stdio", lambda: stdio_client(server))


key = token(baton, folder / "serve.db", "ada")
with started([baton, "--script", script, "--db", folder / "serve.db", "serve", "--port", "0", "--json"], folder / "serve.log") as serving:
    asyncio.run(over_http(serving["url"], key))
asyncio.run(over_stdio())
