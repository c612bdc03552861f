/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.h - atomics on words of queued PEs, executed by a thread of the word's own PE (agent.c).
 *
 * Only jobs with queued pairs have agents, and only PEs with queued peers.
 */
#ifndef OSH_AGENT_H
#define OSH_AGENT_H

#include <stdint.h>

/* Collective.  Does nothing in a job whose PEs are all mapped. */
void osh_agent_open(void);
void osh_agent_close(void);

/*
 * Asks the agent of a queued PE for one atomic on a word of 4 or 8 bytes.  op is ORIEL_ATOMIC_*.
 * With `fetch` it waits for the answer and returns the previous bits.  Otherwise it returns 0 when
 * the request has been posted.
 *
 * Requests use the lane of the default context.  So they are executed after earlier puts of that
 * context to the same PE.
 */
uint64_t osh_agent_ask(const char *call, int pe, uint64_t offset, uint64_t bytes, int op,
		       uint64_t expected, uint64_t value, int fetch);
/* Waits until all requests of this PE have been executed. */
void osh_agent_drain(const char *call);

#endif
