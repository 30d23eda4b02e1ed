#include "collectives/call/notice.h"

#include <fmt/format.h>

#include <cstdio>

namespace muster::collectives::inline call {

void print_notice(const std::string& line) {
  // stderr is not buffered, so fputs of one string is one write. If stderr is closed, the line is lost.
  std::fputs(fmt::format("muster: {}\n", line).c_str(), stderr);
}

}  // namespace muster::collectives::call
