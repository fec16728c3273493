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
    "deepseek2": dict(rope="norm", D=20, R=8, C=24, Dv=12, Rq=16, L=3, X=8, K=3, Fe=16, Fs=32, G=4, Gu=2, norm=True,
                      scale=2.5, lead=1, gate_bias=True, yarn=(4.0, 16), yarn_log=0.0625, shared=2),
    "deepseek2_old": dict(arch="deepseek2", rope="norm", D=20, R=8, C=24, Dv=12, kv_b=True, X=4, K=2, Fe=16, Fs=16, lead=1,
                          shared=1),
    "bailingmoe3": dict(rope="norm", L=4, D=20, R=8, C=24, Dv=12, Rq=16, X=4, K=2, Fe=16, Fs=24, G=1, Gu=1, norm=True,
                        scale=2.5, lead=1, gate_bias=True, latent_every=4, kda=12, bound=-5.0, taps=4, clamp=0.5,
                        shared_clamp=[0.25, 0.25, 0.5, 0.0], nextn=1, repack=1),
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
        elif isinstance(value, list):
            is_real = isinstance(value[0], float)
            body = struct.pack("<IIQ", 9, 6 if is_real else 4, len(value))
            body += struct.pack(f"<{len(value)}{'f' if is_real else 'I'}", *value)
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


def is_kda(m, layer):
    return bool(m.get("latent_every")) and (layer + 1) % m["latent_every"] != 0


def make_latent(m, b, matrix, vector):
    E, H, C, R, D, Dv = m["E"], m["H"], m["C"], m["R"], m["D"], m["Dv"]
    if m.get("Rq"):
        matrix(b + "attn_q_a.weight", m["Rq"], E)
        vector(b + "attn_q_a_norm.weight", m["Rq"], 1)
        matrix(b + "attn_q_b.weight", H * D, m["Rq"])
    else:
        matrix(b + "attn_q.weight", H * D, E)
    matrix(b + "attn_kv_a_mqa.weight", C + R, E)
    vector(b + "attn_kv_a_norm.weight", C, 1)
    if m.get("kv_b"):
        matrix(b + "attn_kv_b.weight", H * (D - R + Dv), C)
    else:
        matrix(b + "attn_k_b.weight", H, C, D - R)
        matrix(b + "attn_v_b.weight", H, Dv, C)
    if m.get("latent_every"):
        matrix(b + "attn_gate.weight", H, E)


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
        if is_kda(m, i):
            di = m["H"] * m["kda"]
            for name in ("attn_q", "attn_k", "attn_v", "ssm_f_a", "ssm_g_a"):
                matrix(b + name + ".weight", di, E)
            for name in "qkv":
                w[b + f"ssm_conv1d_{name}.weight"] = rng.normal(0, 0.5, (di, 1, m["taps"])).astype(np.float32)
            matrix(b + "ssm_beta.weight", m["H"], E)
            w[b + "ssm_a"] = rng.uniform(0.5, 2, (m["H"], 1)).astype(np.float32)
            vector(b + "ssm_dt.bias", di)
            vector(b + "ssm_norm.weight", m["kda"], 1)
            q = di
        elif m.get("C"):
            make_latent(m, b, matrix, vector)
            q = m["H"] * m["Dv"]
        elif m.get("fused_qkv"):
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


def write_latent(m, out, a):
    """Keys of latent attention; the ones of the cache where other models have those of their heads."""
    old = bool(m.get("kv_b"))
    kv = [int(not is_kda(m, i)) for i in range(m["L"] + m.get("nextn", 0))] if m.get("latent_every") else m["H"] if old else 1
    out.put(f"{a}.attention.head_count_kv", kv)
    out.put(f"{a}.attention.key_length", m["D"] if old else m["C"] + m["R"])
    out.put(f"{a}.attention.value_length", m["Dv"] if old else m["C"])
    out.put(f"{a}.attention.kv_lora_rank", m["C"])
    if not old:
        out.put(f"{a}.attention.key_length_mla", m["D"])
        out.put(f"{a}.attention.value_length_mla", m["Dv"])
    for field, key in (("shared", "expert_shared_count"), ("norm", "expert_weights_norm"), ("kda", "kda.head_dim"),
                       ("bound", "kda.gate_lower_bound"), ("taps", "ssm.conv_kernel"), ("clamp", "swiglu_clamp_exp"),
                       ("shared_clamp", "swiglu_clamp_shexp"), ("yarn_log", "rope.scaling.yarn_log_multiplier"),
                       ("nextn", "nextn_predict_layers")):
        if m.get(field):
            out.put(f"{a}.{key}", m[field])
    if a == "deepseek2" and m.get("G"):
        out.put(f"{a}.expert_gating_func", 2)


