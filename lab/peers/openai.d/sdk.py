"""OpenAI's SDKs against `baton serve`, whose users have tokens: `sdk.py BATON FOLDER`. Ends with the SDK of npm and AG-UI's client (client.mjs)."""
import os
import subprocess
import sys
import time
from pathlib import Path

import openai
from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).parent.parent / "langserve.d"))
from processes import started  # noqa: E402
from tokens import token  # noqa: E402

baton, folder = sys.argv[1], Path(sys.argv[2])
here = Path(__file__).parent
weather = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather", "parameters": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}},
}


class Weather(BaseModel):
    city: str
    degrees: int

# What it is found in is cited after it.
TIDES = "Tides are caused by the moon"


def asked(text, *before):
    return [*before, {"role": "user", "content": text}]


def refused(kind, way):
    try:
        raise AssertionError(f"it went well: {way()}")
    except kind as error:
        return error


def models():
    names = [model.id for model in ada.models.list()]
    assert {"auto", "direct", "search"} <= set(names) and "completion" not in names, names
    assert ada.models.retrieve("direct").owned_by == "baton"
    error = refused(openai.NotFoundError, lambda: ada.chat.completions.create(model="gpt-4o", messages=asked("hi")))
    assert error.code == "model_not_found" and "direct" in error.message, error


def chat():
    done = ada.chat.completions.create(model="direct", messages=asked("what are tides?"))
    choice = done.choices[0]
    assert choice.message.content.startswith(TIDES) and choice.finish_reason == "stop", done
    assert done.object == "chat.completion" and done.usage.total_tokens == 27 and done.usage.prompt_tokens == 20, done.usage
    before = [{"role": "system", "content": "rhyme in verse"}]
    assert ada.chat.completions.create(model="direct", messages=asked("hello", *before)).choices[0].message.content.startswith("Roses are red")
    before = [{"role": "user", "content": "my name is Ada"}, {"role": "assistant", "content": "Hello Ada"}]
    parts = [{"type": "text", "text": "what is"}, {"type": "text", "text": "my name"}]
    assert "moon" in ada.chat.completions.create(model="direct", messages=[{"role": "user", "content": parts}]).choices[0].message.content
    assert "Ada" in ada.chat.completions.create(model="direct", messages=asked("what is my name?", *before)).choices[0].message.content


def stream():
    chunks = list(ada.chat.completions.create(model="direct", messages=asked("what are tides?"), stream=True, stream_options={"include_usage": True}))
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(pieces) > 3 and "".join(pieces).startswith(TIDES), pieces
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens == 27 and not chunks[-1].choices
    assert len({chunk.id for chunk in chunks}) == 1
    # A client that disconnects stops the run.
    going = ada.chat.completions.create(model="search", messages=asked("slow tides"), stream=True)
    run = next(iter(going)).id.removeprefix("chatcmpl-")
    going.close()
    until(lambda: status(run) == "cancelled")


def citations():
    done = ada.chat.completions.create(model="search", messages=asked("what are tides?"))
    message = done.choices[0].message
    first = message.annotations[0]
    assert first.type == "url_citation" and first.url_citation.url == "https://sea.example/tides", message
    assert message.content[first.url_citation.start_index : first.url_citation.end_index] == "[1]", message
    response = ada.responses.create(model="search", input="what are tides?")
    assert response.output[0].content[0].annotations[0].url == "https://sea.example/tides", response


def tools():
    first = ada.chat.completions.create(model="direct", messages=asked("the weather in Paris?"), tools=[weather])
    call = first.choices[0].message.tool_calls[0]
    assert first.choices[0].finish_reason == "tool_calls" and first.choices[0].message.content is None
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"city":"Paris"}'), call
    messages = [*asked("the weather in Paris?"), first.choices[0].message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "22 C"}]
    assert ada.chat.completions.create(model="direct", messages=messages, tools=[weather]).choices[0].message.content == "It is 22 C in Paris."
    chunks = list(ada.chat.completions.create(model="direct", messages=asked("the weather in Paris?"), tools=[weather], stream=True))
    deltas = [chunk.choices[0].delta.tool_calls for chunk in chunks if chunk.choices[0].delta.tool_calls]
    assert deltas[0][0].function.name == "get_weather" and chunks[-1].choices[0].finish_reason == "tool_calls", chunks
    assert ada.chat.completions.create(model="direct", messages=asked("what are tides?"), tools=[weather]).choices[0].finish_reason == "stop"
    forced = lambda: ada.chat.completions.create(model="direct", messages=asked("nonsense"), tools=[weather], tool_choice="required")
    assert "did not" in refused(openai.UnprocessableEntityError, forced).message
    # The same with responses.
    flat = {"type": "function", **weather["function"]}
    response = ada.responses.create(model="direct", input="the weather in Paris?", tools=[flat])
    call = response.output[0]
    assert call.type == "function_call" and call.name == "get_weather", response
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "22 C"}
    second = ada.responses.create(model="direct", input=[result], previous_response_id=response.id, tools=[flat])
    assert second.output_text == "It is 22 C in Paris.", second


