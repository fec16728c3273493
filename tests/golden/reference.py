#!/usr/bin/env python3
"""reference.py: a transformer in binary64, written from the architectures specification and nothing else, so that models
for which nobody has published logits can be checked. Plain Python, no packages; slow, for tiny models of F32 and F16.

    reference.py check DIR...          compares with DIR/expect.json (as in vectors/arch-logits): largest |ln p - expected|
    reference.py check NAME.gguf...    compares with NAME.json of this folder: largest |logit - expected|
    reference.py expect NAME.gguf...   writes NAME.json: some tokens and the logits after each of them

The first command shows on models with known logits that this program reads the specification as others do; only then
does the last one mean anything. Section numbers below are the specification's."""
import json
import math
import struct
import sys
from operator import mul

CONTEXT = 256  # of the runner: decides between the factors of longrope

# ---- the file ----

SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}


class Gguf:
    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = f.read()
        self.at = 8
        n_tensors, n_kv = self.scalar('Q'), self.scalar('Q')
        self.kv, self.info, self.cache = {}, {}, {}
        for _ in range(n_kv):
            key = self.text()
            self.kv[key] = self.value(self.scalar('I'))
        for _ in range(n_tensors):
            name = self.text()
            dims = [self.scalar('Q') for _ in range(self.scalar('I'))]
            self.info[name] = (dims, self.scalar('I'), self.scalar('Q'))
        align = self.kv.get('general.alignment', 32)
        self.start = (self.at + align - 1) // align * align

    def scalar(self, form):
        v = struct.unpack_from('<' + form, self.data, self.at)[0]
        self.at += struct.calcsize('<' + form)
        return v

    def text(self):
        n = self.scalar('Q')
        self.at += n
        return self.data[self.at - n:self.at].decode('utf-8', 'replace')

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.scalar(SCALARS[kind])
        element, n = self.scalar('I'), self.scalar('Q')
        return [self.value(element) for _ in range(n)]

    def tensor(self, name):
        """All values, flat; None if absent."""
        if name not in self.info:
            return None
        if name not in self.cache:
            dims, kind, offset = self.info[name]
            assert kind in (0, 1), name + ' is neither F32 nor F16'
            self.cache[name] = struct.unpack_from('<%d%s' % (math.prod(dims), 'fe'[kind]), self.data, self.start + offset)
        return self.cache[name]

    def matrix(self, name):
        """Rows; three-dimensional tensors become one list of rows."""
        flat = self.tensor(name)
        if flat is None:
            return None
        key = name + ' rows'
        if key not in self.cache:
            cols = self.info[name][0][0]
            self.cache[key] = [flat[i:i + cols] for i in range(0, len(flat), cols)]
        return self.cache[key]


# ---- primitives (1.3) ----

def dot(a, b):
    return sum(map(mul, a, b))


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    return 0.5 * x * (1 + math.tanh(0.7978845608 * x * (1 + 0.044715 * x * x)))


def softplus(x):
    return x if x > 20 else math.log1p(math.exp(x))


def clamp(x, low, high):
    return min(max(x, low), high)


def rms_norm(x, w, eps):
    r = 1 / math.sqrt(dot(x, x) / len(x) + eps)
    return [a * r * b for a, b in zip(x, w)]


def softmax(x):
    top = max(x)
    e = [math.exp(a - top) for a in x]
    s = sum(e)
    return [a / s for a in e]


# What the sheets of section 12 say beyond metadata.
PLAIN = {'rope': 'norm'}
NEOX = {'rope': 'neox'}
SHEETS = {
    'llama': dict(PLAIN, factors=True, gating=1, norm=True),
    'qwen2': NEOX, 'qwen3': dict(NEOX, qk=True),
    'qwen2moe': dict(NEOX, gating=1, norm=False, shared_gate=True, divided=True),
    'qwen3moe': dict(NEOX, qk=True, gating=1, norm=True, divided=True),
    'olmoe': dict(NEOX, qk_whole=True, gating=1, norm=False),
    'gemma3': dict(NEOX, qk=True, gemma=True, post=True),
    'granite': dict(PLAIN, factors=True, granite=True),
    'granitemoe': dict(PLAIN, factors=True, granite=True, gating=1, norm=True),
    'granitehybrid': dict(PLAIN, factors=True, granite=True, gating=1, norm=True, recurrent='mamba2'),
    'gpt-oss': dict(NEOX, gating=3, norm=False, pattern=2, ffn_norm='post_attention_norm', clamped=True),
    'glm4moe': dict(rope='mrope', qk=True, gating=2, scale=True, ffn_norm='post_attention_norm'),
    'bailingmoe2': dict(NEOX, qk=True, gating=2, scale=True),
    'qwen3next': dict(NEOX, qk=True, gating=1, norm=True, shared_gate=True, ffn_norm='post_attention_norm',
                      recurrent='delta_net', out_gate=True, grouped=True),
    'qwen35': dict(rope='imrope', qk=True, ffn_norm='post_attention_norm', recurrent='delta_net', out_gate=True),
    'qwen35moe': dict(rope='imrope', qk=True, gating=1, norm=True, shared_gate=True, ffn_norm='post_attention_norm',
                      recurrent='delta_net', out_gate=True),
    'lfm2': dict(NEOX, qk=True, recurrent='shortconv'),
    'lfm2moe': dict(NEOX, qk=True, recurrent='shortconv', gating=2, norm=True),
}


