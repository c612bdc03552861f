/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/ofi_engine.h - the libfabric engine, for the choice of an engine.  Needs no header of
 * libfabric: without that, none/ replaces it.
 */
#ifndef ORI_OFI_ENGINE_H
#define ORI_OFI_ENGINE_H

#include "../engine.h"

/*
 * Is the engine usable here?  Returns 0, and `reason` says what it would use; or ORIEL_EUNSUPPORTED
 * and why not.  Tests the provider on this machine alone, once per process.  Logs nothing.
 */
int ori_ofi_engine_probe(const struct ori_config *, char *reason, size_t bytes);
int ori_ofi_engine_open(const struct ori_config *, const struct ori_engine_world *,
			struct ori_engine **);

#endif
