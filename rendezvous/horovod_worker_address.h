// Reads what a Horovod worker published about its notification service: ports, and the secret of the messages.
//
// Protocol: the body of PUT /worker_addresses/<host>:<local_rank>, base64 of a pickle of
//     ({interface: [(address, port), ...], ...}, key)
// A general unpickler would run any code that the bytes name. This decoder knows only the opcodes for strings, bytes,
// small numbers, lists, dicts and pairs. All lengths and counts are limited.
//
// Thread: any; a pure function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::rendezvous {

inline constexpr std::size_t kHorovodNoticeKeyBytes = 32;
inline constexpr std::size_t kMaxWorkerAddressBytes = 64 << 10;  // of the base64 text

struct HorovodEndpoint {
  std::string address;  // as the worker wrote it; not checked
  std::uint16_t port = 0;

  bool operator==(const HorovodEndpoint&) const = default;
};

struct HorovodWorkerAddress {
  std::vector<HorovodEndpoint> endpoints;  // not empty
  std::string key;                         // kHorovodNoticeKeyBytes bytes
};

// INVALID_ARGUMENT if the text is anything else.
base::Result<HorovodWorkerAddress> parse_horovod_worker_address(std::string_view text);

}  // namespace muster::rendezvous