def structured():
    parsed = ada.chat.completions.parse(model="direct", messages=asked("Paris?"), response_format=Weather)
    assert parsed.choices[0].message.parsed == Weather(city="Paris", degrees=22), parsed
    assert ada.responses.parse(model="direct", input="Paris? retry", text_format=Weather).output_parsed == Weather(city="Paris", degrees=22)
    for question, why in [("Paris unfit", "city is missing"), ("Paris wrong", "does not fit")]:
        error = refused(openai.UnprocessableEntityError, lambda: ada.chat.completions.parse(model="direct", messages=asked(question), response_format=Weather))
        assert error.code == "unusable_reply" and why in error.message, error.message
    bad = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
    assert "schema" in refused(openai.BadRequestError, lambda: ada.chat.completions.create(model="direct", messages=asked("x"), response_format=bad)).message


def errors():
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    assert "image_url" in refused(openai.BadRequestError, lambda: ada.chat.completions.create(model="direct", messages=image)).message
    assert "n:" in refused(openai.BadRequestError, lambda: ada.chat.completions.create(model="direct", messages=asked("x"), n=2)).message
    assert refused(openai.BadRequestError, lambda: ada.chat.completions.create(model="direct", messages=[])).type == "invalid_request_error"
    nobody = openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0)
    assert refused(openai.AuthenticationError, lambda: nobody.models.list()).code == "invalid_api_key"
    failed = refused(openai.InternalServerError, lambda: ada.chat.completions.create(model="direct", messages=asked("this fails")))
    assert "nobody thinks" in failed.message and failed.response.headers["x-should-retry"] == "false", failed
    streamed = refused(openai.APIError, lambda: list(ada.chat.completions.create(model="direct", messages=asked("this fails"), stream=True)))
    assert "nobody thinks" in streamed.message
    assert refused(openai.NotFoundError, lambda: ada.responses.retrieve("resp_0")).code == "not_found"
    deep = refused(openai.BadRequestError, lambda: ada.chat.completions.create(model="direct", messages=asked("x"), extra_headers={"x-baton-depth": "99"}))
    assert "circle" in deep.message


def keys():
    ask = lambda client: client.chat.completions.create(model="direct", messages=asked("what are tides?"), extra_headers={"Idempotency-Key": "k1"}).id
    assert ask(ada) == ask(ada) != ask(bob)


def question():
    ask = lambda messages, **more: ada.chat.completions.create(model="research", messages=messages, extra_body={"baton": {"approve": True}}, **more)
    messages = asked("what are tides?")
    first = ask(messages).choices[0].message.content
    assert "May I answer" in first and "Answer yes or no." in first and "baton-run" in first, first
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "perhaps"}]
    again = ask(messages).choices[0].message.content
    assert again == first, again
    messages += [{"role": "assistant", "content": again}, {"role": "user", "content": "Yes."}]
    assert "moon" in "".join(chunk.choices[0].delta.content or "" for chunk in ask(messages, stream=True))
    # A user cannot answer another user's question: for Bob it is an ordinary conversation.
    other = ask(asked("what are tides?")).choices[0].message.content
    stranger = bob.chat.completions.create(model="direct", messages=[*asked("x"), {"role": "assistant", "content": other}, {"role": "user", "content": "yes"}])
    assert "baton-run" not in stranger.choices[0].message.content
    response = ada.responses.create(model="research", input="what are tides?", extra_body={"baton": {"approve": True}})
    assert response.status == "completed" and "May I answer" in response.output_text and "baton-run" not in response.output_text, response
    answered = ada.responses.create(model="research", input="yes", previous_response_id=response.id)
    assert "moon" in answered.output_text and answered.id != response.id, answered


