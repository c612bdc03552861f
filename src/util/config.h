/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/config.h - the ORIEL_* variables: one table, typed, with defaults and help.
 *
 * The list is the only place a variable is defined: the struct, the parser, `oriel-info` and the
 * check for misspelt names are made from it.
 */
#ifndef ORI_CONFIG_H
#define ORI_CONFIG_H

#include <stdint.h>
#include <stdio.h>

/*
 * X(type, field, "NAME", default as text, help)
 * types: SECONDS (double > 0), COUNT (int >= 0), PORT (int 0..65535), FLAG (0 or 1), TEXT (string),
 * CHOICE_LOG, CHOICE_MODE (words below).  An empty default of TEXT is "".
 */
#define ORI_CONFIG_LIST(X)                                                                         \
	X(TEXT, device, "ORIEL_DEVICE", "cpu", "device of this rank: cpu, cuda, cuda:N")           \
	X(SECONDS, timeout, "ORIEL_TIMEOUT", "600", "seconds after which a wait fails")            \
	X(SECONDS, late, "ORIEL_LATE", "10", "seconds after which a wait names who is late")       \
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
	  "address other ranks reach this host at, for oriel_boot_id")                             \
	X(TEXT, engine, "ORIEL_ENGINE", "auto", "what executes queues: auto, soft")                \
	X(COUNT, lanes, "ORIEL_LANES", "1", "queues to each queued peer, 1 to 16")                 \
	X(COUNT, nics, "ORIEL_NICS", "1", "NICs the soft engine shows, 1 or 2; lanes alternate")   \
	X(COUNT, depth, "ORIEL_QUEUE_DEPTH", "128",                                                \
	  "WQEs a queue holds: a power of two, 2 to 32768")                                        \
	X(TEXT, queue_start, "ORIEL_QUEUE_START", "0",                                             \
	  "index of a queue's first WQE; for tests of wrap-around")                                \
	X(TEXT, soft_nic, "ORIEL_SOFT_NIC", "soft",                                                \
	  "manners of the software NIC: soft, cx7, efa, thor2")                                    \
	X(TEXT, soft_faults, "ORIEL_SOFT_FAULTS", "",                                              \
	  "faults of the software NIC, such as seed=42,drop=0.01,dup=0.01,reorder=0.1")            \
	X(COUNT, listen_fd, "ORIEL_LISTEN_FD", "0",                                                \
	  "listening socket inherited from oriel-run (0: none)")

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

/* One variable for listings; n counts from 0, returns 0 past the end. */
struct ori_config_row {
	const char *name, *type, *def, *help;
	const char *value; /* from the environment, NULL if unset */
};
int ori_config_row(int n, struct ori_config_row *row);

#endif
