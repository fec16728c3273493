/* utf8.c: characters and the byte table of byte-level BPE (tokenizers specification, sections 4.3 and 6.4). */
#include "text/vocab_parts.h"

/* Bytes that stand for themselves; the other 68, in ascending order, stand at U+0100 and above. */
static bool is_plain(uint32_t c) {
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

size_t th_byte_char(unsigned char byte, char out[2]) {
    uint32_t c = byte;
    if (!is_plain(byte)) c = 0x100u + (byte <= 0x20 ? byte : byte <= 0xA0 ? byte - 0x7Fu + 0x21u : 0x43u);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xC0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3F));
    return 2;
}

int th_char_byte(uint32_t c) {
    if (is_plain(c)) return (int)c;
    if (c < 0x100 || c > 0x143) return -1;
    c -= 0x100;
    return (int)(c <= 0x20 ? c : c < 0x43 ? c - 0x21 + 0x7F : 0xAD);
}

/* Overlong forms, surrogates and what lies beyond U+10FFFF are decided by the second byte. */
size_t th_utf8_decode(const char *p, size_t n, uint32_t *code_point) {
    const unsigned char *s = (const unsigned char *)p;
    unsigned lead = s[0];
    if (lead < 0x80) {
        *code_point = lead;
        return 1;
    }
    size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || n < length) return 0;
    unsigned low = lead == 0xE0   ? 0xA0
                   : lead == 0xF0 ? 0x90
                                  : 0x80,
             high = lead == 0xED   ? 0x9F
                    : lead == 0xF4 ? 0x8F
                                   : 0xBF;
    if (s[1] < low || s[1] > high) return 0;
    uint32_t c = lead & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3Fu);
    }
    *code_point = c;
    return length;
}
