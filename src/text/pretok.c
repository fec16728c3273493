/* pretok.c: pre-tokenizers (tokenizers specification, section 4.2): lists of regular expressions applied one after the
 * other, each to the pieces the one before left. PCRE2 does the matching; its memory is entered in the budget.
 *
 * White space is written out wherever the table says \s: the library also counts U+180E, and versions differ about
 * U+0085. Every expression here takes time linear in the text, also for a million equal characters: a run that an
 * alternative gives up is taken whole by a later one. The exception, white space at the very end, is guarded by a
 * look-behind so that it is tried once for a run and not at each of its characters. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "text/tokenizer_parts.h"

/* ---- the table --------------------------------------------------------------------------- */

/* Inside a class: white space. Then the classes themselves. */
#define WS "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

#define SPACES      "[" WS "]"
#define BLANK_TAIL  SPACES "+(?![^" WS "])|" SPACES "+"
#define CTR         "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define WORD        "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define PUNCT       " ?[^" WS "\\p{L}\\p{N}]+"
#define LINES       SPACES "*[\\r\\n]+|" BLANK_TAIL
#define CASED_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail)                                                                                                    \
    "[^\\r\\n\\p{L}\\p{N}]?" CASED_UPPER "*" CASED_LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" CASED_UPPER                \
    "+" CASED_LOWER "*" tail

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" PUNCT "|" BLANK_TAIL
#define L3   CTR "|" WORD "|\\p{N}{1,3}|" PUNCT "[\\r\\n]*|" LINES
#define Q2   CTR "|" WORD "|\\p{N}|" PUNCT "[\\r\\n]*|" LINES
#define Q35  CTR "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" WS "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES
#define G4O  CASED(CTR "?") "|\\p{N}{1,3}|" PUNCT "[\\r\\n/]*|" LINES
#define TEK  CASED("") "|\\p{N}|" PUNCT "[\\r\\n/]*|" LINES
#define BAI                                                                                                            \
    "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" WORD "|\\p{N}|" PUNCT "[\\r\\n]*|" SPACES "*[\\r\\n]|" BLANK_TAIL
#define SEED    CTR "|" WORD "|\\p{N}| ?[^" WS "\\p{L}\\p{N}\\r\\n]+|" LINES
#define M5      CTR "|" WORD "|\\p{N}+|" PUNCT "[\\r\\n]*|" LINES
#define FAL1    "[\\p{P}\\$\\+<=>\\^~\\|`]+"
#define DEF1    "[\\p{P}\\$\\+<=>\\^~\\|]+"
#define DIGITS3 "[0-9][0-9][0-9]"
#define BREAK   "[\\r\\n]"
#define HAN     "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define DC2     SPACES "?\\p{L}+"
#define DC3     SPACES "?\\p{P}+"
#define DV2     "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define DV3                                                                                                            \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"               \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES
#define LATIN                                                                                                          \
    "\\x{41}-\\x{5A}\\x{61}-\\x{7A}\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"             \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"             \
    "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"                    \
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"                    \
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                  \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}"          \
    "\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}"         \
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}"         \
    "\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}"           \
    "\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}"                    \
    "\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}"                   \
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}"                  \
    "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"                \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"        \
    "\\x{1E900}-\\x{1E943}"
#define DL2       SPACES "?[" LATIN "]+"
#define DL3       SPACES "?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"
#define DL4       "(?<![" WS "])" SPACES "++\\z"
#define SENTENCES " ?[^(" WS "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"

enum { REGEX_MAX = 6 };
enum { IGNORE_MERGES = 1, ADD_BOS = 2 };

typedef struct Rule {
    const char *names; /* separated by blanks */
    int traits;
    const char *regex[REGEX_MAX];
} Rule;

