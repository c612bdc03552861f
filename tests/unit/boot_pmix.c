/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/boot_pmix.c - the boot under PMIx: our declarations compared with pmix.h, the choice
 * of the launcher, errors, and which address of rank 0 a rank takes.
 *
 * This program itself plays PMIx (ORIEL_PMIX_LIBRARY=self): its functions answer what a test wants.
 * tests/tools/launchers_test.sh and slurm_test.sh use a real one, with mpirun and srun.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include "../../src/boot/launcher.h"
#include "../../src/boot/pmix_abi.h"
#include "../check.h"

#if __has_include(<pmix.h>)
#include <pmix.h>
#define HAVE_PMIX_H 1
#else
#define HAVE_PMIX_H 0
#endif

/* ---- declarations ---------------------------------------------------------------------------- */

TEST(declarations_are_those_of_pmix_h)
{
#if HAVE_PMIX_H
	CHECK_EQ(sizeof(struct ori_pmix_proc), sizeof(pmix_proc_t));
	CHECK_EQ(offsetof(struct ori_pmix_proc, rank), offsetof(pmix_proc_t, rank));
	CHECK_EQ(sizeof(struct ori_pmix_value), sizeof(pmix_value_t));
	CHECK_EQ(offsetof(struct ori_pmix_value, data), offsetof(pmix_value_t, data));
	CHECK_EQ(offsetof(struct ori_pmix_value, data.object.size),
		 offsetof(pmix_value_t, data.bo.size));
	CHECK_EQ(offsetof(struct ori_pmix_value, data.uint32), offsetof(pmix_value_t, data.uint32));
	CHECK_EQ(offsetof(struct ori_pmix_value, data.flag), offsetof(pmix_value_t, data.flag));
	CHECK_EQ(sizeof(struct ori_pmix_info), sizeof(pmix_info_t));
	CHECK_EQ(offsetof(struct ori_pmix_info, flags), offsetof(pmix_info_t, flags));
	CHECK_EQ(offsetof(struct ori_pmix_info, value), offsetof(pmix_info_t, value));
	CHECK_EQ(ORI_PMIX_SUCCESS, PMIX_SUCCESS);
	CHECK_EQ(ORI_PMIX_OPERATION_SUCCEEDED, PMIX_OPERATION_SUCCEEDED);
	CHECK_EQ(ORI_PMIX_SCOPE_GLOBAL, PMIX_GLOBAL);
	CHECK_EQ(sizeof(pmix_scope_t), 1);
	CHECK_EQ(ORI_PMIX_RANK_WILDCARD, PMIX_RANK_WILDCARD);
	CHECK_EQ(ORI_PMIX_TYPE_BOOL, PMIX_BOOL);
	CHECK_EQ(ORI_PMIX_TYPE_UINT32, PMIX_UINT32);
	CHECK_EQ(ORI_PMIX_TYPE_BYTES, PMIX_BYTE_OBJECT);
	CHECK(!strcmp(ORI_PMIX_KEY_JOB_SIZE, PMIX_JOB_SIZE));
	CHECK(!strcmp(ORI_PMIX_KEY_LOCAL_SIZE, PMIX_LOCAL_SIZE));
	CHECK(!strcmp(ORI_PMIX_KEY_COLLECT, PMIX_COLLECT_DATA));
#else
	const char *ci = getenv("CI");

	if (ci && !strcmp(ci, "true"))
		check_fail(__FILE__, __LINE__, "no pmix.h, though tools/deps.sh test installs it");
	else
		check_skip("no pmix.h here; tools/deps.sh test installs it");
#endif
}

/* ---- a PMIx of our own ----------------------------------------------------------------------- */

static struct {
	int init, fence, get, nranks, rank; /* statuses; who the server says this is */
	int fence_silent;                   /* never calls back */
	const void *bytes;                  /* what rank 0 has put */
	size_t size;
	int inits, finalizes, puts;
} fake;

#if !HAVE_PMIX_H
typedef struct ori_pmix_proc pmix_proc_t;
typedef struct ori_pmix_info pmix_info_t;
typedef struct ori_pmix_value pmix_value_t;
typedef int pmix_status_t;
typedef uint8_t pmix_scope_t;
typedef void (*pmix_op_cbfunc_t)(pmix_status_t, void *);
pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t n);
pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t n);
pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value);
pmix_status_t PMIx_Commit(void);
pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
			    size_t n, pmix_op_cbfunc_t ended, void *ctx);
pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
		       size_t n, pmix_value_t **out);
const char *PMIx_Error_string(pmix_status_t status);
#endif

static pmix_op_cbfunc_t late_fence; /* of the last fence */
static void *late_ctx;

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t n)
{
	(void)info;
	(void)n;
	fake.inits++;
	memset(proc, 0, sizeof(*proc));
	proc->rank = (uint32_t)fake.rank;
	return fake.init;
}

pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t n)
{
	(void)info;
	(void)n;
	fake.finalizes++;
	return 0;
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
	(void)scope;
	(void)key;
	(void)value;
	fake.puts++;
	return 0;
}

pmix_status_t PMIx_Commit(void)
{
	return 0;
}

pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
			    size_t n, pmix_op_cbfunc_t ended, void *ctx)
{
	(void)procs;
	(void)nprocs;
	(void)info;
	(void)n;
	late_fence = ended;
	late_ctx = ctx;
	if (!fake.fence_silent)
		ended(fake.fence, ctx);
	return 0;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
		       size_t n, pmix_value_t **out)
{
	struct ori_pmix_value *v = calloc(1, sizeof(*v));

	(void)proc;
	(void)info;
	(void)n;
	if (!strncmp(key, "oriel.", 6)) {
		if (fake.get) {
			free(v);
			return fake.get;
		}
		v->type = ORI_PMIX_TYPE_BYTES;
		v->data.object.bytes = malloc(fake.size);
		memcpy(v->data.object.bytes, fake.bytes, fake.size);
		v->data.object.size = fake.size;
	} else {
		v->type = ORI_PMIX_TYPE_UINT32;
		v->data.uint32 = (uint32_t)fake.nranks;
	}
	*out = (void *)v;
	return 0;
}

const char *PMIx_Error_string(pmix_status_t status)
{
	return status == -25 ? "UNREACH" : "ERROR";
}

static void set_up(int rank, int nranks)
{
	memset(&fake, 0, sizeof(fake));
	fake.rank = rank;
	fake.nranks = nranks;
	setenv("PMIX_NAMESPACE", "test", 1);
	setenv("PMIX_RANK", rank ? "1" : "0", 1);
	setenv("ORIEL_PMIX_LIBRARY", "self", 1);
	setenv("ORIEL_TIMEOUT", "60", 1);
}

static void take_down(void)
{
	static const char *const names[] = {
		"PMIX_NAMESPACE", "PMIX_RANK",      "ORIEL_PMIX_LIBRARY",
		"ORIEL_TIMEOUT",  "ORIEL_LAUNCHER", "TORCHELASTIC_RUN_ID",
		"RANK",           "WORLD_SIZE",     "MASTER_ADDR",
		"MASTER_PORT"
	};

	for (size_t i = 0; i < ORI_COUNT(names); i++)
		unsetenv(names[i]);
}

/* The status of oriel_boot_env; a boot that came about is destroyed. */
static int try_env(int *nranks)
{
	struct oriel_boot *boot;
	int err = oriel_boot_env(&boot);

	if (err)
		return err;
	*nranks = oriel_boot_nranks(boot);
	oriel_boot_destroy(boot);
	return 0;
}

