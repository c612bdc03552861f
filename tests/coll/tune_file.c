/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/tune_file.c - the tuner's file: what is written is read, and nothing else is.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "coll/tune/tune.h"

static const struct ori_tune_key key = { "cpu of a test, 2 cores", "soft soft", "2x4 on 1 host",
					 "0.1.0" };

struct place {
	char folder[64], file[128];
};

static int place_make(struct place *p)
{
	snprintf(p->folder, sizeof(p->folder), "/tmp/oriel-tune-XXXXXX");
	if (!mkdtemp(p->folder))
		return -1;
	snprintf(p->file, sizeof(p->file), "%s/table.txt", p->folder);
	return 0;
}

/* Also counts what is left besides the file. */
static int place_remove(struct place *p)
{
	DIR *d = opendir(p->folder);
	struct dirent *e;
	int others = 0;

	while (d && (e = readdir(d)))
		others += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
			  strcmp(e->d_name, "table.txt");
	if (d)
		closedir(d);
	(void)unlink(p->file);
	(void)rmdir(p->folder);
	return others;
}

static void make_table(struct ori_tune_table *t, uint32_t blocks)
{
	memset(t, 0, sizeof(*t));
	t->model[0] = (struct ori_tune_model){ 1.5, 12000.25, 3000.125, 0.125 };
	t->model[1] = (struct ori_tune_model){ 20, 2000, 2000, 0.05 };
	t->overlap = 0.75;
	t->small = 4096;
	t->ways = (struct ori_tune_ways){ 256, 21845, 9362, 131072 };
	t->rows[0] = ORI_TUNE_ROWS;
	t->rows[1] = 2;
	for (uint32_t i = 0; i < ORI_TUNE_ROWS; i++)
		t->row[0][i] = (struct ori_tune_row){
			1024ull << 2 * i, 65536, (uint16_t)blocks, 32, 12.5f, 0
		};
	t->row[1][0] = (struct ori_tune_row){ 1024, 16, 1, 1, 3, 0 };
	t->row[1][1] = (struct ori_tune_row){ UINT64_MAX, ORI_TUNE_CHUNK_MAX, 64, 1, 4.25f, 0 };
}

static int load(const char *path, struct ori_tune_table *t, char *why)
{
	return ori_tune_load(path, &key, t, why, 256);
}

static int write_text(const char *path, const char *text, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int ok = fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes;

	if (fd >= 0)
		close(fd);
	return ok ? 0 : -1;
}

static size_t read_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room);

	if (fd >= 0)
		close(fd);
	return n < 0 ? 0 : (size_t)n;
}

TEST(what_is_written_is_read)
{
	struct ori_tune_table t, back;
	struct place p;
	char why[256];

	REQUIRE(!place_make(&p));
	make_table(&t, 16);
	REQUIRE_OK(ori_tune_save(p.file, &key, &t));
	memset(&back, 0xff, sizeof(back));
	CHECK_EQ(load(p.file, &back, why), 0);
	CHECK(!memcmp(&back, &t, sizeof(t)));
	/* rows by size: the first that reaches it, else the last */
	CHECK_EQ(ori_tune_row(&t, 0, 0)->bytes, 1024);
	CHECK_EQ(ori_tune_row(&t, 0, 1024)->bytes, 1024);
	CHECK_EQ(ori_tune_row(&t, 0, 1025)->bytes, 4096);
	CHECK_EQ(ori_tune_row(&t, 1, 1ull << 60)->blocks, 64);
	CHECK_EQ(ori_tune_row(&t, 0, UINT64_MAX)->bytes, 1024ull << 22);
	t.rows[1] = 0;
	CHECK(!ori_tune_row(&t, 1, 5));
	CHECK_EQ(place_remove(&p), 0);
}

TEST(folders_are_made)
{
	struct ori_tune_table t, back;
	struct place p;
	char path[256], why[256];

	REQUIRE(!place_make(&p));
	make_table(&t, 1);
	snprintf(path, sizeof(path), "%s/a/b/table.txt", p.folder);
	REQUIRE_OK(ori_tune_save(path, &key, &t));
	CHECK_EQ(load(path, &back, why), 0);
	(void)unlink(path);
	snprintf(path, sizeof(path), "%s/a/b", p.folder);
	CHECK_EQ(rmdir(path), 0);
	snprintf(path, sizeof(path), "%s/a", p.folder);
	CHECK_EQ(rmdir(path), 0);
	CHECK_EQ(place_remove(&p), 0);
}

