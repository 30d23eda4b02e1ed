// The first messages between a launcher and an agent that has connected with a join file (proto/join_file.h). The agent
// sends its names. The launcher answers with its name of the agent's host, or with the reason why it refuses the agent.
// Afterwards the connection replaces stdin and stdout of an ssh log-in. Each message is a u32 little-endian size, then
// text.
//
// Thread: any; pure, no I/O. Fuzzed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::proto {

inline constexpr std::size_t kEnrolmentHeader = 4;
inline constexpr std::size_t kMaxEnrolment = 4096;  // size limit of the text
inline constexpr std::size_t kMaxHostNames = 8;
inline constexpr int kMaxEnrolledSlots = 100'000;

struct EnrolmentHello {
  std::string build_id;
  std::vector<std::string> names;  // possible names of the host, the most certain first; 1 to 8
  int slots = 0;                   // slots of the host, for a launcherd whose list lacks the host; 0 if unknown
  std::string instance = "0";      // the same in all connections of one process: 1 to 32 letters and digits
};

struct EnrolmentAnswer {
  bool is_taken = false;
  std::string text;  // the launcher's name for the host if is_taken; else the reason, one sentence
};

std::string encode_hello(const EnrolmentHello& hello);
std::string encode_answer(const EnrolmentAnswer& answer);

// Returns the size of the text that follows a header. INVALID_ARGUMENT if it is zero or too large.
base::Result<std::size_t> enrolment_size(std::string_view header);
base::Result<EnrolmentHello> decode_hello(std::string_view text);
base::Result<EnrolmentAnswer> decode_answer(std::string_view text);

// Returns true for [A-Za-z0-9_][A-Za-z0-9._-]*, at most 253 characters, or an address literal.
bool is_enrolment_name(std::string_view name);

}  // namespace muster::proto
