#!/usr/bin/env python3
"""make.py: writes the tiny models of this folder and their exact logits.

    python3 tests/golden/make.py [NAME...]       needs numpy; the files are committed, so tests need neither

The forward pass below is binary64, follows specs/architectures.md step by step and shares nothing with the engine. A model
is NAME.gguf (F16 matrices, F32 vectors); NAME.json holds the tokens and the logits after each of them."""
import json
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = dict(L=2, E=32, H=4, Hk=2, D=8, F=48, V=48, eps=1e-6, rope="neox", R=8, base=10000.0, X=0, tied=False)
MODELS = {
    "llama": dict(rope="norm", base=500000.0, factors=True, bias=True),
    "mixtral": dict(arch="llama", rope="norm", X=4, K=2, Fe=48, norm=True, yarn=(4.0, 16)),
    "qwen2moe": dict(bias=True, X=6, K=3, Fe=16, Fs=24, gated=True),
    "qwen3": dict(D=12, R=12, qk=True, tied=True),
    "qwen3moe": dict(qk=True, X=6, K=2, Fe=24, norm=True, fused_gate_up=True),
    "olmoe": dict(qk_whole=True, X=6, K=3, Fe=16, F=16),
    "gemma3": dict(L=3, Hk=1, D=16, R=16, qk=True, tied=True, post=True, window=4, pattern=3, base=1e6, linear=8.0, softcap=7.0),
    "bailingmoe2": dict(L=3, R=4, qk=True, fused_qkv=True, X=8, K=2, Fe=16, Fs=16, G=4, Gu=2, norm=True, scale=2.5, lead=1,
                        gate_bias=True),
    "mixtral_separate": dict(arch="llama", rope="norm", X=4, K=2, Fe=24, F=24, norm=True, separate=True),
}


# ---- the file ---------------------------------------------------------------------------------------------------------

class Writer:
    def __init__(self):
        self.kv, self.tensors = [], []

    def put(self, key, value):
        name = struct.pack("<Q", len(key)) + key.encode()
        if isinstance(value, bool):
            body = struct.pack("<IB", 7, value)
        elif isinstance(value, int):
            body = struct.pack("<II", 4, value)
        elif isinstance(value, float):
            body = struct.pack("<If", 6, value)
        else:
            body = struct.pack("<IQ", 8, len(value)) + value.encode()
        self.kv.append(name + body)

    def save(self, path):
        head, data, offset = b"", b"", 0
        for name, array in self.tensors:
            head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", array.ndim)
            head += b"".join(struct.pack("<Q", d) for d in reversed(array.shape))
            head += struct.pack("<IQ", 1 if array.dtype == np.float16 else 0, offset)
            raw = array.tobytes()
            raw += bytes(-len(raw) % 32)
            data += raw
            offset += len(raw)
        out = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.kv)) + b"".join(self.kv) + head
        with open(path, "wb") as f:
            f.write(out + bytes(-len(out) % 32) + data)


