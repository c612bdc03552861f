/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/json.c - the report for programs: one object, every pair of ranks.
 *
 * Keys are stable: new ones may be added, but none changes its meaning.  Whatever the environment
 * contains, the output is valid JSON in valid UTF-8.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <oriel/oriel.h>

#include "../../device/device.h"
#include "../../engine/engine.h"
#include "info.h"

/* Bytes of the UTF-8 character at s; 0 if it is invalid (short, overlong, surrogate, too large). */
static int utf8_length(const unsigned char *s)
{
	unsigned int c = s[0], code;
	int n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : 4;

	if (n == 4 && (c < 0xf0 || c > 0xf4))
		return 0;
	code = n == 1 ? c : c & (0x7fu >> n);
	for (int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) /* also the end of the text */
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if ((n == 3 && code < 0x800) || (n == 4 && (code < 0x10000 || code > 0x10ffff)))
		return 0;
	return code >= 0xd800 && code < 0xe000 ? 0 : n;
}

static void put_string(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	putchar('"');
	while (*s) {
		int n = utf8_length(s);

		if (!n) {
			fputs("\\ufffd", stdout);
			n = 1;
		} else if (*s == '"' || *s == '\\') {
			printf("\\%c", *s);
		} else if (*s < 0x20 || *s == 0x7f) {
			printf("\\u%04x", *s);
		} else {
			fwrite(s, 1, (size_t)n, stdout);
		}
		s += n;
	}
	putchar('"');
}

void info_json_member(const char *before, const char *name, const char *text)
{
	printf("%s\"%s\": ", before, name);
	if (text)
		put_string(text);
	else
		fputs("null", stdout);
}

static void put_build(const struct info_build *b)
{
	info_json_member("  \"build\": {", "compiler", b->compiler);
	info_json_member(", ", "arch", b->arch);
	info_json_member(", ", "sanitizer", b->sanitizer);
	printf(", \"cuda\": %s},\n", b->cuda ? "true" : "false");
}

static void put_machine(const struct info_machine *m)
{
	info_json_member("  \"machine\": {", "host", m->host);
	info_json_member(", ", "cpu", m->cpu);
	printf(", \"cores\": %d, \"cores_usable\": %d, \"memory_bytes\": %" PRIu64, m->cores,
	       m->cores_usable, m->memory_bytes);
	info_json_member(", ", "kernel", m->kernel);
	printf("},\n");
}

static void put_parts(void)
{
	struct ori_device_row device;
	struct ori_engine_row engine;

	printf("  \"devices\": [");
	for (int n = 0; ori_device_row(n, &device); n++) {
		info_json_member(n ? ", {" : "{", "name", device.name);
		info_json_member(", ", "text", device.text);
		printf("}");
	}
	printf("],\n  \"engines\": [");
	for (int n = 0; ori_engine_row(n, &engine); n++) {
		info_json_member(n ? ", {" : "{", "name", engine.name);
		info_json_member(", ", "text", engine.text);
		printf("}");
	}
	printf("],\n");
}

static void put_variables(void)
{
	struct ori_config_row row;

	printf("  \"variables\": [");
	for (int n = 0; ori_config_row(n, &row); n++) {
		info_json_member(n ? ",\n    {" : "\n    {", "name", row.name);
		info_json_member(", ", "type", row.type);
		info_json_member(", ", "default", row.def);
		info_json_member(", ", "value", row.value ? row.value : row.def);
		printf(", \"set\": %s", row.value ? "true" : "false");
		info_json_member(", ", "help", row.help);
		printf("}");
	}
	printf("\n  ],\n");
}

static void put_problems(const struct info *info)
{
	int kept = info->problems < INFO_PROBLEMS_MAX ? info->problems : INFO_PROBLEMS_MAX;

	printf("  \"problem_count\": %d,\n  \"problems\": [", info->problems);
	for (int i = 0; i < kept; i++) {
		fputs(i ? ", " : "", stdout);
		put_string(info->problem[i]);
	}
	printf("],\n");
}

/* ---- topology -------------------------------------------------------------------------------- */

static void put_ranks(const struct info_job *job)
{
	const struct ori_topology *t = &job->topology;

	printf("\n    \"ranks\": [");
	for (int r = 0; r < job->nranks; r++) {
		printf("%s\n      {\"rank\": %d", r ? "," : "", r);
		info_json_member(", ", "host", job->facts[r].host);
		info_json_member(", ", "device",
				 job->facts[r].device == ORI_DEVICE_CPU ? "cpu" : "cuda");
		printf(", \"gpu\": %d, \"node\": %d, \"node_rank\": %d, \"node_size\": %d}",
		       job->facts[r].gpu, t->node[r], t->node_rank[r], t->node_size[r]);
	}
	printf("\n    ]");
}

static void put_pairs(const struct info_job *job)
{
	const char *before = "\n";
	struct ori_pair p;

	printf(",\n    \"pairs\": [");
	for (int a = 0; a < job->nranks; a++) {
		for (int b = a + 1; b < job->nranks; b++) {
			if (ori_classify_pair(job->facts, &job->topology, a, b, &p))
				continue;
			printf("%s      {\"a\": %d, \"b\": %d", before, a, b);
			info_json_member(", ", "kind",
					 p.kind == ORIEL_PEER_MAPPED ? "mapped" : "queued");
			info_json_member(", ", "reason", p.reason);
			printf("}");
			before = ",\n";
		}
	}
	printf("\n    ]");
}

static void put_topology(const struct info_job *job)
{
	printf("  \"topology\": ");
	if (!job->present) {
		printf("null\n");
		return;
	}
	if (!job->facts) {
		info_json_member("{", "error", job->error);
		printf("}\n");
		return;
	}
	printf("{\"nranks\": %d, \"nnodes\": %d,", job->nranks, job->topology.nnodes);
	put_ranks(job);
	put_pairs(job);
	printf("\n  }\n");
}

void info_print_json(const struct info *info)
{
	printf("{\n");
	info_json_member("  ", "version", oriel_version());
	printf(",\n");
	put_build(&info->build);
	put_machine(&info->machine);
	put_parts();
	put_variables();
	put_problems(info);
	put_topology(&info->job);
	printf("}\n");
}
