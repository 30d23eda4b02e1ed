// Input reads a line, and then bytes, from a descriptor. It gives up if nothing arrives for a time limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/unpack/hashed_file.h"

namespace muster::agent::inline unpack {

class Input {
 public:
  Input(int fd, std::chrono::milliseconds patience);

  // `line` is without its end. Fails if it is longer than `limit`.
  Problem read_line(std::string& line, std::size_t limit);
  // `bytes` is what has arrived: at least 1, at most `limit`. It is valid until the next call.
  Problem read_some(std::string_view& bytes, std::uint64_t limit);

 private:
  Problem fill();  // waits for more bytes if all were read

  int fd_;
  int patience_ms_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace muster::agent::unpack
