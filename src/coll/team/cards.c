/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/cards.c - how ranks of one node tell each other which collective they call.
 *
 * A round of a team has three steps one after another: a signal, the terms of the call, the data.
 * Here a rank writes one card into its own memory: the number of the call, its terms and up to 32
 * bytes of data.  Others read it there.  So one step tells that a rank has come, what it calls and
 * what it gives.  More data lies beside the card or on the belt, and is published by the card.
 *
 * Every rank writes one card in every call, also in a call that it refuses.  So numbers are the
 * same on all ranks, and a rank that waits for the card of another one always gets it, whatever
 * that one calls.
 *
 * A meeting waits for the cards of all ranks and compares them.  A short broadcast is no meeting:
 * its root writes the card and goes on; the others wait for the root alone.  So they may not learn
 * that some rank made another call.  Each rank folds its calls since the last meeting, and how
 * they ended, into `history`.  The next meeting compares these too.  If they differ, all ranks
 * return that error, and the call of that meeting is not made.
 *
 * When may a rank write a card, an area or a belt again?  When no rank reads what it held.  A rank
 * that has sent a card has left all earlier calls.  Cards and areas are used in turn by
 * ORI_CARDS_RING calls.  At the latest ORI_CARDS_RING - 1 calls after the last meeting comes the
 * next one.  So between two uses of a card there is a meeting that all others entered after the
 * first.  The two belts are used in turn by meetings, for the same reason.  `met` is the same on
 * all ranks: a call is a meeting if the cards of all ranks say so, and all see the same cards.
 *
 * Called by moves.c, reductions.c and direct.c on the thread of the call.
 */
#include <oriel/oriel.h>

#include "../../kernels/coll.h"
#include "../../util/util.h"
#include "cards.h"

static struct ori_desk *desk(const struct ori_cards *c, int rank)
{
	return (struct ori_desk *)(void *)ori_cards_at(c, rank, c->desk_off);
}

static uint64_t slot_of(const struct ori_cards *c)
{
	return c->calls % ORI_CARDS_RING;
}

static struct ori_card *card(const struct ori_cards *c, int rank)
{
	return &desk(c, rank)->card[slot_of(c)];
}

static void wake_all(const struct ori_cards *c)
{
	for (int i = 1; i < ori_cards_nranks(c); i++)
		ori_wake(ori_peer_entry(&c->team->win, ori_cards_next(c, i))->waiters);
}

/* Waits for a word of `rank`.  Reports name the collective and that rank. */
static int await(struct ori_cards *c, const uint64_t *word, int rank, uint64_t want)
{
	const struct oriel_window_dev *win = &c->team->win;
	struct ori_spin s;
	int err;

	/* [CARD2] acquire, system scope; partner [CARD1] in ori_cards_write(), [CARD3]. */
	if (ori_reached(ori_load_acquire_sys(word), want))
		return 0;
	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_SIGNAL, rank, 0,
		       ori_exchange_name(&c->x), want);
	/* as [CARD2]: the acquire is in ori_word_wait() */
	err = ori_word_wait(&s, word, 0, ORIEL_GE);
	if (err)
		(void)ori_exchange_give_up(&c->x, err, rank);
	return err;
}

/* ---- this rank's card ------------------------------------------------------------------------ */

int ori_cards_begin(struct ori_cards *c, const char *name, const struct ori_terms *call)
{
	int err = ori_exchange_begin(&c->x, c->team, oriel_group_thread(), 0, call);

	c->name = name;
	c->told = 0;
	c->in_rounds = 0;
	c->calls += !err;
	return err;
}

int ori_cards_must_meet(const struct ori_cards *c)
{
	return c->strict || c->calls - c->met >= ORI_CARDS_RING - 1;
}

uint64_t ori_cards_shown_off(const struct ori_cards *c, uint64_t bytes)
{
	uint64_t slot = slot_of(c);

	if (bytes <= ORI_CARD_INLINE)
		return c->desk_off + offsetof(struct ori_desk, card) +
		       slot * sizeof(struct ori_card) + offsetof(struct ori_card, data);
	return c->desk_off + offsetof(struct ori_desk, area) + slot * ORI_CARD_AREA_BYTES;
}

void ori_cards_show(const struct ori_cards *c, const uint8_t *data, uint64_t bytes)
{
	if (bytes)
		memcpy(c->team->win.buffer + ori_cards_shown_off(c, bytes), data, bytes);
}

void ori_cards_write(struct ori_cards *c, int meets)
{
	struct ori_card *mine = card(c, ori_cards_rank(c));

	mine->call = c->x.call;
	mine->history = c->history;
	mine->late = c->late;
	mine->meets = (uint8_t)meets;
	/*
	 * [CARD1] release, system scope; partner [CARD2] in await().  Publishes the card, the data
	 * beside it, on the belt and in this rank's windows, and that this rank has left all
	 * earlier calls.  Without it a rank could take data of an earlier call, or write over what
	 * this rank still reads.
	 */
	ori_store_release_sys(&mine->number, c->calls);
	/*
	 * In a short broadcast nobody waits for the card of another rank than the root, unless
	 * calls differ.  A rank that does wakes by its own timer.
	 */
	if (meets || mine->call.refused || mine->call.root == ori_cards_rank(c))
		wake_all(c);
}

/* ---- the cards of all ------------------------------------------------------------------------ */

