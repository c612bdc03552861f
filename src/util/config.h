/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/config.h - the ORIEL_* variables: one table, typed, with defaults and help.
 *
 * The list is the only place where a variable is defined: the struct, the parser, `oriel-info`, the
 * check for misspelt names and docs/variables.md (tools/variables.py) are made from it.
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
	X(TEXT, device, "ORIEL_DEVICE", "cpu",                                                     \
	  "device of this rank: cpu, cuda (a GPU chosen by LOCAL_RANK) or cuda:N")                 \
	X(TEXT, cuda_library, "ORIEL_CUDA_LIBRARY", "libcuda.so.1",                                \
	  "file of the CUDA driver; self: use functions that the program itself "                  \
	  "exports")                                                                               \
	X(SECONDS, timeout, "ORIEL_TIMEOUT", "600", "seconds after which a wait fails")            \
	X(SECONDS, late, "ORIEL_LATE", "10", "seconds after which a wait logs which rank is late") \
	X(TEXT, doctor, "ORIEL_DOCTOR", "auto",                                                    \
	  "how oriel-doctor finds this process: auto (a private directory of the user), "          \
	  "a directory, or off (also: no graph on SIGUSR1)")                                       \
	X(FLAG, checked, "ORIEL_CHECKED", "0",                                                     \
	  "1: every window is checked: device calls test ranks, ids and ranges; ranks meet in "    \
	  "every broadcast")                                                                       \
	X(CHOICE_LOG, log, "ORIEL_LOG", "warn",                                                    \
	  "what is logged: error, warn, info or debug; each includes those before it")             \
	X(FLAG, strict, "ORIEL_STRICT", "0",                                                       \
	  "1: an unknown ORIEL_* variable is an error instead of a warning")                       \
	X(TEXT, topology, "ORIEL_TOPOLOGY", "",                                                    \
	  "emulated nodes on one machine: 2x4, or one node id per rank such as "                   \
	  "0,0,1,1")                                                                               \
	X(CHOICE_MODE, fabric, "ORIEL_FABRIC", "auto",                                             \
	  "NVLink between hosts: auto (use it if present), on (fail without it) or "               \
	  "off")                                                                                   \
	X(TEXT, fabric_uuid, "ORIEL_FABRIC_UUID", "",                                              \
	  "cluster id of the NVLink fabric, instead of the driver's (integer)")                    \
	X(TEXT, fabric_clique, "ORIEL_FABRIC_CLIQUE", "",                                          \
	  "clique of the NVLink fabric, instead of the driver's (integer)")                        \
	X(FLAG, mapped, "ORIEL_MAPPED", "1",                                                       \
	  "0: treat all peers as queued, also those whose memory could be mapped")                 \
	X(TEXT, secret, "ORIEL_SECRET", "",                                                        \
	  "secret of the job; without one, ranks meet on the loopback interface only")             \
	X(PORT, port, "ORIEL_PORT", "0",                                                           \
	  "port where ranks meet; 0: MASTER_PORT; with PMIx any free port")                        \
	X(TEXT, boot_addr, "ORIEL_BOOT_ADDR", "127.0.0.1",                                         \
	  "address of this host for other ranks, used by oriel_boot_make_id and under "            \
	  "PMIx")                                                                                  \
	X(CHOICE_MODE, boot_tree, "ORIEL_BOOT_TREE", "auto",                                       \
	  "send large results of the rendezvous through a tree: auto (if several "                 \
	  "hosts), on or off")                                                                     \
	X(TEXT, launcher, "ORIEL_LAUNCHER", "auto",                                                \
	  "launcher of the ranks: auto, pmix, env (RANK, WORLD_SIZE, ...) or none "                \
	  "(one rank)")                                                                            \
	X(TEXT, pmix_library, "ORIEL_PMIX_LIBRARY", "libpmix.so.2",                                \
	  "file of the PMIx library; self: use functions that the program itself "                 \
	  "exports")                                                                               \
	X(TEXT, engine, "ORIEL_ENGINE", "auto",                                                    \
	  "engine that executes queues: auto, soft, verbs, ofi or mlx5")                           \
	X(FLAG, connect, "ORIEL_CONNECT", "1",                                                     \
	  "0: a new comm has no queues; oriel_comm_connect creates those to the peers "            \
	  "it names")                                                                              \
	X(COUNT, lanes, "ORIEL_LANES", "1", "queues per queued peer, 1 to 16")                     \
	X(COUNT, nics, "ORIEL_NICS", "1",                                                          \
	  "NICs per rank, 1 or 2; lanes alternate between them; the soft engine "                  \
	  "creates them")                                                                          \
	X(COUNT, depth, "ORIEL_QUEUE_DEPTH", "128", "WQEs per queue: a power of two, 2 to 32768")  \
	X(TEXT, queue_start, "ORIEL_QUEUE_START", "0",                                             \
	  "index of the first WQE of a queue; for tests of wrap-around")                           \
	X(TEXT, soft_nic, "ORIEL_SOFT_NIC", "soft",                                                \
	  "NIC that the software NIC imitates: soft, cx7, efa, thor2")                             \
	X(TEXT, soft_faults, "ORIEL_SOFT_FAULTS", "",                                              \
	  "faults of the software NIC, such as "                                                   \
	  "seed=42,drop=0.01,dup=0.01,reorder=0.1; limits: max_reads=16 (open reads "              \
	  "and atomics per queue pair), qps=0 (queue pairs; 0: no limit); "                        \
	  "late_device=1: a GPU sees payload late")                                                \
	X(FLAG, nic_order, "ORIEL_NIC_ORDER", "1",                                                 \
	  "0: also use a GPU that does not promise to see NIC writes in order")                    \
	X(TEXT, ib_library, "ORIEL_IB_LIBRARY", "libibverbs.so.1",                                 \
	  "file of the verbs library, loaded by the verbs and mlx5 engines")                       \
	X(TEXT, mlx5_library, "ORIEL_MLX5_LIBRARY", "libmlx5.so.1",                                \
	  "file of the mlx5 library, loaded by the mlx5 engine")                                   \
	X(TEXT, ib_hca, "ORIEL_IB_HCA", "",                                                        \
	  "RDMA devices: mlx5_0:1,mlx5_1 (beginnings of names), =list: whole names, "              \
	  "^list: all others")                                                                     \
	X(TEXT, ib_near, "ORIEL_IB_NEAR", "",                                                      \
	  "choose the RDMA device nearest to this PCI address, such as 0000:17:00.0; "             \
	  "empty: to the rank's device")                                                           \
	X(TEXT, ib_gid_index, "ORIEL_IB_GID_INDEX", "auto",                                        \
	  "index into the port's GID table; auto: prefer RoCE v2 and IPv4")                        \
	X(COUNT, ib_mtu, "ORIEL_IB_MTU", "0",                                                      \
	  "payload bytes per RDMA packet, 256 to 4096; 0: the port's value")                       \
	X(COUNT, ib_tc, "ORIEL_IB_TC", "0", "traffic class of RDMA packets, 0 to 255")             \
	X(COUNT, ib_sl, "ORIEL_IB_SL", "0", "service level of RDMA packets, 0 to 15")              \
	X(COUNT, ib_hop_limit, "ORIEL_IB_HOP_LIMIT", "0",                                          \
	  "hop limit of RoCE packets, 1 to 255; 0: the system's value")                            \
	X(COUNT, ib_pkey, "ORIEL_IB_PKEY", "0", "index into the port's table of partition keys")   \
	X(COUNT, ib_timeout, "ORIEL_IB_TIMEOUT", "18",                                             \
	  "time to wait for an acknowledgement: 4.096 us x 2^value, value 1 to 31")                \
	X(COUNT, ib_retry_cnt, "ORIEL_IB_RETRY_CNT", "7",                                          \
	  "number of times a packet is sent again, 0 to 7")                                        \
	X(TEXT, ofi_provider, "ORIEL_OFI_PROVIDER", "",                                            \
	  "libfabric provider of the ofi engine, such as tcp;ofi_rxm; empty: the best "            \
	  "that works")                                                                            \
	X(TEXT, ofi_address, "ORIEL_OFI_ADDRESS", "",                                              \
	  "local address of the ofi engine; empty: the one facing MASTER_ADDR, else "              \
	  "loopback")                                                                              \
	X(TEXT, tune_file, "ORIEL_TUNE_FILE", "",                                                  \
	  "file of oriel-tune to load; none: no file; empty: the file for this "                   \
	  "machine, if any")                                                                       \
	X(TEXT, a2a_plan, "ORIEL_A2A_PLAN", "",                                                    \
	  "plan of the all-to-all-v: tables, proposal, cpu, or "                                   \
	  "mapped=BLOCKS/WARPS/CHUNK,queued=BLOCKS/WARPS/CHUNK,small=BYTES,spread=BYTES")          \
	X(TEXT, trace, "ORIEL_TRACE", "",                                                          \
	  "folder for a trace of every rank: docs/tracing.md; empty: no trace")                    \
	X(COUNT, trace_events, "ORIEL_TRACE_EVENTS", "262144",                                     \
	  "events that a rank keeps for its trace, 64 bytes each; later ones are counted")         \
	X(TEXT, gather_policy, "ORIEL_GATHER_POLICY", "by_size",                                   \
	  "what moves data of an all-gather between GPUs of a node: by_size (kernels up "          \
	  "to 1 MiB, then copy engines), fastest (kernels) or no_sms (copy engines)")              \
	X(COUNT, listen_fd, "ORIEL_LISTEN_FD", "0",                                                \
	  "set by oriel-run: listening socket that rank 0 inherits (0: none)")                     \
	X(FLAG, listening, "ORIEL_LISTENING", "0",                                                 \
	  "set by oriel-run: 1: rank 0 listens already, so a refused connection means "            \
	  "that it has ended")

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
 * Reads the environment into *out.  A bad value is ORIEL_ECONFIG and one line with the variable,
 * its value and the allowed values.  An unknown ORIEL_* name is one warning per process, with the
 * nearest known name; with ORIEL_STRICT=1 it is an error.  Sets the log level.
 */
int ori_config_read(struct ori_config *out);
/*
 * A thread rank that opens CUDA adds variables.  That may move the environment while another
 * thread reads it, so the library reads and adds only here, or with the lock held.  A text that
 * was returned stays valid, because nothing is replaced.
 */
extern pthread_mutex_t ori_environment_lock;
const char *ori_environment_get(const char *name);
/* Adds a variable, unless the user has set it.  Returns 1 if it was added. */
int ori_environment_add(const char *name, const char *value);

/* One variable for listings; n counts from 0, returns 0 past the end. */
struct ori_config_row {
	const char *name, *type, *def, *help;
	const char *value; /* from the environment, NULL if unset */
};
int ori_config_row(int n, struct ori_config_row *row);
/* Is this ORIEL_* variable read by the library, or by the Python package? */
int ori_config_is_known(const char *name);

#endif
