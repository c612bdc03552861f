/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/wrap.c - text that fits into INFO_COLUMNS columns.
 *
 * Values come from the environment and from other ranks.  Characters that control the terminal are
 * replaced, and a word that fits on no line is cut into pieces.
 * Called by text.c and variables.c.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "info.h"

struct place {
	int at;     /* the next column */
	int indent; /* column of the first character of further lines */
	int fresh;  /* no word is on this line yet */
};

static void break_line(struct place *p)
{
	printf("\n%*s", p->indent, "");
	p->at = p->indent;
	p->fresh = 1;
}

static void put_word(struct place *p, const char *word, int length)
{
	if (p->at + length + !p->fresh > INFO_COLUMNS && p->at > p->indent)
		break_line(p);
	if (!p->fresh) {
		putchar(' ');
		p->at++;
	}
	for (int i = 0; i < length; i++) {
		if (p->at == INFO_COLUMNS)
			break_line(p);
		putchar(iscntrl((unsigned char)word[i]) ? '?' : word[i]);
		p->at++;
	}
	p->fresh = 0;
}

void info_wrap(const char *text, int column, int indent)
{
	struct place p = { column, indent, 1 };

	while (*text) {
		size_t length = strcspn(text, " ");

		put_word(&p, text, (int)length);
		text += length;
		text += *text == ' ';
	}
	putchar('\n');
}

void info_put(const char *value, int width)
{
	int n = 0;

	for (; value[n]; n++)
		putchar(iscntrl((unsigned char)value[n]) ? '?' : value[n]);
	printf("%*s", n < width ? width - n : 0, "");
}
