#!/usr/bin/env python3
"""check_real.py VECTORS THIMBLE FOLDER...: see check_real.sh. Needs only the standard library."""
import hashlib
import json
import os
import subprocess
import sys

passed = failed = skipped = 0


def verdict(good, what):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print("FAILED:", what)


def thimble(*args):
    done = subprocess.run([program, *args], stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"thimble {args[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-400:]}")
    return json.loads(done.stdout)


def find(name, sha256, folders):
    for folder in folders:
        path = os.path.join(folder, name) if folder else ""
        if path and os.path.exists(path):
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else \
                    hashlib.sha256(file.read()).hexdigest()
            if digest == sha256:
                return path
            print(f"{path}: another SHA-256 than expected")
    return None


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def check_tokens(model, prompt):
    for special, key in (("off", "plain_ids"), ("on", "special_ids")):
        got = thimble("tokenize", model, "-p", prompt["text"], "--special", special, "--bos", "off", "--json")["tokens"]
        verdict(got == prompt[key], f"{prompt['name']}: tokens with special {special}")


def check_logprobs(model, data, budget):
    """Feeds ids + greedy tokens; distances of the top 20 to exact arithmetic, and agreement of the first place."""
    distances, first = [], 0
    for prompt in data["prompts"]:
        ids = prompt["ids"] + prompt["greedy"]["tokens"]
        score = thimble("score", model, "--tokens", ",".join(map(str, ids)), "--json", "--top", "20", "-c", "512", *budget)
        memory = score["stats"]["memory"]
        verdict(memory["peak_rss"] <= memory["budget"], f"{prompt['name']}: peak {memory} above the budget")
        for i, exact in enumerate(prompt["exact"]["steps"]):
            top = score["steps"][len(prompt["ids"]) - 1 + i]["top"]
            ours, theirs = dict(map(tuple, top)), dict(map(tuple, exact["top"]))
            distances.append(max((abs(ours[t] - p) for t, p in theirs.items() if t in ours), default=99.0))
            first += top[0][0] == exact["top"][0][0]
    noise = data["noise"]
    p50, p90, top1 = quantile(distances, 0.5), quantile(distances, 0.9), first / len(distances)
    print(f"  {data['file']} {' '.join(budget) or 'resident'}: median {p50:.4f} (oracle {noise['step_p50']}), "
          f"90th percentile {p90:.4f} (oracle {noise['step_p90']}), first place {top1:.4f} (oracle {noise['top1']})")
    verdict(p50 <= 1.5 * noise["step_p50"], f"{data['file']}: median {p50} against {noise['step_p50']}")
    verdict(p90 <= 2 * noise["step_p90"], f"{data['file']}: 90th percentile {p90} against {noise['step_p90']}")
    verdict(top1 >= noise["top1"] - 0.02, f"{data['file']}: first place {top1} against {noise['top1']}")


def check_same_bits(model, data, prompt, budget):
    ids = ",".join(map(str, prompt["ids"] + prompt["greedy"]["tokens"][:8]))
    runs = [thimble("score", model, "--tokens", ids, "--json", "--top", "20", "-c", "512", *extra) for extra in ([], budget)]
    verdict(runs[0]["steps"] == runs[1]["steps"], f"{data['file']} {prompt['name']}: other bits with {' '.join(budget)}")
    memory = runs[1]["stats"]["memory"]
    verdict(memory["peak_rss"] <= memory["budget"], f"{prompt['name']}: peak {memory} above the budget")


def check_greedy(model, data, prompt, budget):
    """Free-running greedy text equals the oracle's up to the first step that arithmetic noise may decide."""
    got = thimble("run", model, "-p", prompt["text"], "--raw", "--special", "on" if prompt["special"] else "off", "--temp", "0",
                  "-n", "48", "--json", "-c", "512", *budget)["tokens"]
    limit = 48
    for i, step in enumerate(prompt["exact"]["steps"]):
        if step["top"][0][1] - step["top"][1][1] < 2 * data["noise"]["step_p90"]:
            limit = i
            break
    n = min(limit, len(got))
    verdict(got[:n] == prompt["greedy"]["tokens"][:n] and (n == limit or len(got) < limit),
            f"{data['file']} {prompt['name']}: greedy text differs within its first {n} tokens")


def main():
    global skipped
    for name in sorted(os.listdir(vectors)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(vectors, name)) as file:
            data = json.load(file)
        model = find(data["file"], data["sha256"], folders)
        if not model:
            print("skipped:", data["file"], "is not here")
            skipped += 1
            continue
        floor = thimble("plan", model, "-c", "512", "-b", "1", "--json")["floor"]
        for prompt in data["prompts"]:
            check_tokens(model, prompt)
        # At the floor every token reads the whole file, so by default two prompts show that the bits are the same there;
        # REAL=full runs all of it.
        for budget in ([], ["--ram", str(floor)]) if os.environ.get("REAL") == "full" else ([],):
            check_logprobs(model, data, budget)
            for prompt in data["prompts"]:
                check_greedy(model, data, prompt, budget)
        for prompt in data["prompts"][:2] if os.environ.get("REAL") != "full" else []:
            check_same_bits(model, data, prompt, ["--ram", str(floor)])
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


vectors, program, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
sys.exit(main())