def responses():
    first = ada.responses.create(model="direct", input="my name is Ada", metadata={"a": "b"}, instructions="be brief")
    assert first.status == "completed" and first.metadata == {"a": "b"} and first.usage.total_tokens > 0, first
    second = ada.responses.create(model="direct", input="what is my name?", previous_response_id=first.id)
    assert second.output_text == "Your name is Ada." and second.previous_response_id == first.id, second
    assert ada.responses.retrieve(second.id).output_text == second.output_text
    assert ada.responses.input_items.list(second.id).data[0].content[0].text == "what is my name?"
    refused(openai.NotFoundError, lambda: bob.responses.retrieve(second.id))
    assert refused(openai.NotFoundError, lambda: bob.responses.create(model="direct", input="x", previous_response_id=first.id)).code == "previous_response_not_found"
    ada.responses.delete(second.id)
    refused(openai.NotFoundError, lambda: ada.responses.retrieve(second.id))
    refused(openai.NotFoundError, lambda: ada.responses.retrieve(ada.responses.create(model="direct", input="hi", store=False).id))


def background():
    going = ada.responses.create(model="search", input="slow tides", background=True)
    assert going.status == "in_progress", going
    assert ada.responses.cancel(going.id).status == "cancelled"
    assert ada.responses.retrieve(going.id).status == "cancelled"
    done = ada.responses.create(model="direct", input="what are tides?", background=True)
    until(lambda: ada.responses.retrieve(done.id).status == "completed")
    assert "moon" in ada.responses.retrieve(done.id).output_text


def reconnect():
    whole = list(ada.responses.create(model="direct", input="what are tides?", stream=True))
    kinds = [event.type for event in whole]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed", kinds
    assert [event.sequence_number for event in whole] == list(range(len(whole)))
    text = "".join(event.delta for event in whole if event.type == "response.output_text.delta")
    assert text == whole[-1].response.output_text and text.startswith(TIDES) and kinds.count("response.output_text.delta") > 3, kinds
    rest = list(ada.responses.retrieve(whole[0].response.id, stream=True, starting_after=5))
    assert [event.sequence_number for event in rest] == list(range(6, len(whole))), rest
    with ada.responses.stream(model="direct", input="what are tides?") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text.startswith(TIDES)
    return whole[0].response.id, whole[-1].sequence_number


def restarted(response, last):
    """After a restart the stream is rebuilt from the store; a client that has received more than that gets only the end."""
    events = list(ada.responses.retrieve(response, stream=True))
    assert events[-1].type == "response.completed" and events[-1].response.output_text.startswith(TIDES)
    late = list(ada.responses.retrieve(response, stream=True, starting_after=last))
    assert [event.type for event in late] == ["response.completed"] and late[0].sequence_number == last + 1, late


def status(run):
    return ada.get(f"{url}/api/runs/{run}", cast_to=object)["status"]


def until(is_so, seconds=20):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "never"
        time.sleep(0.05)


def client(key):
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60)


keys_of = {user: token(baton, folder / "serve.db", user) for user in ["ada", "bob"]}
command = [baton, "--script", here / "agent.script", "--db", folder / "serve.db", "serve", "--port", "0", "--json"]
with started(command, folder / "serve.log") as serving:
    url = serving["url"]
    ada, bob = client(keys_of["ada"]), client(keys_of["bob"])
    for test in [models, chat, stream, citations, tools, structured, errors, keys, question, responses, background]:
        test()
        print("ok", test.__name__, flush=True)
    kept = reconnect()
    print("ok reconnect", flush=True)
    modules = os.environ["BATON_NODE_MODULES"]
    # Modules are found beside the script.
    script = Path(modules) / "client.mjs"
    script.write_text((here / "client.mjs").read_text())
    subprocess.run(["node", script, url, keys_of["ada"]], check=True, timeout=120)
with started(command, folder / "serve.log") as serving:
    url = serving["url"]
    ada = client(keys_of["ada"])
    restarted(*kept)
    print("ok restarted", flush=True)
