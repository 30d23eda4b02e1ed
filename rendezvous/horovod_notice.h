// The bytes of a notice to a Horovod worker that the hosts changed, and of the worker's reply.
//
// Protocol: horovod 0.28.1, runner/common/util/network.py. A frame in each direction:
//     HMAC-SHA256 of the body (32 bytes) | bytes of the body (int32 in the host's order) | body
// The body is a pickle: HostsUpdatedRequest in the notice, AckResponse in the reply. A reply that has the right HMAC
// comes from the worker, so its body is not read.
//
// Thread: any; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::rendezvous {

inline constexpr std::size_t kHorovodNoticeHead = 36;
inline constexpr std::size_t kMaxNoticeReplyBytes = 64 << 10;

// Returns the body of a notice. `result` is Horovod's HostUpdateResult: 1 removed, 2 added, 3 mixed.
std::string horovod_notice_body(std::int64_t timestamp, std::uint8_t result);

std::string horovod_notice_frame(std::string_view key, std::string_view body);

// Returns the bytes of the body from a frame's first kHorovodNoticeHead bytes. INVALID_ARGUMENT for a length beyond
// kMaxNoticeReplyBytes.
base::Result<std::size_t> horovod_notice_body_size(std::string_view head);

// PERMISSION_DENIED if another key was used.
base::Status check_horovod_notice(std::string_view key, std::string_view head, std::string_view body);

}  // namespace muster::rendezvous
