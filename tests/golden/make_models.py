#!/usr/bin/env python3
"""make_models.py DIR: writes tiny random models of this folder anew, DIR/NAME.gguf (those that make.py does not write). The
files are committed, so it is a record of what they are. Then: reference.py expect DIR/NAME.gguf ..."""
import random
import struct
import sys

VOCAB = 48


def text(s):
    s = s.encode()
    return struct.pack('<Q', len(s)) + s


def value(v):
    """Type and bytes of a metadata value; a tuple is (type, value)."""
    if isinstance(v, bool):
        return struct.pack('<I?', 7, v)
    if isinstance(v, int):
        return struct.pack('<II', 4, v)
    if isinstance(v, float):
        return struct.pack('<If', 6, v)
    if isinstance(v, str):
        return struct.pack('<I', 8) + text(v)
    first = v[0]
    kind = 7 if isinstance(first, bool) else 4 if isinstance(first, int) else 6 if isinstance(first, float) else 8
    body = b''.join(value(x)[4:] for x in v)
    return struct.pack('<IIQ', 9, kind, len(v)) + body


class Writer:
    def __init__(self, arch, seed, **keys):
        self.rng = random.Random(seed)
        self.arch = arch
        self.kv = {'general.architecture': arch, 'general.name': 'golden ' + arch}
        defaults = {'context_length': 256, 'embedding_length': 32, 'feed_forward_length': 40, 'attention.head_count': 4,
                    'attention.head_count_kv': 2, 'attention.key_length': 8, 'attention.value_length': 8,
                    'attention.layer_norm_rms_epsilon': 1e-5}
        for k, v in {**defaults, **keys}.items():
            self.kv[arch + '.' + k] = v
        self.tensors = []

    def get(self, key):
        return self.kv.get(self.arch + '.' + key)

    def tensor(self, name, dims, spread=None, offset=0.0):
        n = 1
        for d in dims:
            n *= d
        spread = 1.2 / dims[0] ** 0.5 if spread is None else spread
        data = [offset + spread * (2 * self.rng.random() - 1) for _ in range(n)]
        half = len(dims) > 1 and min(dims) > 8  # matrices; not routers, kernels of convolutions
        self.tensors.append((name, dims, int(half), struct.pack('<%d%s' % (n, 'fe'[half]), *data)))

    def norm(self, name, n):
        self.tensor(name, [n], 0.5, 1.0)

    # ---- layers ----

    def attention(self, il, Hk, qk=True, biases=(), sinks=False, D=None):
        E, H, D = self.get('embedding_length'), self.get('attention.head_count'), D or self.get('attention.key_length')
        b = 'blk.%d.' % il
        for name, rows in (('attn_q', H * D), ('attn_k', Hk * D), ('attn_v', Hk * D)):
            self.tensor(b + name + '.weight', [E, rows])
            if name in biases:
                self.tensor(b + name + '.bias', [rows], 0.3)
        self.tensor(b + 'attn_output.weight', [H * D, E])
        if 'attn_output' in biases:
            self.tensor(b + 'attn_output.bias', [E], 0.3)
        if qk:
            self.norm(b + 'attn_q_norm.weight', D)
            self.norm(b + 'attn_k_norm.weight', D)
        if sinks:
            self.tensor(b + 'attn_sinks.weight', [H], 2.0)

    def delta_net(self, il, packing='apart', dt='ssm_dt.bias'):
        E, d, b = self.get('embedding_length'), self.get('ssm.state_size'), 'blk.%d.' % il
        Nk, Nv = self.get('ssm.group_count'), self.get('ssm.time_step_rank')
        kd, vd = Nk * d, Nv * d
        if packing == 'legacy':
            self.tensor(b + 'ssm_in.weight', [E, 2 * kd + 2 * vd])
        else:
            self.tensor(b + 'attn_qkv.weight', [E, 2 * kd + vd])
            self.tensor(b + 'attn_gate.weight', [E, vd])
        for name, rows in (('ssm_beta', Nv), ('ssm_alpha', Nv)) if packing == 'apart' else (('ssm_ba', 2 * Nv),):
            self.tensor(b + name + '.weight', [E, rows])
        self.tensor(b + 'ssm_conv1d.weight', [4, 1, 2 * kd + vd] if packing == 'legacy' else [4, 2 * kd + vd])
        self.tensor(b + dt, [Nv], 1.0)
        self.tensor(b + 'ssm_a', [Nv], 0.8, -1.0)
        self.norm(b + 'ssm_norm.weight', d)
        self.tensor(b + 'ssm_out.weight', [vd, E])

    def gated_attention(self, il, Hk, fused=False):
        E, H, D = self.get('embedding_length'), self.get('attention.head_count'), self.get('attention.key_length')
        b = 'blk.%d.' % il
        apart = (('attn_q', 2 * H * D), ('attn_k', Hk * D), ('attn_v', Hk * D))
        for name, rows in (('attn_qkv', 2 * (H + Hk) * D),) if fused else apart:
            self.tensor(b + name + '.weight', [E, rows])
        self.tensor(b + 'attn_output.weight', [H * D, E])
        self.norm(b + 'attn_q_norm.weight', D)
        self.norm(b + 'attn_k_norm.weight', D)

    def mamba2(self, il):
        E, di, N = self.get('embedding_length'), self.get('ssm.inner_size'), self.get('ssm.time_step_rank')
        ds, G, Kc, b = self.get('ssm.state_size'), self.get('ssm.group_count'), self.get('ssm.conv_kernel'), 'blk.%d.' % il
        cd = di + 2 * G * ds
        self.tensor(b + 'ssm_in.weight', [E, di + cd + N])
        self.tensor(b + 'ssm_conv1d.weight', [Kc, cd])
        self.tensor(b + 'ssm_conv1d.bias', [cd], 0.2)
        self.tensor(b + 'ssm_dt.bias', [N], 1.0)
        self.tensor(b + 'ssm_a', [1, N], 0.8, -1.0)
        self.tensor(b + 'ssm_d', [1, N], 0.5, 1.0)
        self.tensor(b + 'ssm_norm.weight', [di // G, G], 0.5, 1.0)
        self.tensor(b + 'ssm_out.weight', [di, E])

    def shortconv(self, il):
        E, Lc, b = self.get('embedding_length'), self.get('shortconv.l_cache'), 'blk.%d.shortconv.' % il
        self.tensor(b + 'in_proj.weight', [E, 3 * E], 2.0 / E ** 0.5)
        self.tensor(b + 'conv.weight', [Lc, 1, E])
        self.tensor(b + 'out_proj.weight', [E, E])

    def dense(self, il):
        E, F, b = self.get('embedding_length'), self.get('feed_forward_length'), 'blk.%d.' % il
        self.tensor(b + 'ffn_gate.weight', [E, F])
        self.tensor(b + 'ffn_up.weight', [E, F])
        self.tensor(b + 'ffn_down.weight', [F, E])

    def experts(self, il, F, shared=0, select_bias=False, biases=False):
        E, X, b = self.get('embedding_length'), self.get('expert_count'), 'blk.%d.' % il
        self.tensor(b + 'ffn_gate_inp.weight', [E, X])
        if biases:
            self.tensor(b + 'ffn_gate_inp.bias', [X], 0.3)
        if select_bias:
            self.tensor(b + 'exp_probs_b.bias', [X], 0.3)
        for name, cols, rows in (('gate', E, F), ('up', E, F), ('down', F, E)):
            # Wide enough that the clamp of gpt-oss is reached.
            self.tensor(b + 'ffn_%s_exps.weight' % name, [cols, rows, X], 12 / cols ** 0.5 if biases and name != 'down' else None)
            if biases:
                self.tensor(b + 'ffn_%s_exps.bias' % name, [rows, X], 0.3)
        for name, cols, rows in (('gate', E, shared), ('up', E, shared), ('down', shared, E)):
            if shared:
                self.tensor(b + 'ffn_%s_shexp.weight' % name, [cols, rows])

    def save(self, path, final_norm='output_norm', tied=True):
        E = self.get('embedding_length')
        vocab = len(self.kv.get('tokenizer.ggml.tokens', range(VOCAB)))
        self.tensor('token_embd.weight', [E, vocab], 1.0 / (self.get('embedding_scale') or 1))
        self.norm(final_norm + '.weight', E)
        if not tied:
            self.tensor('output.weight', [E, vocab], 0.5)
        head = b'GGUF' + struct.pack('<IQQ', 3, len(self.tensors), len(self.kv))
        head += b''.join(text(k) + value(v) for k, v in self.kv.items())
        data = b''
        for name, dims, kind, raw in self.tensors:
            head += text(name) + struct.pack('<I', len(dims)) + struct.pack('<%dQ' % len(dims), *dims)
            head += struct.pack('<IQ', kind, len(data))
            data += raw + b'\0' * (-len(raw) % 32)
        with open(path + '.gguf', 'wb') as f:
            f.write(head + b'\0' * (-len(head) % 32) + data)


# ---- the models ----

def lfm2moe(path):
    """With a window, which makes all attention layers sliding, and kernels written with a dimension of 1."""
    w = Writer('lfm2moe', 1, block_count=4, expert_count=6, expert_used_count=2, expert_feed_forward_length=16,
               expert_gating_func=2, leading_dense_block_count=2,
               **{'attention.head_count_kv': [0, 2, 0, 2], 'rope.freq_base': 1e6, 'shortconv.l_cache': 3,
                  'attention.sliding_window': 6})
    for il in range(4):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        w.attention(il, 2) if il % 2 else w.shortconv(il)
        w.norm('blk.%d.ffn_norm.weight' % il, 32)
        w.dense(il) if il < 2 else w.experts(il, 16, select_bias=True)
    w.save(path, 'token_embd_norm')


def granitehybrid_moe(path):
    """Two groups, experts with a shared one, partly rotated heads (as Bamba's), experts as wide as feed_forward_length."""
    w = Writer('granitehybrid', 2, block_count=3, feed_forward_length=16, expert_count=4, expert_used_count=2,
               expert_shared_feed_forward_length=24, logit_scale=3.0, residual_scale=0.4, embedding_scale=6.0,
               **{'attention.head_count_kv': [0, 2, 0], 'attention.scale': 0.2, 'rope.dimension_count': 4,
                  'ssm.conv_kernel': 4, 'ssm.inner_size': 48, 'ssm.state_size': 8, 'ssm.time_step_rank': 4,
                  'ssm.group_count': 2})
    for il in range(3):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        w.attention(il, 2, qk=False) if il == 1 else w.mamba2(il)
        w.norm('blk.%d.ffn_norm.weight' % il, 32)
        w.experts(il, 16, shared=24)
    w.save(path)


SSM = {'ssm.conv_kernel': 4, 'ssm.inner_size': 32, 'ssm.state_size': 8, 'ssm.time_step_rank': 4, 'ssm.group_count': 2}


def qwen3next_legacy(path):
    """Joint projections in blocks of a key head, gated attention with one too, an interval of 2, partly rotated heads."""
    w = Writer('qwen3next', 8, block_count=3, expert_count=6, expert_used_count=2, expert_feed_forward_length=16,
               expert_shared_feed_forward_length=24, full_attention_interval=2, **{**SSM, 'rope.dimension_count': 4})
    for il in range(3):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        w.gated_attention(il, 2, fused=True) if il == 1 else w.delta_net(il, 'legacy')
        w.norm('blk.%d.post_attention_norm.weight' % il, 32)
        w.experts(il, 16, shared=24)
        w.tensor('blk.%d.ffn_gate_inp_shexp.weight' % il, [32])
    w.save(path, tied=False)


def qwen35_ollama(path):
    """Key heads of 0 mark recurrent layers, three sections, ssm_dt without a suffix, tensors of other parts."""
    w = Writer('qwen35', 9, block_count=4, **{**SSM, 'rope.dimension_count': 8, 'rope.dimension_sections': [2, 1, 1],
                                              'attention.head_count_kv': [0, 2, 0, 0], 'attention.key_length': 12,
                                              'attention.value_length': 12})
    w.tensor('v.blk.0.attn_q.weight', [32, 32])
    w.tensor('mm.0.weight', [32, 32])
    for il in range(4):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        w.gated_attention(il, 2) if il == 1 else w.delta_net(il, dt='ssm_dt')
        w.norm('blk.%d.post_attention_norm.weight' % il, 32)
        w.dense(il)
    w.tensor('mtp.fc.weight', [64, 32])
    w.save(path)


def qwen35moe_sections(path):
    """A section that no position of text follows, a BOOL array of recurrent layers, a value head for each key head."""
    w = Writer('qwen35moe', 10, block_count=3, expert_count=4, expert_used_count=2, expert_feed_forward_length=16,
               expert_shared_feed_forward_length=16, nextn_predict_layers=0,
               **{**SSM, 'ssm.time_step_rank': 2, 'ssm.inner_size': 16, 'rope.dimension_count': 8,
                  'rope.dimension_sections': [1, 1, 1, 1], 'attention.recurrent_layers': [True, False, True]})
    del w.kv['qwen35moe.feed_forward_length']
    for il in range(3):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        w.gated_attention(il, 2) if il == 1 else w.delta_net(il)
        w.norm('blk.%d.post_attention_norm.weight' % il, 32)
        w.experts(il, 16, shared=16)
        w.tensor('blk.%d.ffn_gate_inp_shexp.weight' % il, [32])
    w.save(path)


def longrope(path, original):
    w = Writer('llama', 3, block_count=2, **{'rope.scaling.type': 'longrope', 'rope.scaling.attn_factor': 1.19,
               'rope.scaling.original_context_length': original, 'rope.dimension_count': 8})
    w.tensor('rope_factors_long.weight', [4], 3.0, 5.0)
    w.tensor('rope_factors_short.weight', [4], 0.5, 1.5)
    for il in range(2):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        w.attention(il, 2, qk=False)
        w.norm('blk.%d.ffn_norm.weight' % il, 32)
        w.dense(il)
    w.save(path)


def gptoss(path):
    """A window that wraps, a pattern of 3 instead of 2, activations that reach the clamp."""
    w = Writer('gpt-oss', 4, block_count=3, expert_count=6, expert_used_count=3, expert_feed_forward_length=16,
               **{'attention.sliding_window': 5, 'attention.sliding_window_pattern': 3, 'rope.freq_base': 150000.0,
                  'rope.scaling.type': 'yarn', 'rope.scaling.factor': 8.0, 'rope.scaling.original_context_length': 32})
    for il in range(3):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        w.attention(il, 2, qk=False, biases=('attn_q', 'attn_k', 'attn_v', 'attn_output'), sinks=True)
        w.norm('blk.%d.post_attention_norm.weight' % il, 32)
        w.experts(il, 16, biases=True)
    w.save(path, tied=False)


def glm4moe(path):
    """Sections of which one follows no position of text, no norms of queries and keys, an MTP block that is not run."""
    w = Writer('glm4moe', 5, block_count=3, expert_count=6, expert_used_count=2, expert_feed_forward_length=16,
               expert_shared_count=2, leading_dense_block_count=1, expert_weights_scale=2.5, expert_weights_norm=True,
               nextn_predict_layers=1, **{'rope.dimension_count': 8, 'rope.dimension_sections': [1, 1, 1, 1],
                                          'attention.key_length': 12, 'attention.value_length': 12})
    for il in range(3):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        w.attention(il, 2, qk=False, biases=('attn_q', 'attn_k', 'attn_v'))
        w.norm('blk.%d.post_attention_norm.weight' % il, 32)
        w.dense(il) if il < 1 else w.experts(il, 16, shared=32, select_bias=True)
    w.tensor('blk.2.nextn.eh_proj.weight', [64, 32])
    w.save(path, tied=False)


def gemma3_layer(w, il, **heads):
    b = 'blk.%d.' % il
    w.norm(b + 'attn_norm.weight', 32)
    w.attention(il, 2, **heads)
    w.norm(b + 'post_attention_norm.weight', 32)
    w.norm(b + 'ffn_norm.weight', 32)
    w.dense(il)
    w.norm(b + 'post_ffw_norm.weight', 32)


def gemma3(path):
    """A BOOL array of windows, both bases given, no softcap."""
    w = Writer('gemma3', 6, block_count=4, **{'attention.sliding_window': 4, 'rope.freq_base': 1e6,
               'attention.sliding_window_pattern': [True, False, False, True], 'rope.freq_base_swa': 3000.0,
               'attention.key_length': 12, 'attention.value_length': 12})
    for il in range(4):
        gemma3_layer(w, il)
    w.save(path)


def gemma3_heads(path):
    """Sliding layers with smaller heads, rotated in part; a magnitude that counts in all layers, a factor in full ones."""
    w = Writer('gemma3', 11, block_count=3, **{'attention.sliding_window': 4, 'attention.sliding_window_pattern': 3,
               'attention.key_length': 12, 'attention.value_length': 12, 'attention.key_length_swa': 8,
               'attention.value_length_swa': 8, 'rope.dimension_count_swa': 6, 'rope.freq_base': 1e6,
               'rope.scaling.type': 'linear', 'rope.scaling.factor': 4.0, 'rope.scaling.attn_factor': 0.8,
               'final_logit_softcapping': 6.0})
    for il in range(3):
        gemma3_layer(w, il, D=12 if il == 2 else 8)
    w.save(path)


def granitemoe(path):
    """A bias of the output, and keys that mean nothing in this architecture: a scale of the router's weights, softcaps,
    YaRN's logarithm. The width of the experts is not that of their tensors, that of the shared one is missing."""
    w = Writer('granitemoe', 12, block_count=2, feed_forward_length=16, expert_count=6, expert_used_count=2,
               expert_feed_forward_length=24, expert_weights_scale=2.5,
               final_logit_softcapping=2.0, attn_logit_softcapping=1.0, logit_scale=0.5, residual_scale=0.4,
               **{'rope.scaling.type': 'yarn', 'rope.scaling.factor': 4.0, 'rope.scaling.yarn_log_multiplier': 0.5,
                  'rope.scaling.original_context_length': 64})
    for il in range(2):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        w.attention(il, 2, qk=False)
        w.norm('blk.%d.ffn_norm.weight' % il, 32)
        w.experts(il, 16, shared=24)
    w.tensor('output.bias', [VOCAB], 0.5)
    w.save(path, tied=False)


def stories(path):
    """As the converter of stories260K wrote: SPM, no pre, no freq_base, no add_bos, 0xFFFFFFFF for what is missing."""
    w = Writer('llama', 7, block_count=2, **{'rope.dimension_count': 8})
    del w.kv['llama.attention.key_length'], w.kv['llama.attention.value_length']
    # Scores: longer pieces of a word first.
    pieces = ['<unk>', '<s>', '</s>'] + ['<0x%02X>' % i for i in range(256)]
    words = ['\u2581', 'O', 'n', 'c', 'e', 'On', 'ce', 'Once', '\u2581Once', 'a', '\u2581a', 't', 'i', 'm', 'ti', 'me', 'time',
             '\u2581time']
    w.kv.update({'tokenizer.ggml.model': 'llama', 'tokenizer.ggml.tokens': pieces + words,
                 'tokenizer.ggml.scores': [0.0] * len(pieces) + [float(len(s)) for s in words],
                 'tokenizer.ggml.token_type': [2, 3, 3] + [6] * 256 + [1] * len(words),
                 'tokenizer.ggml.bos_token_id': 1, 'tokenizer.ggml.eos_token_id': 2,
                 'tokenizer.ggml.padding_token_id': 0xFFFFFFFF, 'tokenizer.ggml.seperator_token_id': 0xFFFFFFFF})
    for il in range(2):
        w.norm('blk.%d.attn_norm.weight' % il, 32)
        H, Hk, E = 4, 2, 32
        for name, rows in (('q', H * 8), ('k', Hk * 8), ('v', Hk * 8)):
            w.tensor('blk.%d.attn_%s.weight' % (il, name), [E, rows])
        w.tensor('blk.%d.attn_output.weight' % il, [H * 8, E])
        w.norm('blk.%d.ffn_norm.weight' % il, 32)
        w.dense(il)
    w.save(path)


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = sys.argv[1] + '/'
    lfm2moe(out + 'lfm2moe')
    granitehybrid_moe(out + 'granitehybrid_moe')
    qwen3next_legacy(out + 'qwen3next_legacy')
    qwen35_ollama(out + 'qwen35_ollama')
    qwen35moe_sections(out + 'qwen35moe_sections')
    longrope(out + 'longrope_long', 64)
    longrope(out + 'longrope_short', 256)
    gptoss(out + 'gptoss')
    glm4moe(out + 'glm4moe')
    gemma3(out + 'gemma3_pattern')
    gemma3_heads(out + 'gemma3_heads')
    granitemoe(out + 'granitemoe')
    stories(out + 'stories')
