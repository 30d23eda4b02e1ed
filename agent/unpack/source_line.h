// The line by which the launcher tells muster-unpack where the agent comes from. Pure.
//
//   unpack SHA256 SIZE PACKED_SIZE [TOKEN]   PACKED_SIZE bytes follow: the agent as one Zstandard frame. With TOKEN,
//   this
//                                            host then serves the agent to others (seed.h)
//   fetch SHA256 SIZE TOKEN ADDRESS PORT     another host serves it there
//
// SHA256 and SIZE are those of the agent itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::agent::inline unpack {

inline constexpr std::size_t kLongestSourceLine = 1024;

struct SourceLine {
  std::string sha256;  // 64 lower-case hex digits
  std::uint64_t size = 0;
  std::uint64_t packed_size = 0;  // 0: fetch it
  std::string token;              // 64 lower-case hex digits, or empty
  std::string address;            // of the seed, not checked
  int port = 0;
};

// `line` has no end-of-line character. Returns nullopt for anything else than a well-formed line.
std::optional<SourceLine> parse_source_line(std::string_view line);

}  // namespace muster::agent::unpack
