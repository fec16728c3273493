/* prompt.h: from what the user wrote to tokens.
 *
 * Chat templates are not rendered yet. A vocabulary with the control tokens <|im_start|> and <|im_end|> gets ChatML,
 * anything else the raw text; which one is said. Structure is put in as token ids and content is tokenised with special
 * parsing off: what the user wrote can never become a control token (unless --special on asks for it). */
#ifndef TOOLS_PROMPT_H
#define TOOLS_PROMPT_H

#include "cmd.h"
#include "common/ids.h"
#include "common/text.h"

/* What the program holds itself is part of --ram: a text with its ids takes up to TEXT_SHARE times its bytes, ids as
 * JSON IDS_SHARE times. Longer files than that allows are refused while they are read. */
enum { TEXT_SHARE = 5, IDS_SHARE = 32 };
size_t prompt_most(const Cli *cli, unsigned share);
/* The text of PROMPT, -p, -f or -: exactly one of them; what it takes comes off the budget. Returns an exit code. */
int prompt_read(Cli *cli, Text *text);
/* Appends the ids of `text` (ids.h); complaints begin with `option`. Returns an exit code. */
int prompt_ids(Cli *cli, const char *text, const char *option, Ids *ids);
/* The text is gone: so much of the budget is free again (its ids are the caller's to charge). */
void prompt_gone(Cli *cli);
/* Appends the tokens of a text. flags: THIMBLE_TOK_*. */
bool prompt_tokenize(ThimbleModel *m, const char *text, size_t n, int flags, Ids *ids, ThimbleError *e);

typedef enum PromptForm { PROMPT_RAW, PROMPT_CHATML } PromptForm;
/* Which form this model's conversation takes; `talk` is true for chat, where a base model gets ChatML too. */
PromptForm prompt_form(const Cli *cli, const ThimbleModel *m, bool talk);
/* Says which form is used and why, once. */
void prompt_say_form(Cli *cli, const ThimbleModel *m, PromptForm form);
/* Appends one turn of the user and the opening of the answer; the first turn also brings BOS and the system message. */
bool prompt_turn(Cli *cli, ThimbleModel *m, PromptForm form, bool first, const char *text, size_t n, Ids *ids,
                 ThimbleError *e);
/* Warns of a text that begins with the text of BOS, and with -v shows the ids of a prompt. */
void prompt_say_ids(Cli *cli, const ThimbleModel *m, const char *text, size_t n, const Ids *ids);
/* Appends what closes an answer that was not ended by the model itself, before the next turn. */
bool prompt_close_answer(ThimbleModel *m, PromptForm form, Ids *ids, ThimbleError *e);
#endif
