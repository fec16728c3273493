/* cgroup.c: finds the control groups of this process.
 *
 *     /proc/self/mountinfo   which folder of which hierarchy is mounted where
 *     /proc/self/cgroup      which folder of each hierarchy we are in
 *
 * In a container the mounted folder may be our own and our path may name what lies outside of it; then only the mount
 * point itself can be looked at. Both versions can be mounted at once: all are visited. */
#include "os/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_CAP = 1024, LINE_CAP = 2048 };

static int open_text(const char *root, const char *path) {
    char full[PATH_CAP * 2];
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof full ? open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
}

static size_t read_some(int fd, char *out, size_t cap) {
    size_t got = 0;
    while (got < cap) {
        ssize_t n = read(fd, out + got, cap - got);
        if (n > 0)
            got += (size_t)n;
        else if (n == 0 || errno != EINTR)
            break;
    }
    return got;
}

bool th_text_read(const char *root, const char *path, char *out, size_t cap) {
    out[0] = 0;
    int fd = open_text(root, path);
    if (fd < 0) return false;
    out[read_some(fd, out, cap - 1)] = 0;
    close(fd);
    return true;
}

bool th_text_parse(const char *text, uint64_t *out) {
    uint64_t n = 0;
    if (text[0] < '0' || text[0] > '9') return false;
    for (const char *p = text; *p >= '0' && *p <= '9'; p++)
        if (!th_size_mul(n, 10, &n) || !th_size_add(n, (uint64_t)(*p - '0'), &n)) return false;
    *out = n;
    return true;
}

bool th_text_number(const char *root, const char *path, uint64_t *out) {
    char text[64];
    return th_text_read(root, path, text, sizeof text) && th_text_parse(text, out);
}

/* Lines of a file one after the other, whatever its length. */
typedef struct Lines {
    int fd;
    size_t begin, end;
    char text[LINE_CAP];
} Lines;

/* The next line without its end; NULL behind the last one. A line beyond LINE_CAP comes in pieces. */
static char *next_line(Lines *l) {
    char *stop = memchr(l->text + l->begin, '\n', l->end - l->begin);
    if (!stop) {
        memmove(l->text, l->text + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
        l->end += read_some(l->fd, l->text + l->end, LINE_CAP - 1 - l->end);
        stop = memchr(l->text, '\n', l->end);
        if (!stop && l->end == 0) return NULL;
        if (!stop) stop = l->text + l->end;
    }
    char *line = l->text + l->begin;
    l->begin = th_min_size((size_t)(stop - l->text) + 1, l->end);
    *stop = 0;
    return line;
}

/* `list` is comma-separated. */
static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, ',')) {
        if (*p == ',') p++;
        if (strncmp(p, word, n) == 0 && (p[n] == 0 || p[n] == ',')) return true;
    }
    return false;
}

/* Our folder in the hierarchy of `controller` (version 1) or in the unified one (controller NULL). */
static bool own_folder(const char *root, const char *controller, char *out, size_t cap) {
    Lines l = {.fd = open_text(root, "/proc/self/cgroup")};
    bool found = false;
    if (l.fd < 0) return false;
    for (char *line; !found && (line = next_line(&l)) != NULL;) { /* 4:memory:/a/b   0::/a/b */
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        controllers++;
        *path++ = 0;
        bool ours = controller ? has_word(controllers, controller) : controllers[0] == 0;
        size_t bytes = strlen(path) + 1;
        if (ours && bytes <= cap && path[0] == '/') {
            memcpy(out, path, bytes);
            found = true;
        }
    }
    close(l.fd);
    return found;
}

/* Spaces and the like are written as \040 in mountinfo. */
static void unescape(char *s) {
    char *to = s;
    for (; *s; to++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
            *to = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 4;
        } else {
            *to = *s++;
        }
    }
    *to = 0;
}

typedef struct Mount {
    char *top, *point; /* which folder of the hierarchy lies at which path */
    int version;
    char *options;
} Mount;

/* "31 23 0:26 /top /point rw,relatime shared:9 - cgroup name rw,memory" */
static bool parse_mount(char *line, Mount *m) {
    char *dash = strstr(line, " - "), *field[5], *save = NULL;
    if (!dash) return false;
    *dash = 0;
    field[0] = strtok_r(line, " ", &save);
    for (int i = 1; i < 5; i++)
        if (!(field[i] = strtok_r(NULL, " ", &save))) return false;
    char *type = strtok_r(dash + 3, " ", &save), *source = strtok_r(NULL, " ", &save);
    m->options = strtok_r(NULL, " ", &save);
    if (!type || !source) return false;
    m->version = strcmp(type, "cgroup2") == 0 ? 2 : strcmp(type, "cgroup") == 0 ? 1 : 0;
    m->top = field[3];
    m->point = field[4];
    if (m->version == 0) return false;
    unescape(m->top);
    unescape(m->point);
    return true;
}

/* From our folder up to the mount point. */
static void visit_upward(const char *root, const Mount *m, const char *own, CgroupVisit visit, void *arg) {
    size_t top = strcmp(m->top, "/") == 0 ? 0 : strlen(m->top);
    bool inside = strncmp(own, m->top, top) == 0 && (own[top] == '/' || own[top] == 0) && !strstr(own, "/..");
    char dir[PATH_CAP];
    size_t least = strlen(m->point);
    int n = snprintf(dir, sizeof dir, "%s%s", m->point, inside ? own + top : "");
    if (n < 0 || (size_t)n >= sizeof dir) return;
    for (size_t len = (size_t)n; len > least; len--) {
        if (dir[len] != '/' && dir[len] != 0) continue;
        dir[len] = 0;
        if (dir[len - 1] != '/') visit(arg, root, dir, m->version);
    }
    dir[least] = 0;
    visit(arg, root, dir, m->version);
}

void th_cgroup_each(const char *root, const char *controller, CgroupVisit visit, void *arg) {
    Lines l = {.fd = open_text(root, "/proc/self/mountinfo")};
    if (l.fd < 0) return;
    for (char *line; (line = next_line(&l)) != NULL;) {
        Mount m;
        char own[PATH_CAP];
        if (!parse_mount(line, &m)) continue;
        if (m.version == 1 && (!m.options || !has_word(m.options, controller))) continue;
        if (!own_folder(root, m.version == 1 ? controller : NULL, own, sizeof own)) memcpy(own, "/", 2);
        visit_upward(root, &m, own, visit, arg);
    }
    close(l.fd);
}
