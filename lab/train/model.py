"""The cross-encoder: a BERT or MPNet encoder with a head over the first token and the mean of all. Weights are packed to int8 by row for transport and shipping."""

import json, math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

MINILM = dict(layers=6, width=384, heads=12, inner=1536, vocab=30522, positions=512, types=2, eps=1e-12, buckets=0)
MPNET = dict(layers=12, width=768, heads=12, inner=3072, vocab=30527, positions=514, types=0, eps=1e-5, buckets=32)
CLS, SEP, PAD = 101, 102, 0


class Layer(nn.Module):
    def __init__(self, c, dropout):
        super().__init__()
        self.heads, self.dropout = c["heads"], dropout
        self.qkv = nn.Linear(c["width"], 3 * c["width"])
        self.out = nn.Linear(c["width"], c["width"])
        self.out_norm = nn.LayerNorm(c["width"], eps=c["eps"])
        self.up = nn.Linear(c["width"], c["inner"])
        self.down = nn.Linear(c["inner"], c["width"])
        self.down_norm = nn.LayerNorm(c["width"], eps=c["eps"])

    def forward(self, x, mask):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0)
        x = self.out_norm(x + F.dropout(self.out(seen.transpose(1, 2).reshape(batch, tokens, width)), self.dropout, self.training))
        return self.down_norm(x + F.dropout(self.down(F.gelu(self.up(x))), self.dropout, self.training))


class CrossEncoder(nn.Module):
    """Token ids are BERT's. MPNet's vocabulary is the same, shifted by four, with its own special tokens."""

    def __init__(self, config, dropout=0.1):
        super().__init__()
        c = self.config = config
        self.words = nn.Embedding(c["vocab"], c["width"])
        self.positions = nn.Embedding(c["positions"], c["width"])
        self.types = nn.Embedding(c["types"], c["width"]) if c["types"] else None
        self.norm = nn.LayerNorm(c["width"], eps=c["eps"])
        self.layers = nn.ModuleList(Layer(c, dropout) for _ in range(c["layers"]))
        self.bias = nn.Embedding(c["buckets"], c["heads"]) if c["buckets"] else None
        self.head_up = nn.Linear(2 * c["width"], c["width"])
        self.head = nn.Linear(c["width"], 3)
        self.dropout = dropout
        nn.init.normal_(self.head_up.weight, std=0.02), nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head_up.bias), nn.init.zeros_(self.head.bias)

    def forward(self, ids, kinds):
        is_there = ids != PAD
        tokens = ids.shape[1]
        places = torch.arange(tokens, device=ids.device)
        if self.bias is not None:
            ids = torch.where(is_there, ids + 4, 1)
            ids = torch.where(ids == CLS + 4, 0, torch.where(ids == SEP + 4, 2, ids))
            places = places + 2
        x = self.words(ids) + self.positions(places)
        if self.types is not None:
            x = x + self.types(kinds)
        x = F.dropout(self.norm(x), self.dropout, self.training)
        dtype = torch.bfloat16 if torch.is_autocast_enabled() and ids.is_cuda else x.dtype
        mask = torch.zeros(is_there.shape, device=ids.device, dtype=dtype).masked_fill(~is_there, -1e4)[:, None, None, :]
        if self.bias is not None:
            mask = mask + self.bias.weight[buckets(tokens, ids.device)].permute(2, 0, 1)[None].to(dtype).detach()
        else:
            mask = mask.expand(-1, -1, tokens, -1)
        for layer in self.layers:
            x = layer(x, mask)
        x = x.float()
        weight = is_there[..., None].float()
        pooled = torch.cat([x[:, 0], (x * weight).sum(1) / weight.sum(1)], 1)
        return self.head(F.dropout(F.gelu(self.head_up(F.dropout(pooled, self.dropout, self.training))), self.dropout, self.training)).float()


def buckets(tokens, device):
    """T5's relative positions, as MPNet uses them: 32 buckets, both directions, up to 128 apart."""
    at = torch.arange(tokens, device=device)
    n = -(at[None, :] - at[:, None])
    side = (n < 0).long() * 16
    n = n.abs()
    far = 8 + (torch.log(n.clamp(min=1).float() / 8) / math.log(128 / 8) * 8).long()
    return side + torch.where(n < 8, n, far.clamp(max=15))


