/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/layout.c - reads the text of an emulated topology: "2x4", or a node id per rank.
 *
 * Owns the grammar and its error messages only.  topology.c decides what a layout means for a pair
 * of ranks, and calls this file on any thread.  Pure functions.
 *
 *   RxC    R nodes of C ranks, in blocks; R * C is the number of ranks
 *   list   integers from 0 on with commas between, one per rank; equal numbers are one node
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../util/util.h"
#include "topology.h"

#define WANTED "want RxC such as 2x4, or one node id per rank such as 0,0,1,1"

/*
 * Reads one integer at *text and moves *text behind it.  Returns NULL, or the reason for an error.
 * strtol alone would accept blanks and '+'.
 */
static const char *take_integer(const char **text, int *value)
{
	const char *digits = *text;
	char *end;
	long v;

	if (*digits == '-' && digits[1] >= '0' && digits[1] <= '9')
		return "a number is negative";
	if (*digits < '0' || *digits > '9')
		return *digits == '\0' || *digits == ',' ? "an element is empty" :
							   "an element is not a number";
	errno = 0;
	v = strtol(*text, &end, 10);
	if (errno || v > INT_MAX)
		return "a number is too large";
	*text = end;
	*value = (int)v;
	return NULL;
}

static int fail(const char *text, const char *why)
{
	return ori_fail(ORIEL_ECONFIG, "ORIEL_TOPOLOGY \"%s\": %s; %s", text, why, WANTED);
}

static int parse_grid(const char *text, int nranks, int *node)
{
	const char *at = text, *why;
	int rows, columns;

	why = take_integer(&at, &rows);
	if (!why && *at != 'x')
		why = "there is more than a number before the x";
	if (!why) {
		at++;
		why = take_integer(&at, &columns);
	}
	if (!why && *at)
		why = "there is something after RxC";
	if (!why && (rows < 1 || columns < 1))
		why = "both numbers must be at least 1";
	if (why)
		return fail(text, why);
	if ((long long)rows * columns != nranks)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_TOPOLOGY \"%s\": %d nodes of %d ranks are %lld ranks, "
				"but there are %d",
				text, rows, columns, (long long)rows * columns, nranks);
	for (int r = 0; r < nranks; r++)
		node[r] = r / columns;
	return 0;
}

static int parse_list(const char *text, int nranks, int *node)
{
	const char *at = text, *why;
	int count = 0, id;

	for (;;) {
		why = take_integer(&at, &id);
		if (!why && *at && *at != ',')
			why = "something other than a comma follows a number";
		if (why)
			return fail(text, why);
		if (count < nranks)
			node[count] = id;
		count++;
		if (!*at)
			break;
		at++;
	}
	if (count != nranks)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_TOPOLOGY \"%s\": the list has %d node ids, but there are %d "
				"ranks",
				text, count, nranks);
	return 0;
}

int ori_layout_parse(const char *text, int nranks, int *node)
{
	if (!text || !node || nranks < 1)
		return ori_fail(ORIEL_EINVAL, "a layout needs a text and at least one rank");
	if (!*text)
		return fail(text, "it is empty");
	return strchr(text, 'x') ? parse_grid(text, nranks, node) : parse_list(text, nranks, node);
}

int ori_layout_node(const char *text, int rank)
{
	const char *x = strchr(text, 'x');

	if (x)
		return rank / (int)strtol(x + 1, NULL, 10);
	for (; rank > 0; rank--)
		text = strchr(text, ',') + 1;
	return (int)strtol(text, NULL, 10);
}
