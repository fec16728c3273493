#!/usr/bin/env python3
"""rewrite_gguf.py IN OUT [--gap BYTES] [--split N] [--swap TENSOR A B ROWS]: the same model with its bytes elsewhere:
tensor data behind a hole in the file, spread over N shards (OUT is then their prefix), or with two row ranges of a tensor
exchanged. Reads GGUF v3 written in the usual contiguous way."""
import argparse
import struct

SCALAR = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, fmt):
        return struct.unpack("<" + fmt, self.take(struct.calcsize("<" + fmt)))[0]

    def string(self):
        return self.take(self.number("Q"))

    def skip_value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, n = self.number("I"), self.number("Q")
            for _ in range(n if element == STRING else 0):
                self.string()
            if element != STRING:
                self.take(SCALAR[element] * n)
        else:
            self.take(SCALAR[kind])


def parse(path):
    r = Reader(open(path, "rb").read())
    assert r.take(4) == b"GGUF" and r.number("I") == 3
    n_tensors, n_kv = r.number("Q"), r.number("Q")
    first = r.at
    for _ in range(n_kv):
        r.string()
        r.skip_value(r.number("I"))
    kv, tensors = r.data[first:r.at], []
    for _ in range(n_tensors):
        name = r.string()
        dims = [r.number("Q") for _ in range(r.number("I"))]
        tensors.append([name, dims, r.number("I"), r.number("Q")])
    start = (r.at + 31) // 32 * 32
    ends = [t[3] for t in tensors[1:]] + [len(r.data) - start]
    return n_kv, kv, [(n, d, t, r.data[start + o:start + e]) for (n, d, t, o), e in zip(tensors, ends)]


def entry(name, kind, payload):
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + payload


def write(path, n_kv, kv, tensors, gap=0):
    infos, at = b"", gap
    for name, dims, kind, data in tensors:
        infos += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(dims))
        infos += b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, at)
        at += (len(data) + 31) // 32 * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), n_kv) + kv + infos
    start = (len(head) + 31) // 32 * 32
    with open(path, "wb") as f:
        f.write(head)
        at = start + gap
        for *_, data in tensors:
            f.seek(at)
            f.write(data)
            at += (len(data) + 31) // 32 * 32
        f.truncate(at if tensors else len(head))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("source")
    p.add_argument("out")
    p.add_argument("--gap", type=int, default=0)
    p.add_argument("--split", type=int, default=0)
    p.add_argument("--swap", nargs=3)
    a = p.parse_args()
    n_kv, kv, tensors = parse(a.source)
    if a.swap:
        name, x, y = a.swap[0].encode(), int(a.swap[1]), int(a.swap[2])
        for i, (n, d, t, data) in enumerate(tensors):
            if n == name:
                size = len(data) // d[2]
                part = [data[e * size:(e + 1) * size] for e in range(d[2])]
                part[x], part[y] = part[y], part[x]
                tensors[i] = (n, d, t, b"".join(part))
    if not a.split:
        write(a.out, n_kv, kv, tensors, a.gap)
        return
    # The first shard holds metadata only, as real sets do; the tensors follow in turn.
    shares = [[]] + [tensors[i::a.split - 1] for i in range(a.split - 1)]
    for no, share in enumerate(shares):
        keys = entry(b"split.no", 2, struct.pack("<H", no)) + entry(b"split.count", 2, struct.pack("<H", a.split))
        keys += entry(b"split.tensors.count", 5, struct.pack("<i", len(tensors)))
        path = f"{a.out}-{no + 1:05}-of-{a.split:05}.gguf"
        write(path, 3 + (n_kv if no == 0 else 0), keys + (kv if no == 0 else b""), share)


main()
