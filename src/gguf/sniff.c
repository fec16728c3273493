/* sniff.c: files that are not what their name says, told by their first bytes (fault B11). What people really have in
 * hand is an error page, a Git-LFS pointer, a piece of a download or another format: each gets its own sentence. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "gguf/loader.h"

enum { FIRST_BYTES = 512 };

static bool starts(const unsigned char *p, size_t n, const char *text) {
    size_t len = strlen(text);
    return n >= len && strncasecmp((const char *)p, text, len) == 0;
}

static const char *known_format(const unsigned char *p, size_t n) {
    size_t blank = 0;
    if (n >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0) blank = 3;
    while (blank < n && isspace(p[blank])) blank++;
    const unsigned char *text = p + blank;
    size_t left = n - blank;
    if (starts(text, left, "<!doctype") || starts(text, left, "<html") || starts(text, left, "<head") ||
        starts(text, left, "<?xml") || starts(text, left, "<!--"))
        return "this is a web page, not a model: the download link needed a login or pointed to a page; download the "
               "file itself (on a model hub: the link \"resolve\", not \"blob\")";
    if (starts(p, n, "version https://git-lfs"))
        return "this is a Git-LFS pointer, not the model: run `git lfs pull` in its repository, or download the file "
               "itself";
    if (starts(text, left, "{"))
        return "this is JSON text, not a model (an error message saved as a file, or a configuration): download the "
               "file again";
    if (n >= 4 && memcmp(p, "PK\3\4", 4) == 0)
        return "this is a zip archive (also wheels and PyTorch files are): unpack the GGUF file from it, or download "
               "a GGUF version of the model";
    if (n >= 2 && p[0] == 0x1F && p[1] == 0x8B) return "this is a gzip archive: unpack it with gunzip first";
    if (n >= 4 && memcmp(p, "\x28\xB5\x2F\xFD", 4) == 0) return "this is a zstd archive: unpack it with unzstd first";
    if (n >= 6 && memcmp(p,
                         "\xFD"
                         "7zXZ",
                         5) == 0)
        return "this is an xz archive: unpack it with unxz first";
    if (n >= 4 && (!memcmp(p, "lmgg", 4) || !memcmp(p, "fmgg", 4) || !memcmp(p, "tjgg", 4) || !memcmp(p, "algg", 4) ||
                   !memcmp(p, "ggml", 4) || !memcmp(p, "ggmf", 4) || !memcmp(p, "ggjt", 4) || !memcmp(p, "GGML", 4)))
        return "this is a GGML file from before GGUF (2023): download a GGUF version of the model";
    if (n >= 9 && p[8] == '{' && th_load_u64(p) < ((uint64_t)1 << 32))
        return "this is a safetensors file: download a GGUF version of the model";
    if (n >= 4 && memcmp(p, "FUGG", 4) == 0) return "the bytes of this GGUF file are swapped: it is damaged";
    return NULL;
}

const char *th_path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* "x.gguf.part1of2", "x.gguf-split-a", "x-part-b.gguf": cut by bytes, to be joined again before it is a GGUF file. */
static bool is_piece(const char *path) {
    const char *name = th_path_name(path);
    for (const char *p = name; *p; p++) {
        if (strncasecmp(p, ".gguf", 5) == 0 && p[5] && strchr(".-_", p[5])) return true;
        if ((*p == '.' || *p == '-' || *p == '_') && strncasecmp(p + 1, "part", 4) == 0) {
            const char *tail = p + 5 + (p[5] == '-' || p[5] == '_' || p[5] == '.');
            size_t letters = strspn(tail, "abcdefghijklmnopqrstuvwxyz");
            if (isdigit((unsigned char)*tail)) return true;
            if (letters >= 1 && letters <= 2 && (tail[letters] == 0 || tail[letters] == '.')) return true;
        }
    }
    return false;
}

bool th_sniff_prefix(const char *path, Err *err) {
    char name[160];
    th_str_escape(th_str(th_path_name(path)), name, sizeof name);
    if (err && err->code == THIMBLE_E_FORMAT && is_piece(path))
        return th_err_prefix(err,
                             "%s: by its name a piece of a cut file: join all pieces in order (cat x.part1 x.part2 > "
                             "x.gguf) and open the result; ",
                             name);
    return err && strstr(err->message, name) ? false : th_err_prefix(err, "%s: ", name);
}

bool th_sniff_fail(const File *f, Err *err) {
    unsigned char first[FIRST_BYTES] = {0};
    size_t n = (size_t)(f->size < sizeof first ? f->size : sizeof first);
    if (n == 0)
        return th_fail(err, THIMBLE_E_FORMAT,
                       "the file is empty (0 bytes): the download failed or the disk was full; download it again");
    if (!th_file_read(f, first, n, 0, err)) return false;
    if (n >= 4 && memcmp(first, "GGUF", 4) == 0)
        return th_fail(err, THIMBLE_E_FORMAT,
                       "the file ends after %zu bytes, a GGUF header has 24; it is cut short, download it again", n);
    const char *sentence = known_format(first, n);
    if (sentence) return th_fail(err, THIMBLE_E_FORMAT, "%s", sentence);
    return th_fail(err, THIMBLE_E_FORMAT,
                   "not a GGUF file: it begins with the bytes %02x %02x %02x %02x instead of 47 47 55 46 (\"GGUF\")",
                   first[0], first[1], first[2], first[3]);
}

static bool magic_at(const File *f, uint64_t pos) {
    unsigned char bytes[8];
    if (pos > f->size || f->size - pos < 24 || !th_file_read(f, bytes, sizeof bytes, pos, NULL)) return false;
    return memcmp(bytes, "GGUF", 4) == 0 && th_load_u32(bytes + 4) >= 1 && th_load_u32(bytes + 4) <= 3;
}

bool th_sniff_joined(const File *f, uint64_t end, uint64_t alignment) {
    return magic_at(f, end) || magic_at(f, th_align_up(end, alignment)) || magic_at(f, th_align_up(end, 32));
}
