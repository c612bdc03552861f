/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/config.c - reads the ORIEL_* variables of the environment into a struct.
 *
 * Owns the table (made from the list in config.h), the parsers of each type, the check for misspelt
 * names, and the lock for access to the environment.  Code that uses a text such as ORIEL_TOPOLOGY
 * parses it itself.  Variables of other programs (RANK, MASTER_ADDR, ...) are read in boot/.
 *
 * Called by: boot and comm when they are made, and oriel-info.  On any thread, as long as the
 * program does not change its environment at the same time.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "util.h"

#define NAME_MAX_BYTES 64
#define SECONDS_MAX 1e9 /* 30 years; still fits 64 bits as nanoseconds */

enum value_type {
	TYPE_SECONDS,
	TYPE_COUNT,
	TYPE_PORT,
	TYPE_FLAG,
	TYPE_TEXT,
	TYPE_CHOICE_LOG,
	TYPE_CHOICE_MODE
};

static const struct variable {
	enum value_type type;
	size_t off;
	const char *name, *def, *help;
} table[] = {
#define VARIABLE(type, field, name, def, help)                                                     \
	{ TYPE_##type, offsetof(struct ori_config, field), name, def, help },
	ORI_CONFIG_LIST(VARIABLE)
#undef VARIABLE
};

/* The allowed values, for messages; and the type's name, for the listing. */
static const char *const type_words[] = {
	[TYPE_SECONDS] = "seconds, more than 0, such as 2.5",
	[TYPE_COUNT] = "a whole number from 0",
	[TYPE_PORT] = "a port, 0 to 65535",
	[TYPE_FLAG] = "0 or 1",
	[TYPE_TEXT] = "a text of at most 255 bytes",
	[TYPE_CHOICE_LOG] = "error, warn, info or debug",
	[TYPE_CHOICE_MODE] = "auto, on or off",
};
static const char *const type_names[] = {
	[TYPE_SECONDS] = "seconds",    [TYPE_COUNT] = "count", [TYPE_PORT] = "port",
	[TYPE_FLAG] = "flag",          [TYPE_TEXT] = "text",   [TYPE_CHOICE_LOG] = "choice",
	[TYPE_CHOICE_MODE] = "choice",
};

static int is_secret(const struct variable *v)
{
	return !strcmp(v->name, "ORIEL_SECRET");
}

/* Digits, a point, digits.  strtod() would also accept hex, inf and the comma of a locale. */
static int parse_seconds(const char *text, double *out)
{
	double value = 0, unit = 1;
	int digits = 0, points = 0;

	for (; *text; text++) {
		if (*text == '.' && !points++)
			continue;
		if (*text < '0' || *text > '9')
			return -1;
		digits++;
		value = value * 10 + (*text - '0');
		unit *= points ? 10 : 1;
		if (digits > 300)
			return -1;
	}
	value /= unit;
	if (!digits || !(value > 0) || value > SECONDS_MAX)
		return -1;
	*out = value;
	return 0;
}

static int parse_int(const char *text, int max, int *out)
{
	long value = 0;

	if (!*text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		value = value * 10 + (*text - '0');
		if (value > max)
			return -1;
	}
	*out = (int)value;
	return 0;
}

static int parse_word(const char *text, const char *const *words, int count, int *out)
{
	for (int i = 0; i < count; i++) {
		if (!strcmp(text, words[i])) {
			*out = i;
			return 0;
		}
	}
	return -1;
}

static int parse_text(const char *text, char *out)
{
	size_t bytes = strnlen(text, ORI_CONFIG_TEXT_MAX);

	if (bytes >= ORI_CONFIG_TEXT_MAX)
		return -1;
	memcpy(out, text, bytes + 1);
	return 0;
}

static int parse(const struct variable *v, const char *text, void *field)
{
	/* in the order of enum ori_log_level and enum ori_mode */
	static const char *const log_words[] = { "error", "warn", "info", "debug" };
	static const char *const mode_words[] = { "auto", "on", "off" };

	switch (v->type) {
	case TYPE_SECONDS:
		return parse_seconds(text, field);
	case TYPE_COUNT:
		return parse_int(text, 0x7fffffff, field);
	case TYPE_PORT:
		return parse_int(text, 65535, field);
	case TYPE_FLAG:
		return parse_int(text, 1, field);
	case TYPE_TEXT:
		return parse_text(text, field);
	case TYPE_CHOICE_LOG:
		return parse_word(text, log_words, ORI_COUNT(log_words), field);
	case TYPE_CHOICE_MODE:
		return parse_word(text, mode_words, ORI_COUNT(mode_words), field);
	}
	return -1;
}

static int read_values(struct ori_config *out)
{
	for (size_t i = 0; i < ORI_COUNT(table); i++) {
		const struct variable *v = &table[i];
		const char *text = getenv(v->name);
		void *field = (char *)out + v->off;

		if (!parse(v, text ? text : v->def, field))
			continue;
		return ori_fail(ORIEL_ECONFIG, "%s=%.100s: must be %s", v->name,
				is_secret(v) ? "(hidden)" :
				text         ? text :
					       v->def,
				type_words[v->type]);
	}
	return 0;
}

/*
 * Levenshtein distance: letters to change, add or drop.  Keeps one row, updated for each letter of
 * a.
 */
static int edit_distance(const char *a, const char *b)
{
	int row[NAME_MAX_BYTES + 1];
	int n = (int)strnlen(b, NAME_MAX_BYTES);

	for (int j = 0; j <= n; j++)
		row[j] = j;
	for (int i = 1; i <= NAME_MAX_BYTES && a[i - 1]; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= n; j++) {
			int best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

static const char *nearest_name(const char *name)
{
	const char *nearest = table[0].name;
	int least = edit_distance(name, nearest);

	for (size_t i = 1; i < ORI_COUNT(table); i++) {
		int distance = edit_distance(name, table[i].name);

		if (distance < least) {
			least = distance;
			nearest = table[i].name;
		}
	}
	return nearest;
}

int ori_config_is_known(const char *name)
{
	/* read by the Python package and its tests, not here */
	static const char *const python[] = { "ORIEL_BITCODE", "ORIEL_LIBRARY", "ORIEL_PREFIX",
					      "ORIEL_TORCH" };

	for (size_t i = 0; i < ORI_COUNT(python); i++) {
		if (!strcmp(name, python[i]))
			return 1;
	}
	for (size_t i = 0; i < ORI_COUNT(table); i++) {
		if (!strcmp(name, table[i].name))
			return 1;
	}
	return 0;
}

/* The name before '='.  Truncated if it is longer than any misspelling of a known name. */
static void copy_name(const char *entry, char *name)
{
	size_t n = strcspn(entry, "=");

	if (n > NAME_MAX_BYTES - 1)
		n = NAME_MAX_BYTES - 1;
	memcpy(name, entry, n);
	name[n] = '\0';
}

static int check_names(int strict)
{
	static int warned; /* atomic, relaxed: only decides which thread warns */
	char name[NAME_MAX_BYTES];

	if (!strict && __atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
		return 0;
	for (char **entry = environ; entry && *entry; entry++) {
		if (strncmp(*entry, "ORIEL_", 6))
			continue;
		copy_name(*entry, name);
		if (ori_config_is_known(name))
			continue;
		if (strict)
			return ori_fail(ORIEL_ECONFIG,
					"%s is not a variable of Oriel; did you mean %s? "
					"(ORIEL_STRICT=1 makes this an error)",
					name, nearest_name(name));
		ori_log(ORI_LOG_WARN, "%s is not a variable of Oriel; did you mean %s?", name,
			nearest_name(name));
	}
	return 0;
}

pthread_mutex_t ori_environment_lock = PTHREAD_MUTEX_INITIALIZER;

const char *ori_environment_get(const char *name)
{
	const char *value;

	pthread_mutex_lock(&ori_environment_lock);
	value = getenv(name);
	pthread_mutex_unlock(&ori_environment_lock);
	return value;
}

int ori_environment_add(const char *name, const char *value)
{
	int added;

	pthread_mutex_lock(&ori_environment_lock);
	added = !getenv(name) && !setenv(name, value, 0);
	pthread_mutex_unlock(&ori_environment_lock);
	return added;
}

static int read_locked(struct ori_config *config)
{
	int err;

	pthread_mutex_lock(&ori_environment_lock);
	err = read_values(config);
	pthread_mutex_unlock(&ori_environment_lock);
	return err;
}

int ori_config_read(struct ori_config *out)
{
	struct ori_config config;
	int err;

	memset(&config, 0, sizeof(config));
	err = read_locked(&config);
	if (err)
		return err;
	ori_log_level_set((enum ori_log_level)config.log);
	pthread_mutex_lock(&ori_environment_lock);
	err = check_names(config.strict);
	pthread_mutex_unlock(&ori_environment_lock);
	if (err)
		return err;
	*out = config;
	return 0;
}

int ori_config_row(int n, struct ori_config_row *row)
{
	const struct variable *v;

	if (n < 0 || (size_t)n >= ORI_COUNT(table))
		return 0;
	v = &table[n];
	row->name = v->name;
	row->type = type_names[v->type];
	row->def = v->def;
	row->help = v->help;
	row->value = ori_environment_get(v->name);
	/* users paste listings into bug reports */
	if (row->value && is_secret(v))
		row->value = "(hidden)";
	return 1;
}