/* Notes how this call ended, for the next meeting.  After an error the terms may differ. */
static void remember(struct ori_cards *c, int err)
{
	const struct ori_terms *call = &c->x.call;
	uint64_t word = err ? ~0ull : call->size * 256u + (uint32_t)call->root;

	word = (word ^ c->calls ^ (uint64_t)c->history << 32) * 0x9e3779b97f4a7c15ull;
	c->history = (uint32_t)(word >> 32);
	if (err && !c->late)
		c->late = (uint8_t)-err;
}

static void forget(struct ori_cards *c)
{
	c->history = 0;
	c->late = 0;
}

/* All ranks make the same call, but earlier ones ended differently: tells how. */
static int tell_late(struct ori_cards *c)
{
	int n = ori_cards_nranks(c), rank = 0;

	c->told = 1;
	while (rank < n && !card(c, rank)->late)
		rank++;
	if (rank < n)
		return ori_fail(-(int)card(c, rank)->late,
				"%s: not made, because an earlier broadcast failed on rank %d: %s",
				c->name, rank, oriel_status_text(-(int)card(c, rank)->late));
	rank = 0;
	while (card(c, rank)->history == card(c, 0)->history)
		rank++;
	return ori_fail(ORIEL_EMISMATCH,
			"%s: not made, because rank 0 and rank %d made different broadcasts before",
			c->name, rank);
}

/* The calls of the ranks are not all the same. */
static int refuse(struct ori_cards *c, const struct ori_compared *seen, int all_meet)
{
	int err = seen->err ? seen->err : ORIEL_EMISMATCH;

	if (!all_meet)
		remember(c, err);
	/* a rank that refuses the call has a text of its own */
	return c->x.call.refused ? err : ori_compared_end(&c->x, seen);
}

/* All cards are here. */
static int compare(struct ori_cards *c)
{
	struct ori_compared seen = { .err = 0 };
	int n = ori_cards_nranks(c), all_meet = 1, same = 1, err = 0;
	uint32_t history = card(c, 0)->history;

	for (int r = 0; r < n; r++) {
		const struct ori_card *k = card(c, r);

		if (!seen.err)
			ori_compared_add(&seen, r, &k->call);
		all_meet &= k->meets;
		same &= k->history == history;
	}
	if (all_meet) {
		c->met = c->calls;
		c->meetings++;
	}
	if (seen.bad >= 0)
		return refuse(c, &seen, all_meet);
	if (!same)
		err = tell_late(c);
	forget(c);
	return err;
}

int ori_cards_meet(struct ori_cards *c)
{
	struct ori_trace_note note = ori_coll_note(c->team, c->x.g, 0, &c->x.call,
						   ORIEL_TRACE_ROUND);
	int err = 0;

	for (int i = 1; i < ori_cards_nranks(c) && !err; i++) {
		int peer = ori_cards_next(c, i);

		err = await(c, &card(c, peer)->number, peer, c->calls);
	}
	if (!err)
		err = compare(c);
	ori_trace_end(&c->team->win.comm, c->x.g, note, err);
	return err;
}

int ori_cards_follow(struct ori_cards *c, int root)
{
	const struct ori_card *from = card(c, root);
	int err = await(c, &from->number, root, c->calls);

	if (err)
		return err;
	if (from->call.refused || ori_terms_differ(&from->call, &c->x.call))
		return ori_cards_meet(c); /* all ranks that see it say the same */
	remember(c, 0);
	return 0;
}

void ori_cards_leave(struct ori_cards *c, int status)
{
	remember(c, status);
}

/* ---- steps of a long call -------------------------------------------------------------------- */

/*
 * A word of an earlier call is always lower.  Every rank stores its word in every long call, so
 * none is older than 2^31 calls.
 */
static uint64_t step_word(const struct ori_cards *c, uint32_t steps)
{
	return c->calls << 32 | steps;
}

void ori_cards_begin_steps(struct ori_cards *c)
{
	/* as [CARD3]: a rank that still waits for a step of the last call may find this word */
	ori_store_release_sys(&desk(c, ori_cards_rank(c))->step, step_word(c, 0));
}

void ori_cards_step(struct ori_cards *c, uint32_t steps)
{
	/*
	 * [CARD3] release, system scope; partner [CARD2] in await().  Publishes data on the belt,
	 * or that this rank has read the others'.  Without it a rank could read or write too early.
	 */
	ori_store_release_sys(&desk(c, ori_cards_rank(c))->step, step_word(c, steps));
	wake_all(c);
}

int ori_cards_await_step(struct ori_cards *c, int rank, uint32_t steps)
{
	return await(c, &desk(c, rank)->step, rank, step_word(c, steps));
}

int ori_cards_await_steps(struct ori_cards *c, uint32_t steps)
{
	int err = 0;

	for (int i = 1; i < ori_cards_nranks(c) && !err; i++)
		err = ori_cards_await_step(c, ori_cards_next(c, i), steps);
	return err;
}

uint64_t ori_cards_belt_off(const struct ori_cards *c)
{
	return c->desk_off + offsetof(struct ori_desk, belt) +
	       (c->meetings & 1u) * (uint64_t)ORI_CARD_BELT_BYTES;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

int ori_cards_rounds(struct ori_cards *c, const uint8_t *send, uint8_t *recv)
{
	struct ori_coll_args args = {
		.team = *c->team, .call = c->x.call, .send = send, .recv = recv
	};

	c->in_rounds = 1;
	return ori_coll_kernel()->cpu(&args);
}
