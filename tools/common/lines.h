/* lines.h: lines from a person: edited with libedit on a terminal, plain elsewhere. */
#ifndef TOOLS_LINES_H
#define TOOLS_LINES_H

#include "common/text.h"

typedef struct Lines Lines;
/* most: bytes of a line (without a terminal). NULL: out of memory.
 * Nothing is taken from the terminal before the first line is asked for. */
Lines *lines_open(const char *prompt, size_t most);
void lines_close(Lines *l);
typedef enum LineKind { LINE_TEXT, LINE_END, LINE_INTERRUPTED, LINE_FAILED, LINE_TOO_LONG } LineKind;
/* One line without its newline. A last line that lacks the newline counts. One that is too long is read to its end and
 * thrown away. */
LineKind lines_next(Lines *l, Text *line);
bool lines_interactive(const Lines *l);
#endif
