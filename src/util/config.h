/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/config.h - the ORIEL_* variables: one table, typed, with defaults and help.
 *
 * The list is the only place a variable is defined: the struct, the parser, `oriel-info` and the
 * check for misspelt names are made from it.
 */
#ifndef ORI_CONFIG_H
#define ORI_CONFIG_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

/*
 * X(type, field, "NAME", default as text, help)
 * types: SECONDS (double > 0), COUNT (int >= 0), PORT (int 0..65535), FLAG (0 or 1), TEXT (string),
 * CHOICE_LOG, CHOICE_MODE (words below).  An empty default of TEXT is "".
 */
#define ORI_CONFIG_LIST(X)                                                                         \
	X(TEXT, device, "ORIEL_DEVICE", "cpu", "device of this rank: cpu, cuda, cuda:N")           \
	X(TEXT, cuda_library, "ORIEL_CUDA_LIBRARY", "libcuda.so.1",                                \
	  "the CUDA driver; self: functions that the program itself has")                          \
	X(SECONDS, timeout, "ORIEL_TIMEOUT", "600", "seconds after which a wait fails")            \
	X(SECONDS, late, "ORIEL_LATE", "10", "seconds after which a wait names who is late")       \
	X(FLAG, checked, "ORIEL_CHECKED", "0",                                                     \
	  "1: every window is checked: device calls test ranks, ids and ranges")                   \
	X(CHOICE_LOG, log, "ORIEL_LOG", "warn", "error, warn, info or debug")                      \
	X(FLAG, strict, "ORIEL_STRICT", "0", "1: an unknown ORIEL_* variable is an error")         \
	X(TEXT, topology, "ORIEL_TOPOLOGY", "",                                                    \
	  "emulated nodes on one machine: 2x4, or a list of node ids such as 0,0,1,1")             \
	X(CHOICE_MODE, fabric, "ORIEL_FABRIC", "auto",                                             \
	  "multi-node NVLink: auto, on (fail without it) or off")                                  \
	X(TEXT, fabric_uuid, "ORIEL_FABRIC_UUID", "", "overrides the fabric cluster id (integer)") \
	X(TEXT, fabric_clique, "ORIEL_FABRIC_CLIQUE", "", "overrides the fabric clique (integer)") \
	X(FLAG, mapped, "ORIEL_MAPPED", "1", "0: no peer is mapped, all are queued")               \
	X(TEXT, secret, "ORIEL_SECRET", "",                                                        \
	  "secret of the job; without one ranks meet on loopback only")                            \
	X(PORT, port, "ORIEL_PORT", "0", "rendezvous port; 0: from MASTER_PORT")                   \
	X(TEXT, boot_addr, "ORIEL_BOOT_ADDR", "127.0.0.1",                                         \
	  "address other ranks reach this host at, for oriel_boot_make_id")                        \
	X(CHOICE_MODE, boot_tree, "ORIEL_BOOT_TREE", "auto",                                       \
	  "large results of the rendezvous come down a tree: auto (several hosts), on, off")       \
	X(TEXT, launcher, "ORIEL_LAUNCHER", "auto",                                                \
	  "who started the ranks: auto, pmix, env (RANK, WORLD_SIZE, ...), none (one rank)")       \
	X(TEXT, pmix_library, "ORIEL_PMIX_LIBRARY", "libpmix.so.2",                                \
	  "the PMIx library, loaded under a PMIx launcher; self: functions of the program")        \
	X(TEXT, engine, "ORIEL_ENGINE", "auto",                                                    \
	  "what executes queues: auto, soft, verbs, ofi, mlx5")                                    \
	X(FLAG, connect, "ORIEL_CONNECT", "1",                                                     \
	  "0: a comm starts without queues, oriel_comm_connect makes them to the peers it names")  \
	X(COUNT, lanes, "ORIEL_LANES", "1", "queues to each queued peer, 1 to 16")                 \
	X(COUNT, nics, "ORIEL_NICS", "1",                                                          \
	  "NICs of a rank that lanes alternate on, 1 or 2; the soft engine makes as many")         \
	X(COUNT, depth, "ORIEL_QUEUE_DEPTH", "128",                                                \
	  "WQEs a queue holds: a power of two, 2 to 32768")                                        \
	X(TEXT, queue_start, "ORIEL_QUEUE_START", "0",                                             \
	  "index of a queue's first WQE; for tests of wrap-around")                                \
	X(TEXT, soft_nic, "ORIEL_SOFT_NIC", "soft",                                                \
	  "manners of the software NIC: soft, cx7, efa, thor2")                                    \
	X(TEXT, soft_faults, "ORIEL_SOFT_FAULTS", "",                                              \
	  "faults of the software NIC, such as seed=42,drop=0.01,dup=0.01,reorder=0.1; its "       \
	  "limits: max_reads=16 (reads and atomics under way a queue), qps=0 (queue pairs; 0: "    \
	  "any number); late_device=1: a GPU sees its writes late")                                \
	X(FLAG, nic_order, "ORIEL_NIC_ORDER", "1",                                                 \
	  "0: a GPU that does not promise to see NICs' writes in order is used all the same")      \
	X(TEXT, ib_library, "ORIEL_IB_LIBRARY", "libibverbs.so.1",                                 \
	  "the verbs library, loaded when the verbs engine is opened")                             \
	X(TEXT, mlx5_library, "ORIEL_MLX5_LIBRARY", "libmlx5.so.1",                                \
	  "the library of mlx5 NICs; tests name another")                                          \
	X(TEXT, ib_hca, "ORIEL_IB_HCA", "",                                                        \
	  "RDMA devices: mlx5_0:1,mlx5_1 (beginnings of names), =whole names, ^not these")         \
	X(TEXT, ib_near, "ORIEL_IB_NEAR", "",                                                      \
	  "PCI address the RDMA device is to be near, 0000:17:00.0; empty: this rank's device")    \
	X(TEXT, ib_gid_index, "ORIEL_IB_GID_INDEX", "auto",                                        \
	  "entry of the port's GID table; auto: RoCE v2, IPv4 first")                              \
	X(COUNT, ib_mtu, "ORIEL_IB_MTU", "0",                                                      \
	  "bytes a packet carries: 256 to 4096; 0: what the port has")                             \
	X(COUNT, ib_tc, "ORIEL_IB_TC", "0", "traffic class of RDMA packets, 0 to 255")             \
	X(COUNT, ib_sl, "ORIEL_IB_SL", "0", "service level of RDMA packets, 0 to 15")              \
	X(COUNT, ib_hop_limit, "ORIEL_IB_HOP_LIMIT", "0",                                          \
	  "hop limit of RoCE packets, 1 to 255; 0: what the system uses")                          \
	X(COUNT, ib_pkey, "ORIEL_IB_PKEY", "0", "index into the port's table of partition keys")   \
	X(COUNT, ib_timeout, "ORIEL_IB_TIMEOUT", "18",                                             \
	  "an answer is awaited 4.096 us x 2^this: 1 to 31")                                       \
	X(COUNT, ib_retry_cnt, "ORIEL_IB_RETRY_CNT", "7",                                          \
	  "how often a packet is sent again, 0 to 7")                                              \
	X(TEXT, ofi_provider, "ORIEL_OFI_PROVIDER", "",                                            \
	  "libfabric provider of the ofi engine, such as tcp;ofi_rxm; empty: the best that works") \
	X(TEXT, ofi_address, "ORIEL_OFI_ADDRESS", "",                                              \
	  "address the ofi engine binds; empty: the one that faces MASTER_ADDR, else loopback")    \
	X(TEXT, tune_file, "ORIEL_TUNE_FILE", "",                                                  \
	  "file of oriel-tune to load; none: no file; empty: the one for this machine, if any")    \
	X(TEXT, a2a_plan, "ORIEL_A2A_PLAN", "",                                                    \
	  "all-to-all-v: tables, proposal, or mapped=BLOCKS/WARPS/CHUNK,queued=...,small=BYTES")   \
	X(COUNT, listen_fd, "ORIEL_LISTEN_FD", "0",                                                \
	  "listening socket inherited from oriel-run (0: none)")                                   \
	X(FLAG, listening, "ORIEL_LISTENING", "0",                                                 \
	  "1: rank 0 has that socket from the start (set by oriel-run); who is refused there ends")

