/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/offer.c - the record of rank 0 that PMIx brings (boot/offer.c).
 *
 * A record that is taken must lead to an address that connect() can be called with.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "../check.h"
#include "boot/launcher.h"
#include "fuzz.h"

static void fill_right(struct ori_offer *offer)
{
	struct ori_config config = { 0 };

	memset(offer, 0, sizeof(*offer));
	CHECK_EQ(ori_offer_addresses(&config, 1, offer), 0); /* loopback alone */
	offer->port = 29500;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	uint8_t how = fuzz_byte(&in);
	struct tcp_place place;
	struct ori_offer offer, right;

	fill_right(&right);
	fuzz_take(&in, &offer, sizeof(offer));
	if (how & 1)
		memcpy(offer.magic, right.magic, sizeof(offer.magic));
	if (how & 2)
		offer.port %= 65536;
	if (how & 4)
		offer.count = 1 + offer.count % ORI_OFFER_ADDRESSES;
	for (int i = 0; how & 8 && i < ORI_OFFER_ADDRESSES; i++)
		offer.address[i].family = i % 2 ? AF_INET : AF_INET6;
	if (ori_offer_take(&offer, &place))
		return 0;
	CHECK(place.addr.ss_family == AF_INET || place.addr.ss_family == AF_INET6);
	CHECK_EQ(place.addr_bytes, place.addr.ss_family == AF_INET ? sizeof(struct sockaddr_in) :
								     sizeof(struct sockaddr_in6));
	CHECK(ori_tcp_port(&place) > 0);
	CHECK(memchr(place.name, 0, sizeof(place.name)));
	CHECK(!memcmp(place.secret, offer.secret, sizeof(place.secret)));
	return 0;
}

size_t fuzz_seed(int n, uint8_t *out, size_t room)
{
	struct fuzz_output o = { out, room, 0 };
	struct ori_offer offer;

	if (n > 1)
		return 0;
	fill_right(&offer);
	if (n) {
		offer.count = 2;
		offer.address[1].family = AF_INET6;
		offer.address[1].prefix = 64;
	}
	fuzz_give_byte(&o, 0);
	fuzz_give(&o, &offer, sizeof(offer));
	return o.bytes;
}