def make_weights(m, rng):
    """name -> array [experts][rows][cols]; norms and other vectors in float32, matrices in float16."""
    w = {}

    def matrix(name, *shape):
        w[name] = rng.normal(0, 1.4 / np.sqrt(shape[-1]), shape).astype(np.float16)

    def vector(name, n, mean=0.0, spread=0.2):
        w[name] = rng.normal(mean, spread, n).astype(np.float32)

    E, q, kv = m["E"], m["H"] * m["D"], m["Hk"] * m["D"]
    w["token_embd.weight"] = rng.normal(0, 1, (m["V"], E)).astype(np.float16)
    if m.get("factors"):
        w["rope_freqs.weight"] = rng.uniform(1, 8, m["R"] // 2).astype(np.float32)
    for i in range(m["L"]):
        b = f"blk.{i}."
        vector(b + "attn_norm.weight", E, 1)
        if m.get("fused_qkv"):
            matrix(b + "attn_qkv.weight", q + 2 * kv, E)
        else:
            for name, rows in (("attn_q", q), ("attn_k", kv), ("attn_v", kv)):
                matrix(b + name + ".weight", rows, E)
                if m.get("bias"):
                    vector(b + name + ".bias", rows)
        if m.get("qk") or m.get("qk_whole"):
            vector(b + "attn_q_norm.weight", q if m.get("qk_whole") else m["D"], 1)
            vector(b + "attn_k_norm.weight", kv if m.get("qk_whole") else m["D"], 1)
        matrix(b + "attn_output.weight", E, q)
        if m.get("post"):
            vector(b + "post_attention_norm.weight", E, 1)
        vector(b + "ffn_norm.weight", E, 1)
        if m["X"] and i >= m.get("lead", 0):
            X, Fe = m["X"], m["Fe"]
            w[b + "ffn_gate_inp.weight"] = rng.normal(0, 0.5, (X, E)).astype(np.float32)
            if m.get("gate_bias"):
                vector(b + "exp_probs_b.bias", X)
            if m.get("fused_gate_up"):
                matrix(b + "ffn_gate_up_exps.weight", X, 2 * Fe, E)
            else:
                matrix(b + "ffn_gate_exps.weight", X, Fe, E)
                matrix(b + "ffn_up_exps.weight", X, Fe, E)
            matrix(b + "ffn_down_exps.weight", X, E, Fe)
            if m.get("Fs"):
                if m.get("gated"):
                    vector(b + "ffn_gate_inp_shexp.weight", E)
                matrix(b + "ffn_gate_shexp.weight", m["Fs"], E)
                matrix(b + "ffn_up_shexp.weight", m["Fs"], E)
                matrix(b + "ffn_down_shexp.weight", E, m["Fs"])
        else:
            matrix(b + "ffn_gate.weight", m["F"], E)
            matrix(b + "ffn_up.weight", m["F"], E)
            matrix(b + "ffn_down.weight", E, m["F"])
        if m.get("post"):
            vector(b + "post_ffw_norm.weight", E, 1)
    vector("output_norm.weight", E, 1)
    if not m["tied"]:
        matrix("output.weight", m["V"], E)
    return w


def write_model(m, w, path):
    out, a = Writer(), m["arch"]
    out.put("general.architecture", a)
    for key, value in (("block_count", m["L"]), ("context_length", 64), ("embedding_length", m["E"]),
                       ("feed_forward_length", m["F"]), ("attention.head_count", m["H"]),
                       ("attention.head_count_kv", m["Hk"]), ("attention.key_length", m["D"]),
                       ("attention.value_length", m["D"]), ("attention.layer_norm_rms_epsilon", m["eps"]),
                       ("rope.dimension_count", m["R"]), ("rope.freq_base", m["base"])):
        out.put(f"{a}.{key}", value)
    optional = (("X", "expert_count"), ("K", "expert_used_count"), ("Fe", "expert_feed_forward_length"),
                ("Fs", "expert_shared_feed_forward_length"), ("G", "expert_group_count"), ("Gu", "expert_group_used_count"),
                ("lead", "leading_dense_block_count"), ("scale", "expert_weights_scale"),
                ("window", "attention.sliding_window"), ("pattern", "attention.sliding_window_pattern"),
                ("softcap", "final_logit_softcapping"), ("linear", "rope.scaling.factor"))
    for field, key in optional:
        if m.get(field):
            out.put(f"{a}.{key}", m[field])
    if a == "bailingmoe2":
        out.put(f"{a}.expert_shared_count", 1)
        out.put(f"{a}.expert_weights_norm", True)
    if m.get("yarn"):
        out.put(f"{a}.rope.scaling.type", "yarn")
        out.put(f"{a}.rope.scaling.factor", m["yarn"][0])
        out.put(f"{a}.rope.scaling.original_context_length", m["yarn"][1])
    out.tensors = list(w.items())
    if m.get("separate"):  # a tensor for each expert, as the first files of Mixtral had
        out.tensors = []
        for tensor, array in w.items():
            stacked = tensor.endswith("_exps.weight")
            names = [tensor.replace("_exps.", f".{e}.") for e in range(m["X"])] if stacked else [tensor]
            out.tensors += zip(names, array if stacked else [array])
    out.save(path)


# ---- the mathematics, in binary64 -------------------------------------------------------------------------------------

def rms(x, w, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * x * (1 + 0.044715 * x * x)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def angles(m, w, sliding, n):
    """[n][R/2] angles and the magnitude."""
    i, R = np.arange(m["R"] // 2), m["R"]
    base = 10000.0 if sliding else m["base"]
    theta = base ** (-2.0 * i / R)
    if "rope_freqs.weight" in w:
        theta = theta / w["rope_freqs.weight"]
    magnitude = 1.0
    if m.get("linear") and not sliding:
        theta = theta / m["linear"]
    if m.get("yarn"):
        s, n_orig = m["yarn"]
        dim = [R * np.log(n_orig / (turns * 2 * np.pi)) / (2 * np.log(base)) for turns in (32, 1)]
        low, high = max(0, np.floor(dim[0])), min(R - 1, np.ceil(dim[1]))
        mix = 1 - np.clip((i - low) / max(0.001, high - low), 0, 1)
        theta = theta / s * (1 - mix) + theta * mix
        magnitude = 0.1 * np.log(s) + 1
    return np.arange(n)[:, None] * theta[None, :], magnitude


def rotate(m, x, angle, magnitude):
    """x [T][heads][D]."""
    c, s = np.cos(angle)[:, None, :] * magnitude, np.sin(angle)[:, None, :] * magnitude
    y, half = x.copy(), m["R"] // 2
    first, second = (slice(0, m["R"], 2), slice(1, m["R"], 2)) if m["rope"] == "norm" else (slice(0, half), slice(half, m["R"]))
    y[..., first], y[..., second] = x[..., first] * c - x[..., second] * s, x[..., first] * s + x[..., second] * c
    return y


def attention(m, w, b, x, sliding):
    T, H, Hk, D = len(x), m["H"], m["Hk"], m["D"]
    if m.get("fused_qkv"):
        q, k, v = np.split(x @ w[b + "attn_qkv.weight"].T, [H * D, (H + Hk) * D], axis=1)
    else:
        q, k, v = (x @ w[b + n + ".weight"].T + w.get(b + n + ".bias", 0) for n in ("attn_q", "attn_k", "attn_v"))
    if m.get("qk_whole"):
        q, k = rms(q, w[b + "attn_q_norm.weight"], m["eps"]), rms(k, w[b + "attn_k_norm.weight"], m["eps"])
    q, k, v = q.reshape(T, H, D), k.reshape(T, Hk, D), v.reshape(T, Hk, D)
    if m.get("qk"):
        q, k = rms(q, w[b + "attn_q_norm.weight"], m["eps"]), rms(k, w[b + "attn_k_norm.weight"], m["eps"])
    angle, magnitude = angles(m, w, sliding, T)
    q, k = rotate(m, q, angle, magnitude), rotate(m, k, angle, magnitude)
    out = np.zeros((T, H, D))
    at = np.arange(T)
    seen = at[None, :] <= at[:, None]
    if sliding:
        seen &= at[:, None] - at[None, :] < m["window"]
    for h in range(H):
        score = np.where(seen, q[:, h] @ k[:, h // (H // Hk)].T / np.sqrt(D), -np.inf)
        p = np.exp(score - score.max(axis=1, keepdims=True))
        out[:, h] = p / p.sum(axis=1, keepdims=True) @ v[:, h // (H // Hk)]
    return out.reshape(T, H * D) @ w[b + "attn_output.weight"].T


def route(m, z, bias):
    p = sigmoid(z) if m.get("G") else np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    s = p + (bias if bias is not None else 0)
    if m.get("G"):
        groups = s.reshape(m["G"], -1)
        best = np.argsort(-np.sort(groups, axis=1)[:, -2:].sum(axis=1))[:m["Gu"]]
        s = np.where(np.isin(np.arange(m["X"]) // groups.shape[1], best), s, -np.inf)
    ids = np.argsort(-s, kind="stable")[:m["K"]]
    weights = p[ids]
    if m.get("norm"):
        weights = weights / max(weights.sum(), 6.103515625e-5)
    return ids, weights * (m.get("scale") or 1)


def feed_forward(m, w, b, x):
    act = gelu if m.get("post") else silu
    if b + "ffn_gate.weight" in w:
        return (act(x @ w[b + "ffn_gate.weight"].T) * (x @ w[b + "ffn_up.weight"].T)) @ w[b + "ffn_down.weight"].T
    if m.get("fused_gate_up"):
        gate, up = np.split(w[b + "ffn_gate_up_exps.weight"], 2, axis=1)
    else:
        gate, up = w[b + "ffn_gate_exps.weight"], w[b + "ffn_up_exps.weight"]
    y = np.zeros_like(x)
    for t, row in enumerate(x):
        ids, weights = route(m, w[b + "ffn_gate_inp.weight"] @ row, w.get(b + "exp_probs_b.bias"))
        for e, weight in zip(ids, weights):
            y[t] += weight * (w[b + "ffn_down_exps.weight"][e] @ (silu(gate[e] @ row) * (up[e] @ row)))
    if m.get("Fs"):
        h = silu(x @ w[b + "ffn_gate_shexp.weight"].T) * (x @ w[b + "ffn_up_shexp.weight"].T)
        open_ = sigmoid(x @ w[b + "ffn_gate_inp_shexp.weight"])[:, None] if m.get("gated") else 1
        y += open_ * (h @ w[b + "ffn_down_shexp.weight"].T)
    return y


def logits_of(m, weights, tokens):
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    x = w["token_embd.weight"][tokens] * (np.sqrt(m["E"]) if m.get("post") else 1)
    for i in range(m["L"]):
        b = f"blk.{i}."
        sliding = bool(m.get("window")) and i % m["pattern"] < m["pattern"] - 1
        y = attention(m, w, b, rms(x, w[b + "attn_norm.weight"], m["eps"]), sliding)
        x = x + (rms(y, w[b + "post_attention_norm.weight"], m["eps"]) if m.get("post") else y)
        y = feed_forward(m, w, b, rms(x, w[b + "ffn_norm.weight"], m["eps"]))
        x = x + (rms(y, w[b + "post_ffw_norm.weight"], m["eps"]) if m.get("post") else y)
    out = rms(x, w["output_norm.weight"], m["eps"]) @ w["token_embd.weight" if m["tied"] else "output.weight"].T
    return m["softcap"] * np.tanh(out / m["softcap"]) if m.get("softcap") else out


def main():
    for number, (name, changes) in enumerate(MODELS.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        m = {**BASE, "arch": name, **changes}
        rng = np.random.default_rng(1000 + number)
        w = make_weights(m, rng)
        tokens = rng.integers(0, m["V"], 24)
        logits = logits_of(m, w, tokens)
        write_model(m, w, os.path.join(HERE, name + ".gguf"))
        with open(os.path.join(HERE, name + ".json"), "w") as f:
            rows = ",\n".join("[" + ",".join(f"{v:.7g}" for v in row) + "]" for row in logits)
            f.write('{"tokens": ' + json.dumps([int(t) for t in tokens]) + ',\n"logits": [\n' + rows + "]}\n")
        print(name, os.path.getsize(os.path.join(HERE, name + ".gguf")), "bytes")


main()