/* Values of the CHOICE types. */
enum ori_mode { ORI_MODE_AUTO, ORI_MODE_ON, ORI_MODE_OFF };

#define ORI_CONFIG_TEXT_MAX 256

struct ori_config {
#define ORI_CONFIG_TYPE_SECONDS(field) double field;
#define ORI_CONFIG_TYPE_COUNT(field) int field;
#define ORI_CONFIG_TYPE_PORT(field) int field;
#define ORI_CONFIG_TYPE_FLAG(field) int field;
#define ORI_CONFIG_TYPE_TEXT(field) char field[ORI_CONFIG_TEXT_MAX];
#define ORI_CONFIG_TYPE_CHOICE_LOG(field) int field;
#define ORI_CONFIG_TYPE_CHOICE_MODE(field) int field;
#define ORI_CONFIG_FIELD(type, field, name, def, help) ORI_CONFIG_TYPE_##type(field)
	ORI_CONFIG_LIST(ORI_CONFIG_FIELD)
#undef ORI_CONFIG_FIELD
};

/*
 * Reads the environment into *out.  A bad value is ORIEL_ECONFIG and one line that names variable,
 * value and what is right.  An unknown ORIEL_* name is one warning in the life of the process, with
 * the nearest right name; an error with ORIEL_STRICT=1.  Sets the log level.
 */
int ori_config_read(struct ori_config *out);
/*
 * A thread rank that opens CUDA adds to the environment, which moves it under those who read it: the
 * library does both only here, or with the lock held.  What was found stays valid: nothing is replaced.
 */
extern pthread_mutex_t ori_environment_lock;
const char *ori_environment_get(const char *name);
/* Where the user has set none.  1: it was added. */
int ori_environment_add(const char *name, const char *value);

/* One variable for listings; n counts from 0, returns 0 past the end. */
struct ori_config_row {
	const char *name, *type, *def, *help;
	const char *value; /* from the environment, NULL if unset */
};
int ori_config_row(int n, struct ori_config_row *row);

#endif
