"""A pytest plugin for A2A's TCK. The TCK tells the agent by the prefix of a message's id what to do, and uses one id for many messages of a session. Baton does what the text
says, and takes a message with a known id for the same message. So the id is made unique, the prefix is added to the text, and a question is requested with Baton's own options.
That question is answered with yes or no. The addresses of push notifications are on this machine, because names need not be known where the tests run."""
import copy
import uuid

from tck.transport.grpc_client import GrpcClient
from tck.transport.http_json_client import HttpJsonClient
from tck.transport.jsonrpc_client import JsonRpcClient


def adapted(message):
    message = copy.deepcopy(message)
    prefix = message.get("messageId", "")
    if not prefix or not message.get("parts"):
        return message
    message["messageId"] = f"{prefix}-{uuid.uuid4().hex}"
    is_question = prefix.startswith("tck-input-required")
    if message.get("taskId"):
        # The answer that completes the task.
        if prefix.startswith(("tck-complete-task", "tck-infer-ctx")):
            message["parts"] = [{"text": "yes"}]
        return message
    message["parts"].append({"text": prefix})
    message.setdefault("metadata", {})["baton"] = {"flow": "research", "approve": True} if is_question else {"flow": "direct"}
    return message


def adapt(client, method):
    plain = getattr(client, method)

    def sent(self, message, **more):
        return plain(self, adapted(message), **more)

    setattr(client, method, sent)


def adapt_push(client):
    plain = client.create_push_notification_config

    def created(self, task_id, config):
        return plain(self, task_id, {**config, "url": config["url"].replace("https://example.com/", "http://127.0.0.1:9/")})

    client.create_push_notification_config = created


for client in [GrpcClient, HttpJsonClient, JsonRpcClient]:
    for method in ["send_message", "send_streaming_message"]:
        adapt(client, method)
    adapt_push(client)
