// The last line that a rank has written, on stdout or stderr, and when its last byte arrived. A plain value.
#pragma once

#include <string>

#include "base/clock.h"

namespace muster::agent::inline io {

struct LastOutput {
  std::string line;  // UTF-8, at most LineTail::kMaxLine bytes; empty if it wrote only blank lines
  base::MonotonicTime at;
};

}  // namespace muster::agent::io
