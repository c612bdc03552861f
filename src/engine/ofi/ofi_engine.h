/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/ofi_engine.h - the libfabric engine, for who chooses engines.  Needs no header of
 * libfabric: where that is not installed none/ answers instead.
 */
#ifndef ORI_OFI_ENGINE_H
#define ORI_OFI_ENGINE_H

#include "../engine.h"

/*
 * Usable here?  0, and `reason` says what it would use; or ORIEL_EUNSUPPORTED and why not.  Tries
 * the provider out on this machine alone; tried once a process.  Logs nothing.
 */
int ori_ofi_engine_probe(const struct ori_config *, char *reason, size_t bytes);
int ori_ofi_engine_open(const struct ori_config *, const struct ori_engine_world *,
			struct ori_engine **);

#endif