class Model:
    def __init__(self, path):
        self.g = Gguf(path)
        self.arch = self.g.kv['general.architecture']
        self.sheet = SHEETS[self.arch]
        key = self.key
        self.L = key('block_count') - key('nextn_predict_layers', 0)
        self.E = key('embedding_length')
        self.eps = key('attention.layer_norm_rms_epsilon')
        self.H = self.per_layer('attention.head_count', 0)
        self.Hk = self.per_layer('attention.head_count_kv', self.H)
        self.D = key('attention.key_length', self.E // max(self.H))
        self.Dv = key('attention.value_length', self.E // max(self.H))
        self.R = key('rope.dimension_count', self.D)
        self.recurrent = self.recurrent_layers()
        self.window = key('attention.sliding_window', 0)
        self.sliding = self.windows()
        self.Ds, self.Dvs = ([d[s] for s in self.sliding] for d in (
            (self.D, key('attention.key_length_swa', self.D)), (self.Dv, key('attention.value_length_swa', self.Dv))))
        self.final = 'token_embd_norm.weight' if 'token_embd_norm.weight' in self.g.info else 'output_norm.weight'
        self.ropes = [self.rope(False), self.rope(True)]
        self.restart()

    def key(self, name, default=None):
        return self.g.kv.get(self.arch + '.' + name, default)

    def per_layer(self, name, default):
        v = self.key(name, default)
        return v if isinstance(v, list) else [v] * self.L

    def recurrent_layers(self):
        marks, interval = self.key('attention.recurrent_layers'), self.key('full_attention_interval', 4)
        by_heads = [k == 0 for k in self.Hk]
        if self.sheet.get('recurrent') != 'delta_net' or (marks is None and any(by_heads)):
            return by_heads
        return marks or [(n + 1) % interval != 0 for n in range(self.L)]

    def w(self, il, name):
        return self.g.tensor('blk.%d.%s' % (il, name))

    def linear(self, il, name, x, expert=None, part=None):
        """W x, bias (1.4); of an expert bank: the rows of one expert; part (first, n): only those rows."""
        full = name if il is None else 'blk.%d.%s' % (il, name)
        rows, bias = self.g.matrix(full + '.weight'), self.g.tensor(full + '.bias')
        first, n = 0, self.g.info[full + '.weight'][0][1]
        if expert is not None:
            first = expert * n
        if part:
            first, n = first + part[0], part[1]
        rows, bias = rows[first:first + n], bias[first:first + n] if bias else None
        y = [dot(r, x) for r in rows]
        return [a + b for a, b in zip(y, bias)] if bias else y

    def restart(self):
        self.position = 0
        self.state = [{'k': [], 'v': [], 'conv': [], 'S': {}} for _ in range(self.L)]

    # ---- rotary embedding (3) ----

    def windows(self):  # 4.2
        pattern = self.key('attention.sliding_window_pattern', self.sheet.get('pattern', 6))
        if self.window == 0 or not (self.sheet.get('pattern') or self.sheet.get('gemma')):
            return [self.window > 0 and self.sheet.get('recurrent') == 'shortconv'] * self.L
        if isinstance(pattern, list):
            return [bool(p) for p in pattern]
        return [pattern == 0 or n % pattern < pattern - 1 for n in range(self.L)]

    def rope(self, sliding):
        """Angles per position and the magnitude."""
        key = self.key
        plain = sliding and self.sheet.get('gemma')
        kind = self.key('rope.scaling.type', 'linear')
        s = self.key('rope.scaling.factor', self.key('rope.scale_linear', 0)) or 1
        fs = 1 if plain or kind == 'none' else 1 / s
        base = self.key('rope.freq_base', 10000.0)
        if plain:
            base = self.key('rope.freq_base_swa', 10000.0)
        R = key('rope.dimension_count_swa', self.R) if sliding else self.R
        half = R // 2
        ff = [1.0] * half
        if self.sheet.get('factors'):
            ff = self.g.tensor('rope_freqs.weight') or ff
            n_orig = self.key('rope.scaling.original_context_length', self.key('context_length'))
            if kind == 'longrope':
                ff = self.g.tensor('rope_factors_%s.weight' % ('long' if CONTEXT > n_orig else 'short')) or ff
        m = self.key('rope.scaling.attn_factor', 1.0)
        theta = [base ** (-2 * i / R) / ff[i] for i in range(half)]
        if kind != 'yarn' or plain:
            return [fs * t for t in theta], m
        n_orig = self.key('rope.scaling.original_context_length', self.key('context_length'))
        dim = lambda n: R * math.log(n_orig / (n * 2 * math.pi)) / (2 * math.log(base))
        low = max(0, math.floor(dim(self.key('rope.scaling.yarn_beta_fast', 32.0))))
        high = min(R - 1, math.ceil(dim(self.key('rope.scaling.yarn_beta_slow', 1.0))))
        mix = [1 - clamp((i - low) / max(0.001, high - low), 0, 1) for i in range(half)]
        m *= 0.1 * math.log(s) + 1 if s > 1 else 1
        return [fs * t * (1 - x) + t * x for t, x in zip(theta, mix)], m

    def sections(self, pair):
        """The position a pair follows (3.3): 0 for section e of a token of text."""
        s = (self.key('rope.dimension_sections') or [0] * 4) + [0] * 4
        total = sum(s[:4])
        if self.sheet['rope'] not in ('mrope', 'imrope') or total == 0:
            return self.position
        k = pair % total
        if self.sheet['rope'] == 'imrope':
            return self.position if k < 3 * s[k % 3] else 0
        return self.position if pair % total < s[0] + s[1] + s[2] else 0

    def rotate(self, x, sliding):
        freq, m = self.ropes[sliding]
        x, half = list(x), len(freq)
        for i in range(half):
            a, b = (2 * i, 2 * i + 1) if self.sheet['rope'] == 'norm' else (i, i + half)
            phi = self.sections(i) * freq[i]
            c, s = m * math.cos(phi), m * math.sin(phi)
            x[a], x[b] = x[a] * c - x[b] * s, x[a] * s + x[b] * c
        return x

    # ---- attention (4) ----

    def projected(self, il, name, x, rows):
        """attn_q, attn_k or attn_v, or its part of attn_qkv (1.5)."""
        if self.w(il, 'attn_qkv.weight') is None:
            return self.linear(il, name, x)
        q, k = self.H[il] * self.Ds[il] * (2 if self.sheet.get('out_gate') else 1), self.Hk[il] * self.Ds[il]
        return self.linear(il, 'attn_qkv', x, part=({'attn_q': 0, 'attn_k': q, 'attn_v': q + k}[name], rows))

    def heads(self, il, name, x, n, D, norm):
        y = self.projected(il, name, x, n * D)
        if norm and self.sheet.get('qk_whole'):
            y = rms_norm(y, self.w(il, norm), self.eps)
        y = [y[h * D:(h + 1) * D] for h in range(n)]
        if norm and self.sheet.get('qk') and self.w(il, norm):
            y = [rms_norm(h, self.w(il, norm), self.eps) for h in y]
        return y

    def attention_scale(self, il):
        if self.sheet.get('granite') and self.key('attention.scale', 0):
            return self.key('attention.scale')
        if self.sheet.get('gemma') and self.L == 62:
            return 1 / math.sqrt(self.E / self.H[0])
        return 1 / math.sqrt(self.Ds[il])

    def attention(self, il, x):
        H, Hk, st, D, Dv = self.H[il], self.Hk[il], self.state[il], self.Ds[il], self.Dvs[il]
        if self.sheet.get('out_gate'):  # 4.4
            both = self.projected(il, 'attn_q', x, 2 * H * D)
            q = [rms_norm(both[h * 2 * D:h * 2 * D + D], self.w(il, 'attn_q_norm.weight'), self.eps) for h in range(H)]
            gate = [sigmoid(a) for h in range(H) for a in both[h * 2 * D + D:(h + 1) * 2 * D]]
        else:
            q, gate = self.heads(il, 'attn_q', x, H, D, 'attn_q_norm.weight'), [1.0] * (H * Dv)
        k = self.heads(il, 'attn_k', x, Hk, D, 'attn_k_norm.weight')
        if not (self.sheet.get('granite') and self.key('rope.scaling.finetuned', True) is False):
            q = [self.rotate(h, self.sliding[il]) for h in q]
            k = [self.rotate(h, self.sliding[il]) for h in k]
        st['k'].append(k)
        st['v'].append(self.heads(il, 'attn_v', x, Hk, Dv, None))
        first = max(0, self.position - self.window + 1) if self.sliding[il] else 0
        scale = self.attention_scale(il)
        sinks, out = self.w(il, 'attn_sinks.weight'), []
        for h in range(H):
            kv = h // (H // Hk)
            scores = [scale * dot(q[h], st['k'][p][kv]) for p in range(first, self.position + 1)]
            weights = softmax(scores + [sinks[h]] if sinks else scores)
            out += [sum(weights[i] * st['v'][first + i][kv][d] for i in range(len(scores))) for d in range(Dv)]
        return self.linear(il, 'attn_output', list(map(mul, out, gate)))

    # ---- recurrent layers (6, 8, 9) ----

    def conv(self, il, name, x):
        """Depthwise over time, tap Kc - 1 at the current token."""
        w, past = self.g.matrix('blk.%d.%s.weight' % (il, name)), self.state[il]['conv']
        taps = len(w[0])
        rows = [[0.0] * len(x)] * (taps - 1 - len(past)) + past + [x]
        self.state[il]['conv'] = rows[1:] if taps > 1 else []
        return [sum(w[c][i] * rows[i][c] for i in range(taps)) for c in range(len(x))]

    def delta_inputs(self, il, x, d, Nk, Nv):
        """Queries, keys and values in one; z; logits of beta and alpha (6, 6.5)."""
        rep = Nv // Nk
        if self.w(il, 'ssm_in.weight'):
            y, n = self.linear(il, 'ssm_in', x), 2 * d + 2 * rep * d
            blocks = [y[h * n:(h + 1) * n] for h in range(Nk)]
            cut = lambda first, last: [v for block in blocks for v in block[first:last]]
            m, z = cut(0, d) + cut(d, 2 * d) + cut(2 * d, 2 * d + rep * d), cut(2 * d + rep * d, n)
        else:
            m, z = self.linear(il, 'attn_qkv', x), self.linear(il, 'attn_gate', x)
        if not self.w(il, 'ssm_ba.weight'):
            return m, z, self.linear(il, 'ssm_beta', x), self.linear(il, 'ssm_alpha', x)
        ba = self.linear(il, 'ssm_ba', x)
        pick = lambda first: [ba[h * 2 * rep + first + r] for h in range(Nk) for r in range(rep)]
        return m, z, pick(0), pick(rep)

    def delta_net(self, il, x):
        d, Nk, Nv = self.key('ssm.state_size'), self.key('ssm.group_count'), self.key('ssm.time_step_rank')
        m, z, beta, alpha = self.delta_inputs(il, x, d, Nk, Nv)
        u = [silu(a) for a in self.conv(il, 'ssm_conv1d', m)]
        unit = lambda v: [a / max(math.sqrt(dot(v, v)), self.eps) for a in v]
        q = [unit(u[h * d:(h + 1) * d]) for h in range(Nk)]
        k = [unit(u[(Nk + h) * d:(Nk + h + 1) * d]) for h in range(Nk)]
        v, A, out = u[2 * Nk * d:], self.w(il, 'ssm_a'), []
        dt = self.w(il, 'ssm_dt.bias') or self.w(il, 'ssm_dt')
        for j in range(Nv):
            h = j // (Nv // Nk) if self.sheet.get('grouped') else j % Nk
            decay, o = math.exp(A[j] * softplus(alpha[j] + dt[j])), []
            for e in range(d):
                S = [decay * s for s in self.state[il]['S'].get((j, e), [0.0] * d)]
                step = sigmoid(beta[j]) * (v[j * d + e] - dot(S, k[h]))
                S = self.state[il]['S'][j, e] = [s + step * a for s, a in zip(S, k[h])]
                o.append(dot(S, q[h]) / math.sqrt(d))
            o = rms_norm(o, self.w(il, 'ssm_norm.weight'), self.eps)
            out += [a * silu(b) for a, b in zip(o, z[j * d:(j + 1) * d])]
        return self.linear(il, 'ssm_out', out)

    def mamba2(self, il, x):
        di, N, ds = self.key('ssm.inner_size'), self.key('ssm.time_step_rank'), self.key('ssm.state_size')
        G, hd = self.key('ssm.group_count'), di // N
        all_of_it = self.linear(il, 'ssm_in', x)
        z, xbc, dt = all_of_it[:di], all_of_it[di:-N], all_of_it[-N:]
        bias = self.w(il, 'ssm_conv1d.bias')
        xbc = [silu(a + b) for a, b in zip(self.conv(il, 'ssm_conv1d', xbc), bias)]
        X, B, C = xbc[:di], xbc[di:di + G * ds], xbc[di + G * ds:]
        A, d, dt_bias, y = self.w(il, 'ssm_a'), self.w(il, 'ssm_d'), self.w(il, 'ssm_dt.bias'), []
        for h in range(N):
            step = softplus(dt[h] + dt_bias[h])
            decay, g = math.exp(step * A[h]), h // (N // G)
            b, c = B[g * ds:(g + 1) * ds], C[g * ds:(g + 1) * ds]
            for p in range(hd):
                v = X[h * hd + p]
                S = self.state[il]['S'].get((h, p), [0.0] * ds)
                S = self.state[il]['S'][h, p] = [decay * s + step * v * k for s, k in zip(S, b)]
                y.append(dot(S, c) + d[h] * v)
        y = [a * silu(b) for a, b in zip(y, z)]
        w, n = self.w(il, 'ssm_norm.weight'), di // G
        y = [v for g in range(G) for v in rms_norm(y[g * n:(g + 1) * n], w[g * n:(g + 1) * n], self.eps)]
        return self.linear(il, 'ssm_out', y)

    def shortconv(self, il, x):
        bcx, E = self.linear(il, 'shortconv.in_proj', x), self.E
        v = self.conv(il, 'shortconv.conv', list(map(mul, bcx[:E], bcx[2 * E:])))
        return self.linear(il, 'shortconv.out_proj', list(map(mul, bcx[E:2 * E], v)))

    # ---- feed-forward (5) ----

    def gated(self, gate, up):
        if self.sheet.get('clamped'):
            return [min(g, 7) * sigmoid(1.702 * min(g, 7)) * (clamp(u, -7, 7) + 1) for g, u in zip(gate, up)]
        act = gelu if self.sheet.get('gemma') else silu
        return [act(g) * u for g, u in zip(gate, up)]

    def ffn(self, il, x, suffix='', expert=None):
        if expert is not None and self.w(il, 'ffn_gate_up_exps.weight'):
            n = self.g.info['blk.%d.ffn_gate_up_exps.weight' % il][0][1] // 2
            gate, up = (self.linear(il, 'ffn_gate_up_exps', x, expert, (first, n)) for first in (0, n))
        else:
            gate, up = (self.linear(il, name + suffix, x, expert) for name in ('ffn_gate', 'ffn_up'))
        hidden = self.gated(gate, up)
        return self.linear(il, 'ffn_down' + suffix, hidden, expert)

    def route(self, il, x):
        """(expert, weight) pairs, 5.3."""
        gating = self.key('expert_gating_func', 0) or self.sheet['gating']
        z = self.linear(il, 'ffn_gate_inp', x)
        p = softmax(z) if gating == 1 else [sigmoid(a) for a in z] if gating == 2 else z
        bias = self.w(il, 'exp_probs_b.bias') or [0.0] * len(p)
        score, G = [a + b for a, b in zip(p, bias)], self.key('expert_group_count', 0)
        if G > 1:
            n = len(score) // G
            best = [sum(sorted(score[g * n:(g + 1) * n])[-2:]) for g in range(G)]
            kept = sorted(range(G), key=lambda g: -best[g])[:self.key('expert_group_used_count')]
            score = [s if i // n in kept else -math.inf for i, s in enumerate(score)]
        chosen = sorted(range(len(score)), key=lambda e: (-score[e], e))[:self.key('expert_used_count')]
        weights = softmax([z[e] for e in chosen]) if gating == 3 else [p[e] for e in chosen]
        if self.sheet.get('norm', self.key('expert_weights_norm', False)):
            weights = [w / max(sum(weights), 6.103515625e-5) for w in weights]
        scale = self.key('expert_weights_scale', 0) if self.sheet.get('scale') else 0
        return [(e, w * (scale or 1)) for e, w in zip(chosen, weights)]

    def experts(self, il, x):
        y = [0.0] * self.E
        for e, weight in self.route(il, x):
            y = [a + weight * b for a, b in zip(y, self.ffn(il, x, '_exps', e))]
        if self.w(il, 'ffn_gate_shexp.weight'):
            open_by = sigmoid(dot(self.w(il, 'ffn_gate_inp_shexp.weight'), x)) if self.sheet.get('shared_gate') else 1
            y = [a + open_by * b for a, b in zip(y, self.ffn(il, x, '_shexp'))]
        return y

    # ---- a token (12) ----

    def sub_block(self, il, h, fn, norm, post):
        y = fn(il, rms_norm(h, self.w(il, norm + '.weight'), self.eps) if self.sheet.get('pre', True) else h)
        if self.sheet.get('post'):
            y = rms_norm(y, self.w(il, post + '.weight'), self.eps)
        scale = self.sheet.get('granite') and self.key('residual_scale', 0) or 1
        return [a + scale * b for a, b in zip(h, y)]

    def feed(self, token):
        """Logits after this token."""
        h = list(self.g.matrix('token_embd.weight')[token])
        scale = math.sqrt(self.E) if self.sheet.get('gemma') else self.sheet.get('granite') and self.key('embedding_scale', 0)
        h = [a * (scale or 1) for a in h]
        for il in range(self.L):
            mix = getattr(self, self.sheet['recurrent']) if self.recurrent[il] else self.attention
            moe = self.w(il, 'ffn_gate_inp.weight') is not None
            h = self.sub_block(il, h, mix, 'attn_norm', 'post_attention_norm')
            h = self.sub_block(il, h, self.experts if moe else self.ffn, self.sheet.get('ffn_norm', 'ffn_norm'),
                               'post_ffw_norm')
        self.position += 1
        x = rms_norm(h, self.g.tensor(self.final), self.eps)
        head = 'output' if 'output.weight' in self.g.info else 'token_embd'
        z = [a / (self.sheet.get('granite') and self.key('logit_scale', 0) or 1) for a in self.linear(None, head, x)]
        cap = self.key('final_logit_softcapping', 0) if self.sheet.get('gemma') else 0
        return [cap * math.tanh(a / cap) for a in z] if cap else z


def log_p(z):
    top = max(z)
    total = top + math.log(sum(math.exp(a - top) for a in z))
    return [a - total for a in z]


# ---- commands ----

def check_folder(folder):
    model, worst = Model(folder + '/model.gguf'), 0.0
    with open(folder + '/expect.json') as f:
        expect = json.load(f)
    for prompt in expect['prompts']:
        model.restart()
        for token in prompt['ids']:
            z = model.feed(token)
        for i, step in enumerate(prompt['forced']['steps']):
            logp = log_p(z)
            pairs = step['top'] + [[j, v] for j, v in enumerate(step.get('logp') or []) if v is not None]
            worst = max([worst] + [abs(logp[j] - v) for j, v in pairs])
            if i < len(prompt['forced']['tokens']):
                z = model.feed(prompt['forced']['tokens'][i])
    return worst


def check_golden(path):
    model = Model(path)
    with open(path[:-5] + '.json') as f:
        expect = json.load(f)
    rows = [model.feed(t) for t in expect['tokens']]
    return max(abs(a - b) for row, want in zip(rows, expect['logits']) for a, b in zip(row, want))


def check(path):
    worst = check_golden(path) if path.endswith('.gguf') else check_folder(path)
    print('%-24s %.2g' % (path.rstrip('/').split('/')[-1], worst), flush=True)
    return worst


def expect(path):
    model = Model(path)
    n = model.g.info['token_embd.weight'][0][1]
    tokens = [(i * 37 + i * i * 5 + 11) % n for i in range(24 if n < 100 else 6)]
    rows = ['[' + ','.join('%.7g' % z for z in model.feed(t)) + ']' for t in tokens]
    with open(path[:-5] + '.json', 'w') as f:
        f.write('{"tokens": %s,\n"logits": [\n%s]}\n' % (json.dumps(tokens), ',\n'.join(rows)))
    return 0


if __name__ == '__main__':
    if len(sys.argv) < 3 or sys.argv[1] not in ('check', 'expect'):
        sys.exit(__doc__)
    run = {'check': check, 'expect': expect}[sys.argv[1]]
    results = [run(folder) for folder in sys.argv[2:]]
    sys.exit(sys.argv[1] == 'check' and max(results) > 2e-4)