def base_names(config):
    """Our parameter → the names in the published weights, joined by rows."""
    names = {"words.weight": ["embeddings.word_embeddings.weight"], "positions.weight": ["embeddings.position_embeddings.weight"],
             "norm.weight": ["embeddings.LayerNorm.weight"], "norm.bias": ["embeddings.LayerNorm.bias"]}
    if config["types"]:
        names["types.weight"] = ["embeddings.token_type_embeddings.weight"]
    if config["buckets"]:
        names["bias.weight"] = ["encoder.relative_attention_bias.weight"]
    for layer in range(config["layers"]):
        to, of = f"layers.{layer}", f"encoder.layer.{layer}"
        for kind in ("weight", "bias"):
            if config["buckets"]:
                names[f"{to}.qkv.{kind}"] = [f"{of}.attention.attn.{p}.{kind}" for p in "qkv"]
                names[f"{to}.out.{kind}"] = [f"{of}.attention.attn.o.{kind}"]
                names[f"{to}.out_norm.{kind}"] = [f"{of}.attention.LayerNorm.{kind}"]
            else:
                names[f"{to}.qkv.{kind}"] = [f"{of}.attention.self.{p}.{kind}" for p in ("query", "key", "value")]
                names[f"{to}.out.{kind}"] = [f"{of}.attention.output.dense.{kind}"]
                names[f"{to}.out_norm.{kind}"] = [f"{of}.attention.output.LayerNorm.{kind}"]
            names[f"{to}.up.{kind}"] = [f"{of}.intermediate.dense.{kind}"]
            names[f"{to}.down.{kind}"] = [f"{of}.output.dense.{kind}"]
            names[f"{to}.down_norm.{kind}"] = [f"{of}.output.LayerNorm.{kind}"]
    return names


def read_safetensors(data):
    """Name → float32 array."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    kinds = {"F32": np.float32, "F16": np.float16, "I8": np.int8}
    out = {}
    for name, at in header.items():
        if name != "__metadata__" and at["dtype"] in kinds:
            begin, end = at["data_offsets"]
            out[name] = np.frombuffer(data, kinds[at["dtype"]], offset=8 + size + begin, count=(end - begin) // np.dtype(kinds[at["dtype"]]).itemsize).reshape(at["shape"])
    return out


def base_weights(path, config):
    """Published weights under our names."""
    tensors = read_safetensors(open(path, "rb").read())
    return {ours: np.concatenate([tensors[name].astype(np.float32) for name in theirs]) for ours, theirs in base_names(config).items()}


def quantize(array):
    """int8 by row: values and one scale a row."""
    scale = np.maximum(np.abs(array).max(1), 1e-12) / 127
    return np.rint(array / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def is_quantized(name, array):
    return array.ndim == 2 and name.endswith("weight") and array.size > 30_000


def pack(arrays, path):
    """Every matrix as int8 with its scales, everything else as float32, in the order given. The file: length of the header, header as JSON, bytes."""
    header, blobs, at = {}, [], 0
    for name, array in arrays.items():
        parts = [(name, array.astype(np.float32))]
        if is_quantized(name, array):
            values, scale = quantize(array)
            parts = [(name, values), (name + ".scale", scale)]
        for part, value in parts:
            blob = value.tobytes()
            header[part] = {"dtype": "I8" if value.dtype == np.int8 else "F32", "shape": list(value.shape), "data_offsets": [at, at + len(blob)]}
            blobs.append(blob)
            at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 64 + 56)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def unpack(path):
    tensors = read_safetensors(open(path, "rb").read())
    return {name: value.astype(np.float32) * tensors[name + ".scale"][:, None] if name + ".scale" in tensors else value for name, value in tensors.items() if not name.endswith(".scale")}


def load_arrays(model, arrays):
    missing, unexpected = model.load_state_dict({name: torch.from_numpy(np.array(value, np.float32)) for name, value in arrays.items()}, strict=False)
    assert not unexpected and all(name.startswith("head") for name in missing), (missing, unexpected)
    return model