TEST(damage_is_found)
{
	char text[ORI_TUNE_FILE_BYTES], why[256];
	struct ori_tune_table t, back;
	struct place p;
	size_t n;

	REQUIRE(!place_make(&p));
	make_table(&t, 4);
	REQUIRE_OK(ori_tune_save(p.file, &key, &t));
	n = read_text(p.file, text, sizeof(text));
	REQUIRE(n > 100 && n < sizeof(text));
	for (size_t cut = 0; cut < n; cut += 1 + n / 60) {
		REQUIRE(!write_text(p.file, text, cut));
		CHECK_EQ(load(p.file, &back, why), ORIEL_EPROTO);
	}
	for (size_t at = 0; at < n; at += 1 + n / 120) {
		text[at] ^= 1;
		REQUIRE(!write_text(p.file, text, n));
		CHECK_EQ(load(p.file, &back, why), ORIEL_EPROTO);
		text[at] ^= 1;
	}
	text[n] = '\n';
	REQUIRE(!write_text(p.file, text, n + 1));
	CHECK_EQ(load(p.file, &back, why), ORIEL_EPROTO);
	CHECK_HAS(why, "damaged");
	REQUIRE(!write_text(p.file, text, n));
	CHECK_EQ(load(p.file, &back, why), 0);
	CHECK_EQ(place_remove(&p), 0);
}

TEST(files_for_something_else)
{
	static const char *const words[] = { "device", "engine", "topology", "version" };
	struct ori_tune_table t, back;
	struct place p;
	char why[256];

	REQUIRE(!place_make(&p));
	make_table(&t, 4);
	for (int i = 0; i < 4; i++) {
		struct ori_tune_key other = key;
		char *field[] = { other.device, other.engine, other.shape, other.version };

		field[i][0] = 'X';
		REQUIRE_OK(ori_tune_save(p.file, &other, &t));
		memset(&back, 0, sizeof(back));
		CHECK_EQ(load(p.file, &back, why), ORIEL_EMISMATCH);
		CHECK_HAS(why, words[i]);
		CHECK_EQ(back.rows[0], 0);
		CHECK(ori_tune_key_hash(&other) != ori_tune_key_hash(&key));
	}
	CHECK_EQ(place_remove(&p), 0);
}

/* The checksums are right but the numbers are wrong: such a file is not used. */
TEST(numbers_out_of_range)
{
	static const struct {
		const char *find, *put;
	} changes[] = {
		{ "blocks 4 ", "blocks 0 " },
		{ "blocks 4 ", "blocks 65 " },
		{ "warps 32 ", "warps 33 " },
		{ "chunk 65536 ", "chunk 65537 " },
		{ "chunk 65536 ", "chunk 8 " },
		{ "mapped 12\n", "mapped 13\n" },
		{ "mapped 12\n", "mapped 11\n" },
		{ "overlap 750\n", "overlap 1001\n" },
		{ "bytes 4096 ", "bytes 1024 " },
		{ "small 4096\n", "small 9999999\n" },
		{ "latency 1500 ", "latency -1 " },
		{ "latency 1500 ", "latency 99999999999999999999999 " },
		{ "cells 256 ", "cells 4104 " },
		{ "cells 256 ", "cells 257 " },
		{ "cells 256 ", "" },
		{ "once 21845 ", "once 262145 " },
		{ "once 21845 ", "once " },
		{ "once 9362 ", "once 262145 " },
		{ "host_once 9362 ", "" },
		{ "long_from 131072\n", "long_from 16383\n" },
		{ "long_from 131072\n", "long_from 16777217\n" },
		{ "long_from 131072\n", "long_from 131072" },
		{ " once 21845 host_once 9362 long_from 131072\n", "\n" },
		{ "oriel-tune 3\n", "oriel-tune 2\n" },
		{ "oriel-tune 3\n", "oriel-tune 4\n" },
		{ "ns 12500\n", "ns 12500 \n" },
	};
	char text[ORI_TUNE_FILE_BYTES], changed[ORI_TUNE_FILE_BYTES], why[256];
	struct ori_tune_table t, back;
	struct place p;
	size_t n;

	REQUIRE(!place_make(&p));
	make_table(&t, 4);
	REQUIRE_OK(ori_tune_save(p.file, &key, &t));
	n = read_text(p.file, text, sizeof(text) - 1);
	REQUIRE(n > 23);
	text[n - 23] = '\0'; /* without the sum */
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		const char *at = strstr(text, changes[i].find);
		int m;

		REQUIRE(at);
		m = snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text,
			     changes[i].put, at + strlen(changes[i].find));
		m += snprintf(changed + m, sizeof(changed) - (size_t)m, "check %016llx\n",
			      (unsigned long long)ori_tune_checksum(changed, (size_t)m));
		REQUIRE(!write_text(p.file, changed, (size_t)m));
		if (load(p.file, &back, why) != ORIEL_EPROTO)
			check_fail(__FILE__, __LINE__, "\"%s\" was taken", changes[i].put);
	}
	CHECK_EQ(place_remove(&p), 0);
}

