// What an agent and its launcher say to each other first, where the agent has come by a join file (proto/join_file.h):
// the agent its names, the launcher which of its hosts that is, or why it is none. Afterwards the connection is what
// stdin and stdout of an ssh log-in are. Both messages: u32 little-endian size, then text. Pure, no I/O; fuzzed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::proto {

inline constexpr std::size_t kEnrolmentHeader = 4;
inline constexpr std::size_t kMaxEnrolment = 4096;  // of the text
inline constexpr std::size_t kMaxHostNames = 8;
inline constexpr int kMaxEnrolledSlots = 100'000;

struct EnrolmentHello {
  std::string build_id;
  std::vector<std::string> names;  // by which the host may be known, the most certain first; 1 to 8
  int slots = 0;                   // of the host, for a launcherd that has no list of it; 0: not said
  std::string instance = "0";      // the same each time that one program comes: 1 to 32 letters and digits
};

struct EnrolmentAnswer {
  bool is_taken = false;
  std::string text;  // the host's name as the launcher has it; else why not, one sentence
};

std::string encode_hello(const EnrolmentHello& hello);
std::string encode_answer(const EnrolmentAnswer& answer);

// The size of the text that follows a header. INVALID_ARGUMENT: none or too much.
base::Result<std::size_t> enrolment_size(std::string_view header);
base::Result<EnrolmentHello> decode_hello(std::string_view text);
base::Result<EnrolmentAnswer> decode_answer(std::string_view text);

// [A-Za-z0-9_][A-Za-z0-9._-]*, at most 253, or an address literal.
bool is_enrolment_name(std::string_view name);

}  // namespace muster::proto
