/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/tune_agree.c - one plan for all ranks: from files that are there, missing, damaged,
 * foreign or different on one rank, and from ORIEL_A2A_PLAN.
 *
 * Every rank is a process with variables of its own; what it logs goes to a file, so that lines can
 * be counted.
 */
#include <fcntl.h>
#include <unistd.h>

#include <oriel/coll/team.h>

#include "../ranks.h"
#include "coll/alltoallv/alltoallv.h"
#include "coll/tune/tune.h"

#define RANKS 4

/* What one rank is given; ranks without an entry have no file and no wish. */
struct given {
	const char *file; /* "good", "other", "damaged", "foreign", "missing", "none" */
	const char *plan; /* ORIEL_A2A_PLAN */
};

struct scene {
	const char *topology;
	struct given given[RANKS];
	int status; /* that all ranks get */
};

/* What the ranks leave behind; shared memory. */
struct seen {
	int status[RANKS];
	int lines[RANKS];
	char log[RANKS][1024];
	char explain[RANKS][256];
	struct ori_a2a_plan plan[RANKS];
	int link[RANKS];
	uint64_t latency_ns[RANKS], bytes_per_us[RANKS];
	double predicted[RANKS];
	struct ori_tune_ways ways[RANKS];
};

static struct seen *seen;
static const struct scene *scene;
static char folder[64];

static void make_table(struct ori_tune_table *t, uint16_t blocks)
{
	memset(t, 0, sizeof(*t));
	t->overlap = 1;
	t->small = 512;
	t->ways = (struct ori_tune_ways){ 128, 5000, 6000, 70000 };
	for (int k = 0; k < ORI_PLAN_KINDS; k++) {
		t->model[k] = (struct ori_tune_model){ 10, 1000, 500, 0.07 };
		t->rows[k] = 1;
		t->row[k][0] = (struct ori_tune_row){ 65536, 32768, blocks, 1, 33, 0 };
	}
}

/* A file of that kind for this rank; its name becomes ORIEL_TUNE_FILE. */
static int give_file(struct oriel_comm *c, int rank, const char *kind)
{
	struct ori_tune_table t;
	struct ori_tune_key key;
	char path[128];
	int err, fd;

	snprintf(path, sizeof(path), "%s/%d", folder, rank);
	snprintf(c->config.tune_file, sizeof(c->config.tune_file), "%s", path);
	if (!strcmp(kind, "missing"))
		return 0;
	ori_tune_key(c, &key);
	if (!strcmp(kind, "foreign"))
		snprintf(key.device, sizeof(key.device), "a machine with 512 cores");
	make_table(&t, !strcmp(kind, "other") ? 7 : 3);
	err = ori_tune_save(path, &key, &t);
	if (err || strcmp(kind, "damaged"))
		return err;
	fd = open(path, O_WRONLY);
	if (fd < 0 || pwrite(fd, "?", 1, 40) != 1)
		err = ORIEL_ESYSTEM;
	if (fd >= 0)
		close(fd);
	return err;
}

/* Standard error goes to a file while ranks agree; returns the old one. */
static int log_begin(const char *path)
{
	int old = dup(STDERR_FILENO), fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (old >= 0 && fd >= 0)
		(void)dup2(fd, STDERR_FILENO);
	if (fd >= 0)
		close(fd);
	return old;
}

static void log_end(const char *path, int old, int rank)
{
	int fd = open(path, O_RDONLY);
	char text[sizeof(seen->log[rank])], *line, *rest = text;
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	memcpy(seen->log[rank], text, sizeof(text));
	/* on a slow machine waits log lines of their own: only the tuner's count */
	while ((line = strsep(&rest, "\n")))
		seen->lines[rank] += strstr(line, "tuning file") || strstr(line, "ORIEL_A2A_PLAN");
	if (fd >= 0)
		close(fd);
	(void)dup2(old, STDERR_FILENO);
	close(old);
}

static void check_setting(const struct oriel_alltoallv_setting *s,
			  const struct ori_a2a_setting *own)
{
	CHECK_EQ(s->blocks, own->blocks);
	CHECK_EQ(s->warps, own->warps);
	CHECK_EQ(s->chunk_bytes, own->chunk);
}