static const Rule rules[] = {
    {"llama-bpe llama3 llama-v3 lfm2 falcon3 falcon-h1 pixtral midm-2.0", IGNORE_MERGES | ADD_BOS, {L3}},
    {"dbrx smaug-bpe glm4 chatglm-bpe", 0, {L3}},
    {"qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez solar-open", 0, {Q2}},
    {"qwen35", 0, {Q35}},
    {"gpt-2 phi-2 olmo mpt jais gigachat exaone4 mellum modern-bert trillion granite-docling roberta-bpe jina-v2-code",
     0,
     {GPT2}},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", 0, {"\\p{N}", GPT2}},
    {"falcon", 0, {FAL1, GPT2, DIGITS3}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", 0, {G4O}},
    {"granite-embed-multi-97m", IGNORE_MERGES, {G4O}}, /* marks already count as letters there */
    {"deepseek-llm", 0, {BREAK, DL2, DL3, DL4, HAN, "\\p{N}+"}},
    {"deepseek-coder", 0, {BREAK, DC2, DC3, HAN, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm", 0, {"\\p{N}{1,3}", DV2, DV3}},
    {"bailingmoe bailingmoe2 llada-moe", 0, {BAI}},
    {"tekken", IGNORE_MERGES | ADD_BOS, {TEK}},
    {"seed-coder", 0, {SEED}},
    {"minicpm5", IGNORE_MERGES, {"\\p{N}{1,3}", M5}},
    {"viking", 0, {SENTENCES, "\\p{N}"}},
    {"poro-chat bloom gpt3-finnish", 0, {SENTENCES}},
    {"default", 0, {DEF1, GPT2, "\\p{N}+", DIGITS3}},
};

static bool is_named(const char *names, Str pre) {
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, " ");
        if (n == pre.len && memcmp(p, pre.data, n) == 0) return true;
        p += n;
        if (*p) p++;
    }
    return false;
}

static const Rule *rule_of(Str pre) {
    if (pre.len == 0) pre = TH_STR("default");
    for (size_t i = 0; i < TH_COUNT(rules); i++)
        if (is_named(rules[i].names, pre)) return &rules[i];
    return NULL;
}

bool th_pretok_traits(Str pre, bool *ignore_merges, bool *add_bos_default) {
    const Rule *rule = rule_of(pre);
    if (!rule) return false;
    *ignore_merges = rule->traits & IGNORE_MERGES;
    *add_bos_default = rule->traits & ADD_BOS;
    return true;
}

/* ---- memory ------------------------------------------------------------------------------ */

struct Pretok {
    Budget *budget;
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code[REGEX_MAX];
    int n;
    size_t entered; /* bytes of machine code, which the library maps itself, and what one split takes */
};

/* A split takes a few hundred bytes, or one backtracking frame for each rule where the library interprets. */
enum { MEMORY_HEADER = 16, TRANSLATED_UNIT = 64 * 1024, SPLIT_BYTES = 2 * 1024, INTERPRETED_BYTES = 24 * 1024 };

static void *library_alloc(size_t bytes, void *budget) {
    char *p =
        bytes > SIZE_MAX - MEMORY_HEADER ? NULL : th_mem_alloc(budget, MEM_METADATA, bytes + MEMORY_HEADER, 16, NULL);
    if (!p) return NULL;
    memcpy(p, &bytes, sizeof bytes);
    return p + MEMORY_HEADER;
}

static void library_free(void *memory, void *budget) {
    if (!memory) return;
    char *p = (char *)memory - MEMORY_HEADER;
    size_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    th_mem_free(budget, MEM_METADATA, p, bytes + MEMORY_HEADER);
}

/* ---- opening ----------------------------------------------------------------------------- */

static bool compile(Pretok *p, const char *regex, size_t *translated, size_t *split, Err *err) {
    int number;
    size_t where;
    pcre2_compile_context *context = pcre2_compile_context_create(p->memory);
    if (!context) return th_fail(err, THIMBLE_E_NOMEM, "no memory for the pre-tokenizer");
    p->code[p->n] =
        pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &number, &where, context);
    pcre2_compile_context_free(context);
    if (!p->code[p->n])
        return th_fail(err, THIMBLE_E_NOMEM, "pre-tokenizer rule %d does not compile (error %d at %zu)", p->n, number,
                       where);
    /* Without permission for executable memory the library interprets: slower, same pieces. */
    size_t bytes = 0;
    if (pcre2_jit_compile(p->code[p->n], PCRE2_JIT_COMPLETE) == 0)
        pcre2_pattern_info(p->code[p->n], PCRE2_INFO_JITSIZE, &bytes);
    *translated += bytes;
    *split += bytes ? 0 : INTERPRETED_BYTES;
    p->n++;
    return true;
}

