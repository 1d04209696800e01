"""Qwen2 from the tensors of a GGUF file, with low-rank adapters on every matrix of its layers."""

import json, pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

MATRICES = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def half(raw):
    return raw.contiguous().view(torch.float16).float()


def dequantized(kind, raw, shape):
    """`raw` are bytes (uint8); the formats are GGUF's."""
    if kind == "F32":
        return raw.view(torch.float32).reshape(shape)
    if kind == "Q8_0":
        blocks = raw.reshape(-1, 34)
        return (half(blocks[:, :2]) * blocks[:, 2:].contiguous().view(torch.int8).float()).reshape(shape)
    if kind == "Q5_0":
        blocks = raw.reshape(-1, 22)
        high = blocks[:, 2:6].contiguous().view(torch.int32).reshape(-1, 1)
        bits = (high >> torch.arange(32, device=raw.device, dtype=torch.int32)) & 1
        low = blocks[:, 6:]
        values = torch.cat([low & 15, low >> 4], 1).int() + 16 * bits - 16
        return (half(blocks[:, :2]) * values.float()).reshape(shape)
    if kind == "Q4_K":
        blocks = raw.reshape(-1, 144)
        d, least = half(blocks[:, 0:2]), half(blocks[:, 2:4])
        packed = blocks[:, 4:16].int()
        a, b, c = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
        scales = torch.cat([a & 63, (c & 15) | (a >> 6 << 4)], 1)
        mins = torch.cat([b & 63, (c >> 4) | (b >> 6 << 4)], 1)
        low = blocks[:, 16:].reshape(-1, 4, 32)
        values = torch.stack([low & 15, low >> 4], 2).reshape(-1, 8, 32)
        return ((d * scales).unsqueeze(2) * values - (least * mins).unsqueeze(2)).reshape(shape)
    if kind == "Q6_K":
        blocks = raw.reshape(-1, 210)
        low, high = blocks[:, :128].reshape(-1, 2, 64).int(), blocks[:, 128:192].reshape(-1, 2, 32).int()
        scales, d = blocks[:, 192:208].contiguous().view(torch.int8).float(), half(blocks[:, 208:210])
        first, second = low[:, :, :32], low[:, :, 32:]
        values = torch.stack([first & 15 | (high & 3) << 4, second & 15 | (high >> 2 & 3) << 4, first >> 4 | (high >> 4 & 3) << 4, second >> 4 | (high >> 6 & 3) << 4], 2)
        values = values.reshape(-1, 16, 16).float() - 32
        return ((d * scales).unsqueeze(2) * values).reshape(shape)
    raise ValueError(kind)


def tensors(folder, device):
    folder = pathlib.Path(folder)
    data = np.memmap(folder / "base.bin", np.uint8, "r")
    out = {}
    for one in json.loads((folder / "base.json").read_text()):
        raw = torch.from_numpy(np.array(data[one["offset"] : one["offset"] + one["bytes"]])).to(device)
        out[one["name"]] = dequantized(one["type"], raw, one["shape"]).float()
    return out


class Linear(nn.Module):
    def __init__(self, weight, bias, rank, scale, dtype):
        super().__init__()
        self.register_buffer("weight", weight.to(dtype))
        self.register_buffer("bias", None if bias is None else bias.to(dtype))
        self.scale = scale
        if rank:
            rows, width = weight.shape
            self.a = nn.Parameter(torch.randn(rank, width, device=weight.device) * width**-0.5)
            self.b = nn.Parameter(torch.zeros(rows, rank, device=weight.device))
        else:
            self.a = self.b = None

    def forward(self, x):
        y = F.linear(x, self.weight, self.bias)
        if self.a is not None and self.scale:
            y = y + F.linear(F.linear(x, self.a.to(x.dtype)), self.b.to(x.dtype)) * self.scale
        return y


class Layer(nn.Module):
    def __init__(self, weights, at, rank, scale, dtype):
        super().__init__()
        part = lambda name: weights.get(f"blk.{at}.{name}")
        for name in MATRICES:
            setattr(self, name, Linear(part(f"{name}.weight"), part(f"{name}.bias"), rank, scale, dtype))
        self.register_buffer("norm_attention", part("attn_norm.weight").to(dtype))
        self.register_buffer("norm_feed", part("ffn_norm.weight").to(dtype))