/* The public call gives the tuner's plan; before the agreement that is the first guess. */
static void check_public(struct oriel_comm *c, uint32_t agreed)
{
	struct oriel_alltoallv_plan_info plan = ORIEL_ALLTOALLV_PLAN_INIT;
	struct ori_a2a_plan own;

	if (agreed)
		REQUIRE_OK(ori_tune_plan(c, 5000, &own));
	else
		ori_tune_first(ORI_PRESET_CPU, 5000, &own);
	REQUIRE_OK(oriel_alltoallv_plan(c, 5000, &plan));
	CHECK_EQ(plan.agreed, agreed);
	check_setting(&plan.mapped, &own.kind[ORI_PLAN_MAPPED]);
	check_setting(&plan.queued, &own.kind[ORI_PLAN_QUEUED]);
}

/* A team takes the table's limits; cells only if its ranks all map each other. */
static void check_team(struct oriel_comm *c)
{
	int mapped = !ori_tune_peers(c, ORI_PLAN_QUEUED);
	struct ori_tune_ways ways;
	struct oriel_team_dev dev;
	struct oriel_team *team;

	REQUIRE_OK(oriel_team_create(c, NULL, &team));
	REQUIRE_OK(oriel_team_device(team, &dev));
	ori_tune_ways(c, &ways);
	CHECK_EQ(dev.short_bytes, mapped ? ways.cells : 0);
	CHECK_EQ(dev.once_bytes, ways.once);
	CHECK_EQ(oriel_team_destroy(team), 0);
}

static void scene_rank(struct rank_env *env)
{
	const struct given *g = &scene->given[env->rank];
	struct oriel_comm *c = env->comm;
	char path[128];
	int r = env->rank, old;

	snprintf(path, sizeof(path), "%s/log%d", folder, r);
	snprintf(c->config.tune_file, sizeof(c->config.tune_file), "none");
	snprintf(c->config.a2a_plan, sizeof(c->config.a2a_plan), "%s", g->plan ? g->plan : "");
	if (g->file && strcmp(g->file, "none"))
		REQUIRE_OK(give_file(c, r, g->file));
	check_public(c, 0);
	old = log_begin(path);
	seen->status[r] = oriel_alltoallv_plan_agree(c);
	log_end(path, old, r);
	if (!seen->status[r]) {
		/* once is for all: a second time nobody is waited for */
		if (r == 0)
			CHECK_EQ(oriel_alltoallv_plan_agree(c), 0);
		check_public(c, 1);
		REQUIRE_OK(ori_tune_plan(c, 5000, &seen->plan[r]));
		REQUIRE_OK(ori_tune_explain(c, 5000, seen->explain[r], sizeof(seen->explain[r])));
		seen->predicted[r] = ori_tune_predict_us(c, 5000);
		ori_tune_ways(c, &seen->ways[r]);
		check_team(c);
		seen->link[r] = ori_tune_link(c, ORI_PLAN_MAPPED, &seen->latency_ns[r],
					      &seen->bytes_per_us[r]);
	}
}

/* Returns the lines that all ranks together have logged. */
static int play(const struct scene *s)
{
	struct ranks_options o = { .nranks = RANKS, .processes = 1, .topology = s->topology };
	char path[128];
	int lines = 0;

	if (!seen)
		seen = ranks_shared(sizeof(*seen));
	memset(seen, 0, sizeof(*seen));
	scene = s;
	snprintf(folder, sizeof(folder), "/tmp/oriel-agree-XXXXXX");
	if (!mkdtemp(folder)) {
		check_fail(__FILE__, __LINE__, "no folder");
		return -1;
	}
	ranks_run(&o, scene_rank, NULL);
	for (int r = 0; r < RANKS; r++) {
		lines += seen->lines[r];
		CHECK_EQ(seen->status[r], s->status);
		CHECK(!memcmp(&seen->plan[r], &seen->plan[0], sizeof(seen->plan[0])));
		CHECK(!strcmp(seen->explain[r], seen->explain[0]));
		snprintf(path, sizeof(path), "%s/%d", folder, r);
		(void)unlink(path);
		snprintf(path, sizeof(path), "%s/log%d", folder, r);
		(void)unlink(path);
	}
	CHECK_EQ(rmdir(folder), 0);
	return lines;
}

static void check_first_guess(void)
{
	struct ori_a2a_plan first;
	struct ori_tune_ways ways;

	ori_tune_first(ORI_PRESET_CPU, 5000, &first);
	ori_tune_first_ways(0, RANKS, &ways);
	CHECK_EQ(ways.cells, 0); /* on the CPU */
	for (int r = 0; r < RANKS; r++) {
		CHECK(!memcmp(seen->plan[r].kind, first.kind, sizeof(first.kind)));
		CHECK_HAS(seen->explain[r], "first guess for cpu");
		CHECK_EQ(seen->link[r], ORIEL_EUNSUPPORTED);
		CHECK(seen->predicted[r] == 0);
		CHECK(!memcmp(&seen->ways[r], &ways, sizeof(ways)));
	}
}