def write_model(m, w, path):
    out, a = Writer(), m["arch"]
    out.put("general.architecture", a)
    if m.get("C"):
        write_latent(m, out, a)
    for key, value in (("block_count", m["L"] + m.get("nextn", 0)), ("context_length", 64), ("embedding_length", m["E"]),
                       ("feed_forward_length", m["F"]), ("attention.head_count", m["H"]),
                       ("attention.head_count_kv", m["Hk"] if not m.get("C") else None),
                       ("attention.key_length", m["D"] if not m.get("C") else None),
                       ("attention.value_length", m["D"] if not m.get("C") else None), ("attention.layer_norm_rms_epsilon", m["eps"]),
                       ("rope.dimension_count", m["R"]), ("rope.freq_base", m["base"])):
        if value is not None:
            out.put(f"{a}.{key}", value)
    optional = (("X", "expert_count"), ("K", "expert_used_count"), ("Fe", "expert_feed_forward_length"),
                ("Fs", "expert_shared_feed_forward_length"), ("G", "expert_group_count"), ("Gu", "expert_group_used_count"),
                ("lead", "leading_dense_block_count"), ("scale", "expert_weights_scale"),
                ("window", "attention.sliding_window"), ("pattern", "attention.sliding_window_pattern"),
                ("softcap", "final_logit_softcapping"), ("linear", "rope.scaling.factor"))
    for field, key in optional:
        if m.get(field) and not (field == "Fs" and a == "deepseek2"):
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
    if m.get("repack"):
        out.tensors = repack(w, m["repack"])
    out.save(path)


def repack(w, layer):
    """A KDA layer as other converters write it: q, k and v in one, names without _a, vectors of other shapes."""
    b, tensors = f"blk.{layer}.", []
    for name, array in w.items():
        short = name[len(b):-len(".weight")] if name.startswith(b) and name.endswith(".weight") else ""
        if short == "attn_q":
            name, array = b + "attn_qkv.weight", np.concatenate([w[b + f"attn_{x}.weight"] for x in "qkv"])
        elif short in ("attn_k", "attn_v"):
            continue
        elif short in ("ssm_f_a", "ssm_g_a"):
            name = b + short[:-2] + ".weight"
        elif short.startswith("ssm_conv1d"):
            array = array[None]
        elif name == b + "ssm_a":
            array = array.reshape(-1)
        tensors.append((name, array))
    return tensors


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
        magnitude = 0.1 * np.log(s) + 1 if not m.get("yarn_log") else 1.0
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


def latent_attention(m, w, b, x):
    """The decompressed form: every head has keys and values of its own."""
    T, H, C, R, D, Dv = len(x), m["H"], m["C"], m["R"], m["D"], m["Dv"]
    n = D - R
    if m.get("Rq"):
        q = rms(x @ w[b + "attn_q_a.weight"].T, w[b + "attn_q_a_norm.weight"], m["eps"]) @ w[b + "attn_q_b.weight"].T
    else:
        q = x @ w[b + "attn_q.weight"].T
    both = x @ w[b + "attn_kv_a_mqa.weight"].T
    c, q = rms(both[:, :C], w[b + "attn_kv_a_norm.weight"], m["eps"]), q.reshape(T, H, D)
    angle, magnitude = angles(m, w, False, T)
    kr = np.repeat(rotate(m, both[:, None, C:], angle, magnitude), H, axis=1)
    q = np.concatenate([q[..., :n], rotate(m, q[..., n:], angle, magnitude)], axis=2)
    if m.get("kv_b"):
        kv = (c @ w[b + "attn_kv_b.weight"].T).reshape(T, H, n + Dv)
        kn, v = kv[..., :n], kv[..., n:]
    else:
        kn = np.einsum("hcn,tc->thn", w[b + "attn_k_b.weight"], c)
        v = np.einsum("hvc,tc->thv", w[b + "attn_v_b.weight"], c)
    k = np.concatenate([kn, kr], axis=2)
    mu = 1 + m["yarn_log"] * np.log(m["yarn"][0]) if m.get("yarn_log") else 1
    score = np.einsum("thd,shd->hts", q, k) * mu * mu / np.sqrt(D)
    score = np.where(np.tril(np.ones((T, T), bool)), score, -np.inf)
    p = np.exp(score - score.max(axis=2, keepdims=True))
    o = np.einsum("hts,shv->thv", p / p.sum(axis=2, keepdims=True), v)
    if m.get("latent_every"):
        o = o * sigmoid(x @ w[b + "attn_gate.weight"].T)[..., None]
    return o.reshape(T, H * Dv) @ w[b + "attn_output.weight"].T


