/* detok.c: tokens to bytes, and bytes to valid UTF-8 as they come (tokenizers specification, section 6). Nothing here
 * allocates except the Buf of a whole sequence. */
#include <stdio.h>
#include <string.h>

#include "text/tokenizer.h"
#include "text/vocab_parts.h"

/* Collects output that may be longer than its room. */
typedef struct Sink {
    char *out;
    size_t cap, n;
} Sink;

static void put(Sink *s, const char *p, size_t n) {
    if (s->n < s->cap) memcpy(s->out + s->n, p, th_min_size(n, s->cap - s->n));
    s->n += n;
}

static void put_with_spaces(Sink *s, Str text) {
    for (size_t i = 0; i < text.len;) {
        if (i + 3 <= text.len && memcmp(text.data + i, "\xE2\x96\x81", 3) == 0) {
            put(s, " ", 1);
            i += 3;
        } else {
            put(s, text.data + i++, 1);
        }
    }
}

/* What is not in the byte table is an error in the file; it is dropped. */
static void put_bytes_of_chars(Sink *s, Str text) {
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        size_t n = th_utf8_decode(text.data + i, text.len - i, &c);
        int byte = n ? th_char_byte(c) : -1;
        char one = (char)byte;
        if (byte >= 0) put(s, &one, 1);
        i += n ? n : 1;
    }
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* "<0xHH>", or any other text as it is. */
static void put_byte_token(Sink *s, Str text) {
    if (text.len == 6 && memcmp(text.data, "<0x", 3) == 0 && text.data[5] == '>') {
        int high = hex_digit(text.data[3]), low = hex_digit(text.data[4]);
        char one = (char)(high * 16 + low);
        if (high >= 0 && low >= 0) {
            put(s, &one, 1);
            return;
        }
    }
    put(s, text.data, text.len);
}

size_t th_token_bytes(const Vocab *v, int32_t id, bool show_special, char *out, size_t cap) {
    if (id < 0 || id >= v->n) return 0;
    Sink s = {out, cap, 0};
    Str text = th_vocab_text(v, id);
    char empty[24];
    if (text.len == 0) text = (Str){empty, (size_t)snprintf(empty, sizeof empty, "[EMPTY_%d]", (int)id)};
    switch (v->type[id]) {
    case TOKEN_CONTROL:
    case TOKEN_UNKNOWN:
        if (show_special) put(&s, text.data, text.len);
        break;
    case TOKEN_MARKUP:
    case TOKEN_USER:
        put(&s, text.data, text.len);
        break;
    case TOKEN_BYTE:
        put_byte_token(&s, text);
        break;
    case TOKEN_NORMAL:
        if (v->kind == VOCAB_SPM || v->raw_utf8)
            put_with_spaces(&s, text);
        else
            put_bytes_of_chars(&s, text);
        break;
    default:
        break;
    }
    return s.n;
}

bool th_detokenize(const Vocab *v, const int32_t *ids, size_t n, bool show_special, Buf *out, Err *err) {
    bool drop_space = v->kind == VOCAB_SPM && v->add_space_prefix;
    if (n && !show_special && v->add_bos && ids[0] == v->bos) {
        ids++;
        n--;
        drop_space = false;
    }
    char room[256];
    for (size_t i = 0; i < n; i++) {
        size_t at = out->len, length = th_token_bytes(v, ids[i], show_special, room, sizeof room);
        if (length > sizeof room) { /* rare: let the text grow by that much, then write it there */
            for (size_t left = length; left; left -= th_min_size(left, sizeof room))
                if (!th_buf_append(out, room, th_min_size(left, sizeof room), err)) return false;
            th_token_bytes(v, ids[i], show_special, out->data + at, length);
        } else if (!th_buf_append(out, room, length, err)) {
            return false;
        }
        if (i == 0 && drop_space && length && out->data[at] == ' ') {
            memmove(out->data + at, out->data + at + 1, length - 1);
            out->data[--out->len] = 0;
        }
    }
    return true;
}

/* ---- streaming --------------------------------------------------------------------------- */

static const char REPLACEMENT[] = "\xEF\xBF\xBD";

/* Whether byte may stand at position n of the sequence that begins with lead (second bytes decide about overlong forms,
 * surrogates and the end of Unicode). */
static bool continues(unsigned char lead, size_t n, unsigned char byte) {
    if (n != 1) return (byte & 0xC0) == 0x80;
    unsigned char low = lead == 0xE0   ? 0xA0
                        : lead == 0xF0 ? 0x90
                                       : 0x80,
                  high = lead == 0xED   ? 0x9F
                         : lead == 0xF4 ? 0x8F
                                        : 0xBF;
    return byte >= low && byte <= high;
}

static size_t sequence_length(unsigned char lead) {
    return lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

size_t th_utf8_stream_push(unsigned char held[8], size_t *n_held, const char *bytes, size_t n, char *out) {
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (*n_held && !continues(held[0], *n_held, byte)) {
            /* One replacement for the part that could have become a character; the byte starts afresh. */
            memcpy(out + written, REPLACEMENT, 3);
            written += 3;
            *n_held = 0;
        }
        if (*n_held == 0 && sequence_length(byte) == 0) {
            memcpy(out + written, REPLACEMENT, 3);
            written += 3;
            continue;
        }
        held[(*n_held)++] = byte;
        if (*n_held == sequence_length(held[0])) {
            memcpy(out + written, held, *n_held);
            written += *n_held;
            *n_held = 0;
        }
    }
    return written;
}

size_t th_utf8_stream_end(unsigned char held[8], size_t *n_held, char *out) {
    if (*n_held == 0) return 0;
    memcpy(out, REPLACEMENT, 3);
    memset(held, 0, *n_held);
    *n_held = 0;
    return 3;
}