static void check_table(uint32_t blocks)
{
	for (int r = 0; r < RANKS; r++) {
		for (int k = 0; k < ORI_PLAN_KINDS; k++) {
			CHECK_EQ(seen->plan[r].kind[k].blocks, blocks);
			CHECK_EQ(seen->plan[r].kind[k].chunk, 32768);
		}
		CHECK_EQ(seen->plan[r].small, 512);
		CHECK_EQ(seen->ways[r].cells, 128);
		CHECK_EQ(seen->ways[r].once, 5000);
		CHECK_EQ(seen->ways[r].host_once, 6000);
		CHECK_EQ(seen->ways[r].long_from, 70000);
		CHECK_HAS(seen->explain[r], "measured");
		CHECK_HAS(seen->explain[r], "within 7 %");
		CHECK_EQ(seen->link[r], 0);
		CHECK_EQ(seen->latency_ns[r], 10000);
		CHECK_EQ(seen->bytes_per_us[r], 1000);
	}
}

TEST(all_mapped)
{
	const struct scene s = { .topology = "1x4" };

	CHECK_EQ(play(&s), 0);
	check_first_guess();
	CHECK_EQ(seen->plan[0].uniform, 1);
	CHECK(seen->plan[0].cores >= 1);
}

TEST(all_queued)
{
	const struct scene s = { .topology = "4x1" };

	CHECK_EQ(play(&s), 0);
	check_first_guess();
	CHECK_EQ(seen->plan[0].uniform, 0);
}

TEST(mixed)
{
	const struct scene s = { .topology = "2x2" };

	CHECK_EQ(play(&s), 0);
	check_first_guess();
	CHECK_EQ(seen->plan[0].uniform, 0);
	CHECK(seen->plan[0].kind[0].chunk != seen->plan[0].kind[1].chunk);
}

TEST(everybody_has_the_file)
{
	const struct scene s = { "2x2",
				 { { "good", 0 }, { "good", 0 }, { "good", 0 }, { "good", 0 } },
				 0 };

	CHECK_EQ(play(&s), 0);
	check_table(3);
	/* 2 peers of each kind, 3 blocks: 10 + 10000 / 1000, and the one hides the other */
	CHECK(seen->predicted[0] > 19.99 && seen->predicted[0] < 20.01);
}

TEST(one_rank_has_the_file)
{
	const struct scene s = { "2x2", { { 0, 0 }, { 0, 0 }, { "good", 0 } }, 0 };

	CHECK_EQ(play(&s), 0);
	check_table(3);
}

TEST(one_rank_has_another_file)
{
	const struct scene s = { "1x4",
				 { { "good", 0 }, { "good", 0 }, { "other", 0 }, { "good", 0 } },
				 0 };

	CHECK_EQ(play(&s), 1);
	CHECK_HAS(seen->log[0], "rank 2 has another tuning file");
	check_table(3);
}

TEST(the_lowest_rank_decides)
{
	const struct scene s = { "1x4", { { "none", 0 }, { "other", 0 }, { "good", 0 } }, 0 };

	CHECK_EQ(play(&s), 1);
	CHECK_HAS(seen->log[1], "all ranks use rank 1's");
	check_table(7);
}

TEST(damaged_files_are_one_line)
{
	const struct scene s = { "2x2", { { 0, 0 }, { "damaged", 0 }, { "damaged", 0 } }, 0 };

	CHECK_EQ(play(&s), 1);
	CHECK_HAS(seen->log[1], "is ignored");
	CHECK_HAS(seen->log[1], "damaged");
	check_first_guess();
}

TEST(foreign_files_are_one_line)
{
	const struct scene s = { "1x4",
				 { { "foreign", 0 }, { "foreign", 0 }, { 0, 0 }, { "foreign", 0 } },
				 0 };

	CHECK_EQ(play(&s), 1);
	CHECK_HAS(seen->log[0], "512 cores");
	check_first_guess();
}

/* One that was asked for by name and is not there. */
TEST(a_missing_file_is_one_line)
{
	const struct scene s = { "1x4", { { "missing", 0 }, { "missing", 0 } }, 0 };

	CHECK_EQ(play(&s), 1);
	CHECK_HAS(seen->log[0], "cannot be opened");
	check_first_guess();
}

