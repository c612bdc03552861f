/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/collect.c - gathers what needs no other ranks: build, machine, configuration.
 *
 * A value that cannot be read (no /proc) is "unknown".  Only bad variables are problems.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../../device/device.h"
#include "../../util/util.h"
#include "info.h"

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#define SANITIZER "address"
#elif defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#define SANITIZER "thread"
#else
#define SANITIZER "none"
#endif

#if defined(__aarch64__)
#define ARCH "aarch64"
#elif defined(__x86_64__)
#define ARCH "x86-64"
#else
#define ARCH "unknown"
#endif

void info_problem_add(struct info *info, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (info->problems < INFO_PROBLEMS_MAX)
		vsnprintf(info->problem[info->problems], INFO_TEXT_MAX, fmt, ap);
	va_end(ap);
	info->problems++;
}

static void gather_build(struct info_build *b)
{
	struct ori_device_row row;

#if defined(__clang__)
	snprintf(b->compiler, sizeof(b->compiler), "%s", __VERSION__);
#else
	snprintf(b->compiler, sizeof(b->compiler), "gcc %s", __VERSION__);
#endif
	b->arch = ARCH;
	b->sanitizer = SANITIZER;
	for (int n = 0; ori_device_row(n, &row); n++)
		b->cuda |= !strncmp(row.name, "cuda", 4);
}

/* The text behind "key : " of the first such line of /proc/cpuinfo; 1 if there is one. */
static int cpuinfo_value(const char *key, char *out, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[512];
	int found = 0;

	while (f && !found && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, key, strlen(key)) || !colon)
			continue;
		colon += 1 + strspn(colon + 1, " \t");
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(out, size, "%s", colon);
		found = out[0] != '\0';
	}
	if (f)
		fclose(f);
	return found;
}

static void gather_cpu(char *out, size_t size)
{
	char maker[64], part[64];

	/* x86 and some boards have a name; other ARM kernels have only numbers */
	if (cpuinfo_value("model name", out, size) || cpuinfo_value("Model", out, size))
		return;
	if (cpuinfo_value("CPU implementer", maker, sizeof(maker)) &&
	    cpuinfo_value("CPU part", part, sizeof(part)))
		snprintf(out, size, "implementer %s, part %s", maker, part);
	else
		snprintf(out, size, "unknown");
}

static void gather_machine(struct info_machine *m)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	struct utsname u;

	if (gethostname(m->host, sizeof(m->host) - 1))
		snprintf(m->host, sizeof(m->host), "unknown");
	gather_cpu(m->cpu, sizeof(m->cpu));
	if (uname(&u))
		snprintf(m->kernel, sizeof(m->kernel), "unknown");
	else
		snprintf(m->kernel, sizeof(m->kernel), "%s %s", u.sysname, u.release);
	m->cores_usable = ori_core_count();
	m->cores = cores > 0 ? (int)cores : 0;
	m->memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

void info_gather_here(struct info *info)
{
	gather_build(&info->build);
	gather_machine(&info->machine);
}

/* ori_config_read() warns with the nearest known name.  Here unknown names become problems. */
static void find_unknown(struct info *info)
{
	for (char **entry = environ; entry && *entry; entry++) {
		char name[100];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
		if (!strncmp(name, "ORIEL_", 6) && !ori_config_is_known(name))
			info_problem_add(info, "%s is not a variable of Oriel", name);
	}
}

/* Opens the device as a comm does, and lets it add its facts. */
static int try_device(const struct ori_config *config, struct ori_facts *facts)
{
	struct ori_device *device;
	int err = ori_device_open(config->device, ORI_NS_PER_S, &device);

	if (err)
		return err;
	err = device->ops->facts(device, facts);
	device->ops->close(device);
	return err ? err : ori_facts_override(facts, config);
}

int info_gather_config(struct info *info, struct ori_config *config)
{
	int err;

	find_unknown(info);
	err = ori_config_read(config);
	/* with ORIEL_STRICT=1 the error may be an unknown name that is in the list already */
	if (err &&
	    (!info->problems || !strstr(ori_last_error_text(), "is not a variable of Oriel")))
		info_problem_add(info, "%s", ori_last_error_text());
	return err;
}

int info_gather_facts(struct info *info, const struct ori_config *config, struct ori_facts *facts)
{
	int err = ori_facts_gather(facts, config);

	if (!err)
		err = try_device(config, facts);
	if (err)
		info_problem_add(info, "%s", ori_last_error_text());
	return err;
}
