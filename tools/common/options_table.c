/* options_table.c: the one list of options. Order is the order of the help. */
#include "common/options.h"

#include <limits.h>

#define AT(field) offsetof(Options, field)
#define GENERATE  (VERB_RUN | VERB_CHAT)
#define SAMPLE    (VERB_RUN | VERB_CHAT | VERB_PERPLEXITY)
#define ENGINE    (VERB_RUN | VERB_CHAT | VERB_SCORE | VERB_BENCH | VERB_PLAN | VERB_PERPLEXITY)
#define TEXTUAL   (VERB_RUN | VERB_SCORE | VERB_TOKENIZE | VERB_PERPLEXITY)
#define REAL_MAX  3.4e38 /* the library takes floats */

const Option option_table[] = {
    {"prompt", 'p', TEXTUAL, OPT_TEXT, AT(prompt), 0, 0, NULL, "TEXT", "the prompt"},
    {"file", 'f', TEXTUAL, OPT_TEXT, AT(file), 0, 0, NULL, "FILE", "read the prompt from FILE (- is standard input)"},
    {"tokens", 0, VERB_SCORE, OPT_TEXT, AT(tokens), 0, 0, NULL, "IDS",
     "score these ids as they are: 1,2,3 or @FILE (a JSON array, or ids between blanks)"},
    {"top", 0, VERB_SCORE, OPT_COUNT, AT(top), 0, INT_MAX, NULL, "N|all",
     "with --json: the N most likely next tokens of each step, or all in id order (0)"},
    {"system", 0, GENERATE, OPT_TEXT, AT(system), 0, 0, NULL, "TEXT", "system message (the model family's own)"},
    {"raw", 0, VERB_CHAT | TEXTUAL, OPT_FLAG, AT(raw), 0, 0, NULL, NULL,
     "no chat template, no special tokens beyond the file's BOS rule (without one: always so)"},
    {"special", 0, TEXTUAL | VERB_DETOKENIZE, OPT_CHOICE, AT(special), 0, 0,
     "auto|on|off", "on|off", "let text like <|im_end|> become control tokens; detokenize: show them (off)"},
    {"bos", 0, VERB_TOKENIZE, OPT_CHOICE, AT(bos), 0, 0, "auto|on|off", "auto|on|off",
     "put BOS in front; auto: the file's rule (auto)"},

    {"ram", 0, ENGINE | VERB_INFO | VERB_TOKENIZE | VERB_DETOKENIZE, OPT_SIZE, AT(ram), 0, 0, NULL, "SIZE",
     "hard bound on all memory the process takes: 8G, 900M, bytes (powers of 1024) or auto (auto)"},
    {"ctx", 'c', ENGINE, OPT_INT, AT(ctx), 1, 1 << 24, NULL, "N",
     "context length (the model's, at most 4096, lowered if the budget asks for it); perplexity: window (512)"},
    {"threads", 't', ENGINE, OPT_INT, AT(threads), 1, 256, NULL, "N",
     "compute threads (fast cores this process may use)"},
    {"batch", 'b', ENGINE, OPT_INT, AT(batch), 1, 4096, NULL, "N",
     "most prompt tokens in one pass (what scratch permits)"},
    {"home", 0, ENGINE, OPT_CHOICE, AT(home), 0, 0, "auto|resident|mapped|stream|paged", "WHERE",
     "force where weights live: auto, resident, mapped, stream, paged (auto)"},
    {"slots", 0, ENGINE, OPT_INT, AT(slots), 1, INT_MAX, NULL, "N",
     "force the number of expert slots (from the budget)"},
    {"lookahead", 0, ENGINE, OPT_CHOICE, AT(lookahead), 0, 0, "auto|on|off", "auto|on|off",
     "read ahead what the next layer will probably ask for (auto)"},
    {"evict", 0, ENGINE, OPT_CHOICE, AT(evict), 0, 0, "auto|lru|lfu", "auto|lru|lfu",
     "which expert leaves memory first (auto)"},
    {"cache-type", 0, ENGINE, OPT_CHOICE, AT(cache_type), 0, 0, "f16|f32|q8_0", "f16|f32|q8_0",
     "precision of the KV cache (f16)"},
    {"state-type", 0, ENGINE, OPT_CHOICE, AT(state_type), 0, 0, "f32|f16", "f32|f16",
     "precision of recurrent memory; f16 halves it and its checkpoints (f32)"},
    {"checkpoints", 0, ENGINE, OPT_INT, AT(checkpoints), 0, 256, NULL, "N",
     "earlier states of recurrent memory to keep for going back; 0: none (what the budget leaves)"},
    {"draft", 0, ENGINE, OPT_CHOICE, AT(draft), 0, 0, "auto|off|mtp|lookup", "HOW",
     "guess tokens ahead: off, mtp, lookup, or auto, where it pays (auto; bench: off)"},
    {"draft-max", 0, ENGINE, OPT_INT, AT(draft_max), 1, 15, NULL, "N", "most guesses in one pass (8)"},
    {"cache-dir", 0, GENERATE, OPT_TEXT, AT(cache_dir), 0, 0, NULL, "DIR",
     "keep evaluated prompts in DIR and use them again, also after a restart (off)"},
    {"cache-size", 0, GENERATE, OPT_SIZE, AT(cache_size), 0, 0, NULL, "SIZE",
     "most bytes that prompts in --cache-dir may take (1G)"},
    {"isa", 0, ENGINE | VERB_INFO, OPT_TEXT, AT(isa), 0, 0, NULL, "LIST",
     "restrict instruction sets: c, avx2, avx512, neon, ... (all the CPU has)"},
    {"route-bias", 0, ENGINE, OPT_REAL, AT(route_bias), 0, 1000, NULL, "X",
     "lossy: prefer experts that are in memory (0, off)"},
    {"experts", 0, ENGINE, OPT_INT, AT(experts), 1, INT_MAX, NULL, "K",
     "lossy: use K experts a token (the model's number)"},

    {"predict", 'n', SAMPLE, OPT_INT, AT(predict), 0, INT_MAX, NULL, "N",
     "tokens to generate (run: 256, chat: until the end of the turn, perplexity --loops: 512)"},
    {"temp", 0, SAMPLE, OPT_REAL, AT(temp), 0, REAL_MAX, NULL, "X",
     "temperature; 0 takes the most likely token (0.8)"},
    {"top-k", 0, SAMPLE, OPT_INT, AT(top_k), 0, INT_MAX, NULL, "N", "draw from the N most likely; 0: off (40)"},
    {"top-p", 0, SAMPLE, OPT_REAL, AT(top_p), 0, 1, NULL, "X",
     "draw from the likeliest that sum to X; 1: off (0.95)"},
    {"min-p", 0, SAMPLE, OPT_REAL, AT(min_p), 0, 1, NULL, "X",
     "drop what is below X times the likeliest; 0: off (0.05)"},
    {"repeat-penalty", 0, SAMPLE, OPT_REAL, AT(repeat_penalty), 1e-3, 1000, NULL, "X",
     "make repeats less likely; 1: off (1)"},
    {"repeat-last-n", 0, SAMPLE, OPT_INT, AT(repeat_last_n), 0, INT_MAX, NULL, "N",
     "how far back repeats count (64)"},
    {"seed", 0, SAMPLE, OPT_SEED, AT(seed), 0, 0, NULL, "N", "seed of the draws (random, printed)"},
    {"stop", 0, GENERATE, OPT_TEXTS, AT(stop), 0, 0, NULL, "TEXT",
     "end the answer before this text; may be given again"},
    {"ignore-eog", 0, VERB_RUN | VERB_PERPLEXITY, OPT_FLAG, AT(ignore_eog), 0, 0, NULL, NULL,
     "go on past end-of-generation tokens"},

    {"stride", 0, VERB_PERPLEXITY, OPT_INT, AT(stride), 1, 1 << 24, NULL, "N",
     "tokens from one window to the next (half a window)"},
    {"kl-base", 0, VERB_PERPLEXITY, OPT_TEXT, AT(kl_base), 0, 0, NULL, "FILE",
     "write this run's log-probabilities to FILE; if it is there, compare with it"},
    {"loops", 0, VERB_PERPLEXITY, OPT_INT, AT(loops), 0, 100000, NULL, "N",
     "let the model answer N pieces of the text freely and count the answers that end in repetition (0)"},

    {"n-prompt", 'p', VERB_BENCH, OPT_INTS, AT(n_prompt), 0, 1 << 24, NULL, "N,...", "prompt lengths to measure (512)"},
    {"n-gen", 'n', VERB_BENCH, OPT_INTS, AT(n_gen), 0, 1 << 24, NULL, "N,...", "numbers of tokens to generate (128)"},
    {"repetitions", 'r', VERB_BENCH, OPT_INT, AT(repetitions), 1, 1000, NULL, "R", "times each test is run (5)"},
    {"output", 'o', VERB_BENCH, OPT_CHOICE, AT(output), 0, 0, "md|csv|json|jsonl", "md|csv|json|jsonl",
     "form of the rows (md)"},
    {"cold", 0, VERB_BENCH, OPT_FLAG, AT(cold), 0, 0, NULL, NULL,
     "drop the system's caches before each repetition (root)"},
    {"check", 0, VERB_BENCH, OPT_TEXT, AT(check), 0, 0, NULL, "SUM",
     "fail unless the logits of the first test have this checksum"},

    {"json", 0, VERB_ALL & ~VERB_HELP, OPT_FLAG, AT(json), 0, 0, NULL, NULL,
     "one JSON object on standard output instead of text (chat: one a turn; bench: -o json)"},
    {"quiet", 'q', VERB_ALL, OPT_FLAG, AT(quiet), 0, 0, NULL, NULL, "no notices, no progress, no closing line"},
    {"verbose", 'v', VERB_ALL, OPT_FLAG, AT(verbose), 0, 0, NULL, NULL, "say more"},
    {"color", 0, VERB_ALL, OPT_CHOICE, AT(color), 0, 0, "auto|on|off", "auto|on|off", "colours on the terminal (auto)"},
    {"log-file", 0, VERB_ALL, OPT_TEXT, AT(log_file), 0, 0, NULL, "FILE", "append all notices to FILE"},
    {"help", 'h', VERB_ALL, OPT_FLAG, AT(help), 0, 0, NULL, NULL, "this text"},
};
const int n_options = (int)(sizeof option_table / sizeof *option_table);
_Static_assert(sizeof option_table / sizeof *option_table <= MAX_OPTIONS, "Options.source is too short");
