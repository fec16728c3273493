/* mtp.h: the draft head that some models bring ("multi-token prediction", specification, section 11): one more decoder
 * block behind the trunk that guesses the token after next from the trunk's hidden state.
 *
 *     x = eh_proj [norm(embed(token p)) ; norm(hidden p-1)] -> block with a cache of its own -> norm -> head: token p+1
 *
 * An ordinary pass never runs it. It is bound, planned for and given a cache only if ModelOptions.mtp asks for it and
 * the file has it (Model.mtp is not NULL then). Its cache is laid out in SeqState as that of layer hp.n_layer; a cell
 * belongs to the pair (token p, hidden p-1), so going back needs nothing but writing cells again. Snapshots leave it
 * out: a cell that is missing makes a guess worse, never an answer. */
#ifndef THIMBLE_MTP_H
#define THIMBLE_MTP_H

#include "model/model.h"

struct Mtp {
    const Layer *layer; /* spec.ffn NULL: the file has none */
    Linear eh_proj;     /* w NULL: the two normed vectors are added */
    Linear head;        /* the trunk's unless the file has an own one */
    const Weight *embd, *enorm, *hnorm, *norm;
};

/* Does the file hold a head that this build can run? Known after th_hparams_read. */
bool th_mtp_there(const Hparams *hp, const Gguf *g);
bool th_mtp_bind(Model *m, Binder *b);
/* Beside the trunk's hidden states. */
uint64_t th_mtp_scratch(const Model *m, const PassSize *size);

/* The head on T rows {token, position, sequence}; rows of one sequence ascend by one, and its cache holds what earlier
 * calls wrote for the positions before them. Positions need not be the sequence's length: a draft runs ahead of the
 * trunk, a refill behind it. prev [T]: the hidden state one position earlier, [E] each, as th_model_forward (or a draft
 * step) gave it; NULL: zeros (position 0). hidden [T][E], normed, is left in scratch until th_model_finish; with hidden
 * NULL only the cache is filled. May follow th_model_forward before th_model_finish; prev may point to its hidden
 * states. */
bool th_mtp_forward(Model *m, const PassRow *rows, int T, const float *const *prev, float **hidden, Err *err);
/* As th_model_logits, for hidden states of th_mtp_forward. */
bool th_mtp_logits(Model *m, const float *hidden, const int *pick, int n, float *logits, Err *err);
/* The likeliest token by a hidden state [E] of th_mtp_forward, for a guess: among the ids below n_ids, and of them, if
 * the head's matrix streams, among the first ones that are in memory anyway (vocabularies begin with what is frequent):
 * one more reading of the largest matrix would cost more than the rest is worth. logits [V] is working memory. */
bool th_mtp_guess(Model *m, const float *hidden, int n_ids, float *logits, int32_t *token, Err *err);
/* What a guess would have been worth, for the price of a fraction of it: would the head have guessed `token`, which
 * is known now? 1: it is likelier than each of the vocabulary's first few thousand ids; 0: it is not, that is certain;
 * -1: its row is not in memory. logits [V] is working memory. */
bool th_mtp_foresaw(Model *m, const float *hidden, int32_t token, float *logits, int *foresaw, Err *err);
/* Bytes of weights that one guess uses: the block's and the rows of the output matrix. Known after the plan. */
uint64_t th_mtp_guess_bytes(const Model *m);

#endif