/* A whole file as the version before wrote it, with a good sum. */
TEST(an_older_version)
{
	static const char older[] = "oriel-tune 2\ndevice cpu of a test, 2 cores\n"
				    "engine soft soft\nshape 2x4 on 1 host\nversion 0.1.0\n"
				    "overlap 500\nsmall 1024\ncells 4096\n"
				    "mapped 0\nlatency 0 rate 0 block_rate 0 error 0\n"
				    "queued 0\nlatency 0 rate 0 block_rate 0 error 0\n";
	char text[1024], why[256];
	struct ori_tune_table back;
	struct place p;
	int n;

	REQUIRE(!place_make(&p));
	n = snprintf(text, sizeof(text), "%scheck %016llx\n", older,
		     (unsigned long long)ori_tune_checksum(older, sizeof(older) - 1));
	REQUIRE(!write_text(p.file, text, (size_t)n));
	CHECK_EQ(load(p.file, &back, why), ORIEL_EPROTO);
	CHECK_HAS(why, "no tuning file of this version");
	CHECK_EQ(place_remove(&p), 0);
}

TEST(things_that_are_no_files)
{
	struct ori_tune_table back;
	struct place p;
	char why[256];

	REQUIRE(!place_make(&p));
	CHECK_EQ(load(p.file, &back, why), ORIEL_EUNSUPPORTED);
	CHECK_EQ(load(p.folder, &back, why), ORIEL_ESYSTEM);
	REQUIRE(!mkfifo(p.file, 0600));
	CHECK_EQ(load(p.file, &back, why), ORIEL_ESYSTEM); /* and does not wait for a writer */
	CHECK_HAS(why, "plain file");
	(void)unlink(p.file);
	REQUIRE(!write_text(p.file, "", 0));
	CHECK_EQ(load(p.file, &back, why), ORIEL_EPROTO);
	CHECK_EQ(place_remove(&p), 0);
}

struct replacing {
	const char *file;
	int rounds;
	int failed; /* by the writer, read after it was joined */
	uint32_t over;
};

static void *replace(void *arg)
{
	struct replacing *r = arg;
	struct ori_tune_table t;

	for (int i = 0; i < r->rounds; i++) {
		make_table(&t, i % 2 ? 3 : 5);
		r->failed += ori_tune_save(r->file, &key, &t) != 0;
	}
	__atomic_store_n(&r->over, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* A reader gets the old or the new file, complete, while the file is replaced. */
TEST(replaced_at_once)
{
	struct ori_tune_table three, five, back;
	struct place p;
	char why[256];
	pthread_t writer;

	REQUIRE(!place_make(&p));
	struct replacing r = { .file = p.file, .rounds = 60 };
	make_table(&three, 3);
	make_table(&five, 5);
	REQUIRE_OK(ori_tune_save(p.file, &key, &five));
	REQUIRE(!pthread_create(&writer, NULL, replace, &r));
	while (!__atomic_load_n(&r.over, __ATOMIC_ACQUIRE)) {
		int err = load(p.file, &back, why);

		if (err || (memcmp(&back, &three, sizeof(back)) != 0 &&
			    memcmp(&back, &five, sizeof(back)) != 0)) {
			check_fail(__FILE__, __LINE__, "a reader got %d: %s", err, why);
			break;
		}
	}
	pthread_join(writer, NULL);
	CHECK_EQ(r.failed, 0);
	CHECK_EQ(place_remove(&p), 0);
}

TEST(a_file_that_cannot_be_written)
{
	struct ori_tune_table t;
	struct place p;
	char path[256];

	REQUIRE(!place_make(&p));
	make_table(&t, 1);
	REQUIRE(!write_text(p.file, "x", 1));
	snprintf(path, sizeof(path), "%s/below/a/file", p.file); /* a file is no folder */
	CHECK_EQ(ori_tune_save(path, &key, &t), ORIEL_ESYSTEM);
	CHECK_HAS(oriel_last_error(), "cannot make");
	CHECK_EQ(place_remove(&p), 0);
}

TEST(default_place)
{
	char path[512];

	setenv("XDG_CACHE_HOME", "/some/cache", 1);
	CHECK_EQ(ori_tune_path(&key, path, sizeof(path)), 0);
	CHECK_HAS(path, "/some/cache/oriel/tune-");
	CHECK_EQ(ori_tune_path(&key, path, 16), ORIEL_EUNSUPPORTED);
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", "/home/somebody", 1);
	CHECK_EQ(ori_tune_path(&key, path, sizeof(path)), 0);
	CHECK_HAS(path, "/home/somebody/.cache/oriel/tune-");
	setenv("HOME", "not absolute", 1);
	CHECK_EQ(ori_tune_path(&key, path, sizeof(path)), ORIEL_EUNSUPPORTED);
}