TEST(one_rank_needs_nobody)
{
	int n = 0;

	set_up(0, 1);
	CHECK_EQ(try_env(&n), 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(fake.inits, 1);
	CHECK_EQ(fake.finalizes, 1); /* left again at once */
	take_down();
}

TEST(a_library_that_is_missing_or_another)
{
	int n;

	set_up(0, 2);
	setenv("ORIEL_PMIX_LIBRARY", "libnothing-of-the-kind.so", 1);
	CHECK_EQ(try_env(&n), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "libnothing-of-the-kind");
	CHECK_HAS(oriel_last_error(), "ORIEL_LAUNCHER=env");
	setenv("ORIEL_PMIX_LIBRARY", "libm.so.6", 1);
	CHECK_EQ(try_env(&n), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "not a PMIx library");
	take_down();
}

TEST(errors_of_the_server_are_named)
{
	int n;

	set_up(1, 2);
	fake.init = -25;
	CHECK_EQ(try_env(&n), ORIEL_EBOOT);
	CHECK_HAS(oriel_last_error(), "PMIx_Init: UNREACH");
	set_up(1, 2);
	fake.fence = -25;
	CHECK_EQ(try_env(&n), ORIEL_EBOOT);
	CHECK_HAS(oriel_last_error(), "PMIx_Fence: UNREACH");
	CHECK_EQ(fake.finalizes, 1);
	set_up(1, 2);
	fake.get = -46;
	CHECK_EQ(try_env(&n), ORIEL_EBOOT);
	set_up(5, 2);
	CHECK_EQ(try_env(&n), ORIEL_ERANGE);
	take_down();
}

TEST(a_rank_that_never_comes_is_a_timeout)
{
	uint64_t start = ori_now_ns();
	int n;

	set_up(1, 2);
	setenv("ORIEL_TIMEOUT", "0.3", 1);
	fake.fence_silent = 1;
	CHECK_EQ(try_env(&n), ORIEL_ETIMEDOUT);
	late_fence(0, late_ctx); /* an answer after all finds nobody, and does no harm */
	CHECK(ori_now_ns() - start < 60 * ORI_NS_PER_S);
	set_up(0, 2);
	setenv("ORIEL_TIMEOUT", "0.3", 1);
	fake.fence_silent = 1;
	CHECK_EQ(try_env(&n), ORIEL_ETIMEDOUT); /* rank 0 closes its hub too */
	late_fence(0, late_ctx);
	CHECK_EQ(fake.puts, 1);
	take_down();
}

TEST(what_rank_0_tells_is_not_trusted)
{
	struct ori_offer offer;
	int n;

	set_up(1, 2);
	memset(&offer, 0x5a, sizeof(offer));
	offer.status = 0;
	fake.bytes = &offer;
	fake.size = sizeof(offer) - 1;
	CHECK_EQ(try_env(&n), ORIEL_EPROTO);
	fake.size = sizeof(offer);
	CHECK_EQ(try_env(&n), ORIEL_EPROTO);
	offer.status = ORIEL_ESYSTEM;
	CHECK_EQ(try_env(&n), ORIEL_ESYSTEM);
	CHECK_HAS(oriel_last_error(), "rank 0 could not open the rendezvous");
	take_down();
}

TEST(which_launcher_it_is)
{
	int n = 0;

	set_up(0, 1);
	fake.init = -25; /* whoever asks PMIx, fails */
	setenv("ORIEL_LAUNCHER", "none", 1);
	CHECK_EQ(try_env(&n), 0);
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "1", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("MASTER_PORT", "29400", 1);
	CHECK_EQ(fake.inits, 0);
	setenv("ORIEL_LAUNCHER", "env", 1);
	CHECK_EQ(try_env(&n), 0);
	CHECK_EQ(fake.inits, 0);
	unsetenv("ORIEL_LAUNCHER");
	CHECK_EQ(try_env(&n), ORIEL_EBOOT); /* PMIx comes before RANK */
	setenv("TORCHELASTIC_RUN_ID", "x", 1);
	CHECK_EQ(try_env(&n), 0); /* but torchrun's ranks are torchrun's */
	setenv("ORIEL_LAUNCHER", "toaster", 1);
	CHECK_EQ(try_env(&n), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "toaster");
	take_down();
	setenv("ORIEL_LAUNCHER", "env", 1);
	CHECK_EQ(try_env(&n), ORIEL_ECONFIG); /* there is none */
	take_down();
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void add(struct ori_offer *offer, const char *text, int prefix)
{
	struct ori_offer_address *a = &offer->address[offer->count++];

	memset(a, 0, sizeof(*a));
	a->family = AF_INET;
	a->prefix = (uint16_t)prefix;
	inet_pton(AF_INET, text, a->bytes);
}

TEST(the_address_on_a_network_of_ours_is_taken)
{
	struct ori_config config;
	struct ori_offer offer;
	struct tcp_place place;

	REQUIRE_OK(ori_config_read(&config));
	memset(&offer, 0, sizeof(offer));
	REQUIRE_OK(ori_offer_addresses(&config, 1, &offer));
	CHECK_EQ(offer.count, 1);
	offer.port = 1234;
	REQUIRE_OK(ori_offer_take(&offer, &place));
	CHECK(!strcmp(place.name, "127.0.0.1:1234"));

	offer.count = 0; /* 240.0.0.0 is nobody's, loopback is everybody's */
	add(&offer, "240.0.2.7", 24);
	add(&offer, "127.0.0.9", 8);
	REQUIRE_OK(ori_offer_take(&offer, &place));
	CHECK(!strcmp(place.name, "127.0.0.9:1234"));
	offer.count = 0;
	add(&offer, "240.0.2.7", 24);
	add(&offer, "240.1.0.1", 24);
	REQUIRE_OK(ori_offer_take(&offer, &place)); /* none is ours: the first */
	CHECK(!strcmp(place.name, "240.0.2.7:1234"));
	offer.count = ORI_OFFER_ADDRESSES + 1;
	CHECK_EQ(ori_offer_take(&offer, &place), ORIEL_EPROTO);
}

/* The interfaces of a host that a test describes; NULL: the real ones. */
static struct ifaddrs *fake_interfaces;
static int no_interfaces; /* the system does not tell them */

int getifaddrs(struct ifaddrs **out)
{
	int (*real)(struct ifaddrs **);

	*out = fake_interfaces;
	if (fake_interfaces || no_interfaces)
		return no_interfaces ? -1 : 0;
	*(void **)&real = dlsym(RTLD_NEXT, "getifaddrs");
	return real(out);
}

void freeifaddrs(struct ifaddrs *list)
{
	void (*real)(struct ifaddrs *);

	if (list == fake_interfaces)
		return;
	*(void **)&real = dlsym(RTLD_NEXT, "freeifaddrs");
	real(list);
}

struct fake_interface {
	const char *text, *mask; /* NULL: no address */
	unsigned int flags;
};

union fake_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static struct sockaddr *parse(union fake_address *a, const char *text)
{
	memset(a, 0, sizeof(*a));
	a->any.sa_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	CHECK_EQ(inet_pton(a->any.sa_family, text,
			   strchr(text, ':') ? (void *)&a->v6.sin6_addr : &a->v4.sin_addr),
		 1);
	return &a->any;
}

/* Returns the status of ori_offer_addresses() on a host with these interfaces. */
static int offer_of(const struct fake_interface *from, int n, struct ori_offer *offer)
{
	union fake_address address[8], mask[8];
	struct ifaddrs list[8] = { 0 };
	struct ori_config config;
	int err;

	CHECK_EQ(ori_config_read(&config), 0);
	for (int i = 0; i < n; i++) {
		list[i].ifa_next = i + 1 < n ? &list[i + 1] : NULL;
		list[i].ifa_flags = from[i].flags;
		if (!from[i].text)
			continue;
		list[i].ifa_addr = parse(&address[i], from[i].text);
		list[i].ifa_netmask = parse(&mask[i], from[i].mask);
	}
	fake_interfaces = list;
	err = ori_offer_addresses(&config, 0, offer);
	fake_interfaces = NULL;
	return err;
}

static void check_address(const struct ori_offer_address *a, const char *text, int prefix)
{
	char have[INET6_ADDRSTRLEN] = "";

	inet_ntop(a->family, a->bytes, have, sizeof(have));
	if (strcmp(have, text))
		check_fail(__FILE__, __LINE__, "%s is not %s", have, text);
	CHECK_EQ(a->prefix, prefix);
}

TEST(addresses_that_other_hosts_can_reach_are_offered)
{
	static const struct fake_interface host[] = {
		{ "127.0.0.1", "255.0.0.0", IFF_UP | IFF_LOOPBACK },
		{ NULL, NULL, IFF_UP },
		{ "fe80::1", "ffff:ffff:ffff:ffff::", IFF_UP },
		{ "fd00::7", "ffff:ffff:ffff::", IFF_UP },
		{ "10.1.2.3", "255.255.240.0", IFF_UP },
		{ "10.9.9.9", "255.255.255.0", 0 },
	};
	struct ori_config config;
	struct ori_offer offer;

	memset(&offer, 0, sizeof(offer));
	REQUIRE_OK(offer_of(host, 6, &offer));
	REQUIRE(offer.count == 2);
	check_address(&offer.address[0], "10.1.2.3", 20); /* IPv4 comes first */
	check_address(&offer.address[1], "fd00::7", 48);
	/* a host without a network */
	CHECK_EQ(offer_of(host, 3, &offer), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "no address that other hosts can reach; set ORIEL_BOOT_ADDR");
	REQUIRE_OK(ori_config_read(&config));
	no_interfaces = 1;
	CHECK_EQ(ori_offer_addresses(&config, 0, &offer), ORIEL_ESYSTEM);
	no_interfaces = 0;
	CHECK_HAS(oriel_last_error(), "set ORIEL_BOOT_ADDR");
}