/* The good file of one rank serves all, though another's is damaged. */
TEST(good_beside_damaged)
{
	const struct scene s = { "1x4", { { "damaged", 0 }, { "good", 0 } }, 0 };

	CHECK_EQ(play(&s), 1);
	check_table(3);
}

TEST(wishes_come_before_files)
{
	const struct given g = { "good", "queued=2/1/128K,small=0" };
	const struct scene s = { "2x2", { g, g, g, g }, 0 };

	CHECK_EQ(play(&s), 0);
	CHECK_EQ(seen->plan[3].kind[ORI_PLAN_QUEUED].blocks, 2);
	CHECK_EQ(seen->plan[3].kind[ORI_PLAN_QUEUED].chunk, 131072);
	CHECK_EQ(seen->plan[3].kind[ORI_PLAN_MAPPED].blocks, 3);
	CHECK_EQ(seen->plan[3].small, 0);
	CHECK_HAS(seen->explain[3], "ORIEL_A2A_PLAN");
}

TEST(presets_by_name)
{
	const struct given g = { "good", "proposal" };
	const struct scene s = { "2x2", { g, g, g, g }, 0 };
	struct ori_a2a_plan p;

	CHECK_EQ(play(&s), 0);
	ori_tune_first(ORI_PRESET_PROPOSAL, 5000, &p);
	CHECK(!memcmp(seen->plan[0].kind, p.kind, sizeof(p.kind)));
}

TEST(one_rank_wishes_otherwise)
{
	const struct scene s = { "1x4", { { 0, 0 }, { 0, "mapped=4/1/64K" } }, 0 };

	CHECK_EQ(play(&s), 1);
	CHECK_HAS(seen->log[0], "rank 1 has another ORIEL_A2A_PLAN");
	check_first_guess();
}

TEST(a_bad_wish_fails_on_all_ranks)
{
	const struct scene s = { "1x4",
				 { { 0, 0 }, { 0, 0 }, { 0, "mapped=nonsense" } },
				 ORIEL_ECONFIG };

	CHECK_EQ(play(&s), RANKS);
	CHECK_HAS(seen->log[2], "mapped=nonsense");
	CHECK_HAS(seen->log[0], "rank 2");
}

/* ---- the public struct ----------------------------------------------------------------------- */

/* Struct of a newer program, with fields that this library does not know. */
struct newer_plan {
	struct oriel_alltoallv_plan_info plan;
	uint64_t more[2];
};

static void struct_rank(struct rank_env *env)
{
	struct oriel_alltoallv_plan_info plan = ORIEL_ALLTOALLV_PLAN_INIT, was;
	struct newer_plan newer = { .plan = ORIEL_ALLTOALLV_PLAN_INIT };

	memset(&plan.queued, 0xee, sizeof(plan.queued));
	was = plan;
	CHECK_EQ(oriel_alltoallv_plan(NULL, 1, &plan), ORIEL_EINVAL);
	CHECK_EQ(oriel_alltoallv_plan(env->comm, 1, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_alltoallv_plan_agree(NULL), ORIEL_EINVAL);
	plan.size = was.size = 0;
	CHECK_EQ(oriel_alltoallv_plan(env->comm, 1, &plan), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "ORIEL_ALLTOALLV_PLAN_INIT");
	CHECK(!memcmp(&plan, &was, sizeof(plan)));
	/* an older program, whose struct ends after `mapped` */
	plan.size = was.size = offsetof(struct oriel_alltoallv_plan_info, queued);
	REQUIRE_OK(oriel_alltoallv_plan(env->comm, UINT64_MAX, &plan));
	CHECK(plan.mapped.blocks >= 1 && plan.mapped.warps >= 1 && plan.mapped.chunk_bytes >= 16);
	CHECK(!memcmp(&plan.queued, &was.queued, sizeof(was.queued)));
	newer.plan.size = sizeof(newer);
	REQUIRE_OK(oriel_alltoallv_plan(env->comm, 0, &newer.plan));
	CHECK_EQ(newer.plan.size, sizeof(newer));
	CHECK(newer.plan.queued.blocks >= 1 && !newer.more[0] && !newer.more[1]);
	newer.more[1] = 1;
	CHECK_EQ(oriel_alltoallv_plan(env->comm, 0, &newer.plan), ORIEL_EINVAL);
}

TEST(public_struct_may_grow)
{
	struct ranks_options o = { .nranks = 1 };

	ranks_run(&o, struct_rank, NULL);
}
