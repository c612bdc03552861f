/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/status.h - every status that a host or device call can return.
 *
 * A status is an int: 0, or one of the negative values below.  Statuses are defined only in this
 * list; names and texts are generated from it.  A value never changes its meaning and is never
 * reused.
 */
#ifndef ORIEL_STATUS_H
#define ORIEL_STATUS_H

/* X(name, value, text) */
#define ORIEL_STATUS_LIST(X)                                                                       \
	X(OK, 0, "success")                                                                        \
	X(EINVAL, -1, "invalid argument")                                                          \
	X(ERANGE, -2, "rank, id, offset or size out of range")                                     \
	X(ENOMEM, -3, "out of memory")                                                             \
	X(ETIMEDOUT, -4, "the deadline passed")                                                    \
	X(EABORTED, -5, "aborted")                                                                 \
	X(EPEER, -6, "a peer died or left")                                                        \
	X(ENOTCONN, -7, "no queue to that peer")                                                   \
	X(EUNSUPPORTED, -8, "not supported here")                                                  \
	X(EBUSY, -9, "still in use")                                                               \
	X(EMISMATCH, -10, "ranks disagree")                                                        \
	X(ESTALE, -11, "the object was destroyed")                                                 \
	X(EAUTH, -12, "wrong secret")                                                              \
	X(EPROTO, -13, "malformed message")                                                        \
	X(EBOOT, -14, "rendezvous failed")                                                         \
	X(EEXPORT, -15, "memory cannot be exported to a peer")                                     \
	X(ESYSTEM, -16, "a system call failed")                                                    \
	X(ECONFIG, -17, "bad configuration variable")                                              \
	X(EREMOTE, -18, "the remote side refused an operation")                                    \
	X(EDEVICE, -19, "the GPU's context is lost")                                               \
	X(EVERSION, -20, "headers and library differ in version")

enum oriel_status {
#define ORIEL_STATUS_ENUM(name, value, text) ORIEL_##name = (value),
	ORIEL_STATUS_LIST(ORIEL_STATUS_ENUM)
#undef ORIEL_STATUS_ENUM
};

#endif