class Network(nn.Module):
    HEADS_KV, EPSILON, BASE = 2, 1e-6, 1_000_000.0  # of the 0.5B and the 1.5B alike

    def __init__(self, weights, rank, scale, dtype):
        super().__init__()
        count = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blk."))
        self.layers = nn.ModuleList(Layer(weights, at, rank, scale, dtype) for at in range(count))
        self.HEAD = weights["blk.0.attn_k.weight"].shape[0] // self.HEADS_KV
        self.HEADS = weights["blk.0.attn_q.weight"].shape[0] // self.HEAD
        self.register_buffer("embedding", weights["output.weight"].to(dtype))
        self.register_buffer("norm", weights["output_norm.weight"].to(dtype))

    def set_scale(self, scale):
        for layer in self.layers:
            for name in MATRICES:
                getattr(layer, name).scale = scale

    def rotated(self, x, places):
        rates = self.BASE ** (-torch.arange(0, self.HEAD, 2, device=x.device).float() / self.HEAD)
        angles = places.float().unsqueeze(-1) * rates
        cos, sin = angles.cos().unsqueeze(1).to(x.dtype), angles.sin().unsqueeze(1).to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, ids, places=None, cache=None, past=0, mask=None):
        """Hidden states after the last norm. With `cache`, keys and values go there from `past` on."""
        count, length = ids.shape
        x = self.embedding[ids]
        if places is None:
            places = torch.arange(length, device=ids.device).expand(count, -1)
        normed = lambda x, gains: F.rms_norm(x, gains.shape, gains, self.EPSILON)
        by_head = lambda x, heads: x.view(count, length, heads, self.HEAD).transpose(1, 2)
        for at, layer in enumerate(self.layers):
            h = normed(x, layer.norm_attention)
            q = self.rotated(by_head(layer.attn_q(h), self.HEADS), places)
            k = self.rotated(by_head(layer.attn_k(h), self.HEADS_KV), places)
            v = by_head(layer.attn_v(h), self.HEADS_KV)
            if cache is not None:
                keys, values = cache[at]
                keys[:, :, past : past + length], values[:, :, past : past + length] = k, v
                k, v = keys[:, :, : past + length], values[:, :, : past + length]
            group = self.HEADS // self.HEADS_KV
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
            x = x + layer.attn_output(mixed.transpose(1, 2).reshape(count, length, -1))
            h = normed(x, layer.norm_feed)
            x = x + layer.ffn_down(F.silu(layer.ffn_gate(h)) * layer.ffn_up(h))
        return normed(x, self.norm)

    @torch.no_grad()
    def generate(self, prompts, tokens_max, end):
        """Greedy replies to prompts of token ids, all at once."""
        device, count, longest = self.embedding.device, len(prompts), max(map(len, prompts))
        ids = torch.zeros(count, longest, dtype=torch.long, device=device)
        seen = torch.zeros(count, longest + tokens_max, dtype=torch.bool, device=device)
        for at, prompt in enumerate(prompts):
            ids[at, longest - len(prompt) :] = torch.as_tensor(prompt, device=device)
            seen[at, longest - len(prompt) : longest] = True
        room = lambda: torch.zeros(count, self.HEADS_KV, longest + tokens_max, self.HEAD, dtype=self.embedding.dtype, device=device)
        cache = [(room(), room()) for _ in self.layers]
        places = (seen[:, :longest].long().cumsum(1) - 1).clamp(min=0)
        causal = torch.ones(longest, longest, dtype=torch.bool, device=device).tril()
        mask = causal & seen[:, None, None, :longest]
        mask = mask | torch.eye(longest, dtype=torch.bool, device=device)
        hidden = self(ids, places, cache, 0, mask)[:, -1]
        place, out, is_done = places[:, -1], [], torch.zeros(count, dtype=torch.bool, device=device)
        for step in range(tokens_max):
            token = (hidden @ self.embedding.T).argmax(-1)
            token = torch.where(is_done, end, token)
            out.append(token)
            is_done |= token == end
            if step % 8 == 7 and bool(is_done.all()) or step == tokens_max - 1:
                break
            seen[:, longest + step], place = True, place + 1
            hidden = self(token[:, None], place[:, None], cache, longest + step, seen[:, None, None, : longest + step + 1])[:, -1]
        out = torch.stack(out, 1).tolist()
        return [row[: row.index(end)] if end in row else row for row in out]