def kda(m, w, b, x):
    T, H, d, taps = len(x), m["H"], m["kda"], m["taps"]
    parts = []
    for name in "qkv":
        y, kernel = x @ w[b + f"attn_{name}.weight"].T, w[b + f"ssm_conv1d_{name}.weight"][:, 0, :]
        past = np.concatenate([np.zeros((taps - 1, H * d)), y])
        parts.append(silu(sum(past[i:i + T] * kernel[:, i] for i in range(taps))).reshape(T, H, d))
    q, k, v = parts
    q, k = (y / np.maximum(np.sqrt((y * y).sum(axis=2, keepdims=True)), m["eps"]) for y in (q, k))
    f = (x @ w[b + "ssm_f_a.weight"].T + w[b + "ssm_dt.bias"]).reshape(T, H, d)
    decay = np.exp(m["bound"] * sigmoid(w[b + "ssm_a"].reshape(1, H, 1) * f))
    beta, o = sigmoid(x @ w[b + "ssm_beta.weight"].T), np.zeros((T, H, d))
    for h in range(H):
        S = np.zeros((d, d))
        for t in range(T):
            S = decay[t, h][:, None] * S
            S = S + np.outer(k[t, h], beta[t, h] * (v[t, h] - k[t, h] @ S))
            o[t, h] = q[t, h] @ S / np.sqrt(d)
    o = rms(o, w[b + "ssm_norm.weight"], m["eps"]).reshape(T, H * d)
    return o * sigmoid(x @ w[b + "ssm_g_a.weight"].T) @ w[b + "attn_output.weight"].T


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


def gated(gate, up, limit):
    return np.minimum(silu(gate), limit) * np.clip(up, -limit, limit) if limit else silu(gate) * up


def feed_forward(m, w, b, x, layer):
    shared_limit = m["shared_clamp"][layer] if m.get("shared_clamp") else None
    if b + "ffn_gate.weight" in w:
        gate, up = x @ w[b + "ffn_gate.weight"].T, x @ w[b + "ffn_up.weight"].T
        return (gelu(gate) * up if m.get("post") else gated(gate, up, shared_limit)) @ w[b + "ffn_down.weight"].T
    if m.get("fused_gate_up"):
        gate, up = np.split(w[b + "ffn_gate_up_exps.weight"], 2, axis=1)
    else:
        gate, up = w[b + "ffn_gate_exps.weight"], w[b + "ffn_up_exps.weight"]
    y = np.zeros_like(x)
    for t, row in enumerate(x):
        ids, weights = route(m, w[b + "ffn_gate_inp.weight"] @ row, w.get(b + "exp_probs_b.bias"))
        for e, weight in zip(ids, weights):
            y[t] += weight * (w[b + "ffn_down_exps.weight"][e] @ gated(gate[e] @ row, up[e] @ row, m.get("clamp")))
    if m.get("Fs"):
        h = gated(x @ w[b + "ffn_gate_shexp.weight"].T, x @ w[b + "ffn_up_shexp.weight"].T, shared_limit)
        open_ = sigmoid(x @ w[b + "ffn_gate_inp_shexp.weight"])[:, None] if m.get("gated") else 1
        y += open_ * (h @ w[b + "ffn_down_shexp.weight"].T)
    return y


def logits_of(m, weights, tokens):
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    x = w["token_embd.weight"][tokens] * (np.sqrt(m["E"]) if m.get("post") else 1)
    for i in range(m["L"]):
        b = f"blk.{i}."
        sliding = bool(m.get("window")) and i % m["pattern"] < m["pattern"] - 1
        normed = rms(x, w[b + "attn_norm.weight"], m["eps"])
        if is_kda(m, i):
            y = kda(m, w, b, normed)
        else:
            y = latent_attention(m, w, b, normed) if m.get("C") else attention(m, w, b, normed, sliding)
        x = x + (rms(y, w[b + "post_attention_norm.weight"], m["eps"]) if m.get("post") else y)
        y = feed_forward(m, w, b, rms(x, w[b + "ffn_norm.weight"], m["eps"]), i)
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
