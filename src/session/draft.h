/* draft.h: what may be guessed, and whether guessing pays. Both halves are pure: no clock, no model, no memory of their
 * own, so that tests can replay them.
 *
 * A pass over 1 + k rows proves k guesses at once. It costs a plain pass and `slope` of one for each further row:
 * nearly nothing where the flash is what everybody waits for, much where arithmetic is. Pace keeps what was measured of
 * both sides, the costs by rows and the share of guesses that came true by kind of guess, and chooses k where the
 * quotient is best, 0 if no k beats a plain pass.
 *
 * Luck is learnt before anything is spent on it. Lookups are compared with what comes, whether they run or not. A head
 * is watched: it says what it would have made of a token that is known by now, for a fraction of a guess; a few tokens
 * of the prompt are the first it is asked about. Heads that foresee nothing are left alone for ever longer times.
 *
 * What is spent is bounded besides: `trust`, in plain passes, is what guesses may lose at any time. It starts below one
 * pass, gains a hundredth with every pass and whatever guesses gain, up to a few passes, and loses what they lose. */
#ifndef THIMBLE_DRAFT_H
#define THIMBLE_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAFT_USUAL = 8, DRAFT_FEW = 3, DRAFT_MOST = 15, DRAFT_ROWS = 1 + DRAFT_MOST };

/* Looks for an earlier place where the last tokens of tokens[0..n) stood, the longest such match (then the latest), and
 * guesses that what followed follows again; a match that reaches the end goes on periodically. Returns how many of
 * draft[0..k) it filled (k or 0), *match is the number of tokens that agreed. */
int th_draft_lookup(const int32_t *tokens, int n, int32_t *draft, int k, int *match);

/* Kinds of guesses whose luck differs: lookups by the length of the match, and MTP heads. */
enum { LUCK_MATCH_1, LUCK_MATCH_2, LUCK_MATCH_4, LUCK_MATCH_LONG, LUCK_MTP, N_LUCKS };
int th_draft_luck_of_match(int match);

typedef struct Luck {
    double p; /* moving share of guesses that came true, each given that the one before did */
    bool on, held; /* pays; but trust does not reach */
    int wait, patience; /* while off, choices until it is measured again; doubles up to a limit */
    int seen;           /* of the head: how often p was learnt from, up to a few since it was last asked again */
    double credit;      /* of what was compared or watched: 1, halved by each run that gave nothing */
} Luck;

typedef struct Pace {
    double plain_s;              /* moving average of a pass of one row; 0: not measured */
    double slope;                /* predicted cost of a further row, in plain passes */
    double guess;                /* predicted cost of one guess of the head, in plain passes */
    double prompt_s;             /* a prompt's pass took, over */
    int prompt_rows;             /* so many rows; 0: not measured. They say what a row costs until drafts do */
    double cost[DRAFT_ROWS + 1]; /* by rows: moving average in plain passes; 0: not measured */
    int seen[DRAFT_ROWS + 1];    /* by rows: how often, up to a few */
    double guess_s;              /* moving average of what one guess of the head takes; 0: not measured */
    bool tried;                  /* guesses were run */
    double trust;                /* what guesses may lose now, in plain passes */
    Luck luck[N_LUCKS];
    int since_plain; /* passes since plain_s was last measured */
} Pace;

void th_pace_init(Pace *p, double slope, double guess);
/* A pass over so many rows of a prompt took so long. */
void th_pace_prompt(Pace *p, int rows, double pass_s);
/* Should the next pass run no guesses, whatever they promise? What a plain pass takes is what all is compared with. */
bool th_pace_wants_plain(const Pace *p);
/* How many guesses (0..most) of this kind the next pass should prove. Counts: call once per pass that has guesses. */
int th_pace_choose(Pace *p, int luck, int most);
/* The best gain of 1..most guesses; pure. */
double th_pace_promise(const Pace *p, int luck, int most);
/* Rate of passes with k guesses of this kind over that of plain ones, as predicted now. */
double th_pace_gain(const Pace *p, int luck, int k);
/* After th_pace_proved: a pass of this many rows took so long; guess_s: making its guesses of this kind, together. */
void th_pace_measured(Pace *p, int luck, int rows, double pass_s, double guess_s);
/* `accepted` of `drafted` guesses came true in a row; the first `run` of them were run, the others only compared. */
void th_pace_proved(Pace *p, int luck, int drafted, int accepted, int run);

/* Should the head be watched in a pass that runs no guesses of it? Counts: call once per such pass. */
bool th_pace_watches(Pace *p);
/* It would have guessed a token, or not. */
void th_pace_foresaw(Pace *p, bool right);

#endif
