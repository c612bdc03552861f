/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/variables.c - the ORIEL_* variables, for people: those that are set, or all by group.
 *
 * Called by text.c.
 */
#include <stdio.h>
#include <string.h>

#include "groups.h"
#include "info.h"

#define GROUPS ((int)(sizeof(info_groups) / sizeof(info_groups[0])))
#define NAME_COLUMNS 20
#define VALUE_COLUMNS 16
#define VALUE_COLUMN (4 + NAME_COLUMNS + 1)
#define HELP_COLUMN (VALUE_COLUMN + VALUE_COLUMNS + 1)

/* Is it one of the names, or does it begin with one that ends with _? */
static int is_named(const char *name, const char *names)
{
	while (*names) {
		size_t length = strcspn(names, " ");
		int begins = !strncmp(name, names, length);

		if (begins && (name[length] == '\0' || names[length - 1] == '_'))
			return 1;
		names += length;
		names += *names == ' ';
	}
	return 0;
}

static int group_of(const struct ori_config_row *row)
{
	int g = 0;

	while (g < GROUPS - 1 && !is_named(row->name + strlen("ORIEL_"), info_groups[g].names))
		g++;
	return g;
}

/* A long value gets lines of its own, below its name. */
static void print_variable(const struct ori_config_row *row)
{
	const char *value = row->value ? row->value : row->def;
	char help[512];

	snprintf(help, sizeof(help), row->value ? "%s (default: %s)" : "%s", row->help,
		 row->def[0] ? row->def : "none");
	printf("  %c %-*s ", row->value ? '*' : ' ', NAME_COLUMNS, row->name);
	if (!value[0])
		value = "-";
	if (strlen(value) <= VALUE_COLUMNS) {
		info_put(value, VALUE_COLUMNS + 1);
	} else {
		info_wrap(value, VALUE_COLUMN, VALUE_COLUMN);
		printf("%*s", HELP_COLUMN, "");
	}
	info_wrap(help, HELP_COLUMN, HELP_COLUMN);
}

static void print_group(int group)
{
	struct ori_config_row row;
	int printed = 0;

	for (int n = 0; ori_config_row(n, &row); n++) {
		if (group_of(&row) != group)
			continue;
		if (!printed++)
			printf("\n  %s\n", info_groups[group].title);
		print_variable(&row);
	}
}

static void print_set(void)
{
	struct ori_config_row row;
	int all = 0, set = 0;

	for (; ori_config_row(all, &row); all++)
		set += row.value != NULL;
	printf("\nvariables (%d of %d are set; oriel-info --all shows the others)\n", set, all);
	for (int n = 0; set && ori_config_row(n, &row); n++)
		if (row.value)
			print_variable(&row);
}

void info_print_variables(int all)
{
	if (!all) {
		print_set();
		return;
	}
	printf("\nvariables (* is set in the environment)\n");
	for (int g = 0; g < GROUPS; g++)
		print_group(g);
}
