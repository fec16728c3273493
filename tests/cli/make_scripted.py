#!/usr/bin/env python3
"""Writes tests/cli/scripted.gguf: a model that says what the test wants, so that streams, stops and templates are testable.

One llama layer whose attention and feed-forward are zero: the last token's embedding goes straight to the head. Embeddings
are random signs; the head's row of token v is the sum of the embeddings of all tokens that v shall follow. All values are
small integers, so every step has one clear winner.

    newline -> ABC...XYZ -> <|im_end|>     (an answer in ChatML form: the prompt ends with a newline)
    1 -> F0 9F 90 89 (a dragon) -> end     2 -> FF (no UTF-8) -> end     any other byte repeats itself for ever

The vocabulary is the 256 bytes, <|endoftext|> (256), <|im_start|> (257), <|im_end|> (258) and a spare token (259) whose
head row is the last of the file: a test can put a NaN there."""
import struct
import sys

DIM, FF, V = 64, 32, 260
U32, I32, F32, BOOL, STR, ARR = 4, 5, 6, 7, 8, 9


def codes():
    state, out = 12345, []
    while len(out) < V:
        code = []
        for _ in range(DIM):
            state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
            code.append(1 if state >> 62 & 1 else -1)
        if all(abs(sum(a * b for a, b in zip(code, o))) <= 24 for o in out):
            out.append(code)
    return out


def head_rows(embed):
    follows = {t: t for t in range(256)}
    follows.update({a: a + 1 for a in range(ord('A'), ord('Z'))})
    follows.update({10: ord('A'), ord('Z'): 258, ord('1'): 0xF0, 0xF0: 0x9F, 0x9F: 0x90, 0x90: 0x89, 0x89: 258,
                    ord('2'): 0xFF, 0xFF: 258, 256: 256, 257: 10, 258: 256})
    head = [[0] * DIM for _ in range(V)]
    for t, v in follows.items():
        head[v] = [a + b for a, b in zip(head[v], embed[t])]
    for t, v in follows.items():
        logits = [sum(a * b for a, b in zip(row, embed[t])) for row in head]
        assert sorted(logits)[-2] + 8 <= logits[v] == max(logits), (t, v)
    return head


def byte_texts():
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    spare, texts = 256, []
    for b in range(256):
        texts.append(chr(b) if b in plain else chr(spare))
        spare += b not in plain
    return texts


def string(x):
    x = x.encode()
    return struct.pack('<Q', len(x)) + x


def metadata():
    kv = []
    def put(key, kind, data): kv.append(string(key) + struct.pack('<I', kind) + data)
    def u32(key, v): put(key, U32, struct.pack('<I', v))
    def text(key, v): put(key, STR, string(v))
    text('general.architecture', 'llama')
    text('general.name', 'scripted')
    u32('general.file_type', 1)
    u32('llama.block_count', 1)
    u32('llama.context_length', 2048)
    u32('llama.embedding_length', DIM)
    u32('llama.feed_forward_length', FF)
    u32('llama.attention.head_count', 2)
    u32('llama.attention.head_count_kv', 1)
    u32('llama.rope.dimension_count', 32)
    put('llama.attention.layer_norm_rms_epsilon', F32, struct.pack('<f', 1e-6))
    text('tokenizer.ggml.model', 'gpt2')
    text('tokenizer.ggml.pre', 'gpt-2')
    tokens = byte_texts() + ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|spare|>']
    put('tokenizer.ggml.tokens', ARR, struct.pack('<IQ', STR, V) + b''.join(map(string, tokens)))
    put('tokenizer.ggml.token_type', ARR, struct.pack('<IQ%di' % V, I32, V, *([1] * 256 + [3] * 4)))
    put('tokenizer.ggml.merges', ARR, struct.pack('<IQ', STR, 1) + string('\u0100 \u0101'))  # never applies
    u32('tokenizer.ggml.bos_token_id', 256)
    u32('tokenizer.ggml.eos_token_id', 258)
    put('tokenizer.ggml.add_bos_token', BOOL, b'\1' if '--add-bos' in sys.argv else b'\0')
    text('tokenizer.chat_template', "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + "
                                    "'<|im_end|>' + '\n'}}{% endfor %}{{'<|im_start|>assistant\n'}}")
    return kv


def f16(rows): return b''.join(struct.pack('<%de' % len(r), *r) for r in rows)
def zeros(cols, rows): return f16([[0] * cols] * rows)


def tensors():
    embed = codes()
    ones = struct.pack('<%df' % DIM, *[1.0] * DIM)
    layer = [('attn_norm', (DIM,), 0, ones), ('ffn_norm', (DIM,), 0, ones),
             ('attn_q', (DIM, DIM), 1, zeros(DIM, DIM)), ('attn_k', (DIM, 32), 1, zeros(DIM, 32)),
             ('attn_v', (DIM, 32), 1, zeros(DIM, 32)), ('attn_output', (DIM, DIM), 1, zeros(DIM, DIM)),
             ('ffn_gate', (DIM, FF), 1, zeros(DIM, FF)), ('ffn_up', (DIM, FF), 1, zeros(DIM, FF)),
             ('ffn_down', (FF, DIM), 1, zeros(FF, DIM))]
    return ([('token_embd.weight', (DIM, V), 1, f16(embed))] + [('blk.0.%s.weight' % n, *rest) for n, *rest in layer] +
            [('output_norm.weight', (DIM,), 0, ones), ('output.weight', (DIM, V), 1, f16(head_rows(embed)))])


def main(path):
    kv, directory, body = metadata(), b'', b''
    all_tensors = tensors()
    for name, shape, kind, data in all_tensors:
        directory += string(name) + struct.pack('<I%dQIQ' % len(shape), len(shape), *shape, kind, len(body))
        body += data + b'\0' * (-len(data) % 32)
    header = struct.pack('<4sIQQ', b'GGUF', 3, len(all_tensors), len(kv)) + b''.join(kv) + directory
    with open(path, 'wb') as f:
        f.write(header + b'\0' * (-len(header) % 32) + body)


main(sys.argv[1] if len(sys.argv) > 1 else 'scripted.gguf')