bool th_pretok_open(Pretok **out, Str pre, Budget *budget, Err *err) {
    *out = NULL;
    const Rule *rule = rule_of(pre);
    if (!rule) return th_fail(err, THIMBLE_E_UNSUPPORTED, "unknown tokenizer.ggml.pre \"%.*s\"", TH_STR_ARG(pre));
    Pretok *p = th_mem_alloc(budget, MEM_METADATA, sizeof *p, 16, err);
    if (!p) return false;
    p->budget = budget;
    p->memory = pcre2_general_context_create(library_alloc, library_free, budget);
    p->limits = p->memory ? pcre2_match_context_create(p->memory) : NULL;
    bool ok = p->limits || th_fail(err, THIMBLE_E_NOMEM, "no memory for the pre-tokenizer");
    size_t translated = 0, split = SPLIT_BYTES;
    for (int i = 0; ok && i < REGEX_MAX && rule->regex[i]; i++)
        ok = compile(p, rule->regex[i], &translated, &split, err);
    size_t entered = (size_t)th_align_up(translated, TRANSLATED_UNIT) + split;
    ok = ok && th_budget_take(budget, MEM_METADATA, entered, err);
    if (ok) p->entered = entered;
    if (!ok) {
        th_pretok_close(p);
        return false;
    }
    /* The expressions are ours and linear; the text alone bounds the work, so the library's limits only get in the way.
     */
    pcre2_set_match_limit(p->limits, UINT32_MAX);
    *out = p;
    return true;
}

void th_pretok_close(Pretok *p) {
    if (!p) return;
    for (int i = 0; i < p->n; i++) pcre2_code_free(p->code[i]);
    pcre2_match_context_free(p->limits);
    pcre2_general_context_free(p->memory);
    th_budget_give(p->budget, MEM_METADATA, p->entered);
    th_mem_free(p->budget, MEM_METADATA, p, sizeof *p);
}

/* ---- splitting --------------------------------------------------------------------------- */

typedef struct Split {
    const Pretok *p;
    pcre2_match_data *match[REGEX_MAX];
    bool (*emit)(void *arg, Str piece);
    void *arg;
    Err *err;
} Split;

/* The next match of rule `level` in piece from `at` on; 1, 0 for none, -1 with a sentence. */
static int next_match(const Split *s, int level, Str piece, size_t at, size_t *begin, size_t *end) {
    const pcre2_code *code = s->p->code[level];
    pcre2_match_data *match = s->match[level];
    PCRE2_SPTR text = (PCRE2_SPTR)piece.data;
    int rc = pcre2_match(code, text, piece.len, at, PCRE2_NO_UTF_CHECK, match, s->p->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, text, piece.len, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, s->p->limits);
    if (rc == PCRE2_ERROR_NOMATCH) return 0;
    if (rc < 0) {
        th_fail(s->err, THIMBLE_E_NOMEM, "splitting a text of %zu bytes failed (pattern library error %d)", piece.len,
                rc);
        return -1;
    }
    const size_t *range = pcre2_get_ovector_pointer(match);
    *begin = range[0];
    *end = range[1];
    return *end > *begin;
}

static bool split_piece(Split *s, int level, Str piece) {
    if (level == s->p->n) return s->emit(s->arg, piece);
    size_t at = 0, begin, end;
    int found = 0;
    while (at < piece.len && (found = next_match(s, level, piece, at, &begin, &end)) > 0) {
        if (begin > at && !split_piece(s, level + 1, (Str){piece.data + at, begin - at})) return false;
        if (!split_piece(s, level + 1, (Str){piece.data + begin, end - begin})) return false;
        at = end;
    }
    if (found < 0) return false;
    return at == piece.len || split_piece(s, level + 1, (Str){piece.data + at, piece.len - at});
}

bool th_pretok_split(const Pretok *p, Str text, bool (*emit)(void *arg, Str piece), void *arg, Err *err) {
    uint32_t c;
    for (size_t at = 0, n; at < text.len; at += n) {
        n = (unsigned char)text.data[at] < 0x80 ? 1 : th_utf8_decode(text.data + at, text.len - at, &c);
        if (n == 0) return th_fail(err, THIMBLE_E_ARG, "byte %zu of the text is not UTF-8", at);
    }
    if (text.len == 0) return true;
    /* Not entered again: p holds an entry for it, so that splitting works in a full budget. */
    Budget own;
    th_budget_init(&own, UINT64_MAX);
    pcre2_general_context *memory = pcre2_general_context_create(library_alloc, library_free, &own);
    Split s = {.p = p, .emit = emit, .arg = arg, .err = err};
    bool ok = memory != NULL;
    for (int i = 0; ok && i < p->n; i++) ok = (s.match[i] = pcre2_match_data_create(1, memory)) != NULL;
    if (!ok) th_fail(err, THIMBLE_E_NOMEM, "no memory for splitting text");
    ok = ok && split_piece(&s, 0, text);
    for (int i = 0; i < p->n; i++) pcre2_match_data_free(s.match[i]);
    pcre2_general_context_free(memory);
    th_budget_free(&own);
    return ok;
}
